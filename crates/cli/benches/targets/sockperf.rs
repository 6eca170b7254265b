//! sockperf's own ping-pong on the same cable and CPUs, with the kernel's sockets and under `nearwire run`.

use std::fmt::Write as _;
use std::process::Command;

use nearwire_lab::CableEnd;

use crate::process::{Sockets, command, start};
use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU, SIZE_BYTES};

pub const FIRST_PORT: u16 = 11_111;

/// One way to run sockperf.
pub struct Contest {
    pub name: &'static str,
    pub sockets: Sockets,
    options: &'static [&'static str],
    /// Sockets in an epoll set at both ends; 0: one socket and no set.
    in_epoll: u16,
    /// On the cable of one queue.
    pub on_one_queue: bool,
}

const fn contest(name: &'static str, sockets: Sockets, options: &'static [&'static str], in_epoll: u16) -> Contest {
    Contest { name, sockets, options, in_epoll, on_one_queue: false }
}

/// What others are compared with.
pub const RUN_UDP: Contest = contest("run sockperf udp", Sockets::Nearwire, &[], 0);

pub const CONTESTS: [Contest; 14] = [
    contest("sockperf udp", Sockets::Kernel, &[], 0),
    contest("sockperf udp --nonblocked", Sockets::Kernel, &["--nonblocked"], 0),
    contest("sockperf tcp", Sockets::Kernel, &["--tcp"], 0),
    contest("sockperf tcp --nonblocked", Sockets::Kernel, &["--tcp", "--nonblocked"], 0),
    contest("run sockperf tcp", Sockets::Nearwire, &["--tcp"], 0),
    RUN_UDP,
    Contest { name: "run sockperf udp, one queue", on_one_queue: true, ..RUN_UDP },
    contest("run sockperf udp --nonblocked", Sockets::Nearwire, &["--nonblocked"], 0),
    Contest { name: "base sockperf udp", sockets: Sockets::Base, ..RUN_UDP },
    Contest { name: "base sockperf udp, one queue", sockets: Sockets::Base, on_one_queue: true, ..RUN_UDP },
    contest("run sockperf epoll 1", Sockets::Nearwire, &["-F", "epoll"], 1),
    contest("run sockperf epoll 10", Sockets::Nearwire, &["-F", "epoll"], 10),
    contest("run sockperf epoll 100", Sockets::Nearwire, &["-F", "epoll"], 100),
    contest("run sockperf epoll 1000", Sockets::Nearwire, &["-F", "epoll"], 1000),
];

impl Contest {
    pub fn half_rtt_p50_ns(&self, near: &CableEnd, far: &CableEnd) -> Result<f64, AnyError> {
        let address = far.ipv4.to_string();
        let feed = tempfile::NamedTempFile::new()?;
        let to = match self.in_epoll {
            0 => ["-i".to_owned(), address],
            count => {
                std::fs::write(feed.path(), feed_text(&address, count))?;
                ["-f".to_owned(), feed.path().display().to_string()]
            }
        };
        let mut server = start(self.command("server", &to), far, RESPONDER_CPU)?;
        server.await_ready()?;
        let mut client = self.command("ping-pong", &to);
        client.args(["-m", &SIZE_BYTES.to_string(), "-t", "1"]);
        let text = start(client, near, INITIATOR_CPU)?.output()?;
        drop(server);
        p50_ns(&text).ok_or_else(|| format!("{}: no figures in its output:\n{text}", self.name).into())
    }

    pub fn command(&self, role: &str, to: &[String]) -> Command {
        let mut command = command(self.sockets, "sockperf".as_ref());
        command.arg(role).args(to).args(self.options);
        command
    }
}

/// The sockets as sockperf reads them: `U:ADDRESS:PORT`, a line each.
fn feed_text(address: &str, count: u16) -> String {
    (FIRST_PORT..FIRST_PORT + count).fold(String::new(), |mut text, port| {
        let _ = writeln!(text, "U:{address}:{port}");
        text
    })
}

/// Reads `---> percentile 50.000 =    1.234`, microseconds, half of the round trip.
pub fn p50_ns(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("percentile 50.000"))?;
    let us: f64 = line.rsplit('=').next()?.trim().parse().ok()?;
    Some(us * 1e3)
}
