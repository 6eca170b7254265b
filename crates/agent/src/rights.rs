//! Who may use the agent, and how much: one file, read whenever a program says hello.
//!
//! ```toml
//! [[allow]]
//! users = ["alice", 1001]        # names of /etc/passwd, or numbers
//! groups = ["traders"]           # names of /etc/group, or numbers; a program has all groups of its process
//! interfaces = ["eth1", "enp*"]  # none named: all
//! memory_mib = 64                # packet memory, shares, flows, programs: of each user alone
//! shares = 8
//! flows = 1024
//! programs = 64
//! ```
//!
//! The first rule that names the user or one of his groups decides. Root and the agent's own user may always use the agent, with
//! the limits of the rule that names them or else [`Allowance::unlisted`]. Without the file nobody else may.
//!
//! Names come from the two files alone, as the agent links no name service: users of LDAP and the like are named by number.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Deserialize;

/// Where the file is.
pub const FILE: &str = "/etc/nearwire/agent.toml";
/// A longer one is refused.
const FILE_MOST_BYTES: u64 = 1024 * 1024;
const GROUP_AND_OTHERS_WRITE: u32 = 0o022;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// It is there and cannot be read.
    #[error("read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Somebody but root and the agent's user could change it.
    #[error("{path} belongs to user {uid} and has mode {mode:o}: only its owner, root or user {own_uid}, may write it")]
    Writable {
        /// The file.
        path: String,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
        /// The agent's user.
        own_uid: u32,
    },
    /// It is not of the form above.
    #[error("{path}: {source}")]
    Form {
        /// The file.
        path: String,
        /// What is wrong, and where.
        source: toml::de::Error,
    },
    /// A name that is in none of the two files.
    #[error("{path}: there is no {what} {name}")]
    NoSuchName {
        /// The file.
        path: String,
        /// `user` or `group`.
        what: &'static str,
        /// The name.
        name: String,
    },
}

/// What a user may have, all his programs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// Patterns of interface names; none: all.
    pub interfaces: Vec<String>,
    /// Packet memory, in bytes.
    pub memory_bytes: u64,
    /// Shares.
    pub shares: u32,
    /// Flows.
    pub flows: u32,
    /// Programs at a time.
    pub programs: u32,
}

impl Allowance {
    /// What root and the agent's user have where no rule names them: as much as a host's programs need, and less than what
    /// exhausts the agent.
    #[must_use]
    pub fn unlisted() -> Allowance {
        Allowance { interfaces: Vec::new(), memory_bytes: 4 << 30, shares: 1024, flows: 65_536, programs: 512 }
    }

    /// What a user whom no rule names has for servers that root started: enough for a worker on each CPU of a large host.
    #[must_use]
    pub fn of_pass() -> Allowance {
        Allowance { interfaces: Vec::new(), memory_bytes: 1 << 30, shares: 256, flows: 16_384, programs: 256 }
    }

    /// Whether programs may have shares on an interface. A `*` at the end of a pattern stands for anything.
    #[must_use]
    pub fn has_interface(&self, name: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        };
        self.interfaces.is_empty() || self.interfaces.iter().any(fits)
    }
}

/// The rules.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    users: Vec<u32>,
    groups: Vec<u32>,
    allowance: Allowance,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    allow: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    users: Vec<Who>,
    #[serde(default)]
    groups: Vec<Who>,
    #[serde(default)]
    interfaces: Vec<String>,
    #[serde(default = "Written::memory_mib")]
    memory_mib: u32,
    #[serde(default = "Written::shares")]
    shares: u32,
    #[serde(default = "Written::flows")]
    flows: u32,
    #[serde(default = "Written::programs")]
    programs: u32,
}

