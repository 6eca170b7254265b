//! Sockets beside flows that are not connected, and that no program of the agent has a flow of, or has announced.
//!
//! Sockets with SO_REUSEPORT (or SO_REUSEADDR) may be bound to one address. The kernel divides datagrams among all of them, the steering table
//! among those that have flows: one without would get nothing. So either all sockets at an address have flows, or none has.
//!
//! The kernel does not tell when a socket is bound, so it is asked: when such a flow is opened, and again as long as there are some, at
//! intervals that grow to [`INTERVAL_MOST`]. A socket that is found beside flows may belong to a program that opens its flow next: workers of
//! a server are started together, and the first share of a program takes milliseconds. Until then
//!
//! * flows that are there stay, as if it had not come yet;
//! * the first flow of an address is *held*: it is open, and the kernel has its frames, so the shadows get them.
//!
//! After [`PATIENCE`] (where they are held, of an agent that has just started: [`YOUTH`]) the flows at its address end, for good: the
//! programs are told ([`Cause::Stranger`]), and the kernel divides datagrams.
//!
//! What is sent to a connected socket is nobody else's: beside bound flows it has an exact flow as soon as it is found ([`super::kernel_flows`]).
//! Only where that cannot be, or where an exact flow has the same peer, it is a stranger.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use super::flows::Flow;
use super::kernel_flows::{LocalPeers, exact};
use super::{Judge, ProgramId, Service};
use crate::bound::BoundSocket;
use crate::message::{Addresses, Answer, Cause, Text};
use crate::ports::Ports;

/// For so long what was read is good enough for the flow of another socket: a program opens one for each address of the host.
const FRESH: Duration = Duration::from_millis(20);
/// Between two looks: at first, and at most.
const INTERVAL: Duration = Duration::from_millis(100);
const INTERVAL_MOST: Duration = Duration::from_millis(250);
/// How long a program has to open the flow of a socket that it has bound. It begins again whenever somebody gets a share.
const PATIENCE: Duration = Duration::from_secs(3);
/// So long after an agent's start flows that are held do not end: programs of an agent that died come back one by one, the last after a
/// minute.
const YOUTH: Duration = Duration::from_secs(70);
/// It is found so often meanwhile: an agent that does not get the CPU has not read the program's request either.
const LOOKS_LEAST: u32 = 10;
/// Of so many ports each is asked for; then all of them at once.
const SINGLE_QUESTIONS: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Strangers {
    /// By cookie: since when, and how often it was found.
    known: HashMap<u64, (Instant, u32)>,
    /// When the kernel is asked again.
    due: Option<Instant>,
    interval: Duration,
    /// What was read of a port.
    read: HashMap<u16, (Instant, Vec<BoundSocket>)>,
    /// Somebody got a share since the last look.
    is_share_opened: bool,
    /// Until then flows that are held do not end.
    young_until: Instant,
}

impl Strangers {
    /// Of an agent that starts.
    pub(super) fn new(now: Instant) -> Self {
        let (known, read, young_until) = (HashMap::new(), HashMap::new(), now + YOUTH);
        Strangers { known, due: None, interval: INTERVAL, read, is_share_opened: false, young_until }
    }

    pub(super) fn share_opened(&mut self) {
        self.is_share_opened = true;
    }

    /// What was read may be of sockets that are closed.
    pub(super) fn forget_read(&mut self) {
        self.read.clear();
    }

