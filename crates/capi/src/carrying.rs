//! The connections of a port, and what they need: a stack, the kernel's tables, messages laid out in frames of the port (`messages.rs`).

mod messages;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use libc::{
    EAGAIN, EBADF, ECONNABORTED, ECONNRESET, EEXIST, EHOSTUNREACH, EIO, ENETUNREACH, ENOENT, ENOMSG, ENOTCONN, ENOTSUP,
    EPIPE, EPROTONOSUPPORT, ETIMEDOUT, c_int,
};
use nearwire_agent::adoption::AdoptionError;
use nearwire_agent::give_back::{Sender, segment_of};
use nearwire_agent::message::Cause;
use nearwire_agent::packet_path::PacketPath;
use nearwire_agent::shadow::ConnectedShadow;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::XdpPort;
use nearwire_frames::steering::{Filter, FilterSet};
use nearwire_frames::{PreparedFrame, RawPort as _};
use nearwire_socket::kernel_tables::{KernelTables, News};
use nearwire_socket::options_of_connection;
use nearwire_socket::tcp::carrier::Carrier;
use nearwire_socket::tcp::{Carried, CarryError};
use nearwire_stack::{
    ConnectionId, NotOurs, Offers, Stack, StackConfig, TcpCallError, TcpError, TcpInfo, TcpOptions, Verdict,
};
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::netns_cookie;
use nearwire_sys::tsc::monotonic_raw_ns;

use crate::fault::Fault;
use messages::{Messages, Triggered};

/// Between two looks at the kernel's tables, which are system calls.
const SERVE_EVERY_NS: u64 = 1_000_000;
/// Standard input, output and error are left alone.
const FD_LEAST: c_int = 3;
/// By then no frame is on its way to the kernel's side that had passed the steering table before a flow was put there: between two steps of a
/// change the kernel has no such connection, and would reset it. A device's queue is polled for up to 64 frames, which may be joined meanwhile.
const SETTLES_WITHIN_NS: u64 = 200_000;
/// The kernel handles what it was given, which loopback queues, within this, however busy the host is.
const GIVEN_WITHIN_NS: u64 = 50_000_000;
/// A frame that had passed the steering table when the flow was put there has come to the kernel's side by then.
const SLIPS_WITHIN_NS: u64 = 50_000_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Carrying {
    carrier: Carrier,
    tables: KernelTables,
    /// What else the kernel does with packets of connections.
    packet_path: PacketPath,
    to_kernel: Sender,
    /// When the kernel was given a frame.
    gave_ns: Option<u64>,
    /// Its cookie.
    namespace: u64,
    interface: String,
    ifindex: u32,
    /// By the caller's fds.
    connections: BTreeMap<c_int, Connection>,
    /// Frames of messages whose connections are gone.
    spare: Vec<PreparedFrame>,
    served_ns: u64,
    /// A frame of no connection is lent: it is for [`Carrying::lend`].
    has_other_frame: bool,
    /// Frames may come that are of no connection.
    pub(crate) has_filters: bool,
}

#[derive(Debug)]
struct Connection {
    /// The caller's socket under an fd of our own: what the caller closes stays.
    shadow: OwnedFd,
    carried: Carried,
    flow: Filter,
    messages: Messages,
    adopted_ns: u64,
    counted: Counted,
}

/// Messages that were triggered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// They left in the frame that they were laid out in.
    pub(crate) prepared: u64,
    /// They were sent as others are.
    pub(crate) written: u64,
}

/// What a look at the port found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    Nothing,
    Segment,
    Other,
}

impl Carrying {
    /// A port's, without connections.
    pub(crate) fn begin(interface: &str) -> Result<Carrying, Fault> {
        let facts = InterfaceFacts::read(interface)?;
        let (tables, updates) = KernelTables::open().map_err(|error| {
            Fault::new(ENOTSUP, format!("carry connections on {interface}: read the kernel's tables: {error}"))
        })?;
        // Nobody waits for datagrams.
        let mut stack = Stack::new(StackConfig { queue_slots: 1, ..StackConfig::new(monotonic_raw_ns()) });
        updates.into_iter().for_each(|update| stack.update(update));
        let port_id = stack.attach_port(facts.ifindex, Offers::default());
        Ok(Carrying {
            carrier: Carrier::new(stack, port_id, facts.is_veth()),
            namespace: netns_cookie(tables.as_fd()).unwrap_or(0),
            tables,
            packet_path: PacketPath::default(),
            to_kernel: Sender::default(),
            gave_ns: None,
            interface: interface.to_owned(),
            ifindex: facts.ifindex,
            connections: BTreeMap::new(),
            spare: Vec::new(),
            served_ns: 0,
            has_other_frame: false,
            has_filters: false,
        })
    }

