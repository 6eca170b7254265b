//! Which host, which boot, which network namespace.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Root;

/// What tells a host from others without giving its identity away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIdentity {
    /// A hash of the machine id; `None` where there is none, as in some containers.
    pub machine: Option<String>,
    /// The kernel's id of this boot.
    pub boot: Option<String>,
    /// The inode of the calling thread's network namespace, on a live host.
    pub network: Option<u64>,
    /// The directory of a copy of a host's files; `None` on a live host. What was written into a copy is never put back
    /// on the host itself, whose values may look the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<PathBuf>,
}

impl HostIdentity {
    /// The identity of the host below a root.
    #[must_use]
    pub fn of(root: &Root) -> Self {
        let read = |path| root.read(path).ok().filter(|text| !text.is_empty());
        let namespace = || std::fs::metadata("/proc/thread-self/ns/net").ok().map(|namespace| namespace.ino());
        Self {
            machine: read("/etc/machine-id").map(|id| hash(&id)),
            boot: read("/proc/sys/kernel/random/boot_id"),
            network: if root.is_live() { namespace() } else { None },
            copy: (!root.is_live()).then(|| root.place()),
        }
    }

    /// Whether both machines are known and differ, or either is a copy of files and the other is not that one.
    pub(super) fn is_other_machine(&self, other: &Self) -> bool {
        self.copy != other.copy || differ(self.machine.as_ref(), other.machine.as_ref())
    }

    /// Whether the host was booted in between.
    #[must_use]
    pub fn is_other_boot(&self, other: &Self) -> bool {
        differ(self.boot.as_ref(), other.boot.as_ref())
    }

    /// Whether it is another network namespace; a boot makes all of them anew.
    pub(super) fn is_other_network(&self, other: &Self) -> bool {
        !self.is_other_boot(other) && differ(self.network.as_ref(), other.network.as_ref())
    }
}

fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

/// FNV-1a over the id with a name before it (machine-id(5) asks not to show the id itself). 64 bits
/// cannot be turned back into 128.
fn hash(id: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = "nearwire journal ".bytes().chain(id.trim().bytes());
    format!("{:016x}", bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
}
