//! The agent's loop: one thread, one epoll set. It waits for nobody: a program that does not read its answers is not read
//! either, and is cut when its events pile up; one that floods gets one request a round like everybody. What takes the ports longer is answered
//! when it is done.

mod disposal;
mod peer;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use self::disposal::Disposal;
use self::peer::{Peer, State};
use crate::closed::ClosedSockets;
use crate::connection::{Connection, Listener, Packet};
use crate::message::{Answer, Cause, Limited, Request, Text};
use crate::ports::Ports;
use crate::service::{Caller, Judge, PROGRAMS_MOST, ProgramId, Service, malformed};
use crate::shadow::{is_tcp, is_udp};

/// A program that connects says hello within this time.
const GREETING: Duration = Duration::from_secs(2);
/// As many connections may be without hello: beyond, the oldest of the user who has most of them is cut.
const UNGREETED_MOST: usize = 256;
/// As many of one user: whoever opens more gets them cut at once, and others find room.
const UNGREETED_OF_USER_MOST: usize = 64;
/// When the process has no descriptor left, connections wait this long.
const WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(100);
/// Connections accepted and events taken in a round.
const ROUND_MOST: usize = 64;

/// Processes of a user that are waited for.
const ATTENDED_MOST: usize = 512;
/// Who is not read, because descriptors of that user wait to be closed, is looked at again so often.
const UNREAD: Duration = Duration::from_millis(50);
/// In place of the user of a connection that the kernel does not tell of.
const UID_UNKNOWN: u32 = u32::MAX;

/// Of processes in PID namespaces that the agent does not see.
const PID_NOT_SEEN: u32 = 0;

const LISTENER: u64 = u64::MAX;
const CLOSED: u64 = u64::MAX - 1;
const NEWS: u64 = u64::MAX - 2;
const FINISHED: u64 = u64::MAX - 3;
/// With a number for each process that is waited for. Connections have lower keys.
const ATTENDED: u64 = 1 << 32;

/// How long an agent stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Until no program has been connected, and none that asked to be waited for has lived, for this long.
    Linger(Duration),
    /// Until it is ended.
    Forever,
}

/// An agent that listens.
pub struct Server<P, J> {
    service: Service<P, J>,
    listener: Listener,
    closed: ClosedSockets,
    epoll: OwnedFd,
    peers: BTreeMap<ProgramId, Peer>,
    /// Those that have not said hello, and when their time is up.
    ungreeted: BTreeSet<(Instant, ProgramId)>,
    /// Processes that the agent does not end before.
    attended: BTreeMap<u64, Attended>,
    next_attended: u32,
    next: ProgramId,
    /// Who shows it has been started by root, or has it from such a process.
    pass: u64,
    disposal: Disposal,
    /// Connections that are not read, and when they are looked at again.
    unread: BTreeSet<ProgramId>,
    unread_until: Option<Instant>,
    /// Since when there has been no program.
    idle_since: Instant,
    /// The listener is not looked at until then.
    deaf_until: Option<Instant>,
}