    /// Takes a connection from the kernel. `slots`: how many messages may be laid out.
    pub(crate) fn adopt(&mut self, port: &mut XdpPort, fd: c_int, slots: u32) -> Result<(), Fault> {
        if self.connections.contains_key(&fd) {
            return Err(Fault::new(EEXIST, format!("adopt fd {fd}: the port carries it already")));
        }
        let socket = Descriptor::new(fd).ok_or_else(|| unfit(fd, &Cause::NotASocket {}))?;
        let connected = ConnectedShadow::read(socket.as_fd(), self.namespace).map_err(|cause| unfit(fd, &cause))?;
        let options = options_of(fd, socket)?;
        let shadow = rustix::io::fcntl_dupfd_cloexec(socket, FD_LEAST)
            .map_err(|error| Fault::new(error.raw_os_error(), format!("adopt fd {fd}: {error}")))?;
        self.packet_path.leave(&connected).map_err(|cause| unfit(fd, &cause))?;
        self.gave_ns.take().into_iter().for_each(|gave_ns| self.settle(gave_ns + GIVEN_WITHIN_NS));
        self.serve(port)?;
        let flow = Filter::Exact(connected.flow);
        port.add_filter(flow)?;
        let opened_ns = self.carrier.now_ns();
        self.settle(opened_ns + SETTLES_WITHIN_NS);
        let now_ns = self.carrier.now_ns();
        let carried = match Carried::adopt(&shadow, &mut self.carrier.stack, options, now_ns) {
            Ok(carried) => carried,
            Err(error) => {
                let _ = port.remove_filter(flow);
                return Err(refused(fd, &error));
            }
        };
        let messages = Messages::new(fd, slots);
        let counted = Counted::default();
        self.connections.insert(fd, Connection { shadow, carried, flow, messages, adopted_ns: now_ns, counted });
        if let Err(fault) = self.has_way(fd) {
            self.release_now(port, fd)?;
            return Err(fault);
        }
        self.transmit(port, now_ns)
    }

    /// Waits until frames of a flow that was opened, or of a connection that was adopted, have come where they go.
    fn settle(&mut self, until_ns: u64) {
        while self.carrier.now_ns() < until_ns {
            std::hint::spin_loop();
        }
    }

    /// Whether what a connection sends leaves by this port.
    fn has_way(&mut self, fd: c_int) -> Result<(), Fault> {
        let id = self.id(fd)?;
        let fault = |why: String| Fault::new(EHOSTUNREACH, format!("adopt fd {fd}: {why}; the kernel keeps it"));
        match self.carrier.stack.tcp_interface(id) {
            Ok(ifindex) if ifindex == self.ifindex => {}
            Ok(ifindex) => return Err(fault(format!("it is sent by interface {ifindex}, not by {}", self.interface))),
            Err(reason) => return Err(fault(reason.words().to_owned())),
        }
        match self.carrier.stack.tcp_layout(id) {
            Some(_) => Ok(()),
            None => Err(fault(format!("the hardware address of its next hop on {} is not known", self.interface))),
        }
    }

    /// Gives a connection to the kernel, where that has a route for it, without which it takes none.
    pub(crate) fn release(&mut self, port: &mut XdpPort, fd: c_int) -> Result<(), Fault> {
        let id = self.id(fd)?;
        self.follow_tables();
        match self.carrier.stack.tcp_interface(id) {
            Err(reason) if reason.is_unroutable() => Err(Fault::new(
                ENETUNREACH,
                format!("release fd {fd}: {}, and the kernel takes no connection without a route", reason.words()),
            )),
            _ => self.release_now(port, fd),
        }
    }

