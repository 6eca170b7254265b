//! memif between processes: ours with ours, and ours with DPDK.
//!
//! A test that needs a second process starts this program again, with the role of that process in the environment.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod dpdk;
mod processes;
mod speed;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_frames::ports::memif::{MemifConfig, MemifPort, MemifRole, MemifSocket};
use nearwire_frames::{Port, PortError};

/// What a process that a test has started does: the name of it, a space, and the path of the socket.
const PART: &str = "NEARWIRE_TEST_MEMIF";
/// Longest that a test waits for anything.
const WITHIN: Duration = Duration::from_secs(60);

/// A process that ends with its value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this program again, for a part alone.
fn start_part(part: &str, socket: &Path) -> Ended {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "part_of_another_process", "--ignored", "--nocapture"]);
    again.env(PART, format!("{part} {}", socket.display())).stdout(Stdio::null());
    Ended(again.spawn().unwrap())
}

#[test]
#[ignore = "started by other tests"]
fn part_of_another_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let (part, socket) = part.rsplit_once(' ').unwrap();
    match part {
        "echo" => processes::echo(Path::new(socket)),
        "send until killed" => processes::send_until_killed(Path::new(socket)),
        "flood as client" => speed::flood(MemifRole::Client, Path::new(socket)),
        "flood as server" => speed::flood(MemifRole::Server, Path::new(socket)),
        other => panic!("{other}"),
    }
}

fn config(role: MemifRole, socket: &Path) -> MemifConfig {
    MemifConfig { connect_within: WITHIN, ..MemifConfig::new(MemifSocket::from(socket), role) }
}

/// Waits for the next frame.
fn received(port: &mut MemifPort) -> Result<Vec<u8>, PortError> {
    let until = Instant::now() + WITHIN;
    loop {
        if let Some(frame) = port.receive(<[u8]>::to_vec)? {
            return Ok(frame);
        }
        assert!(Instant::now() < until, "no frame within {WITHIN:?}");
        std::thread::yield_now();
    }
}

/// Sends a frame as soon as there is room.
fn send(port: &mut MemifPort, frame: &[u8]) -> Result<(), PortError> {
    let until = Instant::now() + WITHIN;
    while !port.send(frame)? {
        assert!(Instant::now() < until, "no room within {WITHIN:?}");
        std::thread::yield_now();
    }
    Ok(())
}
