//! Runs a program in a process group of its own, for a limited time, and takes what it prints.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nearwire_sys::usage::{ended_child_cpu_ns, interrupted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// How often it is checked whether the user interrupts.
const TICK: Duration = Duration::from_millis(100);
/// How long the output of an ended program is read on: a process that left its group may hold it open.
const GRACE: Duration = Duration::from_millis(500);
/// More output than this is no summary.
const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// A program that ended by itself.
#[derive(Debug)]
pub(super) struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it printed on standard error.
    pub stderr: Vec<u8>,
    /// CPU time of it and of the processes that it waited for, ns.
    pub cpu_ns: u64,
}

/// Why a program did not end by itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    /// It did not start.
    #[error("{0}")]
    Start(io::Error),
    /// It took too long.
    #[error("it did not end in {}, and was killed; let it measure for a shorter time, or allow it more", seconds(*limit))]
    TimeOver {
        /// The time allowed.
        limit: Duration,
    },
    /// The user ended it.
    #[error("it was interrupted, and killed")]
    Interrupted,
    /// It printed without end.
    #[error("it printed more than {} MiB, and was killed; let it print its result alone", OUTPUT_BYTES_MAX >> 20)]
    TooMuch,
    /// The kernel refused to tell of it.
    #[error("wait for it: {0}")]
    Wait(io::Error),
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// Runs a program until it ends, and kills what it left in its group.
pub(super) fn run(argv: &[OsString], limit: Duration) -> Result<Finished, ProcessError> {
    let mut group = Group::start(argv).map_err(ProcessError::Start)?;
    let deadline = Instant::now().checked_add(limit);
    while !group.has_ended {
        if interrupted() {
            return Err(ProcessError::Interrupted);
        }
        let left = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(ProcessError::TimeOver { limit });
        }
        group.turn(left.min(TICK))?;
    }
    let cpu_ns = ended_child_cpu_ns(group.child.id()).map_err(ProcessError::Wait)?;
    // The program is not waited for yet, so no other group has its number.
    group.kill();
    let end = Instant::now() + GRACE;
    while !group.is_silent() && Instant::now() < end {
        group.turn(TICK)?;
    }
    let status = group.child.wait().map_err(ProcessError::Wait)?;
    group.is_reaped = true;
    let [stdout, stderr] = &mut group.streams;
    Ok(Finished {
        status,
        stdout: std::mem::take(&mut stdout.taken),
        stderr: std::mem::take(&mut stderr.taken),
        cpu_ns,
    })
}

/// A program and what it started. Dropped, all of it ends.
struct Group {
    child: Child,
    process: OwnedFd,
    streams: [Stream; 2],
    has_ended: bool,
    is_reaped: bool,
}

/// One of its outputs.
struct Stream {
    /// None once it is closed.
    from: Option<Box<dyn Output>>,
    taken: Vec<u8>,
}

trait Output: Read + AsFd {}
impl<T: Read + AsFd> Output for T {}

impl Group {
    fn start(argv: &[OsString]) -> io::Result<Group> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no program to run"));
        };
        let mut command = Command::new(program);
        command.args(arguments).env("LC_ALL", "C").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().map(|output| Box::new(output) as Box<dyn Output>);
        let stderr = child.stderr.take().map(|output| Box::new(output) as Box<dyn Output>);
        let streams = [stdout, stderr].map(|from| Stream { from, taken: Vec::new() });
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(process) => Ok(Group { child, process, streams, has_ended: false, is_reaped: false }),
            Err(errno) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                Err(errno.into())
            }
        }
    }

    /// Waits at most this long for output or the end, and takes the output.
    fn turn(&mut self, time: Duration) -> Result<(), ProcessError> {
        // A descriptor of an ended process is always ready.
        let process = (!self.has_ended).then(|| self.process.as_fd());
        let [stdout, stderr] = &self.streams;
        let watched: Vec<(Watched, BorrowedFd)> = [
            process.map(|fd| (Watched::Process, fd)),
            stdout.fd().map(|fd| (Watched::Stream(0), fd)),
            stderr.fd().map(|fd| (Watched::Stream(1), fd)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut fds: Vec<_> = watched.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(ProcessError::Wait(errno.into())),
        }
        let ready = watched.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        let ready: Vec<_> = ready.map(|((watched, _), _)| *watched).collect();
        for watched in ready {
            match watched {
                Watched::Process => self.has_ended = true,
                Watched::Stream(index) => self.streams[index].take()?,
            }
        }
        Ok(())
    }

    fn is_silent(&self) -> bool {
        self.streams.iter().all(|stream| stream.from.is_none())
    }

    fn kill(&self) {
        // ESRCH: nothing is left of it.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

#[derive(Clone, Copy)]
enum Watched {
    Process,
    Stream(usize),
}

impl Stream {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(|from| from.as_fd())
    }

    /// Takes what is there; it is known that there is something, or the end.
    fn take(&mut self) -> Result<(), ProcessError> {
        let Some(from) = &mut self.from else { return Ok(()) };
        let mut buffer = [0; 64 << 10];
        match from.read(&mut buffer) {
            Ok(0) => self.from = None,
            Ok(bytes) if self.taken.len() + bytes > OUTPUT_BYTES_MAX => return Err(ProcessError::TooMuch),
            Ok(bytes) => self.taken.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ProcessError::Wait(error)),
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            let _ = self.child.wait();
        }
    }
}
