//! Several programs on one interface, by the agent: sequences of bind, connect, fork, exec, close, exit, kill, the agent's end and links that
//! go down, generated from a seed. Every datagram has a number, and a model says which open files may get it: it comes to one of
//! them, once; or it is lost where the kernel would have lost it too.
//!
//! `NEARWIRE_OWNERSHIP=1000 cargo test -p nearwire-cli --test live ownership` runs so many; `NEARWIRE_OWNERSHIP_SEED=N` begins with another.

mod model;
mod process;

use std::process::Command;
use std::time::{Duration, Instant};

use nearwire_lab::Cable;

use crate::by_agent::{kill, running_agent};
use crate::common::accelerated::Bed;
use crate::kills::{Random, chosen};
use model::Model;
use process::Process;

const SEQUENCES: u64 = 8;
const STEPS: u32 = 40;
/// Programs that a sequence begins with, and processes that it has at most.
const PROGRAMS: usize = 3;
const PROCESSES_MOST: usize = 6;
/// Open files at most.
const FILES_MOST: usize = 8;
/// Ports of the near end: the first two for one socket each, the others for groups (`SO_REUSEPORT`).
const PORTS: [u16; 4] = [7400, 7401, 7402, 7403];
const FIRST_SHARED: usize = 2;
/// Ports of the far end.
const FAR_PORTS: [u16; 3] = [7500, 7501, 7502];
/// Of a plain socket at the near end: what comes to it says that the link is up.
const PROBE_PORT: u16 = 7499;
const BURST_MOST: u64 = 12;
/// What is on its way when something changes has arrived by then.
const ARRIVED: Duration = Duration::from_millis(3);
/// Nothing takes longer to come.
const COMES_WITHIN: Duration = Duration::from_secs(5);

/// One sequence.
struct Sequence<'a> {
    bed: &'a Bed,
    random: Random,
    model: Model,
    processes: Vec<Option<Process>>,
    far: Vec<std::net::UdpSocket>,
    is_up: bool,
    steps: Vec<String>,
    /// Sockets that were accelerated at the end.
    accelerated: usize,
}

impl<'a> Sequence<'a> {
    fn new(bed: &'a Bed, seed: u64) -> Sequence<'a> {
        let far = FAR_PORTS.map(|port| bed.far_at(port));
        far.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        Sequence {
            bed,
            random: Random(seed),
            model: Model::default(),
            processes: Vec::new(),
            far: far.into(),
            is_up: true,
            steps: Vec::new(),
            accelerated: 0,
        }
    }

    fn run(&mut self) {
        (0..PROGRAMS).for_each(|_| self.start());
        for _ in 0..STEPS {
            self.step();
        }
        self.link(true);
        self.settle();
        self.accelerated = self.living().into_iter().map(|at| self.process(at).accelerated_sockets()).sum();
    }

    fn pick(&mut self, of: &[usize]) -> Option<usize> {
        (!of.is_empty()).then(|| of[self.random.below(of.len() as u64) as usize])
    }

    fn living(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|at| self.processes[*at].is_some()).collect()
    }

    fn process(&mut self, at: usize) -> &mut Process {
        self.processes[at].as_mut().unwrap()
    }

    fn say(&mut self, step: String) {
        self.steps.push(step);
    }

    fn step(&mut self) {
        let Some(process) = self.pick(&self.living()) else { return self.start() };
        let file = self.pick(&self.model.held_by(process));
        match (self.random.below(40), file) {
            (0..5, _) => self.open(process),
            (5..7, Some(file)) => self.connect(process, file),
            (7..17, _) => self.send_in(),
            (17..24, Some(file)) => self.read(process, file),
            (24..28, Some(file)) => self.send_out(process, file),
            (28..30, Some(file)) => self.close(process, file),
            (30..32, _) => self.fork(process),
            (32, _) => self.exec(process),
            (33, _) => self.end(process, true),
            (34, _) => self.end(process, false),
            (35, _) => self.start(),
            (36, _) => self.kill_agent(),
            (37, _) => self.link(!self.is_up),
            _ => self.settle(),
        }
    }

