//! Commands to the init of an emulated host, and their answers, over a virtio serial port.
//!
//! ```text
//! ours                                      the init
//!                                      <---  ready\n
//!   "18 0\n" and a script of 18 bytes  --->
//!                                      <---  "0 6 0\n", 6 bytes of output, none of errors
//! ```
//!
//! One command at a time. The end of the channel makes the init power the host off.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A pipe that poll(2) calls writable takes this much without blocking (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// What a command inside left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOutput {
    /// Its exit status; 128 and the number of a signal that ended it.
    pub status: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl HostOutput {
    /// Standard output as text, without white space around it.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    /// Standard error as text, without white space around it.
    #[must_use]
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The other end is gone.
    Ended,
    /// The time is up.
    TimedOut,
    /// Something else than an answer came.
    Unintelligible(String),
    /// A system call failed.
    Failed(io::Error),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Ended } else { Self::Failed(error) }
    }
}

/// Our end of the channel.
#[derive(Debug)]
pub(super) struct Channel {
    requests: ChildStdin,
    answers: ChildStdout,
    /// What came and was not asked for yet.
    ahead: Vec<u8>,
}

impl Channel {
    pub(super) fn new((requests, answers): (ChildStdin, ChildStdout)) -> Self {
        Self { requests, answers, ahead: Vec::new() }
    }

    /// Waits until the init serves requests.
    pub(super) fn hear_ready(&mut self, deadline: Instant) -> Result<(), NoAnswer> {
        let line = self.line(deadline)?;
        if line == "ready" { Ok(()) } else { Err(NoAnswer::Unintelligible(line)) }
    }

    /// Has a shell script run.
    pub(super) fn run(&mut self, script: &str, input: &[u8], deadline: Instant) -> Result<HostOutput, NoAnswer> {
        self.tell(script, input, deadline)?;
        let line = self.line(deadline)?;
        let Some((status, stdout_bytes, stderr_bytes)) = answer(&line) else {
            return Err(NoAnswer::Unintelligible(line));
        };
        let stdout = self.take(stdout_bytes, deadline)?;
        let stderr = self.take(stderr_bytes, deadline)?;
        Ok(HostOutput { status, stdout, stderr })
    }

    /// Sends a script without waiting for its answer.
    pub(super) fn tell(&mut self, script: &str, input: &[u8], deadline: Instant) -> Result<(), NoAnswer> {
        // A script of no bytes would be no block for dd.
        let mut request = format!("{} {}\n{script}\n", script.len() + 1, input.len()).into_bytes();
        request.extend_from_slice(input);
        for part in request.chunks(PIPE_BYTES) {
            wait(&self.requests, PollFlags::OUT, deadline)?;
            self.requests.write_all(part)?;
        }
        Ok(())
    }

    /// Reads until the other end is gone.
    pub(super) fn hear_end(&mut self, deadline: Instant) -> Result<(), NoAnswer> {
        loop {
            match self.read(deadline) {
                Ok(()) => {}
                Err(NoAnswer::Ended) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn line(&mut self, deadline: Instant) -> Result<String, NoAnswer> {
        loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                let line = self.ahead.drain(..=end).collect::<Vec<_>>();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.read(deadline)?;
        }
    }

    fn take(&mut self, length_bytes: usize, deadline: Instant) -> Result<Vec<u8>, NoAnswer> {
        while self.ahead.len() < length_bytes {
            self.read(deadline)?;
        }
        Ok(self.ahead.drain(..length_bytes).collect())
    }

    fn read(&mut self, deadline: Instant) -> Result<(), NoAnswer> {
        wait(&self.answers, PollFlags::IN, deadline)?;
        let mut bytes = [0; 16 * PIPE_BYTES];
        let read_bytes = self.answers.read(&mut bytes)?;
        if read_bytes == 0 {
            return Err(NoAnswer::Ended);
        }
        self.ahead.extend_from_slice(&bytes[..read_bytes]);
        Ok(())
    }
}

/// Status, bytes of output, bytes of errors.
fn answer(line: &str) -> Option<(i32, usize, usize)> {
    let mut words = line.split(' ');
    let answer = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(answer)
}

/// Waits until `pipe` can be read or written, or its other end is gone.
fn wait(pipe: &impl AsFd, flags: PollFlags, deadline: Instant) -> Result<(), NoAnswer> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(NoAnswer::TimedOut);
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(pipe, flags)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(NoAnswer::Failed(error.into())),
        }
    }
}
