//! A server of several processes, each with a socket of its own at one port (SO_REUSEPORT), under `nearwire run`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nearwire_agent::client::Client;
use nearwire_lab::Cable;
use serde_json::Value;

use crate::by_agent::{kill, status_of, wait_until};
use crate::common::accelerated::{Bed, Running};

const PORT: u16 = 7000;
/// Forks a worker for each line that it reads; a worker gives everything back with its number behind.
const PREFORK: &str = "
import ctypes, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def worker():
    # Ends with its parent, which the test ends.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    one = shared(near, 7000)
    os.write(1, b'worker %d\\n' % os.getpid())
    while True:
        data, source = one.recvfrom(2000)
        one.sendto(b'%s %d' % (data, os.getpid()), source)
step()
while sys.stdin.readline():
    if os.fork() == 0: worker()
";

/// A listener, and sockets at the same port that are connected to four ports of the peer from FIRST on; each answer says which it was.
const CONNECTED: &str = "
names = {shared(near, 7000): b'listener'}
for port in range(FIRST, FIRST + 4):
    own = shared(near, 7000)
    own.connect((far, port))
    names[own] = b'%d' % port
step()
while True:
    for one in select.select(list(names), [], [])[0]:
        data, source = one.recvfrom(2000)
        one.sendto(names[one], source)
";

/// Sockets that are connected to three ports of the peer from FIRST on. `back` sends one to the kernel; `other` connects it to another port, 10
/// above.
const CONNECTED_ALONE: &str = "
names = {}
for port in range(FIRST, FIRST + 3):
    own = shared(near, 7000)
    own.connect((far, port))
    names[own] = b'own'
step()
IP_RECVOPTS = 6
while True:
    for one in select.select(list(names), [], [])[0]:
        data, source = one.recvfrom(2000)
        if data == b'back': one.setsockopt(socket.IPPROTO_IP, IP_RECVOPTS, 1)
        if data == b'other': one.connect((far, source[1] + 10))
        one.send(names[one] + b' ' + data)
";

/// One socket that is connected to FIRST, of a program without the library.
const PLAIN_CONNECTED: &str = "
own = shared(near, 7000)
own.connect((far, FIRST))
step()
while True: own.send(b'plain ' + own.recv(2000))
";

const LISTENER: &str = "
one = shared(near, 7000)
step()
while True:
    data, source = one.recvfrom(2000)
    one.sendto(b'listener ' + data, source)
";

pub(crate) struct Server {
    pub(crate) program: Running,
    pub(crate) workers: Vec<u32>,
}

impl Server {
    fn start(bed: &Bed) -> Server {
        Server::start_script(bed, PREFORK)
    }

    pub(crate) fn start_script(bed: &Bed, script: &str) -> Server {
        let mut program = bed.run_as(bed.cable.near(), 0, script);
        program.step();
        program.say("");
        Server { program, workers: Vec::new() }
    }

    fn begin_worker(&mut self) {
        self.program.say("fork");
    }

    pub(crate) fn await_worker(&mut self) -> u32 {
        let mut line = String::new();
        self.program.lines.read_line(&mut line).unwrap();
        let pid = line.strip_prefix("worker ").unwrap_or_else(|| panic!("{line:?}")).trim().parse().unwrap();
        self.workers.push(pid);
        pid
    }

    pub(crate) fn kill(&mut self, at: usize) -> u32 {
        let pid = self.workers.remove(at);
        kill(pid);
        pid
    }

    pub(crate) fn statuses(&self) -> Vec<Value> {
        self.workers.iter().map(|pid| status_of(&pid.to_string())).collect()
    }

    #[track_caller]
    pub(crate) fn assert_accelerated(&self) {
        for shown in self.statuses() {
            assert_eq!(shown["sockets"][0]["accelerated"], true, "{shown:#}");
            assert_eq!(shown["sockets"][0]["counters"]["received_by_shadow"], 0, "{shown:#}");
        }
    }
}

/// A client at a port of its own, and the worker that answered it last.
pub(crate) struct ClientAt {
    socket: UdpSocket,
    worker: Option<u32>,
    sent: u32,
    answered: BTreeSet<u32>,
}

/// What a round of questions came to: by client, whose worker changed, from which to which, and who got no answer.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) moved: Vec<(Option<u32>, u32)>,
    pub(crate) lost: Vec<Option<u32>>,
}

pub(crate) struct Clients(Vec<ClientAt>);

