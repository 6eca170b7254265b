//! Processes at the two ends of the cable, with the kernel's sockets or under `nearwire run`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearwire_lab::CableEnd;
use nearwire_sys::affinity::pin_current_thread_to;
use rustix::process::{Pid, Signal, kill_process};

use crate::{AnyError, INITIATOR_CPU, NEARWIRE, RESPONDER_CPU};

/// How long the server may take to listen.
pub const SERVER_READY: Duration = Duration::from_millis(300);

/// Whose sockets a program has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    Kernel,
    Nearwire,
    /// With the profile for most datagrams a second.
    Throughput,
    /// Calls that wait sleep at once: programs that have nothing to do leave the CPU to others.
    Asleep,
    /// As `nearwire run` is without options.
    Usual,
    /// As [`Sockets::Nearwire`], of the nearwire that `BASE` in the environment names.
    Base,
}

/// The nearwire that this one is compared with, where `BASE` in the environment names one.
pub fn base() -> Option<OsString> {
    std::env::var_os("BASE")
}

/// A program to start. Pinned to one CPU it would sleep by itself, and the far end has a CPU of its own here: it spins.
pub fn command(sockets: Sockets, program: &OsStr) -> Command {
    match sockets {
        Sockets::Kernel => Command::new(program),
        Sockets::Usual => {
            let mut command = Command::new(NEARWIRE);
            command.args(["run", "--quiet", "--"]).arg(program);
            command
        }
        Sockets::Nearwire | Sockets::Throughput | Sockets::Asleep | Sockets::Base => {
            let profile = if sockets == Sockets::Throughput { "throughput" } else { "latency" };
            let base = (sockets == Sockets::Base).then(base).flatten();
            let mut command = Command::new(base.unwrap_or_else(|| NEARWIRE.into()));
            command.args(["run", "--quiet", "--strict", "--profile", profile, "--"]).arg(program);
            if sockets == Sockets::Asleep {
                command.env("NEARWIRE_SPIN", "0");
            }
            command
        }
    }
}

/// Starts it at an end, on a CPU: a program runs where the thread that starts it does.
pub fn start(command: Command, end: &CableEnd, cpu: u32) -> Result<Running, AnyError> {
    start_on(command, end, &[cpu])
}

/// Starts it at an end, on both CPUs.
pub fn start_anywhere(command: Command, end: &CableEnd) -> Result<Running, AnyError> {
    start_on(command, end, &[INITIATOR_CPU, RESPONDER_CPU])
}

/// Starts it at an end, on some CPUs.
pub fn start_on(mut command: Command, end: &CableEnd, cpus: &[u32]) -> Result<Running, AnyError> {
    let complaints = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints.try_clone()?);
    let (namespace, cpus) = (end.namespace.clone(), cpus.to_vec());
    let started = std::thread::spawn(move || {
        pin_current_thread_to(&cpus).map_err(|errno| format!("pin to CPUs {cpus:?}: {errno}"))?;
        let program = command.get_program().to_owned();
        let child = namespace.enter(|| command.spawn()).map_err(|error| error.to_string())?;
        child.map_err(|error| format!("start {}: {error}; install it (make targets does)", program.display()))
    });
    let child = started.join().map_err(|_| "the starting thread failed")??;
    Ok(Running { child, complaints })
}

/// A process that is ended when this is dropped: servers do not leave by themselves.
pub struct Running {
    child: Child,
    /// What it writes to its standard error.
    complaints: File,
}

impl Running {
    /// Waits for its first line.
    pub fn await_line(&mut self) -> Result<(), AnyError> {
        let mut byte = [0; 1];
        while byte != *b"\n" {
            let output = self.child.stdout.as_mut().ok_or("its output was taken")?;
            if output.read_exact(&mut byte).is_err() {
                return Err(format!("a program ended before it was ready: {}", self.complaint()?).into());
            }
        }
        Ok(())
    }

    /// Gives it the time to be ready; an error, with what it complained about, where it has ended.
    pub fn await_ready(&mut self) -> Result<(), AnyError> {
        std::thread::sleep(SERVER_READY);
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("a program ended with {status}: {}", self.complaint()?).into()),
        }
    }

    /// Leaves the CPU to others, with all that it has open.
    pub fn stop(&self) -> Result<(), AnyError> {
        self.signal(Signal::STOP)
    }

    /// Goes on after [`Self::stop`].
    pub fn go_on(&self) -> Result<(), AnyError> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), AnyError> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// What it printed until its end; an error, with what it complained about, where it failed.
    pub fn output(mut self) -> Result<String, AnyError> {
        let mut text = String::new();
        if let Some(mut output) = self.child.stdout.take() {
            output.read_to_string(&mut text)?;
        }
        let status = self.child.wait()?;
        if status.success() {
            Ok(text)
        } else {
            Err(format!("a program ended with {status}: {}", self.complaint()?).into())
        }
    }

    /// Of one that has ended. Some complain on their standard output.
    fn complaint(&mut self) -> Result<String, AnyError> {
        let mut text = String::new();
        self.complaints.rewind()?;
        self.complaints.read_to_string(&mut text)?;
        if let Some(mut output) = self.child.stdout.take() {
            output.read_to_string(&mut text)?;
        }
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
