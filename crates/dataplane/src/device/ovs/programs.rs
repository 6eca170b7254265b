//! The programs of Open vSwitch, and where they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::OvsError;

/// Where programs of the system lie that a user's PATH may lack.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
/// Its package, which depends on the one that has what is common to switch and tools.
const PACKAGE: &str = "openvswitch-switch";
/// The description of the database, in the `share` of where the programs are.
const SCHEMA: &str = "share/openvswitch/vswitch.ovsschema";

/// Paths of what is started.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) setpriv: PathBuf,
    pub(super) switch: PathBuf,
    pub(super) database: PathBuf,
    pub(super) database_tool: PathBuf,
    pub(super) vsctl: PathBuf,
    pub(super) ofctl: PathBuf,
    pub(super) appctl: PathBuf,
    pub(super) schema: PathBuf,
}

impl Programs {
    /// By PATH, and in the directories of the system.
    pub(super) fn find() -> Result<Programs, OvsError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> =
            std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)).collect();
        Programs::find_in(&directories)
    }

    fn find_in(directories: &[PathBuf]) -> Result<Programs, OvsError> {
        let find = |program: &'static str, package: &'static str| {
            let mut found = directories.iter().map(|directory| directory.join(program)).filter(|path| path.is_file());
            found.next().ok_or(OvsError::MissingProgram { program, package })
        };
        let switch = find("ovs-vswitchd", PACKAGE)?;
        let schema = schema_of(&switch).ok_or_else(|| OvsError::MissingSchema { program: switch.clone() })?;
        Ok(Programs {
            database: find("ovsdb-server", PACKAGE)?,
            database_tool: find("ovsdb-tool", PACKAGE)?,
            vsctl: find("ovs-vsctl", PACKAGE)?,
            ofctl: find("ovs-ofctl", PACKAGE)?,
            appctl: find("ovs-appctl", PACKAGE)?,
            setpriv: find("setpriv", "util-linux")?,
            switch,
            schema,
        })
    }

    /// The version of the switch. Where a library is missing, this is the first command that says so.
    pub(super) fn version(&self) -> Result<String, OvsError> {
        let said = run(Command::new(&self.switch).arg("--version"))?;
        version_in(&said).ok_or(OvsError::Unreadable { command: "ovs-vswitchd --version", said })
    }
}

/// In the nearest `share`: `/usr` for `/usr/sbin` and for `/usr/lib/openvswitch-switch`, where Debian has the switch.
fn schema_of(switch: &Path) -> Option<PathBuf> {
    let switch = switch.canonicalize().ok()?;
    switch.ancestors().map(|directory| directory.join(SCHEMA)).find(|path| path.is_file())
}

/// Of `ovs-vswitchd (Open vSwitch) 3.1.0`.
fn version_in(said: &str) -> Option<String> {
    let last = said.lines().next()?.split_ascii_whitespace().next_back()?;
    last.starts_with(|first: char| first.is_ascii_digit()).then(|| last.to_owned())
}

/// Runs a command to its end; what it prints.
pub(super) fn run(command: &mut Command) -> Result<String, OvsError> {
    let program = || command_line(command).next().unwrap_or_default();
    let line = || command_line(command).collect::<Vec<_>>().join(" ");
    let (program, line) = (program(), line());
    let output = command.output().map_err(|source| OvsError::Start { program, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(OvsError::Command { command: line, said: if said.is_empty() { output.status.to_string() } else { said } })
}

/// The name of the program and its arguments, for messages.
fn command_line(command: &Command) -> impl Iterator<Item = String> {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name).chain(command.get_args()).map(|word| word.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_that_is_not_installed_is_told_with_its_package() {
        let error = Programs::find_in(&[]).unwrap_err();
        assert!(matches!(error, OvsError::MissingProgram { program: "ovs-vswitchd", .. }), "{error}");
        assert!(error.to_string().contains("'openvswitch-switch'"), "{error}");
    }

    #[test]
    fn schema_is_found_beside_programs() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for made in ["usr/lib/openvswitch-switch", "usr/share/openvswitch"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
        }
        let switch = root.join("usr/lib/openvswitch-switch/ovs-vswitchd");
        std::fs::write(&switch, "").unwrap();
        assert_eq!(schema_of(&switch), None);
        let schema = root.join("usr").join(SCHEMA);
        std::fs::write(&schema, "").unwrap();
        assert_eq!(schema_of(&switch), Some(schema));
    }

    #[test]
    fn version_is_the_last_word() {
        assert_eq!(version_in("ovs-vswitchd (Open vSwitch) 3.1.0\n").as_deref(), Some("3.1.0"));
        assert_eq!(version_in("usage"), None);
    }

    #[test]
    fn command_that_fails_is_told_with_its_words() {
        let error = run(Command::new("/bin/sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "sh -c echo no >&2; exit 3: no");
        let error = run(&mut Command::new("/nowhere/ovs-vsctl")).unwrap_err();
        assert!(error.to_string().starts_with("start ovs-vsctl: "), "{error}");
    }
}
