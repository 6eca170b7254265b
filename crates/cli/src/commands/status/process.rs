//! Reads a process from outside: its status page and its CPU time.
//!
//! Source: `Documentation/filesystems/proc.rst` (`maps`, `mem`, `stat`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use nearwire_socket::kernel_tables::packet_filters::PacketFilters;
use nearwire_socket::status::{NAME, PAGE_BYTES, PageError, Process, Reader, Status};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

/// How often a page is copied that changes all the time, before a copy is shown that may be inconsistent.
const COPIES_MAX: usize = 8;
const LIBRARY: &str = "libnearwire_preload.so";

/// The result of a look at a process.
pub enum Looked {
    Page(Box<Process>),
    /// It has no status page.
    NoPage {
        name: String,
        why: String,
    },
}

/// Why a process could not be inspected.
#[derive(Debug)]
pub enum LookError {
    Gone { pid: i32 },
    NotAllowed { pid: i32, source: io::Error },
    Unreadable { pid: i32, source: io::Error },
    NotAPage { pid: i32, source: PageError },
}

impl std::fmt::Display for LookError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone { pid } => {
                write!(f, "no process {pid}; nearwire status lists those that run under nearwire run")
            }
            Self::NotAllowed { pid, source } => write!(f, "look into process {pid}: {source}; {}", advice()),
            Self::Unreadable { pid, source } => write!(f, "look into process {pid}: {source}"),
            Self::NotAPage { pid, source } => write!(f, "read the status page of process {pid}: {source}"),
        }
    }
}

impl std::error::Error for LookError {}

/// What to do where the kernel does not allow this process to read the memory of another (`ptrace_may_access`).
pub fn advice() -> &'static str {
    let may_trace = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE));
    if may_trace {
        "CAP_SYS_PTRACE is in effect, so the process belongs to another user namespace, or a security module protects it: run this \
         command in its namespace, or see the module's log"
    } else if geteuid().is_root() {
        "root does not have CAP_SYS_PTRACE here: add it to the container or service in which this runs"
    } else {
        "run as root (CAP_SYS_PTRACE); for dumpable processes of your own, kernel.yama.ptrace_scope = 0 is enough"
    }
}

impl LookError {
    pub fn of(pid: i32, source: io::Error) -> LookError {
        match (source.kind(), source.raw_os_error().and_then(|code| u32::try_from(code).ok())) {
            (io::ErrorKind::NotFound, _) => Self::Gone { pid },
            (_, Some(code)) if code == rustix::io::Errno::SRCH.raw_os_error().unsigned_abs() => Self::Gone { pid },
            (io::ErrorKind::PermissionDenied, _) => Self::NotAllowed { pid, source },
            _ => Self::Unreadable { pid, source },
        }
    }
}

/// The pids of all processes, ascending.
pub fn all() -> io::Result<Vec<i32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let mut pids: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// Finds the status page of a process and reads it.
pub fn look(pid: i32) -> Result<Looked, LookError> {
    let error = |source| LookError::of(pid, source);
    let stat = Stat::read(pid).map_err(error)?;
    let name = stat.name.clone();
    let maps = fs::read(format!("/proc/{pid}/maps")).map_err(error)?;
    let maps = String::from_utf8_lossy(&maps);
    let Some(range) = page_in(&maps) else {
        return Ok(Looked::NoPage { why: why_no_page(pid, &maps), name });
    };
    let status = copied(pid, range)?;
    // 0: the process could not read its start time, since /proc was not mounted.
    if status.started_ticks != 0 && status.started_ticks != stat.started_ticks {
        let why = format!("its status page is that of process {}, from which it was forked", status.pid);
        return Ok(Looked::NoPage { name, why });
    }
    let age = Process::age_of(stat.started_ticks);
    Ok(Looked::Page(Box::new(Process {
        pid,
        name,
        status,
        age,
        cpu: Process::time_of(stat.cpu_ticks),
        filters: PacketFilters::default(),
        hidden_tags: Vec::new(),
    })))
}

