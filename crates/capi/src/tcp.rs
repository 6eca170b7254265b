//! TCP connections past the kernel.

use libc::{EINVAL, ENOENT, ENOTSUP, c_int, c_uint, c_void};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{XdpMode, XdpPort};

use crate::abi::{self, TcpInfo, TcpOptions};
use crate::carrying::Carrying;
use crate::fault::Fault;
use crate::handle::{self, OpenPort, Port, State};
use crate::receive::{check_timeout, wait_for};
use crate::transmit::TRANSMIT_MORE;

/// Messages that a connection has room for, where options do not say.
const SLOTS: u32 = 4;
const SLOTS_MOST: u32 = 32768;

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_adopt(port: *mut Port, fd: c_int, options: *const TcpOptions) -> c_int {
    let adopt = |state: &mut State| {
        let options = if options.is_null() {
            abi::empty()
        } else {
            // SAFETY: as the caller promises.
            unsafe { abi::read(options) }?
        };
        if options.slots > SLOTS_MOST || options.reserved != 0 {
            let why = format!("adopt fd {fd}: slots is {}, reserved {}", options.slots, options.reserved);
            return Err(Fault::new(EINVAL, format!("{why}; wanted: at most {SLOTS_MOST}, and 0")));
        }
        let slots = if options.slots == 0 { SLOTS } else { options.slots };
        let (carrying, port) = state.carries_or_begin()?;
        carrying.adopt(port, fd, slots)?;
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, adopt) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_release(port: *mut Port, fd: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_connection(port, |carrying, port| carrying.release(port, fd)) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_send(
    port: *mut Port,
    fd: c_int,
    data: *const c_void,
    length: usize,
    flags: c_uint,
) -> c_int {
    let send = |state: &mut State| {
        // A length beyond what a call can tell is taken in part.
        // SAFETY: as the caller promises.
        let data = unsafe { abi::bytes(data, length, "data") }?;
        let data = &data[..data.len().min(c_int::MAX as usize)];
        if flags & !TRANSMIT_MORE != 0 {
            return Err(Fault::new(EINVAL, format!("send on fd {fd}: flags {flags:#x} are not 0 or MORE")));
        }
        let (carrying, port) = state.carries()?;
        Ok(carrying.send(port, fd, data, flags & TRANSMIT_MORE != 0)? as c_int)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, send) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `buffer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_receive(
    port: *mut Port,
    fd: c_int,
    buffer: *mut c_void,
    capacity: usize,
    timeout_ns: i64,
) -> c_int {
    let receive = |state: &mut State| {
        check_timeout(timeout_ns)?;
        // SAFETY: as the caller promises.
        let room = unsafe { abi::room(buffer, capacity, "buffer") }?;
        let most = room.len().min(c_int::MAX as usize);
        if most == 0 {
            return Err(Fault::new(EINVAL, format!("receive on fd {fd}: there is no room; pass a buffer")));
        }
        let received = wait_for(state, timeout_ns, |state| {
            let (carrying, port) = state.carries()?;
            carrying.receive(port, fd, &mut room[..most])
        })?;
        Ok(received.ok_or_else(Fault::again)? as c_int)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, receive) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_load(
    port: *mut Port,
    fd: c_int,
    slot: u32,
    message: *const c_void,
    length: usize,
) -> c_int {
    let load = |carrying: &mut Carrying, port: &mut XdpPort| {
        // SAFETY: as the caller promises.
        carrying.load(port, fd, slot, unsafe { abi::bytes(message, length, "message") }?)
    };
    // SAFETY: as the caller promises.
    unsafe { on_connection(port, load) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_trigger(port: *mut Port, fd: c_int, slot: u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_connection(port, |carrying, port| carrying.trigger(port, fd, slot, (0, &[]))) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_trigger_patched(
    port: *mut Port,
    fd: c_int,
    slot: u32,
    offset: usize,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    let trigger = |carrying: &mut Carrying, port: &mut XdpPort| {
        // SAFETY: as the caller promises.
        carrying.trigger(port, fd, slot, (offset, unsafe { abi::bytes(bytes, length, "bytes") }?))
    };
    // SAFETY: as the caller promises.
    unsafe { on_connection(port, trigger) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `due_ns` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_poll(port: *mut Port, due_ns: *mut i64) -> c_int {
    let poll = |carrying: &mut Carrying, port: &mut XdpPort| {
        carrying.poll(port)?;
        if !due_ns.is_null() {
            let due = carrying.due_in().map_or(-1, |due| i64::try_from(due.as_nanos()).unwrap_or(i64::MAX));
            // SAFETY: not NULL, and the caller's to be written.
            unsafe { due_ns.write(due) };
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { on_connection(port, poll) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_tcp_info(port: *mut Port, fd: c_int, info: *mut TcpInfo) -> c_int {
    let tell = |carrying: &mut Carrying, _: &mut XdpPort| {
        let (figures, counted) = carrying.info(fd)?;
        let told = TcpInfo {
            segment_bytes: figures.segment_bytes,
            smoothed_round_trip_ns: figures.smoothed_round_trip_ns,
            retransmitted_segments: figures.retransmitted_segments,
            prepared_messages: counted.prepared,
            written_messages: counted.written,
            unacknowledged_bytes: figures.unacknowledged_bytes,
            unsent_bytes: figures.unsent_bytes,
            unread_bytes: figures.unread_bytes,
            send_window_bytes: figures.send_window_bytes,
            ..abi::empty()
        };
        // SAFETY: as the caller promises.
        unsafe { abi::write(info, &told) }
    };
    // SAFETY: as the caller promises.
    unsafe { on_connection(port, tell) }
}

/// # Safety
/// As the crate's list says.
#[inline]
unsafe fn on_connection(port: *mut Port, body: impl FnOnce(&mut Carrying, &mut XdpPort) -> Result<(), Fault>) -> c_int {
    let with_both = |state: &mut State| {
        let (carrying, port) = state.carries()?;
        body(carrying, port)?;
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, with_both) }
}

impl State {
    /// What carries connections, with their port.
    #[inline]
    fn carries(&mut self) -> Result<(&mut Carrying, &mut XdpPort), Fault> {
        match (&mut self.carrying, &mut self.port) {
            (Some(carrying), OpenPort::Xdp(port)) => Ok((carrying, port)),
            _ => Err(Fault::new(ENOENT, "the port carries no connection; adopt one with nearwire_tcp_adopt")),
        }
    }

    fn carries_or_begin(&mut self) -> Result<(&mut Carrying, &mut XdpPort), Fault> {
        if self.carrying.is_none() {
            self.may_carry()?;
            let mut carrying = Carrying::begin(&self.interface)?;
            carrying.has_filters = self.filters > 0;
            self.carrying = Some(Box::new(carrying));
        }
        self.carries()
    }

    /// Whether the frames of every connection on the interface could come to the port.
    fn may_carry(&self) -> Result<(), Fault> {
        let interface = &self.interface;
        let OpenPort::Xdp(port) = &self.port else {
            let why =
                format!("carry connections on {interface}: by AF_PACKET the kernel has each frame too; open AF_XDP");
            return Err(Fault::new(ENOTSUP, why));
        };
        let refused = |why: &str| Err(Fault::new(ENOTSUP, format!("carry connections on {interface}: {why}")));
        if !port.config().joined_segments {
            return refused("the port was opened without NEARWIRE_OPEN_TCP");
        }
        if port.config().mode == XdpMode::Generic && !port.facts().multi_buffer {
            return refused("the kernel joins segments in generic mode, and gives them to AF_XDP from Linux 6.6 on");
        }
        let (has, queues) = (port.config().rx_queues.len(), InterfaceFacts::read(interface)?.rx_queues as usize);
        if has < queues {
            let why = format!(
                "carry connections on {interface}: the port has {has} of its {queues} receive queues, and the device \
                 chooses which a connection comes on; open it without queue_count"
            );
            return Err(Fault::new(ENOTSUP, why));
        }
        Ok(())
    }
}
