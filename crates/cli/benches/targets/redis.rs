//! redis on the same cable and CPUs: requests a second that `redis-benchmark` has answered, with the kernel's sockets and under `nearwire run` at both
//! ends.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nearwire_lab::CableEnd;

use crate::process::{Sockets, command, start};
use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU};

const PORT: &str = "7379";
/// Of the lines of `redis-benchmark --csv`: requests a second, and the 99th percentile of their times in ms.
const RATE_COLUMN: usize = 1;
const P99_COLUMN: usize = 6;

/// What the clients do.
pub struct Load {
    pub name: &'static str,
    pub sockets: Sockets,
    clients: u32,
    /// Requests of a client on their way.
    pipeline: u32,
    requests: u32,
}

const fn load(name: &'static str, sockets: Sockets, clients: u32, pipeline: u32, requests: u32) -> Load {
    Load { name, sockets, clients, pipeline, requests }
}

pub const LOADS: [Load; 6] = [
    load("redis, 1 client, kernel", Sockets::Kernel, 1, 1, 30_000),
    load("redis, 1 client, run", Sockets::Nearwire, 1, 1, 30_000),
    load("redis, 50 clients, kernel", Sockets::Kernel, 50, 1, 150_000),
    load("redis, 50 clients, run", Sockets::Nearwire, 50, 1, 150_000),
    load("redis, 50 clients -P 16, kernel", Sockets::Kernel, 50, 16, 800_000),
    load("redis, 50 clients -P 16, run", Sockets::Nearwire, 50, 16, 800_000),
];

impl Load {
    /// Thousand requests a second, and their 99th percentile in us, by name.
    pub fn figures(&self, near: &CableEnd, far: &CableEnd) -> Result<Vec<(String, f64)>, AnyError> {
        let address = far.ipv4.to_string();
        let directory = tempfile::tempdir()?;
        let mut server = command(self.sockets, server_in(directory.path())?.as_os_str());
        server.args(["--bind", &address, "--port", PORT, "--protected-mode", "no", "--save", ""]);
        let mut server = start(server, far, RESPONDER_CPU)?;
        server.await_ready()?;
        let mut client = command(self.sockets, "redis-benchmark".as_ref());
        let [clients, pipeline, requests] =
            [self.clients, self.pipeline, self.requests].map(|number| number.to_string());
        client.args(["-h", &address, "-p", PORT, "-t", "get", "--csv"]);
        client.args(["-c", &clients, "-P", &pipeline, "-n", &requests]);
        let text = start(client, near, INITIATOR_CPU)?.output()?;
        drop(server);
        let column = |column| column_of(&text, column).ok_or_else(|| format!("{}: no figures:\n{text}", self.name));
        Ok(vec![
            (format!("{} k/s", self.name), column(RATE_COLUMN)? / 1e3),
            (format!("{} p99 us", self.name), column(P99_COLUMN)? * 1e3),
        ])
    }
}

/// The server under its own name, by which it knows what it is: Debian's redis-tools have it as `redis-check-rdb`.
fn server_in(directory: &Path) -> Result<PathBuf, AnyError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join("redis-check-rdb")).find(|file| file.exists());
    let server = directory.join("redis-server");
    symlink(found.ok_or("redis-check-rdb is not in PATH; install redis-tools (make targets does)")?, &server)?;
    Ok(server)
}

fn column_of(text: &str, column: usize) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("\"GET\""))?;
    line.split(',').nth(column)?.trim_matches('"').parse().ok()
}
