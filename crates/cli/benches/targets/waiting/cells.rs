//! The cells: which programs run where, and what is measured of them.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions};
use tempfile::TempDir;

use super::policy::Policy;
use super::{from_environment, program};
use crate::process::{Running, start_on};
use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU};

const PORT: u16 = 20_000;
const IDLE_PORT: u16 = 20_050;
const TUNNEL_PORT: u16 = 20_100;
/// How long a client measures, unless `MEASURED_MS` in the environment says otherwise. Shorter than the second in which `auto` learns what
/// is best, so that its trials count.
const MEASURED_MS: u32 = 700;
/// How long programs may take to have their sockets.
const READY: Duration = Duration::from_millis(250);
const BOTH_CPUS: [u32; 2] = [INITIATOR_CPU, RESPONDER_CPU];
const TUNNEL_ENDS: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

fn measured_ms() -> u32 {
    from_environment("MEASURED_MS", MEASURED_MS)
}

/// What one run of a cell came to.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Messages a second, of the client that had fewest.
    pub rate: f64,
    /// Round trips, of the client that waited longest.
    pub p99_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// An echo server under the policy, a client on the kernel.
    One,
    /// Server and client under the policy.
    Two,
    /// Two such pairs.
    Four,
    /// Client and server on the kernel, and between them two processes that carry packets of a tun device over UDP, which
    /// run under the policy.
    Tunnel,
    /// A server with an event loop and three workers, a client that has 32 messages on the way.
    EventLoop,
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    shape: Shape,
    is_pinned: bool,
    is_busy: bool,
}

/// Two cables, so that each pair of programs has interfaces of its own.
pub struct Bed {
    cables: [VirtualCable; 2],
    /// Where the event loop is, compiled.
    compiled: TempDir,
}

const LOOP: &str = "loop";

impl Bed {
    pub fn lay() -> Result<Bed, AnyError> {
        let lay = || VirtualCable::lay(VirtualCableOptions::default());
        let compiled = TempDir::new()?;
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/targets/waiting/loop.c");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-pthread", "-o"]).arg(compiled.path().join(LOOP)).arg(source);
        if !cc.status()?.success() {
            return Err("cc did not compile loop.c".into());
        }
        Ok(Bed { cables: [lay()?, lay()?], compiled })
    }
}

fn own(policy: &Policy, words: &str) -> Result<Command, AnyError> {
    let binary = std::env::current_exe()?;
    let mut command = policy.command(binary.to_str().ok_or("the path of this binary is no text")?);
    command.arg(crate::program::MARK).args(words.split(' '));
    Ok(command)
}

impl Cell {
    pub fn all() -> impl Iterator<Item = Cell> {
        let shapes = [Shape::One, Shape::Two, Shape::Four, Shape::Tunnel, Shape::EventLoop];
        shapes.into_iter().flat_map(|shape| {
            [(true, false), (false, false), (true, true), (false, true)].map(|(is_pinned, is_busy)| Cell {
                shape,
                is_pinned,
                is_busy,
            })
        })
    }

    pub fn name(&self) -> String {
        let shape = match self.shape {
            Shape::One => "one",
            Shape::Two => "two",
            Shape::Four => "four",
            Shape::Tunnel => "tunnel",
            Shape::EventLoop => "loop",
        };
        let pinned = if self.is_pinned { "pinned" } else { "anywhere" };
        format!("{shape}, {pinned}, {}", if self.is_busy { "busy" } else { "calm" })
    }