    /// The same; one that the far end has closed, which no kernel takes, is ended. A port that has failed changes nothing of it.
    fn release_now(&mut self, port: &mut XdpPort, fd: c_int) -> Result<(), Fault> {
        let connection = self.connections.remove(&fd).ok_or_else(|| not_carried(fd))?;
        let Connection { shadow, carried, flow, messages, adopted_ns, .. } = connection;
        self.settle(adopted_ns + SETTLES_WITHIN_NS);
        self.spare.extend(messages.into_frames());
        // What came for it is in the ring.
        while matches!(self.look(port), Ok(Looked::Segment)) {}
        let now_ns = self.carrier.now_ns();
        let _ = self.carrier.transmit(port, now_ns);
        let released = carried.release(&shadow, &mut self.carrier.stack, now_ns);
        let result = match released {
            Ok(()) => Ok(()),
            Err((_, Some(carried))) => {
                self.carrier.close(port, carried.id());
                self.carrier.stack.tcp_remove(carried.id());
                Ok(())
            }
            Err((error, None)) => Err(Fault::new(
                ECONNABORTED,
                format!("release fd {fd}: {error}; the connection is lost, close the socket"),
            )),
        };
        let _ = port.remove_filter(flow);
        let _ = self.give_back(port, flow);
        result
    }

    /// What came since for a connection that was released is the kernel's.
    fn give_back(&mut self, port: &mut XdpPort, flow: Filter) -> Result<(), Fault> {
        let mut flows = FilterSet::default();
        flows.add(flow).map_err(|error| Fault::new(EIO, error.to_string()))?;
        while !self.has_other_frame
            && let Some(frame) = port.lend()?
        {
            if flows.takes(frame.bytes) {
                // Its checksum is computed anew, so it is one that the stack has found to be right.
                let is_right = self.carrier.take_in(frame.bytes) == Verdict::NotOurs(NotOurs::NoConnection);
                if let Some((ip, segment)) = segment_of(frame.bytes).filter(|_| is_right) {
                    self.gave_ns = Some(self.carrier.now_ns());
                    // Refused, the far end sends it again.
                    let _ = self.to_kernel.send_segment(ip, segment);
                }
                port.give_back()?;
            } else {
                self.sort(port)?;
            }
        }
        Ok(())
    }

    /// Gives all of them to the kernel.
    pub(crate) fn release_all(&mut self, port: &mut XdpPort) {
        while let Some(fd) = self.connections.keys().next().copied() {
            // One that is lost is lost.
            let _ = self.release_now(port, fd);
        }
    }

    /// Takes bytes to send, and sends what may be sent now; how many.
    pub(crate) fn send(&mut self, port: &mut XdpPort, fd: c_int, data: &[u8], more: bool) -> Result<usize, Fault> {
        let (id, now_ns) = (self.id(fd)?, self.carrier.now_ns());
        let written = self.carrier.stack.tcp_write(id, now_ns, data, more);
        match (written, self.transmit(port, now_ns)) {
            // What was taken is the stack's: a port that has failed says so to the next call.
            (Ok(bytes), _) => Ok(bytes),
            (Err(error), transmitted) => transmitted.and(Err(self.fault(fd, id, error))),
        }
    }