impl Written {
    const fn memory_mib() -> u32 {
        64
    }
    const fn shares() -> u32 {
        16
    }
    const fn flows() -> u32 {
        1024
    }
    const fn programs() -> u32 {
        64
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Who {
    Number(u32),
    Name(String),
}

impl Rights {
    /// Reads the file; no rules where it is missing.
    ///
    /// # Errors
    /// It is there and cannot be trusted or understood.
    pub fn read(path: &Path, own_uid: u32) -> Result<Rights, RightsError> {
        let shown = path.display().to_string();
        let refused = |source| RightsError::Read { path: shown.clone(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Rights::default()),
            Err(error) => return Err(refused(error)),
        };
        let facts = file.metadata().map_err(refused)?;
        let (uid, mode) = (facts.uid(), facts.mode() & 0o7777);
        if (uid != 0 && uid != own_uid) || mode & GROUP_AND_OTHERS_WRITE != 0 {
            return Err(RightsError::Writable { path: shown, uid, mode, own_uid });
        }
        let mut text = String::new();
        file.take(FILE_MOST_BYTES).read_to_string(&mut text).map_err(refused)?;
        Rights::from_text(&shown, &text)
    }

    /// The rules of a text; `path` is what errors call it.
    ///
    /// # Errors
    /// It cannot be understood.
    pub fn from_text(path: &str, text: &str) -> Result<Rights, RightsError> {
        let document: Document =
            toml::from_str(text).map_err(|source| RightsError::Form { path: path.to_owned(), source })?;
        let number = |what, table: &str, who: Who| match who {
            Who::Number(number) => Ok(number),
            Who::Name(name) => {
                number_of(table, &name).ok_or(RightsError::NoSuchName { path: path.to_owned(), what, name })
            }
        };
        let rule = |written: Written| {
            let users = written.users.into_iter().map(|who| number("user", "/etc/passwd", who));
            let groups = written.groups.into_iter().map(|who| number("group", "/etc/group", who));
            let (users, groups) = (users.collect::<Result<_, _>>()?, groups.collect::<Result<_, _>>()?);
            let Written { interfaces, memory_mib, shares, flows, programs, .. } = written;
            let memory_bytes = u64::from(memory_mib) << 20;
            Ok(Rule { users, groups, allowance: Allowance { interfaces, memory_bytes, shares, flows, programs } })
        };
        Ok(Rights { rules: document.allow.into_iter().map(rule).collect::<Result<_, _>>()? })
    }

    /// What a user may have; `None`: nothing.
    #[must_use]
    pub fn of(&self, uid: u32, groups: &[u32], own_uid: u32) -> Option<Allowance> {
        let names = |rule: &&Rule| rule.users.contains(&uid) || rule.groups.iter().any(|gid| groups.contains(gid));
        let listed = self.rules.iter().find(names).map(|rule| rule.allowance.clone());
        listed.or_else(|| (uid == 0 || uid == own_uid).then(Allowance::unlisted))
    }
}

/// The number of a user or group: the third column of its line.
fn number_of(table: &str, name: &str) -> Option<u32> {
    let text = fs::read_to_string(table).ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TEXT: &str = r#"
        [[allow]]
        users = ["root", 1001]
        memory_mib = 8
        flows = 2

        [[allow]]
        users = [1001, 1002]
        groups = [50]
        interfaces = ["eth1", "enp*"]
    "#;

    fn rights() -> Rights {
        Rights::from_text("a file", TEXT).unwrap()
    }

    #[test]
    fn first_rule_that_names_user_or_group_decides() {
        type Given = Option<(u64, u32)>;
        let table: [(u32, &[u32], Given); 7] = [
            (0, &[], Some((8 << 20, 2))),
            (1001, &[50], Some((8 << 20, 2))),
            (1002, &[], Some((64 << 20, 1024))),
            (7, &[4, 50], Some((64 << 20, 1024))),
            (7, &[4], None),
            (900, &[], Some((4 << 30, 65_536))),
            (65_534, &[65_534], None),
        ];
        for (uid, groups, wanted) in table {
            let had = rights().of(uid, groups, 900);
            assert_eq!(had.map(|had| (had.memory_bytes, had.flows)), wanted, "user {uid} of groups {groups:?}");
        }
    }

    #[test]
    fn interfaces_are_those_that_patterns_name() {
        let had = rights().of(1002, &[], 0).unwrap();
        for (name, wanted) in [("eth1", true), ("eth10", false), ("enp3s0", true), ("eth0", false), ("", false)] {
            assert_eq!(had.has_interface(name), wanted, "{name}");
        }
        assert!(rights().of(0, &[], 0).unwrap().has_interface("eth0"), "none named: all");
    }

    #[test]
    fn missing_file_allows_root_and_the_agents_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let rights = Rights::read(&directory.path().join("none"), 5).unwrap();
        let allowed = [0, 5, 6].map(|uid| rights.of(uid, &[], 5).is_some());
        assert_eq!(allowed, [true, true, false]);
    }

    #[test]
    fn file_that_others_may_write_or_own_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = file.as_file().metadata().unwrap().uid();
        for (mode, wanted) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Rights::read(file.path(), own).is_ok(), wanted, "mode {mode:o}");
        }
        if own == 0 {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
            std::os::unix::fs::chown(file.path(), Some(65_534), None).unwrap();
            assert!(matches!(Rights::read(file.path(), 0), Err(RightsError::Writable { uid: 65_534, .. })));
        }
    }

    #[test]
    fn mistake_in_the_file_is_named() {
        for (text, wanted) in [
            ("[[allow]]\nuser = [\"root\"]", "unknown field"),
            ("[[allow]]\nusers = [\"no-such-user\"]", "there is no user no-such-user"),
            ("[[allow]]\nflows = -1", "line 2"),
        ] {
            let said = Rights::from_text("agent.toml", text).unwrap_err().to_string();
            assert!(said.contains(wanted) && said.contains("agent.toml"), "{said}");
        }
    }
}