    /// The kernel is asked at once.
    pub(super) const fn look_now(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Sockets at an address have changed: the kernel is asked soon.
    pub(super) fn changed(&mut self, now: Instant) {
        self.interval = INTERVAL;
        self.due = Some(self.due.map_or(now + INTERVAL, |due| due.min(now + INTERVAL)));
    }

    /// Notes those that were found beside flows, and which of them stay.
    fn note(&mut self, now: Instant, found: &HashSet<u64>) -> HashSet<u64> {
        if std::mem::take(&mut self.is_share_opened) {
            self.known.clear();
        }
        self.known.retain(|cookie, _| found.contains(cookie));
        for cookie in found {
            self.known.entry(*cookie).or_insert((now, 0)).1 += 1;
        }
        let stays = |(since, looks): &(Instant, u32)| *looks >= LOOKS_LEAST && now - *since >= PATIENCE;
        self.known.iter().filter(|(_, known)| stays(known)).map(|(cookie, _)| *cookie).collect()
    }
}

/// Who was found beside flows.
#[derive(Default)]
struct Beside {
    /// Cookies, by flow.
    strangers: HashMap<u32, Vec<u64>>,
    /// Those that are connected and for which there is no room.
    refused: HashSet<u64>,
}

impl<P: Ports, J: Judge> Service<P, J> {
    /// What is due by now; who is to be told of it.
    pub fn pass_time(&mut self, now: Instant) -> Vec<(ProgramId, Answer)> {
        self.now = now;
        self.tell_ends_again();
        if self.strangers.due.is_some_and(|due| due <= now) { self.look() } else { Vec::new() }
    }

    /// When something is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.strangers.due.into_iter().chain(self.connections.next_due()).min()
    }

    /// Whether a flow that is about to be opened is the kernel's until others have theirs.
    pub(super) fn is_to_be_held(&mut self, wanted: &Flow) -> Result<bool, Cause> {
        let port = wanted.addresses.local.port();
        if wanted.shadow.addresses.remote.is_some() {
            // What was read may be of the time before it was connected.
            self.strangers.read.remove(&port);
        }
        let has_open = self.flows.has_open_beside(wanted);
        if !wanted.shadow.may_share()
            || has_open && (wanted.addresses.remote.is_some() || self.flows.has_address(wanted))
        {
            return Ok(false);
        }
        let now = self.now;
        self.strangers.read.retain(|_, (since, _)| now - *since <= FRESH);
        if !self.strangers.read.contains_key(&port) {
            let refused = |error: io::Error| Cause::Port { words: Text::cut(&format!("list the sockets: {error}")) };
            let bound = self.ports.bound_to(Some(port)).map_err(refused)?;
            self.strangers.read.insert(port, (now, bound));
        }
        let bound = self.strangers.read.get(&port).map(|(_, bound)| bound.clone()).unwrap_or_default();
        let mut local_peers = LocalPeers::default();
        let is_bound = wanted.addresses.remote.is_none();
        let all_left = !is_bound || self.leave_beside(wanted, &bound, &mut local_peers);
        let is_stranger = |socket: &&BoundSocket| !self.is_known(socket) && socket.cookie != wanted.shadow.cookie;
        let is_met = |socket: &&BoundSocket| wanted.meets(socket) && !(is_bound && exact(socket).is_some());
        let mut strangers = bound.iter().filter(is_stranger).filter(is_met);
        Ok(!has_open && (!all_left || strangers.any(|socket| !local_peers.has(&self.ports, socket))))
    }

    /// Whether a socket has a flow, or will have one.
    fn is_known(&self, socket: &BoundSocket) -> bool {
        self.flows.has_socket(socket.cookie) || self.announced.has(socket.cookie)
    }

    fn look(&mut self) -> Vec<(ProgramId, Answer)> {
        let now = self.now;
        let ports = self.flows.shared_ports();
        if ports.is_empty() {
            let young_until = self.strangers.young_until;
            self.strangers = Strangers { young_until, ..Strangers::new(now) };
            return Vec::new();
        }
        self.strangers.interval = (self.strangers.interval * 2).min(INTERVAL_MOST);
        let Ok(Beside { strangers: beside, refused }) = self.beside(&ports) else {
            // Without memory or descriptors for the moment.
            self.strangers.due = Some(now + self.strangers.interval);
            return Vec::new();
        };
        // What is announced is waited for.
        let cookies = beside.values().flatten().copied();
        let found: HashSet<u64> = cookies.filter(|cookie| !self.announced.has(*cookie)).collect();
        let mut staying = self.strangers.note(now, &found);
        staying.extend(refused);
        if !beside.is_empty() {
            self.strangers.interval = INTERVAL;
        }
        self.strangers.due = Some(now + self.strangers.interval);
        let is_young = now < self.strangers.young_until;
        let mut events = Vec::new();
        for number in self.flows.shared() {
            let is_spared = is_young && self.flows.get(number).is_some_and(|flow| flow.is_held);
            let cause = match beside.get(&number) {
                Some(_) if is_spared => None,
                Some(cookies) if cookies.iter().any(|cookie| staying.contains(cookie)) => Some(Cause::Stranger {}),
                Some(_) => None,
                None => self.let_go(number).err(),
            };
            if let Some((cause, ended)) = cause.and_then(|cause| Some((cause, self.end(number)?))) {
                events.push((ended.program, Answer::FlowRevoked { flow: number, cause }));
            }
        }
        events
    }