    /// Copies what waits to be read; `None`: nothing does, and nothing of this connection is in the ring.
    pub(crate) fn receive(
        &mut self,
        port: &mut XdpPort,
        fd: c_int,
        room: &mut [MaybeUninit<u8>],
    ) -> Result<Option<usize>, Fault> {
        let id = self.id(fd)?;
        loop {
            match self.read(id, room) {
                Err(TcpCallError::WouldBlock) => {}
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) => return Err(self.fault(fd, id, error)),
            }
            match self.look(port)? {
                Looked::Segment => {}
                Looked::Other => {
                    let why = "receive: a frame of a filter comes first; take it by nearwire_receive";
                    return Err(Fault::new(ENOMSG, why));
                }
                Looked::Nothing => {
                    self.poll(port)?;
                    return Ok(None);
                }
            }
        }
    }

    fn read(&mut self, id: ConnectionId, room: &mut [MaybeUninit<u8>]) -> Result<usize, TcpCallError> {
        let read = self.carrier.stack.tcp_read_with(id, |one, two| {
            let bytes = one.iter().chain(two);
            room.iter_mut().zip(bytes).map(|(to, from)| to.write(*from)).count()
        })?;
        Ok(read.unwrap_or(0))
    }

    /// Lays a message out in a slot of a connection.
    pub(crate) fn load(&mut self, port: &mut XdpPort, fd: c_int, slot: u32, bytes: &[u8]) -> Result<(), Fault> {
        let Carrying { carrier, connections, spare, .. } = self;
        let connection = connections.get_mut(&fd).ok_or_else(|| not_carried(fd))?;
        let layout = carrier.stack.tcp_layout(connection.carried.id()).ok_or_else(|| {
            Fault::new(EHOSTUNREACH, format!("load a message of fd {fd}: it has no way now; release it to the kernel"))
        })?;
        connection.messages.load(port, spare, layout, slot, bytes)
    }

    /// Sends a message that is laid out, after bytes of it were overwritten: an offset, and what is there from now on.
    pub(crate) fn trigger(
        &mut self,
        port: &mut XdpPort,
        fd: c_int,
        slot: u32,
        patch: (usize, &[u8]),
    ) -> Result<(), Fault> {
        let Carrying { carrier, connections, .. } = self;
        let now_ns = carrier.now_ns();
        let connection = connections.get_mut(&fd).ok_or_else(|| not_carried(fd))?;
        let id = connection.carried.id();
        match connection.messages.trigger((carrier, port), (id, now_ns), slot, patch)? {
            Triggered::Sent => {
                connection.counted.prepared += 1;
                Ok(())
            }
            Triggered::Written => {
                connection.counted.written += 1;
                let _ = self.transmit(port, now_ns);
                Ok(())
            }
            Triggered::Refused(error) => Err(self.fault(fd, id, error)),
        }
    }

    /// Figures of a connection.
    pub(crate) fn info(&self, fd: c_int) -> Result<(TcpInfo, Counted), Fault> {
        let connection = self.connections.get(&fd).ok_or_else(|| not_carried(fd))?;
        let info = self.carrier.stack.tcp_info(connection.carried.id()).ok_or_else(|| not_carried(fd))?;
        Ok((info, connection.counted))
    }

    /// Does what is due: timers, acknowledgements, what the kernel says of the network.
    pub(crate) fn poll(&mut self, port: &mut XdpPort) -> Result<(), Fault> {
        let now_ns = self.carrier.now_ns();
        if now_ns.saturating_sub(self.served_ns) >= SERVE_EVERY_NS {
            self.serve(port)?;
        }
        if self.carrier.stack.tcp_is_unsettled() || !self.carrier.stack.tcp_is_idle(now_ns) {
            self.transmit(port, now_ns)?;
        }
        Ok(())
    }

    /// In how long [`Self::poll`] has something to do; `None`: no time matters.
    pub(crate) fn due_in(&mut self) -> Option<Duration> {
        let now_ns = self.carrier.now_ns();
        self.carrier.stack.next_deadline().map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)))
    }

    /// Lends the next frame that is of no connection, if there is one; segments before it are taken in.
    pub(crate) fn lend(&mut self, port: &mut XdpPort) -> Result<bool, Fault> {
        loop {
            match self.look(port)? {
                Looked::Other => {
                    self.has_other_frame = false;
                    return Ok(true);
                }
                Looked::Segment => {}
                Looked::Nothing => {
                    self.poll(port)?;
                    return Ok(false);
                }
            }
        }
    }

    /// Takes the next frame in. One that is of no connection stays lent.
    fn look(&mut self, port: &mut XdpPort) -> Result<Looked, Fault> {
        if self.has_other_frame {
            return Ok(Looked::Other);
        }
        if port.lend()?.is_none() {
            return Ok(Looked::Nothing);
        }
        self.sort(port)
    }

    /// Takes the lent frame in, or leaves it lent.
    #[inline]
    fn sort(&mut self, port: &mut XdpPort) -> Result<Looked, Fault> {
        let Some(frame) = port.lent() else { return Ok(Looked::Nothing) };
        // Without filters it can only be of a connection that was released: the far end sends it again.
        let is_segment = matches!(self.carrier.take_in(frame.bytes), Verdict::Segment { .. } | Verdict::Ending { .. });
        if is_segment || !self.has_filters {
            port.give_back()?;
            return Ok(Looked::Segment);
        }
        self.has_other_frame = true;
        Ok(Looked::Other)
    }

    #[cold]
    fn serve(&mut self, port: &mut XdpPort) -> Result<(), Fault> {
        let now_ns = self.carrier.now_ns();
        self.served_ns = now_ns;
        self.follow_tables();
        let Carrying { carrier, connections, .. } = self;
        let recent = connections.values_mut().filter(|open| now_ns.saturating_sub(open.adopted_ns) < SLIPS_WITHIN_NS);
        for Connection { carried, shadow, .. } in recent {
            // What cannot be merged now is when it is released.
            let _ = carried.merge_slipped(&*shadow, &mut carrier.stack, now_ns);
        }
        self.transmit(port, now_ns)
    }

    /// What the kernel says of the network.
    fn follow_tables(&mut self) {
        let Carrying { carrier, tables, .. } = self;
        if matches!(tables.read(|update| carrier.stack.update(update)), Ok(News::Lost) | Err(_))
            && let Ok(known) = tables.snapshot()
        {
            carrier.stack.resync(known);
        }
        // The kernel does not see our frames, so it is told of neighbours that are in use.
        while let Some((ifindex, address)) = carrier.stack.take_stale_neighbour() {
            // Refused, the entry stays stale, and usable.
            let _ = tables.use_neighbour(ifindex, address);
        }
    }

    #[inline]
    fn transmit(&mut self, port: &mut XdpPort, now_ns: u64) -> Result<(), Fault> {
        Ok(self.carrier.transmit(port, now_ns)?)
    }

    #[inline]
    fn id(&self, fd: c_int) -> Result<ConnectionId, Fault> {
        self.connections.get(&fd).map(|open| open.carried.id()).ok_or_else(|| not_carried(fd))
    }

    /// Why a call on a connection did nothing.
    #[cold]
    fn fault(&self, fd: c_int, id: ConnectionId, error: TcpCallError) -> Fault {
        let errno = match error {
            TcpCallError::NoConnection => ENOENT,
            TcpCallError::WouldBlock => EAGAIN,
            TcpCallError::Shut | TcpCallError::Ended(TcpError::ResetAfterFin) => EPIPE,
            TcpCallError::Ended(TcpError::Reset) => ECONNRESET,
            TcpCallError::Ended(TcpError::TimedOut) => ETIMEDOUT,
            TcpCallError::Ended(TcpError::Aborted) => ECONNABORTED,
        };
        if errno != EAGAIN {
            return Fault::new(errno, format!("fd {fd}: {error}"));
        }
        match self.carrier.stack.tcp_readiness(id).and_then(|readiness| readiness.stuck) {
            Some(reason) => Fault::new(EHOSTUNREACH, format!("fd {fd}: {}; release it to the kernel", reason.words())),
            None => Fault::again(),
        }
    }
}

