//! What a program's file gives to whoever executes it, and when the dynamic linker therefore ignores `LD_PRELOAD`.
//!
//! Sources: `bprm_fill_uid` in `fs/exec.c`, `cap_bprm_creds_from_file` in `security/commoncap.c`, getauxval(3) (AT_SECURE),
//! `include/uapi/linux/capability.h` (`struct vfs_cap_data`).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};

use super::Caller;

const SET_USER: u32 = 0o4000;
/// Without the group's execute bit it means mandatory locking.
const SET_GROUP: u32 = 0o2010;
const ATTRIBUTE: &str = "security.capability";
const EFFECTIVE: u32 = 1;

/// Owner of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOwner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Privileges in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub owner: FileOwner,
    /// File capabilities give something.
    pub has_capabilities: bool,
    /// The file system is mounted nosuid.
    pub is_nosuid: bool,
}

impl Privileges {
    /// Reads those of a file; what cannot be read is not there.
    #[must_use]
    pub fn of_file(path: &Path) -> Privileges {
        let Ok(about) = std::fs::metadata(path) else { return Privileges::default() };
        let mut value = [0; 64];
        let length = getxattr(path, ATTRIBUTE, &mut value[..]).unwrap_or(0);
        Privileges {
            mode: about.mode(),
            owner: FileOwner { uid: about.uid(), gid: about.gid() },
            has_capabilities: gives_capabilities(&value[..length]),
            is_nosuid: statvfs(path).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::NOSUID)),
        }
    }

    /// What of it takes effect, in words; `None` for a file that gives nothing.
    fn words(&self) -> Option<String> {
        let mut words = Vec::new();
        if self.mode & SET_USER != 0 {
            words.push(format!("set-user-ID of user {}", self.owner.uid));
        }
        if self.mode & SET_GROUP == SET_GROUP {
            words.push(format!("set-group-ID of group {}", self.owner.gid));
        }
        if self.has_capabilities {
            words.push("has file capabilities".to_owned());
        }
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Whether the dynamic linker runs in secure mode and ignores `LD_PRELOAD` when this caller executes the file, and why
    /// or why not; `None` for a file without privileges.
    #[must_use]
    pub fn secure_mode(&self, caller: &Caller) -> Option<(bool, String)> {
        let words = self.words()?;
        if self.is_nosuid || caller.has_no_new_privileges {
            let why = if self.is_nosuid { "its file system is mounted nosuid" } else { "no_new_privs is set" };
            return Some((false, format!("{words}, without effect: {why}")));
        }
        let user = if self.mode & SET_USER != 0 { self.owner.uid } else { caller.effective_uid };
        let group = if self.mode & SET_GROUP == SET_GROUP { self.owner.gid } else { caller.effective_gid };
        if user != caller.uid || group != caller.gid {
            return Some((true, format!("{words}, and the caller is user {} of group {}", caller.uid, caller.gid)));
        }
        if self.has_capabilities && caller.uid != 0 {
            return Some((true, format!("{words}, and the caller is not root")));
        }
        Some((false, format!("{words}, which gives this caller nothing new")))
    }
}

/// Whether the value of the attribute has the effective flag or a permitted capability.
fn gives_capabilities(value: &[u8]) -> bool {
    let word = |at: usize| value.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    // magic_etc, then permitted and inheritable, twice.
    word(0) & EFFECTIVE != 0 || word(4) != 0 || word(12) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_in_the_attribute_are_seen() {
        assert!(!gives_capabilities(&[]));
        // cap_net_raw+ep as setcap(8) writes it, revision 2.
        assert!(gives_capabilities(&[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert!(gives_capabilities(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!gives_capabilities(&[0, 0, 0, 2, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn set_user_file_is_secure_for_others_than_its_owner() {
        let file = Privileges { mode: 0o104_755, ..Privileges::default() };
        let user = Caller { uid: 1000, effective_uid: 1000, gid: 0, effective_gid: 0, ..Caller::default() };
        let is_secure = |file: Privileges, caller: Caller| file.secure_mode(&caller).map(|(is_secure, _)| is_secure);
        assert_eq!(is_secure(file, user), Some(true));
        assert_eq!(is_secure(file, Caller::default()), Some(false), "root executes what is root's");
        assert_eq!(
            is_secure(Privileges { owner: FileOwner { uid: 7, gid: 0 }, ..file }, Caller::default()),
            Some(true)
        );
        assert_eq!(is_secure(Privileges { is_nosuid: true, ..file }, user), Some(false));
        assert_eq!(is_secure(file, Caller { has_no_new_privileges: true, ..user }), Some(false));
        assert_eq!(is_secure(Privileges { mode: 0o100_755, ..file }, user), None);
    }

    #[test]
    fn set_group_file_needs_the_groups_execute_bit() {
        let user = Caller { uid: 1, effective_uid: 1, gid: 1, effective_gid: 1, ..Caller::default() };
        let of = |mode| Privileges { mode, ..Privileges::default() }.secure_mode(&user).map(|(is_secure, _)| is_secure);
        assert_eq!(of(0o102_755), Some(true));
        assert_eq!(of(0o102_745), None);
    }

    #[test]
    fn file_capabilities_are_secure_for_all_but_root() {
        let file = Privileges { mode: 0o100_755, has_capabilities: true, ..Privileges::default() };
        assert_eq!(file.secure_mode(&Caller::default()).map(|(is_secure, _)| is_secure), Some(false));
        let user = Caller { uid: 1, effective_uid: 1, ..Caller::default() };
        assert_eq!(file.secure_mode(&user).map(|(is_secure, _)| is_secure), Some(true));
    }
}