    /// Who is beside flows at these ports. Connected sockets among them get their exact flows.
    fn beside(&mut self, ports: &[u16]) -> io::Result<Beside> {
        let bound = match ports {
            [] => Vec::new(),
            few if few.len() <= SINGLE_QUESTIONS => {
                let each = few.iter().map(|port| self.ports.bound_to(Some(*port)));
                each.collect::<io::Result<Vec<_>>>()?.concat()
            }
            _ => self.ports.bound_to(None)?,
        };
        let mut by_port: HashMap<u16, Vec<BoundSocket>> = ports.iter().map(|port| (*port, Vec::new())).collect();
        for socket in bound {
            by_port.entry(socket.local.port()).and_modify(|sockets| sockets.push(socket));
        }
        let (mut beside, mut local_peers) = (Beside::default(), LocalPeers::default());
        for (port, sockets) in by_port {
            let refused = self.follow_connected(port, &sockets, &mut local_peers);
            self.find_strangers(port, &sockets, &refused, &mut local_peers, &mut beside.strangers);
            beside.refused.extend(refused);
        }
        Ok(beside)
    }

    /// The cookies of the strangers beside each flow at a port that has some.
    fn find_strangers(
        &self,
        port: u16,
        sockets: &[BoundSocket],
        refused: &HashSet<u64>,
        local_peers: &mut LocalPeers,
        found: &mut HashMap<u32, Vec<u64>>,
    ) {
        let (mut unconnected, mut of_ends): (Vec<&BoundSocket>, HashMap<Addresses, Vec<u64>>) = Default::default();
        for socket in sockets.iter().filter(|socket| !self.is_known(socket) && !local_peers.has(&self.ports, socket)) {
            match exact(socket) {
                Some(ends) if !refused.contains(&socket.cookie) => of_ends.entry(ends).or_default().push(socket.cookie),
                _ => unconnected.push(socket),
            }
        }
        for (number, flow) in self.flows.shared_at(port) {
            let met = unconnected.iter().filter(|socket| flow.meets(socket)).map(|socket| socket.cookie);
            let cookies: Vec<u64> = met.chain(of_ends.get(&flow.addresses).into_iter().flatten().copied()).collect();
            if !cookies.is_empty() {
                found.insert(number, cookies);
            }
        }
    }

    /// Where a flow is open that is not held, nobody is missing at its address.
    pub(super) fn end_holds_beside(&mut self, number: u32) {
        let Some(open) = self.flows.get(number).filter(|flow| !flow.is_held && flow.shadow.may_share()) else { return };
        for held in self.flows.held_beside(open) {
            // Refused, it is tried again by the next look, which tells its program.
            let _ = self.let_go(held);
        }
    }

    /// Ends the hold on a flow, if there is one. Refused by the port, it is held still.
    fn let_go(&mut self, number: u32) -> Result<(), Cause> {
        let Some(held) = self.flows.get(number).filter(|flow| flow.is_held) else { return Ok(()) };
        let open = Flow { is_held: false, ..held.clone() };
        self.open_at_port(&open)?;
        self.flows.take_out(number);
        self.flows.put_in(number, open);
        Ok(())
    }
}