impl Clients {
    pub(crate) fn new(bed: &Bed, count: u32) -> Clients {
        let far = bed.cable.far();
        let client = |_| {
            let socket = far.namespace.enter(|| UdpSocket::bind((far.ipv4, 0))).unwrap().unwrap();
            socket.connect((bed.cable.near().ipv4, PORT)).unwrap();
            socket.set_nonblocking(true).unwrap();
            ClientAt { socket, worker: None, sent: 0, answered: BTreeSet::new() }
        };
        Clients((0..count).map(client).collect())
    }

    pub(crate) fn send(&mut self) {
        for client in &mut self.0 {
            client.sent += 1;
            // Refused: an error report of what was sent before.
            while client.socket.send(client.sent.to_string().as_bytes()).is_err() {}
        }
    }

    /// Takes the answers to what was sent last; those of a worker that was killed only as far as they have come.
    pub(crate) fn take(&mut self, killed: Option<u32>) -> Round {
        let mut round = Round::default();
        let until = Instant::now() + Duration::from_secs(10);
        let has_answer = |client: &ClientAt| client.answered.contains(&client.sent);
        let is_killed = |client: &ClientAt| killed.is_some() && client.worker == killed;
        while !self.0.iter().all(|client| has_answer(client) || is_killed(client)) && Instant::now() < until {
            for client in self.0.iter_mut().filter(|client| !has_answer(client)) {
                let mut answer = [0; 64];
                // Nothing yet, or an error report.
                let Ok(len) = client.socket.recv(&mut answer) else { continue };
                let text = std::str::from_utf8(&answer[..len]).unwrap();
                let (number, worker) = text.split_once(' ').unwrap();
                let (number, worker): (u32, u32) = (number.parse().unwrap(), worker.parse().unwrap());
                assert!(client.answered.insert(number), "{number} was answered twice");
                // Else one that came late.
                if number == client.sent && client.worker != Some(worker) {
                    round.moved.push((client.worker.replace(worker), worker));
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let lost = self.0.iter().filter(|client| !has_answer(client) && !is_killed(client));
        round.lost = lost.map(|client| client.worker).collect();
        round
    }

    pub(crate) fn ask(&mut self) -> Round {
        self.send();
        self.take(None)
    }

    pub(crate) fn by_worker(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        self.0.iter().filter_map(|client| client.worker).for_each(|worker| *counts.entry(worker).or_default() += 1);
        counts
    }
}

/// Whether the agent serves a process.
pub(crate) fn has_program(bed: &Bed, pid: u32) -> bool {
    let mut client = bed.cable.near().namespace.enter(|| Client::connect("test")).unwrap().unwrap();
    client.status().unwrap().iter().any(|program| program.pid == pid)
}

/// Four workers that were started at once, and many clients that they have.
fn four_workers(bed: &Bed) -> (Server, Clients) {
    let mut server = Server::start(bed);
    (0..4).for_each(|_| server.begin_worker());
    for _ in 0..4 {
        server.await_worker();
    }
    let mut clients = Clients::new(bed, 64);
    // All are known to the agent when they are about to wait.
    wait_until("all workers are accelerated", || {
        server.statuses().iter().all(|shown| shown["sockets"][0]["accelerated"] == true)
    });
    let round = clients.ask();
    assert_eq!((round.moved.len(), round.lost.len()), (64, 0));
    (server, clients)
}

#[test]
fn workers_at_one_port_are_all_accelerated_and_each_client_has_one_of_them() {
    let Some(bed) = Bed::lay() else { return };
    let (server, mut clients) = four_workers(&bed);
    for _ in 0..50 {
        let round = clients.ask();
        assert!(round.moved.is_empty() && round.lost.is_empty(), "{round:?}");
    }
    server.assert_accelerated();
    let counts = clients.by_worker();
    assert!(counts.len() == 4 && counts.values().all(|count| (4..=40).contains(count)), "{counts:?}");
}

#[test]
fn workers_killed_and_started_under_load_lose_what_was_on_its_way_to_them_and_move_no_other_client() {
    let Some(bed) = Bed::lay() else { return };
    let (mut server, mut clients) = four_workers(&bed);
    for turn in 0..6 {
        clients.send();
        let killed = server.kill(turn % 4);
        let round = clients.take(Some(killed));
        assert!(round.lost.is_empty(), "of others than {killed}: {round:?}");
        assert!(round.moved.iter().all(|(from, _)| *from == Some(killed)), "{killed}: {round:?}");
        wait_until("the agent knows", || !has_program(&bed, killed));
        let round = clients.ask();
        assert!(round.lost.is_empty(), "the others have its clients: {round:?}");
        assert!(round.moved.iter().all(|(from, _)| *from == Some(killed)), "{killed}: {round:?}");
        assert!(!clients.by_worker().contains_key(&killed));
        // Another one comes, while there is traffic.
        server.begin_worker();
        let mut moved = Vec::new();
        for _ in 0..20 {
            let round = clients.ask();
            assert!(round.lost.is_empty(), "{round:?}");
            moved.extend(round.moved);
        }
        let started = server.await_worker();
        wait_until("the new one has clients", || {
            let round = clients.ask();
            assert!(round.lost.is_empty(), "{round:?}");
            moved.extend(round.moved);
            clients.by_worker().contains_key(&started)
        });
        // It may have come in the middle of that round: clients that had sent before have another worker from now on.
        let round = clients.ask();
        assert!(round.lost.is_empty(), "{round:?}");
        moved.extend(round.moved);
        assert!(moved.iter().all(|(_, to)| *to == started), "{started}: {moved:?}");
        assert!(moved.len() <= 40, "a fair part of 64: {moved:?}");
    }
    server.assert_accelerated();
}

#[test]
fn plain_process_that_joins_a_port_has_its_part_of_the_clients_as_all_workers_go_to_the_kernel() {
    let Some(bed) = Bed::lay() else { return };
    let (server, mut clients) = four_workers(&bed);
    server.assert_accelerated();
    let mut plain = Server { program: bed.start_plain(PREFORK), workers: Vec::new() };
    plain.program.step();
    plain.program.say("");
    plain.begin_worker();
    let joined = plain.await_worker();
    wait_until("the workers are the kernel's", || {
        let round = clients.ask();
        assert!(round.lost.is_empty(), "{round:?}");
        server.statuses().iter().all(|shown| shown["sockets"][0]["accelerated"] == false)
    });
    for shown in server.statuses() {
        let why = shown["sockets"][0]["why"].as_str().unwrap_or_default();
        assert!(why.starts_with("its port is shared with sockets"), "{shown:#}");
    }
    for _ in 0..20 {
        assert!(clients.ask().lost.is_empty());
    }
    assert!(clients.by_worker().contains_key(&joined), "{:?}", clients.by_worker());
}

#[test]
fn connected_sockets_get_what_their_peers_send_beside_listeners_of_other_programs() {
    const FIRST: u16 = 7200;
    let Some(bed) = Bed::lay() else { return };
    let far = bed.cable.far();
    let script = |at: u16| CONNECTED.replace("FIRST", &(FIRST + 4 * at).to_string());
    let mut programs: Vec<_> = (0..3).map(|at| bed.run_as(bed.cable.near(), 0, &script(at))).collect();
    programs.iter_mut().for_each(Running::step);
    programs.iter_mut().for_each(|program| program.say(""));
    wait_until("all sockets are used", || {
        let of_program = |program: &Running| status_of(&program.pid())["sockets"].as_array().unwrap().clone();
        programs.iter().flat_map(of_program).all(|socket| socket["accelerated"] == true)
    });
    let client = |port: u16| {
        let socket = far.namespace.enter(|| UdpSocket::bind((far.ipv4, port))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (port, socket)
    };
    let clients: Vec<_> = (FIRST - 10..FIRST + 30).map(client).collect();
    let ask = |socket: &UdpSocket| {
        socket.send_to(b"x", (bed.cable.near().ipv4, PORT)).unwrap();
        let mut answer = [0; 64];
        let len = socket.recv(&mut answer).unwrap();
        String::from_utf8(answer[..len].to_vec()).unwrap()
    };
    let name = |port: u16, programs: u16| {
        if (FIRST..FIRST + 4 * programs).contains(&port) { port.to_string() } else { "listener".to_owned() }
    };
    for _ in 0..20 {
        for (port, socket) in &clients {
            assert_eq!(ask(socket), name(*port, 3), "{port}");
        }
    }
    for program in &programs {
        let shown = status_of(&program.pid());
        for socket in shown["sockets"].as_array().unwrap() {
            assert_eq!(socket["accelerated"], true, "{shown:#}");
            assert_eq!(socket["counters"]["received_by_shadow"], 0, "{shown:#}");
        }
    }
    // One ends: what its sockets were connected to, the listeners of the others have.
    let ended = programs.pop().unwrap().child.id();
    wait_until("the agent knows", || !has_program(&bed, ended));
    for (port, socket) in &clients {
        assert_eq!(ask(socket), name(*port, 2), "{port}");
    }
}

#[test]
fn connected_sockets_of_the_kernel_get_what_their_peers_send_beside_an_accelerated_listener() {
    const FIRST: u16 = 7400;
    let Some(bed) = Bed::lay() else { return };
    let far = bed.cable.far();
    let begin = |mut program: Running| {
        program.step();
        program.say("");
        program
    };
    let listener = begin(bed.run_as(bed.cable.near(), 0, LISTENER));
    let socket = |port: u16| {
        let socket = far.namespace.enter(|| UdpSocket::bind((far.ipv4, port))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (port, socket)
    };
    let clients: BTreeMap<u16, UdpSocket> = (FIRST..FIRST + 16).map(socket).collect();
    let send = |port: u16, what: &str| clients[&port].send_to(what.as_bytes(), (bed.cable.near().ipv4, PORT)).unwrap();
    let answer = |port: u16| {
        let mut answer = [0; 64];
        let len = clients[&port].recv(&mut answer).unwrap_or_else(|error| panic!("{port}: {error}"));
        String::from_utf8(answer[..len].to_vec()).unwrap()
    };
    let mut number = 0;
    let mut ask = |port: u16, wanted: &str| {
        number += 1;
        send(port, &number.to_string());
        assert_eq!(answer(port), format!("{wanted} {number}"), "{port}");
    };
    let others = FIRST + 5..FIRST + 10;
    others.clone().for_each(|port| ask(port, "listener"));
    let is_accelerated = || status_of(&listener.pid())["sockets"][0]["accelerated"] == true;
    wait_until("the listener is accelerated", is_accelerated);
    let by_kernel = || status_of(&listener.pid())["sockets"][0]["counters"]["received_by_shadow"].clone();
    let by_kernel_first = by_kernel();
    let connected = begin(bed.run_as(bed.cable.near(), 0, &CONNECTED_ALONE.replace("FIRST", &FIRST.to_string())));
    (FIRST..FIRST + 3).for_each(|port| ask(port, "own"));
    // Two go back to the kernel; one of them has another peer then.
    for port in [FIRST, FIRST + 1] {
        send(port, "back");
        assert_eq!(answer(port), "own back");
        (0..200).for_each(|_| ask(port, "own"));
    }
    send(FIRST, "other");
    assert_eq!(answer(FIRST + 10), "own other");
    for _ in 0..200 {
        ask(FIRST + 10, "own");
        ask(FIRST, "listener");
        ask(FIRST + 1, "own");
        ask(FIRST + 2, "own");
    }
    let shown = status_of(&connected.pid());
    let served = shown["sockets"].as_array().unwrap().iter().filter(|socket| socket["accelerated"] == true).count();
    assert_eq!(served, 1, "{shown:#}");
    // A program without the library: until the agent has asked the kernel, the listener has what it is to get.
    let plain = begin(bed.start_plain(&PLAIN_CONNECTED.replace("FIRST", &(FIRST + 4).to_string())));
    let begun = Instant::now();
    let mut missed = 0;
    loop {
        send(FIRST + 4, &format!("before {missed}"));
        match answer(FIRST + 4) {
            found if found == format!("plain before {missed}") => break,
            found => assert_eq!(found, format!("listener before {missed}")),
        }
        missed += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("a plain process waited for {:?}, {missed} datagrams", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // Longer than a stranger is waited for.
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        ask(FIRST + 4, "plain");
        ask(FIRST + 1, "own");
        others.clone().for_each(|port| ask(port, "listener"));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_accelerated(), "{:#}", status_of(&listener.pid()));
    assert_eq!(by_kernel(), by_kernel_first, "past the kernel all the time");
    // Killed, what its sockets had is the listener's. The kernel closes the connection to the agent before some of them.
    let mut connected = connected;
    connected.child.kill().unwrap();
    connected.child.wait().unwrap();
    wait_until("the agent knows", || !has_program(&bed, connected.child.id()));
    [FIRST + 1, FIRST + 2, FIRST + 10].into_iter().for_each(|port| ask(port, "listener"));
    drop(plain);
}
