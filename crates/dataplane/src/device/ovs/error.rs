//! Why there is no switch.

use std::io;
use std::path::{Path, PathBuf};

use nearwire_lab::LabError;
use rustix::process::{Resource, getrlimit};

use super::OvsPorts;

/// Lines of a log that an error has.
const LOG_LINES: usize = 8;
/// What the log says where the kernel does not let the switch lock a packet memory: ENOBUFS.
const MEMORY_REFUSED: &str = "xsk_umem__create failed: No buffer space available";

/// Why Open vSwitch does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OvsError {
    /// It is not installed.
    #[error("{program} was not found; Debian's package '{package}' has it")]
    MissingProgram {
        /// The program.
        program: &'static str,
        /// The package.
        package: &'static str,
    },
    /// Its programs are there without the description of its database.
    #[error("there is no share/openvswitch/vswitch.ovsschema beside {}", program.display())]
    MissingSchema {
        /// The program that was found.
        program: PathBuf,
    },
    /// The namespace could not be entered.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A file or directory of the instance.
    #[error("{action}: {source}")]
    Prepare {
        /// What was to be done, as in `make a directory`.
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A daemon ended by itself.
    #[error("{daemon} ended; the last lines of its log:\n{log}")]
    Ended {
        /// Which one.
        daemon: &'static str,
        /// The last lines of its log.
        log: String,
    },
    /// A daemon does not answer.
    #[error("{daemon} did not come up within {waited_ms} ms; the last lines of its log:\n{log}")]
    NotUp {
        /// Which one.
        daemon: &'static str,
        /// For how long it had time.
        waited_ms: u64,
        /// The last lines of its log.
        log: String,
    },
    /// A command failed.
    #[error("{command}: {said}")]
    Command {
        /// The command.
        command: String,
        /// What it said.
        said: String,
    },
    /// The switch does not take a port.
    #[error("Open vSwitch refused port {interface} (type {}): {said}; its log:\n{log}", as_ports.interface_type())]
    PortRefused {
        /// The interface.
        interface: String,
        /// As what it was to be opened.
        as_ports: OvsPorts,
        /// The column `error` of the table Interface.
        said: String,
        /// Warnings and errors of the switch's log.
        log: String,
    },
    /// The kernel does not let the switch lock the packet memory of an AF_XDP port.
    #[error(
        "Open vSwitch may not lock the packet memory of port {interface}: it has no CAP_IPC_LOCK, and {}",
        limit_of(*limit_bytes)
    )]
    LockedMemory {
        /// The interface.
        interface: String,
        /// `RLIMIT_MEMLOCK`; `None` is no limit.
        limit_bytes: Option<u64>,
    },
    /// A command said something that is not understood.
    #[error("{command} said what is not understood: {said}")]
    Unreadable {
        /// The command.
        command: &'static str,
        /// What it said.
        said: String,
    },
}

impl OvsError {
    pub(super) fn prepare(action: impl Into<String>) -> impl FnOnce(io::Error) -> OvsError {
        let action = action.into();
        move |source| OvsError::Prepare { action, source }
    }

    /// Of a port that has an `error` in the database; that says little, so the log is searched for the reason.
    pub(super) fn refused(interface: &str, as_ports: OvsPorts, said: &str, log: &Path) -> OvsError {
        let interface = interface.to_owned();
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if text.contains(MEMORY_REFUSED) {
            return OvsError::LockedMemory { interface, limit_bytes: getrlimit(Resource::Memlock).current };
        }
        OvsError::PortRefused { interface, as_ports, said: said.to_owned(), log: first_complaints(&text) }
    }
}

fn limit_of(limit_bytes: Option<u64>) -> String {
    limit_bytes.map_or_else(|| "RLIMIT_MEMLOCK has no limit".into(), |bytes| format!("RLIMIT_MEMLOCK is {bytes} bytes"))
}

/// The first warnings and errors: the switch tries again and again, with the same words.
fn first_complaints(log: &str) -> String {
    let complains = |line: &&str| line.contains("|ERR|") || line.contains("|WARN|");
    indented(log.lines().filter(complains).take(LOG_LINES))
}

/// The last lines of a file.
pub(super) fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    indented(lines[lines.len().saturating_sub(LOG_LINES)..].iter().copied())
}

fn indented<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the log of version 3.1.0, without times.
    const NO_MEMORY: &str = "\
        50|netdev_afxdp|ERR|setrlimit(RLIMIT_MEMLOCK) failed: Operation not permitted\n\
        51|netdev_afxdp|ERR|xsk_umem__create failed: No buffer space available.\n";
    const NO_ZERO_COPY: &str = "\
        49|netdev_afxdp|INFO|nw2: Setting XDP mode to native-with-zerocopy.\n\
        51|netdev_afxdp|ERR|xsk_socket__create failed (Operation not supported) mode: native-with-zerocopy, use-need-wakeup: true, qid: 0\n";

    fn refused(log: &str) -> OvsError {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, log).unwrap();
        OvsError::refused(
            "nw2",
            OvsPorts::Afxdp,
            "could not add network device nw2 to ofproto (Invalid argument)",
            &path,
        )
    }

    #[test]
    fn memory_that_may_not_be_locked_is_told_with_the_limit() {
        let error = refused(NO_MEMORY);
        assert!(matches!(error, OvsError::LockedMemory { .. }), "{error}");
        assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}");
    }

    #[test]
    fn port_refused_is_told_in_words_of_the_switch() {
        let error = refused(NO_ZERO_COPY).to_string();
        assert!(error.contains("type afxdp") && error.contains("Invalid argument"), "{error}");
        assert!(error.contains("Operation not supported") && !error.contains("Setting XDP mode"), "{error}");
    }

    #[test]
    fn last_lines_of_a_log_are_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert_eq!(last_lines(&path), "");
        std::fs::write(&path, (0..20).map(|line| format!("line {line}\n")).collect::<String>()).unwrap();
        assert!(last_lines(&path).starts_with("  line 12\n") && last_lines(&path).ends_with("  line 19"));
    }
}