    fn start(&mut self) {
        if self.living().len() < PROCESSES_MOST {
            let at = self.processes.len();
            self.say(format!("{at} starts"));
            self.processes.push(Some(Process::start(self.bed, at)));
        }
    }

    fn open(&mut self, process: usize) {
        if self.model.files_open() >= FILES_MOST {
            return;
        }
        let port = self.random.below(PORTS.len() as u64) as usize;
        let is_shared = port >= FIRST_SHARED;
        let (file, may) = (self.model.next_file(), self.model.may_bind(port, is_shared));
        self.say(format!("{process} opens {file} at {port}"));
        std::thread::sleep(ARRIVED);
        let kind = if is_shared { "shared" } else { "own" };
        let answer = self.process(process).ask(&format!("open {file} {} {kind}", PORTS[port]));
        assert_eq!(answer, if may { "" } else { "EADDRINUSE" });
        if may {
            self.model.opened(process, port, is_shared);
        }
    }

    fn connect(&mut self, process: usize, file: usize) {
        if !self.is_up {
            return;
        }
        let peer = self.random.below(FAR_PORTS.len() as u64) as usize;
        self.say(format!("{process} connects {file} to {peer}"));
        std::thread::sleep(ARRIVED);
        let answer = self.process(process).ask(&format!("connect {file} {}", FAR_PORTS[peer]));
        assert_eq!(answer, "");
        self.model.connected(file, peer);
    }

    /// The far end sends some to a port.
    fn send_in(&mut self) {
        let (from, port) = (self.random.below(FAR_PORTS.len() as u64) as usize, self.random.below(PORTS.len() as u64));
        let port = port as usize;
        let count = 1 + self.random.below(BURST_MOST);
        self.say(format!("far {from} sends {count} to {port}"));
        for _ in 0..count {
            let number = self.model.next_number();
            let sent = self.far[from].send_to(&number.to_be_bytes(), (self.bed.cable.near().ipv4, PORTS[port]));
            if self.is_up {
                sent.unwrap();
                self.model.sent_in(number, from, port);
            }
        }
    }

    fn read(&mut self, process: usize, file: usize) {
        let call = ["read", "poll"][self.random.below(2) as usize];
        self.say(format!("{process} reads {file} by {call}"));
        self.read_by(process, file, call);
    }

    fn read_by(&mut self, process: usize, file: usize, call: &str) {
        self.model.is_about_to_read(file);
        let answer = self.process(process).ask(&format!("{call} {file}"));
        for number in answer.split_whitespace() {
            self.model.read(file, number.parse().unwrap_or_else(|_| panic!("{call} of {file}: {answer}")));
        }
    }

    fn send_out(&mut self, process: usize, file: usize) {
        let number = self.model.next_number();
        let (to, command) = match self.model.peer_of(file) {
            Some(peer) => (peer, format!("send_connected {file} {number}")),
            None => {
                let to = self.random.below(FAR_PORTS.len() as u64) as usize;
                (to, format!("send {file} {} {number}", FAR_PORTS[to]))
            }
        };
        self.say(format!("{process} sends by {file} to {to}"));
        let answer = self.process(process).ask(&command);
        if self.is_up {
            assert_eq!(answer, "");
            self.model.sent_out(number, to, file);
        }
    }

    fn close(&mut self, process: usize, file: usize) {
        self.say(format!("{process} closes {file}"));
        std::thread::sleep(ARRIVED);
        assert_eq!(self.process(process).ask(&format!("close {file}")), "");
        self.model.closed(process, file);
    }

    fn fork(&mut self, process: usize) {
        if self.living().len() >= PROCESSES_MOST {
            return;
        }
        let child = self.processes.len();
        self.say(format!("{process} forks {child}"));
        std::thread::sleep(ARRIVED);
        let forked = Process::forked(self.bed, child, self.process(process));
        self.processes.push(Some(forked));
        self.model.forked(process, child);
    }

