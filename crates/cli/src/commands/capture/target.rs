//! The process whose frames are captured. It is asked for a ring through words of its status page (`nearwire_socket::capture`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use anyhow::{Context, anyhow};
use nearwire_socket::capture::{Answer, NAME, Request, RingError, RingReader};
use nearwire_socket::status::CAPTURE_AT_BYTES;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::now_ns;
use crate::commands::status::process::{LookError, page_address};
use crate::commands::status::{find, refused};
use crate::exit::{CANNOT, Failure, OrExit, USAGE};

const WORD_BYTES: usize = size_of::<u64>();

/// A process with a status page of its own.
pub struct Target {
    pub pid: i32,
    pub name: String,
    /// Its engine runs.
    pub is_running: bool,
    memory: File,
    words_at: u64,
}

/// The request and the answer in the status page.
struct Words {
    request: [u64; 2],
    answer: Option<Answer>,
}

impl Target {
    /// Finds the process; fails if another command captures it.
    pub fn find(pid: i32) -> Result<Target, Failure> {
        let process = find(pid, "capture")?;
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.map_err(|source| refused(LookError::of(pid, source)))?;
        let words_at = page_address(pid).map_err(refused)? + CAPTURE_AT_BYTES as u64;
        let is_running = process.status.engine == Some(nearwire_socket::status::EngineState::Running);
        let target = Target { pid, name: process.name, is_running, memory, words_at };
        let words = target.words().map_err(|_| target.ended())?;
        match target.capturer(&words) {
            Some(capturer) => Err(target.busy(capturer)),
            None => Ok(target),
        }
    }

    /// Whether the process still runs the program whose page was found.
    pub fn is_there(&self) -> bool {
        self.words().is_ok()
    }

    fn words(&self) -> io::Result<Words> {
        let mut bytes = [0; 3 * WORD_BYTES];
        self.memory.read_exact_at(&mut bytes, self.words_at)?;
        let (words, _) = bytes.as_chunks::<WORD_BYTES>();
        let [request, complement, answer] = [0, 1, 2].map(|at| u64::from_ne_bytes(words[at]));
        Ok(Words { request: [request, complement], answer: Answer::of_word(answer) })
    }

    fn write(&self, words: [u64; 2]) -> io::Result<()> {
        self.memory.write_all_at(&words.map(u64::to_ne_bytes).concat(), self.words_at)
    }

    /// Asks for a ring.
    pub fn ask(&self, ring_log2_bytes: u32, snap_bytes: u16) -> Result<Request, Failure> {
        let pid = self.pid;
        let words = self.words().map_err(|_| self.ended())?;
        let before = Request::of_words(words.request).map_or(0, |request| request.number);
        let mut number = now_ns() as u32 & 0xf_ffff;
        if number == before {
            number ^= 1;
        }
        let request = Request { pid: std::process::id(), number, ring_log2_bytes, snap_bytes };
        self.write(request.words()).with_context(|| format!("ask process {pid} for its frames")).or_exit(CANNOT)?;
        Ok(request)
    }

    /// The process that captures it, or has asked to.
    fn capturer(&self, words: &Words) -> Option<u32> {
        let reader = match words.answer {
            Some(Answer::Ready { fd, .. }) => self.open(fd).ok().and_then(|ring| RingReader::reader_of(&ring).ok()?),
            _ => None,
        };
        let request = Request::of_words(words.request)?;
        let is_over = words
            .answer
            .is_some_and(|answer| answer.number() == request.number && !matches!(answer, Answer::Ready { .. }));
        reader.or_else(|| (!is_over && is_capturing(request.pid)).then_some(request.pid))
    }

    fn open(&self, fd: u32) -> io::Result<OwnedFd> {
        let link = format!("/proc/{}/fd/{fd}", self.pid);
        let is_ring = fs::read_link(&link)?.to_str() == Some(&format!("/memfd:{} (deleted)", NAME.to_string_lossy()));
        if !is_ring {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // The fd may be something else by now, such as a FIFO: do not wait for that.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        Ok(OpenOptions::new().read(true).write(true).custom_flags(flags).open(link)?.into())
    }

    /// The ring, once the process has answered.
    pub fn answer(&self, request: Request) -> Result<Option<RingReader>, Failure> {
        let Ok(words) = self.words() else { return Ok(None) };
        if words.request != request.words() {
            let other = Request::of_words(words.request).map_or(0, |other| other.pid);
            return Err(self.busy(other));
        }
        let pid = self.pid;
        let cannot = |error: anyhow::Error| Failure { code: CANNOT, error: Some(error) };
        match words.answer.filter(|answer| answer.number() == request.number) {
            None => Ok(None),
            Some(Answer::Ready { fd, .. }) => self.begin(fd).map(Some),
            Some(Answer::Refused { errno, .. }) => {
                let error = io::Error::from_raw_os_error(errno.cast_signed());
                Err(cannot(anyhow!(
                    "process {pid} could not allocate memory for its frames: {error}; a smaller --ring needs less"
                )))
            }
            Some(Answer::Busy { .. }) => Err(self.busy(0)),
            Some(Answer::Ended { .. }) => Err(cannot(anyhow!(
                "process {pid} ended the capture, because its ring was not opened within a second; try again"
            ))),
        }
    }

    fn begin(&self, fd: u32) -> Result<RingReader, Failure> {
        let pid = self.pid;
        let memory = match self.open(fd) {
            Ok(memory) => memory,
            Err(error) if is_gone(&error) => return Err(self.ended()),
            Err(error) => {
                return Err(error).with_context(|| format!("open the capture ring of process {pid}")).or_exit(CANNOT);
            }
        };
        RingReader::open(memory, std::process::id()).map_err(|error| match error {
            RingError::Busy { pid } => self.busy(pid),
            error => Failure { code: CANNOT, error: Some(anyhow!(error).context(format!("capture process {pid}"))) },
        })
    }

    /// Withdraws a request, unless the page has another one by now.
    pub fn withdraw(&self, request: Request) {
        if self.words().is_ok_and(|words| words.request == request.words()) {
            // This fails if the process has ended, and then nobody reads the request.
            let _ = self.write([0; 2]);
        }
    }

    fn busy(&self, capturer: u32) -> Failure {
        let who = if capturer == 0 { "another command".to_owned() } else { format!("process {capturer}") };
        let error = anyhow!("process {} is captured already, by {who}; end that capture first", self.pid);
        Failure { code: USAGE, error: Some(error) }
    }

    fn ended(&self) -> Failure {
        Failure { code: USAGE, error: Some(anyhow!("process {} ended before it was captured", self.pid)) }
    }
}

/// Whether a pid is that of a living process that may be capturing: one with the name of this process.
fn is_capturing(pid: u32) -> bool {
    let name = |pid: &str| fs::read(format!("/proc/{pid}/comm")).ok();
    pid != std::process::id() && name(&pid.to_string()).is_some_and(|found| Some(found) == name("self"))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}
