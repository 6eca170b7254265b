//! Sockets are asked for whether others may have their ports.

use std::net::SocketAddr;

use nearwire_frames::{EnginePort, FlowSocket};
use rustix::net::sockopt::{socket_reuseaddr, socket_reuseport};

use super::{
    Asked, Asking, FIRST_INTERVAL, FRESH, LAST_INTERVAL, SINGLE_QUESTIONS, SLEEPING_INTERVAL, Sharing, SharingAnswer,
    SharingQuestion, but,
};
use crate::config::Agent;
use crate::engines::Wish;
use crate::host::Host;
use crate::id::SocketId;
use crate::kept::{self, Kept};
use crate::reason::Reason;
use crate::socket::{Accelerated, Service, Socket};
use crate::sockets::{EngineState, Sockets};

impl<H: Host> Sockets<H> {
    /// Whether the agent has all ports: it knows the sockets of other programs that are accelerated, and asks the kernel for the rest.
    /// Without a port nothing is taken from anybody.
    pub(crate) fn asks_agent(&self) -> bool {
        let is_agents = || match &self.engine {
            EngineState::Open(engine) => engine.attached().all(|attached| attached.port.holder().is_some()),
            _ => true,
        };
        self.config.agent == Agent::Auto && is_agents()
    }

    /// Whether a socket may be accelerated as far as others on its port are concerned.
    pub(crate) fn ask_sharing(&mut self, id: SocketId) -> Result<(), Reason> {
        let Some(socket) = self.get(id) else { return Ok(()) };
        let may_share = socket
            .kept()
            .is_some_and(|kept| kept.options.reuse_address || kept.options.reuse_port || kept.options.device.is_some());
        let inode = socket.file.inode;
        let Ok(local) = kept::local_address(socket.shadow.fd) else { return Ok(()) };
        if !may_share || local.port() == 0 {
            return Ok(());
        }
        if !self.asks_agent() {
            let now = self.time();
            if !self.sharing.knows(now, local.port()) {
                self.read_foreign(Some(local.port()))?;
            }
            if self.sharing.has_another(local) {
                return Err(Reason::SharedPort);
            }
        }
        if self.own_inodes.is_beside_kernel(inode, local) {
            return Err(Reason::SharedPort);
        }
        if !self.sharing.sockets.contains(&id) {
            self.sharing.sockets.push(id);
        }
        self.sharing.interval = FIRST_INTERVAL;
        Ok(())
    }

    /// Reads the table again when that is due, and gives sockets that share their port by now to the kernel.
    #[inline]
    pub(crate) fn follow_sharing(&mut self, sleeps: bool) {
        if !self.sharing.sockets.is_empty() {
            if self.sharing.followed_changes != self.own_inodes.changes() {
                self.give_up_shared();
            }
            self.want_sharing(sleeps);
        }
    }

    /// A socket was connected, or is not any more. The agent reads from one that may share its port which datagrams the kernel would give
    /// it, so it is shown again; meanwhile its shadow gets them.
    pub(crate) fn show_connection(&mut self, id: SocketId) {
        if !self.asks_agent() || !self.get(id).is_some_and(Socket::has_reuse_port) {
            return;
        }
        let Some((socket, engine)) = self.with_engine(id) else { return };
        let Service::Accelerated(accelerated) = &socket.service else { return };
        let Accelerated { flows, .. } = accelerated;
        let flow_socket = accelerated.flow_socket(socket.shadow.fd);
        engine.remove_flows(flows, flow_socket);
        if let Err(reason) = engine.add_flows(flows, flow_socket) {
            self.hand_over(id, reason);
        }
    }

    /// A socket that the kernel serves was connected, or is not any more.
    pub(crate) fn show_kernel_connection(&mut self, id: SocketId) {
        let Some(socket) = self.get(id) else { return };
        let shadow = socket.shadow.fd;
        let may_share = || socket_reuseport(shadow).unwrap_or(false) || socket_reuseaddr(shadow).unwrap_or(false);
        if self.has_agents_port() && may_share() {
            self.follow_kernel_service(id);
        }
    }

    fn has_agents_port(&self) -> bool {
        let is_open = matches!(&self.engine, EngineState::Open(engine) if engine.attached().next().is_some());
        is_open && self.asks_agent()
    }

    /// Has the agent's steering table give the kernel what is sent to a socket. It does for one that is connected; whether this is.
    fn is_left_to_kernel(&mut self, id: SocketId) -> bool {
        if !self.has_agents_port() {
            return false;
        }
        let Some((socket, engine)) = self.with_engine(id) else { return false };
        let remote = kept::peer_address(socket.shadow.fd);
        engine.show_connection(FlowSocket { descriptor: socket.shadow.fd, inode: socket.file.inode });
        // Connected to a host and no port, it gets what comes from any of them.
        remote.is_some_and(|remote| remote.port() != 0)
    }