/// The address of a process's status page in its memory.
pub fn page_address(pid: i32) -> Result<u64, LookError> {
    let maps = fs::read(format!("/proc/{pid}/maps")).map_err(|source| LookError::of(pid, source))?;
    page_in(&String::from_utf8_lossy(&maps)).map(|(begin, _)| begin).ok_or(LookError::Gone { pid })
}

fn why_no_page(pid: i32, maps: &str) -> String {
    if maps.lines().any(|line| line.ends_with(LIBRARY)) {
        return "the library is loaded, and the program has opened no socket yet".to_owned();
    }
    if maps.is_empty() {
        return "it is a kernel thread or has ended".to_owned();
    }
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let is_preloaded = |variable: &[u8]| {
        variable.starts_with(b"LD_PRELOAD=") && variable.windows(LIBRARY.len()).any(|part| part == LIBRARY.as_bytes())
    };
    if variables.split(|byte| *byte == 0).any(is_preloaded) {
        return "LD_PRELOAD names the library, and the dynamic linker did not load it: the program is static or set-user-ID, or \
                has just started"
            .to_owned();
    }
    "it was not started by nearwire run".to_owned()
}

/// The address and length in bytes of the page's mapping. A process can have several mappings of that name; the first counts.
fn page_in(maps: &str) -> Option<(u64, u64)> {
    let mapping = format!("/memfd:{} (deleted)", NAME.to_str().unwrap_or_default());
    let line = maps.lines().find(|line| line.ends_with(&mapping))?;
    let (begin, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let [begin, end] = [begin, end].map(|hex| u64::from_str_radix(hex, 16).ok());
    Some((begin?, end?.checked_sub(begin?)?))
}

/// A copy of the page that did not change while it was copied, if one of several attempts gives one.
fn copied(pid: i32, (begin, length_bytes): (u64, u64)) -> Result<Status, LookError> {
    let error = |source| LookError::of(pid, source);
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(error)?;
    let mut bytes = vec![0; usize::try_from(length_bytes).unwrap_or(usize::MAX).min(PAGE_BYTES)];
    let mut copies = 0;
    loop {
        memory.read_exact_at(&mut bytes, begin).map_err(|source| match source.kind() {
            // Nothing is mapped there: the process ended, or executed another program.
            io::ErrorKind::UnexpectedEof => LookError::Gone { pid },
            _ => LookError::of(pid, source),
        })?;
        let status = Reader::new(&bytes).map_err(|source| LookError::NotAPage { pid, source })?.status();
        copies += 1;
        if !status.is_torn || copies == COPIES_MAX {
            return Ok(status);
        }
    }
}

/// Of `/proc/PID/stat`.
struct Stat {
    name: String,
    started_ticks: u64,
    cpu_ticks: u64,
}

impl Stat {
    fn read(pid: i32) -> io::Result<Stat> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(text: &str) -> Option<Stat> {
        // The name may contain any characters, also parentheses and spaces.
        let (before, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // The first field after the name is number 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            name: before.split_once('(')?.1.replace(char::is_control, "\u{fffd}"),
            started_ticks: number(22)?,
            cpu_ticks: number(14)?.saturating_add(number(15)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_searched_is_found_by_its_whole_name() {
        let maps = "7f00-7f10 rw-s 00000000 00:01 9  /memfd:nearwire-status-of-somebody (deleted)\n\
                    7f8000001000-7f8000003000 rw-s 00000000 00:01 12  /memfd:nearwire-status (deleted)\n";
        assert_eq!(page_in(maps), Some((0x7f80_0000_1000, 0x2000)));
        assert_eq!(page_in("zz-1 rw /memfd:nearwire-status (deleted)"), None);
        assert_eq!(page_in("9-1 rw /memfd:nearwire-status (deleted)"), None);
    }

    #[test]
    fn line_of_a_process_with_an_odd_name_is_read() {
        let text = format!("7 (a) b (c) S {}{}", "1 ".repeat(10), "5 6 1 1 1 1 1 1 99 1");
        let stat = Stat::parse(&text).unwrap();
        assert_eq!((stat.name.as_str(), stat.started_ticks, stat.cpu_ticks), ("a) b (c", 99, 11));
        assert!(Stat::parse("7 (a").is_none() && Stat::parse("7 (a) S 1").is_none());
    }
}
