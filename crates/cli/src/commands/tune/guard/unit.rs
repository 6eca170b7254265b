//! A guardian that systemd starts, as a transient unit: it is no part of the login session, so that neither a log-out
//! nor a dying connection ends it, also where logind kills what a user leaves behind (`KillUserProcesses=` of
//! `logind.conf(5)`).
//!
//! `systemd-run --pipe` passes standard input and output on to the unit, and is not needed once that runs. Standard
//! input is a socket, on which the guardian says that it runs and how it ended: the exit code of `systemd-run` alone
//! would not tell a guardian that failed from one that never ran.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use nearwire_sys::usage::{end_at_termination, interrupted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};

/// How often it is checked for Ctrl-C.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// A guardian that has refused its order ends within this time.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Before the process id of a guardian that has its order.
const RUNS: &str = "runs ";
/// Before the exit code of one that ends.
const ENDED: &str = "ended ";

/// A guardian that runs as a unit.
pub(super) struct Unit {
    line: UnixStream,
    pid: Pid,
    errors: File,
}

/// The name of the unit for the plan of this process.
pub(super) fn name() -> String {
    format!("nearwire-guard-{}.service", std::process::id())
}

impl Unit {
    /// Starts a guardian by `systemd-run` and gives it its order.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn start(guardian: &Command, order: &str) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can start units".to_owned());
        }
        let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let (mut line, theirs) = UnixStream::pair().map_err(failed("socketpair"))?;
        // What goes wrong before the guardian runs is read from here, and its own errors too. A file in memory takes
        // them also when nobody is left to read.
        let errors = memfd_create("nearwire-guard", MemfdFlags::CLOEXEC).map_err(|errno| format!("memfd: {errno}"))?;
        let mut errors = File::from(errors);
        let mut command = Command::new("systemd-run");
        command
            .args(["--quiet", "--collect", "--pipe", &format!("--unit={}", name())])
            .arg("--description=nearwire tune: values that go back unless they are confirmed")
            .arg("--")
            .arg(guardian.get_program())
            .args(guardian.get_args())
            .stdin(OwnedFd::from(theirs))
            .stderr(errors.try_clone().map_err(failed("memfd"))?);
        let mut client = command.spawn().map_err(failed("systemd-run"))?;
        // Or the far end would stay open in this process.
        drop(command);
        let sent = line.write_all(order.as_bytes()).and_then(|()| line.shutdown(Shutdown::Write));
        let said = sent.and_then(|()| read_line(&mut line)).unwrap_or_default();
        // Told or not, it has done its work. Of a unit that runs it is only the client.
        let _ = client.kill();
        let ended = client.wait();
        if said.starts_with(ENDED) {
            // It says why after that it ends, and before it is gone.
            let _ = line.set_read_timeout(Some(ENDS_WITHIN)).and_then(|()| line.read_to_end(&mut Vec::new()));
        }
        match said.strip_prefix(RUNS).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw) {
            Some(pid) => Ok(Self { line, pid, errors }),
            None => {
                let text = all(&mut errors);
                let first = text
                    .lines()
                    .next()
                    .map(|line| line.trim_start_matches("nearwire: ").trim_end_matches('.').to_owned());
                Err(format!("systemd-run: {}", first.unwrap_or_else(|| how(ended))))
            }
        }
    }

    /// Waits until the guardian has ended, and passes Ctrl-C on to it. A request to end that is none of the user's ends
    /// this process alone: the session may be going. `None` for a guardian that was killed.
    pub(super) fn wait(mut self) -> anyhow::Result<Option<u8>> {
        end_at_termination()?;
        let mut said = String::new();
        let mut is_told = false;
        loop {
            if interrupted() && !is_told {
                kill_process(self.pid, Signal::TERM)?;
                is_told = true;
            }
            match poll(&mut [PollFd::new(&self.line, PollFlags::IN)], Some(&TICK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            self.line.read_to_string(&mut said).context("hear of the guardian's end")?;
            eprint!("{}", all(&mut self.errors));
            return Ok(said.trim_end().strip_prefix(ENDED).and_then(|code| code.parse().ok()));
        }
    }
}

/// The namespaces of this process: a unit of systemd has those of the first process, in which other interfaces or files
/// may be.
pub(super) fn namespaces() -> Vec<String> {
    let of = |name| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
    ["net", "mnt", "pid"].into_iter().filter_map(of).map(|link| link.to_string_lossy().into_owned()).collect()
}

/// Up to the end of the line, a byte at a time: what follows is read later.
fn read_line(from: &mut impl Read) -> io::Result<String> {
    let mut line = String::new();
    let mut byte = [0];
    while from.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(char::from(byte[0]));
    }
    Ok(line)
}

fn all(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    text
}

fn how(ended: io::Result<std::process::ExitStatus>) -> String {
    ended.map_or_else(|error| error.to_string(), |status| status.to_string())
}

/// The guardian says on its standard input, where that is a socket, that it runs.
pub(super) fn tell_running() {
    tell(&format!("{RUNS}{}\n", std::process::id()));
}

/// And how it ended.
pub(super) fn tell_ended(code: u8) {
    tell(&format!("{ENDED}{code}\n"));
}

fn tell(line: &str) {
    let _ = rustix::net::send(std::io::stdin(), line.as_bytes(), rustix::net::SendFlags::NOSIGNAL);
}
