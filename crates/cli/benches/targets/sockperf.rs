//! sockperf's own ping-pong on the same cable and CPUs.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearwire_lab::CableEnd;
use nearwire_sys::affinity::pin_current_thread;

use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU, SIZE_BYTES};

/// How long the server may take to listen.
const SERVER_READY: Duration = Duration::from_millis(200);

/// One way to run sockperf.
pub struct Contest {
    pub name: &'static str,
    options: &'static [&'static str],
}

pub const CONTESTS: [Contest; 4] = [
    Contest { name: "sockperf udp", options: &[] },
    Contest { name: "sockperf udp --nonblocked", options: &["--nonblocked"] },
    Contest { name: "sockperf tcp", options: &["--tcp"] },
    Contest { name: "sockperf tcp --nonblocked", options: &["--tcp", "--nonblocked"] },
];

impl Contest {
    pub fn half_rtt_p50_ns(&self, near: &CableEnd, far: &CableEnd) -> Result<f64, AnyError> {
        let address = far.ipv4.to_string();
        let server = self.start("server", &["-i", &address], far, RESPONDER_CPU)?;
        let server = Stopped(server);
        std::thread::sleep(SERVER_READY);
        let size = SIZE_BYTES.to_string();
        let client = self.start("ping-pong", &["-i", &address, "-m", &size, "-t", "1"], near, INITIATOR_CPU)?;
        let output = client.wait_with_output()?;
        drop(server);
        let text = String::from_utf8_lossy(&output.stdout);
        p50_ns(&text).ok_or_else(|| format!("{}: no figures in its output:\n{text}", self.name).into())
    }

    /// A program runs where the thread that starts it does.
    fn start(&self, role: &str, arguments: &[&str], end: &CableEnd, cpu: u32) -> Result<Child, AnyError> {
        let mut command = Command::new("sockperf");
        command.arg(role).args(arguments).args(self.options).stdout(Stdio::piped()).stderr(Stdio::null());
        let namespace = end.namespace.clone();
        let started = std::thread::spawn(move || {
            pin_current_thread(cpu).map_err(|errno| format!("pin to CPU {cpu}: {errno}"))?;
            let child = namespace.enter(|| command.spawn()).map_err(|error| error.to_string())?;
            child.map_err(|error| format!("start sockperf: {error}; install it (make targets does)"))
        });
        Ok(started.join().map_err(|_| "the starting thread failed")??)
    }
}

/// A server that is killed in the end: it does not leave by itself.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads `---> percentile 50.000 =    1.234`, microseconds, half of the round trip.
fn p50_ns(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("percentile 50.000"))?;
    let us: f64 = line.rsplit('=').next()?.trim().parse().ok()?;
    Some(us * 1e3)
}