    /// Runs it once.
    pub fn measure(&self, bed: &Bed, policy: &Policy) -> Result<Figures, AnyError> {
        let [first, second] = &bed.cables;
        let mut hogs = Vec::new();
        if *policy == Policy::Beside {
            for end in bed.cables.iter().flat_map(|cable| [cable.near(), cable.far()]) {
                let command = own(&Policy::spin("0"), &format!("wait-echo {}:{IDLE_PORT}", end.ipv4))?;
                hogs.push(start_on(command, end, &BOTH_CPUS)?);
            }
            std::thread::sleep(READY);
        }
        if self.is_busy {
            for cpu in BOTH_CPUS {
                hogs.push(start_on(own(&Policy::Kernel, "wait-busy")?, first.near(), &[cpu])?);
            }
        }
        let echo = |at: Ipv4Addr| own(policy, &format!("wait-echo {at}:{PORT}"));
        let measured = match self.shape {
            Shape::Tunnel => self.tunnel(first, policy),
            Shape::Four => self.pairs(&[first, second], policy, "wait-ping", echo),
            Shape::One => self.pairs(&[first], &Policy::Kernel, "wait-ping", echo),
            Shape::Two => self.pairs(&[first], policy, "wait-ping", echo),
            Shape::EventLoop => self.pairs(&[first], policy, "wait-window", |at| {
                let program = bed.compiled.path().join(LOOP);
                let mut command = policy.command(program.to_str().ok_or("a path that is no text")?);
                command.args([at.to_string(), PORT.to_string()]);
                Ok(command)
            }),
        };
        measured.map_err(|error| format!("{}, {policy}: {error}", self.name()).into())
    }

    fn start(&self, command: Command, end: &CableEnd, cpu: u32) -> Result<Running, AnyError> {
        if self.is_pinned { start_on(command, end, &[cpu]) } else { start_on(command, end, &BOTH_CPUS) }
    }

    fn pairs(
        &self,
        cables: &[&VirtualCable],
        client: &Policy,
        ask: &str,
        server_at: impl Fn(Ipv4Addr) -> Result<Command, AnyError>,
    ) -> Result<Figures, AnyError> {
        let mut servers = Vec::new();
        for cable in cables {
            servers.push(self.start(server_at(cable.far().ipv4)?, cable.far(), RESPONDER_CPU)?);
        }
        std::thread::sleep(READY);
        let mut clients = Vec::new();
        for cable in cables {
            let command = own(client, &format!("{ask} {}:{PORT} {}", cable.far().ipv4, measured_ms()))?;
            clients.push(self.start(command, cable.near(), INITIATOR_CPU)?);
        }
        let texts: Result<Vec<String>, AnyError> = clients.into_iter().map(Running::output).collect();
        drop(servers);
        slowest(&texts?)
    }

    fn tunnel(&self, cable: &VirtualCable, policy: &Policy) -> Result<Figures, AnyError> {
        let ends = [(cable.near(), cable.far(), INITIATOR_CPU), (cable.far(), cable.near(), RESPONDER_CPU)];
        let mut carriers = Vec::new();
        for ((end, other, cpu), address) in ends.into_iter().zip(TUNNEL_ENDS) {
            let mut command = policy.command("socat");
            command.arg(format!("TUN:{address}/24,up"));
            command.arg(format!("UDP4-DATAGRAM:{}:{TUNNEL_PORT},bind={}:{TUNNEL_PORT}", other.ipv4, end.ipv4));
            carriers.push(self.start(command, end, cpu)?);
        }
        std::thread::sleep(READY);
        let server = own(&Policy::Kernel, &format!("wait-echo {}:{PORT}", TUNNEL_ENDS[1]))?;
        let server = self.start(server, cable.far(), RESPONDER_CPU)?;
        std::thread::sleep(READY);
        let client = own(&Policy::Kernel, &format!("wait-ping {}:{PORT} {}", TUNNEL_ENDS[1], measured_ms()))?;
        let text = self.start(client, cable.near(), INITIATOR_CPU)?.output()?;
        drop((server, carriers));
        slowest(&[text])
    }
}

fn slowest(texts: &[String]) -> Result<Figures, AnyError> {
    let mut slowest = Figures { rate: f64::INFINITY, p99_us: 0.0 };
    for text in texts {
        let figure = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().parse::<f64>().ok()
        };
        let (rate, p99_us) = figure(program::RATE).zip(figure(program::P99_US)).ok_or("a client printed nothing")?;
        slowest = Figures { rate: slowest.rate.min(rate), p99_us: slowest.p99_us.max(p99_us) };
    }
    Ok(slowest)
}
