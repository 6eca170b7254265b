//! A veth pair with an agent at the near end, in this process.

use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearwire_agent::client::Client;
use nearwire_agent::life::{Ended, serve};
use nearwire_agent::message::Answer;
use nearwire_agent::ports::xdp::XdpPorts;
use nearwire_agent::server::Stay;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, made_or_skip};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// What the agent tells next.
#[track_caller]
pub fn await_events(client: &mut Client) -> Vec<Answer> {
    let until = Instant::now() + PATIENCE;
    loop {
        let events = client.take_events().unwrap();
        assert!(Instant::now() < until, "the program hears of it");
        if !events.is_empty() {
            return events;
        }
    }
}

pub struct AgentBed {
    cable: VirtualCable,
    _rights: tempfile::NamedTempFile,
    agent: JoinHandle<Ended>,
}

impl AgentBed {
    /// `rights`: the agent's file of rights.
    pub fn lay_or_skip(rights: &str) -> Option<AgentBed> {
        let options = VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() };
        let cable = made_or_skip(VirtualCable::lay(options))?;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), rights).unwrap();
        let path = file.path().to_owned();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let start = || {
            std::thread::spawn(move || {
                let stay = Stay::Linger(Duration::from_secs(1));
                serve(XdpPorts::new().unwrap(), &path, stay, || ready.send(()).unwrap()).unwrap()
            })
        };
        let agent = cable.near().namespace.enter(start).unwrap();
        is_ready.recv().unwrap();
        Some(AgentBed { cable, _rights: file, agent })
    }

    pub fn near(&self) -> &CableEnd {
        self.cable.near()
    }

    pub fn far(&self) -> &CableEnd {
        self.cable.far()
    }

    /// Whether the near interface has a program.
    pub fn has_program(&self) -> bool {
        let near = self.near();
        near.namespace.enter(|| InterfaceFacts::read(&near.interface).unwrap().program.is_some()).unwrap()
    }

    /// Waits until it has one, or has none.
    #[track_caller]
    pub fn await_program(&self, is_there: bool) {
        let until = Instant::now() + PATIENCE;
        while self.has_program() != is_there {
            assert!(Instant::now() < until, "a program is there: {is_there}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `up` or `down`: the near interface.
    pub fn set_link(&self, state: &str) {
        let near = self.near();
        let set = || Command::new("ip").args(["link", "set", &near.interface, state]).status().unwrap();
        assert!(near.namespace.enter(set).unwrap().success());
    }

    /// When nobody has a share any more, the port is closed and the agent ends.
    #[track_caller]
    pub fn end(self) {
        self.await_program(false);
        assert_eq!(self.agent.join().unwrap(), Ended::Done);
    }
}
