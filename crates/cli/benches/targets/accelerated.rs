//! What the small program of `program.rs` has of `nearwire run`: rates, round trips beside idle sockets, memory.

use std::process::Command;
use std::time::Duration;

use nearwire_lab::CableEnd;
use nearwire_wire::ethernet::EtherType;

use crate::process::{Sockets, command, start, start_anywhere};
use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU, one_way, program};

const PORT: u16 = 20_000;
/// How long the far program may take to have its socket.
const READY: Duration = Duration::from_millis(150);
const SEND_MS: u32 = 200;
const TRIPS: u32 = 40_000;
const REQUESTS: u32 = 4_000;

/// One use of the program, and the name before its figures.
#[derive(Clone, Copy)]
pub struct Use {
    pub name: &'static str,
    pub sockets: Sockets,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    /// The far end counts frames, for all alike: what the sender alone is worth.
    Send {
        bytes: u32,
        threads: u32,
    },
    /// The far end is such a program too, with the same sockets.
    SendToOwn {
        bytes: u32,
    },
    Ping {
        idle: u16,
    },
    /// The far end has the kernel's sockets.
    Requests,
}

const fn one(name: &'static str, sockets: Sockets, what: What) -> Use {
    Use { name, sockets, what }
}

pub const USES: [Use; 17] = [
    one("send 64 B, kernel", Sockets::Kernel, What::Send { bytes: 64, threads: 1 }),
    one("send 64 B, run", Sockets::Nearwire, What::Send { bytes: 64, threads: 1 }),
    one("send 64 B, base", Sockets::Base, What::Send { bytes: 64, threads: 1 }),
    one("send 64 B, run throughput", Sockets::Throughput, What::Send { bytes: 64, threads: 1 }),
    one("send 64 B to own, kernel", Sockets::Kernel, What::SendToOwn { bytes: 64 }),
    one("send 64 B to own, run throughput", Sockets::Throughput, What::SendToOwn { bytes: 64 }),
    one("send 64 B, 2 threads, kernel", Sockets::Kernel, What::Send { bytes: 64, threads: 2 }),
    one("send 64 B, 2 threads, run", Sockets::Nearwire, What::Send { bytes: 64, threads: 2 }),
    one("send 1400 B, kernel", Sockets::Kernel, What::Send { bytes: 1400, threads: 1 }),
    one("send 1400 B, run", Sockets::Nearwire, What::Send { bytes: 1400, threads: 1 }),
    one("send 1400 B, run throughput", Sockets::Throughput, What::Send { bytes: 1400, threads: 1 }),
    one("ping, kernel", Sockets::Kernel, What::Ping { idle: 0 }),
    one("ping, run", Sockets::Nearwire, What::Ping { idle: 0 }),
    one("ping, base", Sockets::Base, What::Ping { idle: 0 }),
    one("ping beside 10 000, run", Sockets::Nearwire, What::Ping { idle: 10_000 }),
    one("socket per request, kernel", Sockets::Kernel, What::Requests),
    one("socket per request, run", Sockets::Usual, What::Requests),
];

/// As "ping, run", while other programs are there.
pub const BESIDE_PROGRAMS: Use = one("ping beside 63 programs, run", Sockets::Nearwire, What::Ping { idle: 0 });

impl Use {
    /// Figures by name.
    pub fn figures(&self, near: &CableEnd, far: &CableEnd) -> Result<Vec<(String, f64)>, AnyError> {
        let at = format!("{}:{PORT}", far.ipv4);
        let text = match self.what {
            // The far end is that of the frames that this is compared with: on a virtual cable the sender pays for what
            // its peer does with a frame.
            What::Send { bytes, threads } => one_way::counting(far, EtherType::IPV4, threads == 1, || {
                let command = command_of(self.sockets, &format!("send {at} {bytes} {SEND_MS} {threads}"))?;
                if threads == 1 {
                    start(command, near, INITIATOR_CPU)?.output()
                } else {
                    start_anywhere(command, near)?.output()
                }
            })?,
            What::SendToOwn { bytes } => {
                let server = start(command_of(self.sockets, &format!("drain {at}"))?, far, RESPONDER_CPU)?;
                std::thread::sleep(READY);
                let send = command_of(self.sockets, &format!("send {at} {bytes} {SEND_MS} 1"))?;
                let text = start(send, near, INITIATOR_CPU)?.output()?;
                drop(server);
                text
            }
            What::Ping { idle } => {
                let server = start(command_of(self.sockets, &format!("echo {at}"))?, far, RESPONDER_CPU)?;
                std::thread::sleep(READY);
                let text = start(command_of(self.sockets, &format!("ping {at} {idle} {TRIPS}"))?, near, INITIATOR_CPU)?
                    .output()?;
                drop(server);
                text
            }
            What::Requests => {
                let server = start(command_of(Sockets::Kernel, &format!("echo {at}"))?, far, RESPONDER_CPU)?;
                std::thread::sleep(READY);
                let requests = command_of(self.sockets, &format!("requests {at} {REQUESTS}"))?;
                let text = start(requests, near, INITIATOR_CPU)?.output()?;
                drop(server);
                text
            }
        };
        let figures: Vec<_> = text.lines().filter_map(|line| self.figure(line)).collect();
        if figures.is_empty() { Err(format!("{}: it printed nothing", self.name).into()) } else { Ok(figures) }
    }

    fn figure(&self, line: &str) -> Option<(String, f64)> {
        let (name, figure) = line.split_once(' ')?;
        Some((format!("{} {name}", self.name), figure.parse().ok()?))
    }
}

fn command_of(sockets: Sockets, words: &str) -> Result<Command, AnyError> {
    let mut command = command(sockets, std::env::current_exe()?.as_os_str());
    command.arg(program::MARK).args(words.split(' '));
    Ok(command)
}
