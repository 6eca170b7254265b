//! A daemon: started, ended, and gone with whoever started it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearwire_lab::Namespace;
use nearwire_sys::affinity::pin_current_thread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::OvsError;
use super::error::last_lines;

/// Longest time until a daemon answers. The switch alone takes 0.6 s: it measures the frequency of its clock.
const UP_MOST: Duration = Duration::from_secs(10);
/// How often a socket is tried.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Longest time that a daemon has to end by itself. The switch takes its XDP programs away then.
const END_MOST: Duration = Duration::from_secs(3);

/// How a daemon is started.
#[derive(Debug)]
pub(super) struct DaemonPlan {
    pub(super) name: &'static str,
    /// Also gets what the daemon prints before it has a log.
    pub(super) log: PathBuf,
    pub(super) namespace: Option<Namespace>,
    /// All its threads run here.
    pub(super) cpu: u32,
}

/// A running daemon.
///
/// A thread of its own starts the process and waits for it. The kernel kills the process when that thread ends (`PR_SET_PDEATHSIG` is about
/// the thread that forked), which is when this process ends.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    log: PathBuf,
    process: OwnedFd,
    process_id: u32,
    keeper: Option<JoinHandle<io::Result<ExitStatus>>>,
}

impl Daemon {
    pub(super) fn start(mut command: Command, plan: DaemonPlan) -> Result<Daemon, OvsError> {
        let name = plan.name;
        let failed = |source| OvsError::Start { program: name.to_owned(), source };
        let said = OpenOptions::new().create(true).append(true).open(&plan.log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(said.try_clone().map_err(failed)?).stderr(said);
        let DaemonPlan { log, namespace, cpu, .. } = plan;
        let (tell, hear) = mpsc::channel();
        let keep = move || keep(command, namespace, cpu, &tell);
        let keeper = std::thread::Builder::new().name(name.to_owned()).spawn(keep).map_err(failed)?;
        match hear.recv() {
            Ok((process, process_id)) => Ok(Daemon { name, log, process, process_id, keeper: Some(keeper) }),
            // It told nothing: then it has ended, with the reason.
            Err(_) => Err(failed(end_of(keeper).err().unwrap_or_else(|| io::Error::other("it ended at once")))),
        }
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    pub(super) fn process_id(&self) -> u32 {
        self.process_id
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.ends_within(Duration::ZERO)
    }

    /// Waits until the daemon takes connections.
    pub(super) fn await_socket(&self, socket: &Path) -> Result<(), OvsError> {
        let began = Instant::now();
        while UnixStream::connect(socket).is_err() {
            if self.ends_within(LOOK_INTERVAL) {
                return Err(self.ended());
            }
            if began.elapsed() > UP_MOST {
                let waited_ms = UP_MOST.as_millis() as u64;
                return Err(OvsError::NotUp { daemon: self.name, waited_ms, log: last_lines(&self.log) });
            }
        }
        Ok(())
    }

    /// It has ended, with what it said.
    pub(super) fn ended(&self) -> OvsError {
        OvsError::Ended { daemon: self.name, log: last_lines(&self.log) }
    }

    fn ends_within(&self, most: Duration) -> bool {
        // The seconds and nanoseconds of a short duration fit.
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&most)), Ok(1..))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself, which is no failure here.
        pidfd_send_signal(&self.process, Signal::TERM).ok();
        if !self.ends_within(END_MOST) {
            pidfd_send_signal(&self.process, Signal::KILL).ok();
        }
        self.keeper.take().map(end_of);
    }
}

/// Threads of the process inherit the CPU of the one that starts it.
fn keep(
    mut command: Command,
    namespace: Option<Namespace>,
    cpu: u32,
    tell: &mpsc::Sender<(OwnedFd, u32)>,
) -> io::Result<ExitStatus> {
    pin_current_thread(cpu)?;
    let mut child = match namespace {
        Some(namespace) => namespace.enter(|| command.spawn()).map_err(io::Error::other)??,
        None => command.spawn()?,
    };
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    tell.send((process, child.id())).ok();
    child.wait()
}

fn end_of(keeper: JoinHandle<io::Result<ExitStatus>>) -> io::Result<ExitStatus> {
    keeper.join().unwrap_or_else(|_| Err(io::Error::other("the thread that waits for it panicked")))
}
