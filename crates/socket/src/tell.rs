//! What the process reports about itself: the status page is written from here, except for the counters of datagrams, which are
//! added to where the datagrams pass.

use crate::host::Host;
use crate::id::SocketId;
use crate::reason::{Handed, HandedCall, Reason, Why};
use crate::socket::{Service, Socket};
use crate::sockets::{EngineState, Sockets};
use crate::status::{self, Counter, SocketCounter, Writer};
use crate::wait::{does, online_cpus, spun_ns};

impl<H: Host> Sockets<H> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> &Writer {
        &self.page
    }

    /// Why a socket is refused: `strict` is set, the rules want it accelerated, and it is not. Its calls fail then.
    #[must_use]
    pub fn refusal(&self, fd: i32) -> Option<Why> {
        self.refusal_of(self.get(self.find(fd)?)?)
    }

    #[inline]
    pub(crate) fn refusal_of(&self, socket: &Socket) -> Option<Why> {
        match &socket.service {
            Service::Kernel(why) if self.config.strict && why.reason.is_failure() => Some(*why),
            _ => None,
        }
    }

    /// A call on an accelerated socket was handed to the kernel before [`Sockets`] saw it.
    #[cold]
    pub fn handed(&mut self, fd: i32, call: HandedCall) {
        if let Some(id) = self.find(fd) {
            self.handed_at(id, call);
        }
    }

    pub(crate) fn handed_at(&mut self, id: SocketId, call: HandedCall) {
        if let Some(socket) = self.get(id).filter(|socket| socket.is_accelerated()) {
            socket.slot.count(SocketCounter::CallsHanded);
            self.page.count_handed(Handed::ByLibrary(call));
        }
    }

    /// Who serves a socket, and its addresses.
    pub(crate) fn tell(&self, id: SocketId) {
        let Some(socket) = self.get(id) else { return };
        let Some(writer) = socket.slot.writer() else { return };
        if socket.ends.is_unread && socket.is_young() {
            return writer.set_kernel(socket.why_open(), 0);
        }
        writer.set_local(socket.ends.local.or_else(|| crate::kept::local_address(socket.shadow.fd).ok()));
        writer.set_remote(socket.ends.peer());
        match &socket.service {
            Service::Accelerated(_) if !socket.is_used => writer.set_kernel(Reason::NotUsed, 0),
            Service::Accelerated(_) => {
                writer.set_interface(self.interface_of(socket).unwrap_or(0));
                writer.set_engine_number(self.page.engine());
                writer.set_accelerated();
            }
            Service::Kernel(why) => writer.set_kernel(why.reason, why.detail),
            Service::Open => writer.set_kernel(socket.why_open(), 0),
        }
    }

    /// The interface that all traffic of a socket passes, if it is one.
    fn interface_of(&self, socket: &Socket) -> Option<u32> {
        let EngineState::Open(engine) = &self.engine else { return None };
        let device = socket.kept().and_then(|kept| kept.options.device);
        device.or_else(|| engine.interface_with(socket.ends.local?.ip().to_canonical()))
    }

    /// What the engine does, and which interfaces it has.
    pub(crate) fn tell_engine(&mut self) {
        if self.is_branch() {
            return;
        }
        let page = self.page.clone();
        let (state, reason, text) = match &mut self.engine {
            EngineState::Closed => match &self.mistake {
                Some(mistake) => (status::EngineState::Failed, Some(Reason::ConfigurationWrong), mistake.clone()),
                None => return,
            },
            EngineState::Refused(error, _) => (status::EngineState::Failed, Some(error.reason()), error.to_string()),
            EngineState::Open(engine) => {
                if !engine.take_interfaces_changed() {
                    return;
                }
                engine.tell_interfaces(&page);
                // On the ports that there are.
                self.sleepers.wake_all();
                (status::EngineState::Running, None, String::new())
            }
        };
        page.set_engine(&status::Engine { state, reason, text: &text });
    }

    /// What is counted elsewhere.
    pub(crate) fn tell_counters(&mut self) {
        // Of all threads, whichever engine they wait for.
        self.page.set_process_counter(Counter::SpinningNs, spun_ns());
        self.page.set_waiting(does());
        let Some(engine) = self.engine() else { return };
        if !engine.tell_frames() {
            return;
        }
        let EngineState::Open(engine) = &self.engine else { return };
        for socket in self.table.sockets() {
            if let (Some(writer), Some(endpoint)) = (socket.slot.writer(), socket.endpoint()) {
                writer.set_counter(SocketCounter::Dropped, engine.stack_ref().udp_dropped(endpoint).into());
            }
        }
    }

    /// Has the page tell everything as of now.
    pub fn tell_all(&mut self) {
        self.look();
        if let Some(engine) = self.engine() {
            engine.tell_port_drops();
        }
    }

    /// In the child of a fork: a page of its own in place of the parent's, with the sockets that it has.
    pub fn begin_page(&mut self) {
        self.page = Writer::of_self(&self.config, online_cpus()).for_engine(self.page.engine());
        for id in self.ids() {
            let Some(socket) = self.table.get_mut(id) else { continue };
            socket.slot = status::Slot::new(&self.page, id.index());
            if let Some(writer) = socket.slot.writer() {
                writer.open(socket.shadow.fd.number());
            }
            self.tell(id);
        }
        let page = self.page.clone();
        if let Some(engine) = self.engine() {
            engine.set_page(page);
        }
        self.tell_engine();
    }
}
