//! One instance: its directory, and the commands that reach it.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::OvsError;
use super::programs::{Programs, run};

/// Name of the only bridge.
pub(super) const BRIDGE: &str = "br0";
/// Longest time that a command waits for the switch.
const COMMAND_TIMEOUT_S: u32 = 10;

/// A directory with the files of one instance, and the programs that use it.
#[derive(Debug)]
pub(super) struct Instance {
    programs: Programs,
    directory: TempDir,
}

impl Instance {
    pub(super) fn make(programs: Programs) -> Result<Instance, OvsError> {
        let directory = tempfile::Builder::new().prefix("nearwire-ovs-").tempdir();
        Ok(Instance { programs, directory: directory.map_err(OvsError::prepare("make a temporary directory"))? })
    }

    pub(super) fn create_database(&self) -> Result<(), OvsError> {
        let mut command = self.here(Command::new(&self.programs.database_tool));
        run(command.arg("create").arg(self.path("conf.db")).arg(&self.programs.schema)).map(drop)
    }

    pub(super) fn database_socket(&self) -> PathBuf {
        self.path("db.sock")
    }

    /// Answers when the switch is up.
    pub(super) fn switch_socket(&self) -> PathBuf {
        self.path("ovs-vswitchd.ctl")
    }

    pub(super) fn log_of(&self, daemon: &str) -> PathBuf {
        self.path(&format!("{daemon}.log"))
    }

    pub(super) fn database_command(&self) -> Command {
        let mut command = self.daemon("ovsdb-server", &self.programs.database);
        command.arg(format!("--remote=punix:{}", self.database_socket().display())).arg(self.path("conf.db"));
        command
    }

    pub(super) fn switch_command(&self) -> Command {
        let mut command = self.daemon("ovs-vswitchd", &self.programs.switch);
        // libxdp would pin its programs in /sys/fs/bpf, where they stay after kill -9: one program for each port does without, and a
        // directory that is no BPF file system is not written to.
        command.env("LIBXDP_SKIP_DISPATCHER", "1").env("LIBXDP_BPFFS", self.directory.path());
        command.arg(self.database_address());
        command
    }

    /// Runs `ovs-vsctl`, which waits until the switch has done what was asked; what it prints.
    pub(super) fn vsctl(&self, arguments: &[&str]) -> Result<String, OvsError> {
        let mut command = self.here(Command::new(&self.programs.vsctl));
        command.arg(format!("--timeout={COMMAND_TIMEOUT_S}")).arg(format!("--db={}", self.database_address()));
        run(command.args(arguments))
    }

    /// Runs `ovs-ofctl` on the bridge; what it prints. Version 1.4 of OpenFlow has what drivers of ports count besides.
    pub(super) fn ofctl(&self, arguments: &[&str], after_bridge: &[&str]) -> Result<String, OvsError> {
        let mut command = self.here(Command::new(&self.programs.ofctl));
        command.args(["--protocols=OpenFlow14", &format!("--timeout={COMMAND_TIMEOUT_S}")]).args(arguments);
        let bridge = format!("unix:{}", self.path(&format!("{BRIDGE}.mgmt")).display());
        run(command.arg(bridge).args(after_bridge))
    }

    /// Runs `ovs-appctl` on the switch; what it prints.
    pub(super) fn appctl(&self, arguments: &[&str]) -> Result<String, OvsError> {
        let mut command = self.here(Command::new(&self.programs.appctl));
        command.arg(format!("--timeout={COMMAND_TIMEOUT_S}")).arg("--target").arg(self.switch_socket());
        run(command.args(arguments))
    }

    /// A daemon that the kernel kills with the thread that started it. It writes nothing but its log.
    fn daemon(&self, name: &str, program: &PathBuf) -> Command {
        let mut command = self.here(Command::new(&self.programs.setpriv));
        command.args(["--pdeathsig", "KILL"]).arg(program).arg("--verbose=console:off");
        command.arg(format!("--log-file={}", self.log_of(name).display()));
        command.arg(format!("--unixctl={}", self.path(&format!("{name}.ctl")).display()));
        command
    }

    /// The command with all directories of Open vSwitch being this one.
    fn here(&self, mut command: Command) -> Command {
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(name, self.directory.path());
        }
        command
    }

    fn database_address(&self) -> String {
        format!("unix:{}", self.database_socket().display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