/// What the program has set of a connection that the kernel has.
fn options_of(fd: c_int, socket: Descriptor) -> Result<TcpOptions, Fault> {
    let options = options_of_connection(socket)
        .map_err(|why| Fault::new(ENOTSUP, format!("adopt fd {fd}: {}", why.reason.sentence(why.detail))))?;
    // The stack hears the far end's FIN, and the program reads the end of the stream.
    Ok(TcpOptions { leaves_ending: false, ..options })
}

/// What the kernel said of a socket that is no connection to be carried.
fn unfit(fd: c_int, cause: &Cause) -> Fault {
    let errno = match cause {
        Cause::NotASocket {} => EBADF,
        Cause::WrongSocket { .. } => EPROTONOSUPPORT,
        Cause::NotBound {} => ENOTCONN,
        Cause::SocketUnreadable { errno } => errno.cast_signed(),
        _ => ENOTSUP,
    };
    Fault::new(errno, format!("adopt fd {fd}: {cause}"))
}

fn refused(fd: c_int, error: &CarryError) -> Fault {
    let errno = match error {
        CarryError::Kernel(AdoptionError::NotEstablished { .. }) => ENOTCONN,
        _ => ENOTSUP,
    };
    Fault::new(errno, format!("adopt fd {fd}: {error}"))
}

fn not_carried(fd: c_int) -> Fault {
    Fault::new(ENOENT, format!("fd {fd}: the port carries no such connection; adopt it first"))
}
