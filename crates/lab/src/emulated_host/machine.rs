//! A QEMU process: started, killed, and gone with whoever started it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use nearwire_sys::affinity::pin_current_thread;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::EmulatedHostError;
use super::memory_file::MemoryFile;
use super::system::{prepare, program};
use crate::Namespace;

/// Where the process is that emulates a host.
#[derive(Debug, Clone, Default)]
pub struct HostPlace {
    /// The network namespace in which it makes its tap devices. `None`: an anonymous one where it needs any.
    pub namespace: Option<Namespace>,
    /// The CPU that all its threads run on. `None`: any.
    pub cpu: Option<u32>,
}

/// A running QEMU.
///
/// A thread of its own starts the process and waits for it. The kernel kills the process when that thread ends
/// (`PR_SET_PDEATHSIG` is about the thread that forked), which is when this process ends: a test that started a host on one
/// thread and uses it on another does not lose it.
#[derive(Debug)]
pub(super) struct Machine {
    process: OwnedFd,
    keeper: Option<JoinHandle<io::Result<ExitStatus>>>,
}

/// The two directions of the channel, as pipes.
pub(super) type Pipes = (ChildStdin, ChildStdout);

type Started = (OwnedFd, ChildStdin, ChildStdout);

impl Machine {
    /// Starts QEMU with these arguments in its place. What it says goes to `said`.
    pub(super) fn start(
        arguments: Vec<String>,
        said: &MemoryFile,
        place: HostPlace,
    ) -> Result<(Self, Pipes), EmulatedHostError> {
        let qemu = program("qemu-system-x86_64", "qemu-system-x86")?;
        let setpriv = program("setpriv", "util-linux")?;
        let failed = |source| prepare(format!("start {}", qemu.display()), source);
        let command = command(&setpriv, &qemu, arguments, said).map_err(failed)?;
        let (tell, hear) = mpsc::channel();
        let keep = move || keep(command, &place, &tell);
        let keeper = std::thread::Builder::new().name("emulated-host".into()).spawn(keep).map_err(failed)?;
        match hear.recv() {
            Ok((process, stdin, stdout)) => Ok((Self { process, keeper: Some(keeper) }, (stdin, stdout))),
            // It said nothing: then it has ended, with the reason.
            Err(_) => Err(failed(ended(keeper).err().unwrap_or_else(|| io::Error::other("it ended at once")))),
        }
    }

    /// True when the process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.keeper.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Pulls the plug and waits until the process is gone.
    pub(super) fn kill(&mut self) {
        // It may have ended by itself.
        pidfd_send_signal(&self.process, Signal::KILL).ok();
        self.wait();
    }

    /// Waits for the end of a process that is about to end, and says how it ended.
    pub(super) fn wait(&mut self) -> String {
        match self.keeper.take().map(ended) {
            Some(Ok(status)) => status.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "already gone".to_owned(),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(setpriv: &Path, qemu: &Path, arguments: Vec<String>, said: &MemoryFile) -> io::Result<Command> {
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL"]).arg(qemu).args(arguments);
    // Ctrl-C is for the program that uses the host, which ends it.
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said.try_clone()?);
    Ok(command)
}

fn keep(mut command: Command, place: &HostPlace, tell: &mpsc::Sender<Started>) -> io::Result<ExitStatus> {
    if let Some(cpu) = place.cpu {
        // What it starts stays there with all its threads.
        pin_current_thread(cpu)?;
    }
    let mut child = match &place.namespace {
        Some(namespace) => namespace.enter(|| command.spawn()).map_err(io::Error::other)??,
        None => command.spawn()?,
    };
    let pid = Pid::from_child(&child);
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    if let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) {
        tell.send((process, stdin, stdout)).ok();
    }
    child.wait()
}

fn ended(keeper: JoinHandle<io::Result<ExitStatus>>) -> io::Result<ExitStatus> {
    keeper.join().unwrap_or_else(|_| Err(io::Error::other("the thread that waits for it panicked")))
}