    fn exec(&mut self, process: usize) {
        self.say(format!("{process} executes"));
        std::thread::sleep(ARRIVED);
        assert_eq!(self.process(process).ask("exec"), "");
        self.model.gives_back(process);
    }

    /// It exits, or is killed.
    fn end(&mut self, process: usize, is_killed: bool) {
        self.say(format!("{process} {}", if is_killed { "is killed" } else { "exits" }));
        std::thread::sleep(ARRIVED);
        let ended = self.processes[process].take().unwrap();
        if is_killed {
            ended.kill();
        } else {
            ended.quit();
        }
        self.model.ended(process, is_killed);
    }

    fn kill_agent(&mut self) {
        if let Some(agent) = running_agent(self.bed) {
            self.say("the agent is killed".to_owned());
            kill(agent);
        }
    }

    fn link(&mut self, is_up: bool) {
        if is_up == self.is_up {
            return;
        }
        self.say(format!("the link goes {}", if is_up { "up" } else { "down" }));
        std::thread::sleep(ARRIVED);
        let near = self.bed.cable.near();
        let mut ip = Command::new("ip");
        ip.args(["link", "set", "dev", &near.interface, if is_up { "up" } else { "down" }]);
        assert!(near.namespace.enter(|| ip.status()).unwrap().unwrap().success());
        self.is_up = is_up;
        if is_up {
            self.await_link();
        }
    }

    /// Until what is sent arrives: the far end's queue is off for some time.
    fn await_link(&self) {
        let near = self.bed.cable.near();
        let probe = near.namespace.enter(|| std::net::UdpSocket::bind((near.ipv4, PROBE_PORT))).unwrap().unwrap();
        probe.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let until = Instant::now() + COMES_WITHIN;
        loop {
            let _ = self.far[0].send_to(b"?", (near.ipv4, PROBE_PORT));
            if probe.recv(&mut [0; 8]).is_ok() {
                return;
            }
            assert!(Instant::now() < until, "the link is up");
        }
    }

    /// Everything that was sent has come to one who may have it.
    fn settle(&mut self) {
        self.say("all is read".to_owned());
        let until = Instant::now() + COMES_WITHIN;
        loop {
            for file in self.model.all_open() {
                if let Some(process) = self.pick(&self.model.holders_of(file)) {
                    self.read_by(process, file, "read");
                }
            }
            self.read_far();
            if self.model.is_settled() {
                return;
            }
            assert!(Instant::now() < until, "not delivered: {}", self.model.missing());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn read_far(&mut self) {
        let mut buffer = [0; 8];
        for (at, socket) in self.far.iter().enumerate() {
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let number = u32::from_be_bytes(buffer[..len].try_into().unwrap());
                let port = PORTS.iter().position(|port| *port == from.port()).unwrap();
                self.model.read_far(number, at, port);
            }
        }
    }
}

#[test]
fn programs_that_share_an_interface_in_any_sequence_each_get_what_is_theirs_once() {
    let Some(bed) = Bed::lay() else { return };
    let (sequences, first) = (chosen("NEARWIRE_OWNERSHIP", SEQUENCES), chosen("NEARWIRE_OWNERSHIP_SEED", 1));
    let (mut failed, mut accelerated) = (Vec::new(), 0);
    for seed in first..first + sequences {
        let mut sequence = Sequence::new(&bed, seed);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sequence.run())).is_err() {
            println!(
                "NEARWIRE_OWNERSHIP=1 NEARWIRE_OWNERSHIP_SEED={seed} runs this again:\n{}",
                sequence.steps.join("\n")
            );
            failed.push(seed);
            sequence.link(true);
        }
        accelerated += sequence.accelerated;
    }
    println!("{sequences} sequences from seed {first}, {} failed; {accelerated} sockets accelerated", failed.len());
    assert!(failed.is_empty(), "seeds {failed:?}");
    assert!(accelerated as u64 >= sequences, "sockets were accelerated: {accelerated}");
}
