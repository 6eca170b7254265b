//! Who executes: identities and capabilities, from `/proc/self/status`.
//!
//! Sources: proc_pid_status(5), capabilities(7), `security/commoncap.c`.

use std::io;

use rustix::process::{Resource, getrlimit};

/// A capability that AF_XDP needs, by its number in `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Attaching XDP programs.
    NetAdmin = 12,
    /// Opening AF_XDP sockets.
    NetRaw = 13,
    /// Locking memory without limit.
    IpcLock = 14,
    /// All of bpf(2), as before Linux 5.8.
    SysAdmin = 21,
    /// Arithmetic with pointers into packets, by what a packet says (`sanitize_ptr_alu`, kernel/bpf/verifier.c).
    Perfmon = 38,
    /// bpf(2).
    Bpf = 39,
}

/// The process that will execute a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Real and effective user.
    pub uid: u32,
    /// See `uid`.
    pub effective_uid: u32,
    /// Real and effective group.
    pub gid: u32,
    /// See `gid`.
    pub effective_gid: u32,
    /// PR_SET_NO_NEW_PRIVS: no file gives privileges.
    pub has_no_new_privileges: bool,
    /// Sets of capabilities, as bits.
    pub inheritable: u64,
    /// See `inheritable`.
    pub effective: u64,
    /// See `inheritable`.
    pub bounding: u64,
    /// See `inheritable`.
    pub ambient: u64,
    /// RLIMIT_MEMLOCK; `None` for no limit.
    pub memory_lock_limit_bytes: Option<u64>,
}

impl Caller {
    /// The calling process.
    ///
    /// # Errors
    /// `/proc/self/status` cannot be read.
    pub fn of_self() -> io::Result<Caller> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        Ok(Caller { memory_lock_limit_bytes: getrlimit(Resource::Memlock).current, ..Caller::parse(&status) })
    }

    /// Reads the text of `/proc/PID/status`; a line that is not there counts as 0. The limit is not in it.
    #[must_use]
    pub fn parse(status: &str) -> Caller {
        let values = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.unwrap_or_default().split_ascii_whitespace()
        };
        let id = |key: &str, number: usize| values(key).nth(number).and_then(|id| id.parse().ok()).unwrap_or(0);
        let bits = |key: &str| values(key).next().and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
        Caller {
            uid: id("Uid", 0),
            effective_uid: id("Uid", 1),
            gid: id("Gid", 0),
            effective_gid: id("Gid", 1),
            has_no_new_privileges: values("NoNewPrivs").next() == Some("1"),
            inheritable: bits("CapInh"),
            effective: bits("CapEff"),
            bounding: bits("CapBnd"),
            ambient: bits("CapAmb"),
            memory_lock_limit_bytes: None,
        }
    }

    /// The capabilities of a program without privileges of its own that this process executes: root's are the
    /// inheritable and the bounding set, those of others the ambient set.
    #[must_use]
    pub fn after_exec(&self) -> u64 {
        if self.effective_uid == 0 { self.inheritable | self.bounding } else { self.ambient }
    }
}

impl Capability {
    /// Whether a set has it.
    #[must_use]
    pub const fn is_in(self, set: u64) -> bool {
        set >> (self as u32) & 1 == 1
    }
}