    /// The kernel serves a socket from now on: so it does all others that it shares its port with, unless it is connected and an agent leaves
    /// what its peer sends to the kernel.
    #[cold]
    pub(crate) fn follow_kernel_service(&mut self, id: SocketId) {
        let Some(socket) = self.get(id) else { return };
        let Service::Kernel(why) = &socket.service else { return };
        // What such a socket gets passes no interface.
        if matches!(why.reason, Reason::Loopback | Reason::PeerOnThisHost) {
            return;
        }
        let (inode, Ok(local)) = (socket.file.inode, kept::local_address(socket.shadow.fd)) else { return };
        let options = Kept::read(socket.shadow.fd, socket.family).options;
        let may_share = options.reuse_address || options.reuse_port || options.device.is_some();
        if may_share && local.port() != 0 && !local.ip().is_loopback() && !self.is_left_to_kernel(id) {
            self.own_inodes.served_by_kernel(inode, local);
            self.give_up_shared();
        }
    }

    /// Gives accelerated sockets to the kernel that share their port with one that it serves.
    fn give_up_shared(&mut self) {
        // Each socket that is given up calls this again; the loop below handles it.
        if std::mem::replace(&mut self.sharing.is_following, true) {
            return;
        }
        while self.sharing.followed_changes != self.own_inodes.changes() {
            self.sharing.followed_changes = self.own_inodes.changes();
            self.ask_all_sharing();
        }
        self.sharing.is_following = false;
    }

    fn ask_all_sharing(&mut self) {
        for id in std::mem::take(&mut self.sharing.sockets) {
            if self.get(id).is_some_and(crate::socket::Socket::is_accelerated)
                && let Err(reason) = self.ask_sharing(id)
            {
                self.hand_over(id, reason);
            }
        }
    }

    /// Wishes for the table where it is time to read it again.
    #[cold]
    fn want_sharing(&mut self, sleeps: bool) {
        if self.asks_agent() {
            return;
        }
        let now = self.time();
        let interval = if sleeps { self.sharing.interval.min(SLEEPING_INTERVAL) } else { self.sharing.interval };
        let Sharing { read_last_ns, asked_last_ns, .. } = &self.sharing;
        let is_due = [read_last_ns, asked_last_ns].into_iter().flatten().all(|last_ns| now.since(*last_ns) >= interval);
        if is_due && self.siblings.wish == Wish::Nothing {
            self.siblings.wish = Wish::AskSharing;
        }
    }

    /// What is to be asked for [`Wish::AskSharing`], when nobody is kept out.
    pub fn take_sharing_question(&mut self) -> Option<SharingQuestion> {
        let ids = self.sharing.sockets.iter().filter_map(|id| self.get(*id));
        let locals = ids.filter_map(|socket| kept::local_address(socket.shadow.fd).ok());
        let mut ports: Vec<_> = locals.map(|local| local.port()).collect();
        ports.sort_unstable();
        ports.dedup();
        if ports.is_empty() {
            return None;
        }
        self.sharing.asked_last_ns = Some(self.time().monotonic_ns());
        let asked = if ports.len() > SINGLE_QUESTIONS as usize { Asked::All } else { Asked::OfPorts(ports) };
        let asking = Asking::begin(&self.own_inodes);
        let home = self.engine().and_then(|engine| engine.home());
        Some(SharingQuestion { asked, asking, home })
    }

    /// Gives accelerated sockets to the kernel that others have the ports of. Where the kernel did not answer it is asked again later; where
    /// the thread that wants to know cannot ask, all of them go.
    pub fn sharing_answered(&mut self, answer: SharingAnswer) {
        let SharingAnswer { question: SharingQuestion { asked, asking, .. }, bound } = answer;
        let bound = match bound {
            Ok(bound) => bound,
            Err(reason @ Reason::OtherNamespace) => {
                let sockets = std::mem::take(&mut self.sharing.sockets);
                return sockets.into_iter().for_each(|id| self.hand_over(id, reason));
            }
            Err(_) => return,
        };
        self.sharing.foreign = but(&asking.own_meanwhile(), bound);
        self.sharing.asked = asked;
        self.sharing.read_last_ns = Some(self.time().monotonic_ns());
        let next_interval = (self.sharing.interval * 2).min(LAST_INTERVAL);
        self.ask_all_sharing();
        self.sharing.interval = next_interval;
        self.sharing.read_last_ns = Some(self.time().monotonic_ns());
    }

    /// Whether sockets of other processes could get what is for one that is bound here; true where the kernel does not say.
    pub(crate) fn may_others_get(&mut self, local: SocketAddr) -> bool {
        self.read_foreign(Some(local.port())).is_err() || self.sharing.has_another(local)
    }

    /// Reads which sockets there are that are not followed in this process: of a port, unless many were asked for lately.
    fn read_foreign(&mut self, port: Option<u16>) -> Result<(), Reason> {
        let now = self.time();
        let Sharing { read_last_ns, singles, .. } = &mut self.sharing;
        let is_in_a_row = read_last_ns.is_some_and(|read_last_ns| now.since(read_last_ns) <= FRESH);
        *singles = if is_in_a_row { *singles + 1 } else { 0 };
        let port = port.filter(|_| *singles < SINGLE_QUESTIONS);
        let own = self.own_inodes.all();
        let home = self.engine().and_then(|engine| engine.home());
        let asked = port.map_or(Asked::All, |port| Asked::OfPorts(vec![port]));
        self.sharing.foreign = but(&own, asked.bound(home.as_deref())?);
        self.sharing.asked = asked;
        self.sharing.read_last_ns = Some(self.time().monotonic_ns());
        Ok(())
    }
}