impl<P: Ports, J: Judge> Server<P, J> {
    /// Of a listener, in its network namespace.
    ///
    /// # Errors
    /// The kernel refused to tell of sockets that are closed, or an epoll set.
    pub fn new(service: Service<P, J>, listener: Listener, closed: ClosedSockets) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut pass = [0; 8];
        rustix::rand::getrandom(&mut pass[..], rustix::rand::GetRandomFlags::empty())?;
        let add = |fd, key| epoll::add(&epoll, fd, epoll::EventData::new_u64(key), epoll::EventFlags::IN);
        add(listener.as_fd(), LISTENER)?;
        add(closed.as_fd(), CLOSED)?;
        if let Some(news) = service.ports().news() {
            add(news, NEWS)?;
        }
        if let Some(finishes) = service.ports().finishes() {
            add(finishes, FINISHED)?;
        }
        Ok(Server {
            service,
            listener,
            closed,
            epoll,
            peers: BTreeMap::new(),
            ungreeted: BTreeSet::new(),
            attended: BTreeMap::new(),
            next_attended: 0,
            next: 1,
            pass: u64::from_ne_bytes(pass),
            disposal: Disposal::default(),
            unread: BTreeSet::new(),
            unread_until: None,
            idle_since: Instant::now(),
            deaf_until: None,
        })
    }

    /// Serves until it is time to end.
    ///
    /// # Errors
    /// The epoll set or the listener failed.
    pub fn run(mut self, stay: Stay) -> io::Result<()> {
        loop {
            let now = Instant::now();
            let deadline = self.look_at_time(now, stay)?;
            let Some(deadline) = deadline else { return Ok(()) };
            self.wait(deadline.until.map(|until| until.saturating_duration_since(now)))?;
        }
    }

    /// What is due; the next time that something will be. `None`: the end.
    fn look_at_time(&mut self, now: Instant, stay: Stay) -> io::Result<Option<Deadline>> {
        while let Some(&(until, id)) = self.ungreeted.first().filter(|(until, _)| *until <= now) {
            self.ungreeted.remove(&(until, id));
            self.cut(id);
        }
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
            self.listen_again()?;
        }
        if self.unread_until.is_some_and(|until| until <= now) {
            self.unread_until = None;
            for id in std::mem::take(&mut self.unread) {
                self.watch(id);
            }
        }
        let told = self.service.pass_time(now);
        self.tell(told);
        let of_service = self.service.next_due();
        let first = self.ungreeted.first().map(|(until, _)| *until);
        let mut until = first.into_iter().chain(self.deaf_until).chain(self.unread_until).chain(of_service).min();
        if let Stay::Linger(time) = stay
            && self.peers.is_empty()
            && self.attended.is_empty()
        {
            let end = self.idle_since + time;
            if end <= now {
                return Ok(None);
            }
            until = Some(until.map_or(end, |until| until.min(end)));
        }
        Ok(Some(Deadline { until }))
    }

    fn wait(&mut self, time: Option<Duration>) -> io::Result<()> {
        let mut events = Vec::with_capacity(ROUND_MOST);
        // Rounded up: a round before the deadline would look at nothing.
        let time = time.map(|time| Timespec::try_from(time + Duration::from_micros(100))).transpose();
        let time = time.map_err(io::Error::other)?;
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), time.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept()?,
                CLOSED => {
                    let closed = self.closed.take()?;
                    self.service.closed(&closed.cookies);
                    if closed.are_others_lost {
                        let told = self.service.closed_unseen();
                        self.tell(told);
                    }
                }
                NEWS => self.look_at_ports(),
                FINISHED => {
                    for ((id, number), outcome) in self.service.take_finished() {
                        self.tell(outcome.events);
                        self.answer(id, number, &outcome.answer, outcome.descriptors);
                    }
                    self.look_at_ports();
                }
                key if key & ATTENDED != 0 => self.look_at_attended(key),
                id => self.look_at(id as ProgramId, event.flags),
            }
        }
        Ok(())
    }

    fn look_at_ports(&mut self) {
        let told = self.service.take_lost();
        self.tell(told);
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ROUND_MOST {
            if self.peers.len() >= PROGRAMS_MOST + UNGREETED_MOST {
                return self.be_deaf();
            }
            match self.listener.accept() {
                Ok(Some(connection)) => self.take_in(connection)?,
                Ok(None) => return Ok(()),
                // Most often no descriptor is left: what waits goes on waiting, and the loop must not turn.
                Err(_) => return self.be_deaf(),
            }
        }
        Ok(())
    }

    fn take_in(&mut self, connection: Connection) -> io::Result<()> {
        let Ok(caller) = connection.peer() else {
            self.close(UID_UNKNOWN, connection);
            return self.be_deaf();
        };
        let uid = caller.uid;
        if self.ungreeted_of(uid).count() >= UNGREETED_OF_USER_MOST || self.disposal.is_full(uid) {
            self.close(uid, connection);
            // At this speed it takes very long until no descriptor is left.
            return if self.disposal.is_overflowing(uid) { self.be_deaf() } else { Ok(()) };
        }
        if self.ungreeted.len() >= UNGREETED_MOST {
            self.cut_of_a_crowd();
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1).max(1);
        let data = epoll::EventData::new_u64(id.into());
        if epoll::add(&self.epoll, &connection, data, epoll::EventFlags::IN).is_err() {
            self.close(uid, connection);
            return self.be_deaf();
        }
        let until = Instant::now() + GREETING;
        self.ungreeted.insert((until, id));
        self.peers.insert(id, Peer::new(connection, caller, until));
        Ok(())
    }

    /// The connections of a user that have not said hello, the oldest first.
    fn ungreeted_of(&self, uid: u32) -> impl Iterator<Item = ProgramId> {
        let is_of_user = move |id: &ProgramId| self.peers.get(id).is_some_and(|peer| peer.caller.uid == uid);
        self.ungreeted.iter().map(|(_, id)| *id).filter(is_of_user)
    }

    /// Cuts the oldest connection without hello of the user who has most of them; of users with as many, the oldest of all.
    fn cut_of_a_crowd(&mut self) {
        let mut of_user: BTreeMap<u32, (usize, Reverse<usize>, ProgramId)> = BTreeMap::new();
        for (age, (_, id)) in self.ungreeted.iter().enumerate() {
            if let Some(peer) = self.peers.get(id) {
                of_user.entry(peer.caller.uid).or_insert((0, Reverse(age), *id)).0 += 1;
            }
        }
        if let Some((.., oldest)) = of_user.into_values().max() {
            self.cut(oldest);
        }
    }

    /// Ends a connection. What is in its queue is closed with it, so this waits as any descriptor that came.
    fn close(&mut self, uid: u32, connection: Connection) {
        connection.shut();
        self.disposal.take(uid, [connection.into()]);
    }

    fn be_deaf(&mut self) -> io::Result<()> {
        self.deaf_until = Some(Instant::now() + WITHOUT_DESCRIPTORS);
        self.listen_for(epoll::EventFlags::empty())
    }

    fn listen_again(&mut self) -> io::Result<()> {
        self.listen_for(epoll::EventFlags::IN)
    }

    fn listen_for(&self, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, &self.listener, epoll::EventData::new_u64(LISTENER), flags)?)
    }

    /// A connection has room, a packet, or an end.
    fn look_at(&mut self, id: ProgramId, flags: epoll::EventFlags) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if flags.contains(epoll::EventFlags::OUT) && peer.flush().is_err() {
            return self.cut(id);
        }
        // Without room for its answer a request is not read.
        if peer.has_waiting() {
            // Hung up, it will never read.
            return if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.cut(id)
            } else {
                self.watch(id)
            };
        }
        let uid = peer.caller.uid;
        if self.disposal.is_full(uid) {
            return self.leave_unread(id);
        }
        match peer.receive() {
            Ok(Some(packet)) if packet.bytes.is_empty() => {
                self.disposal.take(uid, packet.descriptors);
                self.cut(id);
            }
            Ok(Some(packet)) => self.request(id, packet),
            Ok(None) => {}
            Err(_) => self.cut(id),
        }
    }

    /// Until what the user has sent is closed.
    fn leave_unread(&mut self, id: ProgramId) {
        self.unread.insert(id);
        self.unread_until = self.unread_until.or(Some(Instant::now() + UNREAD));
        self.watch(id);
    }

    fn request(&mut self, id: ProgramId, packet: Packet) {
        let Some(uid) = self.peers.get(&id).map(|peer| peer.caller.uid) else {
            return self.disposal.take(UID_UNKNOWN, packet.descriptors);
        };
        let Packet { bytes, mut descriptors } = packet;
        let (request, number) = match Request::from_bytes(&bytes) {
            Ok(read) => read,
            Err(error) => {
                self.disposal.take(uid, descriptors);
                return self.refuse(id, 0, malformed(&error));
            }
        };
        let wanted = request.descriptors();
        if descriptors.len() != wanted {
            let found = descriptors.len() as u32;
            self.disposal.take(uid, descriptors);
            return self.refuse(id, number, Cause::WrongDescriptors { found, wanted: wanted as u32 });
        }
        let socket = descriptors.pop();
        let is_right = |socket: &OwnedFd| if request.is_of_connection() { is_tcp(socket) } else { is_udp(socket) };
        if let Some(Err(cause)) = socket.as_ref().map(is_right) {
            self.disposal.take(uid, socket);
            let is_greeted = self.peers.get(&id).is_some_and(|peer| matches!(peer.state, State::Served));
            return match cause {
                // A program's mistake.
                Cause::WrongSocket { .. } if is_greeted => {
                    self.answer(id, number, &Answer::Refused { cause }, Vec::new());
                }
                cause => self.refuse(id, number, if is_greeted { cause } else { Cause::NotGreeted {} }),
            };
        }
        // From here on it is of UDP, and closed without waiting, or of TCP, and a copy of it is closed where that may wait.
        let copy = socket.as_ref().filter(|_| request.is_of_connection()).map(OwnedFd::try_clone);
        if copy.as_ref().is_some_and(Result::is_err) {
            self.disposal.take(uid, socket);
            let cause = Cause::Port { words: Text::cut("the agent may open no more descriptors") };
            return self.answer(id, number, &Answer::Refused { cause }, Vec::new());
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match (peer.state, request) {
            (State::Ungreeted { until }, Request::Hello { version, name }) => {
                self.ungreeted.remove(&(until, id));
                match self.service.hello(id, peer.caller.clone(), version, name) {
                    Ok(answer) => {
                        peer.state = State::Served;
                        self.answer(id, number, &answer, Vec::new());
                    }
                    Err(cause) => self.refuse(id, number, cause),
                }
            }
            (State::Ungreeted { .. }, Request::ShowPass { pass }) if pass == self.pass => {
                peer.caller.has_pass = true;
                self.answer(id, number, &Answer::Done {}, Vec::new());
            }
            (State::Ungreeted { .. }, _) => self.refuse(id, number, Cause::NotGreeted {}),
            (State::Served, Request::WantPass {}) => {
                let uid = peer.caller.uid;
                let answer = match uid == 0 || uid == rustix::process::geteuid().as_raw() {
                    true => Answer::Pass { pass: self.pass },
                    false => Answer::Refused { cause: Cause::UserNotAllowed { uid } },
                };
                self.answer(id, number, &answer, Vec::new());
            }
            (State::Served, request) => {
                if request == (Request::Attend {})
                    && let Err(cause) = self.attend(id)
                {
                    return self.answer(id, number, &Answer::Refused { cause }, Vec::new());
                }
                if let Some(outcome) = self.service.handle(id, number, request, socket) {
                    self.tell(outcome.events);
                    self.answer(id, number, &outcome.answer, outcome.descriptors);
                }
                self.disposal.take(uid, copy.and_then(Result::ok));
            }
        }
    }

    /// Stays as long as the process of a connection lives.
    fn attend(&mut self, id: ProgramId) -> Result<(), Cause> {
        let Some(peer) = self.peers.get(&id) else { return Ok(()) };
        let Caller { pid, uid, .. } = peer.caller;
        if self.attended.values().any(|attended| attended.pid == pid && pid != PID_NOT_SEEN) {
            return Ok(());
        }
        let of_user = self.attended.values().filter(|attended| attended.uid == uid).count();
        if of_user >= ATTENDED_MOST {
            return Err(Cause::LimitReached { what: Limited::Programs {}, most: ATTENDED_MOST as u64 });
        }
        let refused = |error: io::Error| Cause::Port { words: Text::cut(&format!("watch process {pid}: {error}")) };
        let process = peer.connection.peer_process().map_err(refused)?;
        let key = ATTENDED | u64::from(self.next_attended);
        let data = epoll::EventData::new_u64(key);
        epoll::add(&self.epoll, &process, data, epoll::EventFlags::IN).map_err(|errno| refused(errno.into()))?;
        self.next_attended = self.next_attended.wrapping_add(1);
        self.attended.insert(key, Attended { process, pid, uid });
        Ok(())
    }

    /// A process ended, as it seems.
    fn look_at_attended(&mut self, key: u64) {
        let Some(Attended { process, .. }) = self.attended.remove(&key) else { return };
        // It is closed, and no copy of it is anywhere.
        let _ = epoll::delete(&self.epoll, &process);
        self.note_idle();
    }

    fn note_idle(&mut self) {
        if self.peers.is_empty() && self.attended.is_empty() {
            self.idle_since = Instant::now();
        }
    }

    /// Says why, and ends the connection: what is wrong with a peer's messages does not get right again.
    fn refuse(&mut self, id: ProgramId, number: u16, cause: Cause) {
        if let Some(peer) = self.peers.get_mut(&id) {
            // It is cut either way.
            let _ = peer.send(Answer::Refused { cause }.to_bytes(number), Vec::new());
        }
        self.cut(id);
    }

    fn answer(&mut self, id: ProgramId, number: u16, answer: &Answer, descriptors: Vec<OwnedFd>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.send(answer.to_bytes(number), descriptors).is_err() {
            return self.cut(id);
        }
        self.watch(id);
    }

    fn tell(&mut self, events: Vec<(ProgramId, Answer)>) {
        for (id, event) in events {
            self.answer(id, 0, &event, Vec::new());
        }
    }

    /// Waits for room where something waits to be sent, for requests otherwise.
    fn watch(&mut self, id: ProgramId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let wanted = match peer.has_waiting() {
            true => epoll::EventFlags::OUT,
            // Hung up, it is seen to when it is read again.
            false if self.unread.contains(&id) => epoll::EventFlags::ONESHOT,
            false => epoll::EventFlags::IN,
        };
        if peer.watched != wanted {
            peer.watched = wanted;
            let data = epoll::EventData::new_u64(id.into());
            if epoll::modify(&self.epoll, &peer.connection, data, wanted).is_err() {
                self.cut(id);
            }
        }
    }

    /// The program is gone, or is not served any more.
    fn cut(&mut self, id: ProgramId) {
        let Some(peer) = self.peers.remove(&id) else { return };
        if let State::Ungreeted { until } = peer.state {
            self.ungreeted.remove(&(until, id));
        }
        let told = self.service.gone(id);
        self.unread.remove(&id);
        // The set must not tell of it until it is closed. It has no connection that was refused, or is closed.
        let _ = epoll::delete(&self.epoll, &peer.connection);
        self.close(peer.caller.uid, peer.connection);
        self.note_idle();
        self.tell(told);
    }
}

/// A process that the agent does not end before.
struct Attended {
    process: OwnedFd,
    pid: u32,
    uid: u32,
}

/// When something is due; never, without a time.
struct Deadline {
    until: Option<Instant>,
}
