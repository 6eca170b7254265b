//! Open vSwitch as a device under test: the distribution's programs, with the datapath in user space (`datapath_type=netdev`).
//!
//! The instance is private. Database, sockets and logs are in a temporary directory; the switch runs in the namespace of its ports. An
//! instance that the host has is not touched.
//!
//! Which thread does the work (Open vSwitch 3.1):
//!
//! - [`OvsPorts::Netdev`]: the main thread of `ovs-vswitchd`, in its poll loop. It sleeps in poll(2) until a frame comes, takes up to 32 by
//!   recvmmsg(2) from an AF_PACKET socket, and sends them by sendmmsg(2). There is no PMD thread. `pmd-cpu-mask` has no effect; the affinity
//!   of the process says which CPU it is.
//! - [`OvsPorts::Afxdp`]: a PMD thread, `pmd-cNN`, on the CPU that `pmd-cpu-mask` names. It polls the rings of all queues of both ports and
//!   never sleeps.
//!
//! In both cases the thread that gets a frame also asks the flow tables (upcalls are function calls in this datapath). All other threads
//! (`handler`, `revalidator`, `urcu`, and with AF_XDP the main thread) have little to do. The whole process is pinned to the device's CPU.
//!
//! What the kernel does to receive is done where it is by the driver: on veth by the CPU of the sender. RPS moves it to the device's CPU, but
//! not in the native mode of XDP, whose program runs before.
//!
//! The mode of AF_XDP is `best-effort`, which is the default: the switch tries `native-with-zerocopy`, `native` and `generic`. veth has no
//! zero copy (EOPNOTSUPP), so there it is `native` if frames fit into a page, and `generic` else.

mod counters;
mod daemon;
mod error;
mod instance;
mod programs;

use nearwire_lab::CableEnd;

pub use counters::OvsPortCounters;
pub use error::OvsError;

use daemon::{Daemon, DaemonPlan};
use error::last_lines;
use instance::{BRIDGE, Instance};
use programs::Programs;

/// How the switch opens its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OvsPorts {
    /// As `type=system`: AF_PACKET sockets.
    Netdev,
    /// As `type=afxdp`.
    Afxdp,
}

impl OvsPorts {
    /// The `type` of the table Interface.
    #[must_use]
    pub const fn interface_type(self) -> &'static str {
        match self {
            OvsPorts::Netdev => "system",
            OvsPorts::Afxdp => "afxdp",
        }
    }
}

/// What the switch does with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OvsFlows {
    /// What comes in at one port leaves at the other.
    Wired,
    /// A learning switch: action `NORMAL`.
    Normal,
}

impl OvsFlows {
    /// As `ovs-ofctl add-flow` takes them.
    const fn rules(self) -> &'static [&'static str] {
        match self {
            OvsFlows::Wired => &["in_port=1,actions=output:2", "in_port=2,actions=output:1"],
            OvsFlows::Normal => &["actions=NORMAL"],
        }
    }
}

/// A running switch. Dropping it ends its processes and removes its directory.
///
/// The kernel kills the processes when this one ends, in whatever way. The directory is left behind only by `kill -9`.
#[derive(Debug)]
pub struct OpenVswitch {
    version: String,
    xdp_mode: Option<String>,
    // The switch ends before its database, and both before their directory goes.
    switch: Daemon,
    database: Daemon,
    instance: Instance,
}

impl OpenVswitch {
    /// Starts a switch with two ports, which have the numbers 1 and 2. They are in one namespace. It forwards when this returns.
    ///
    /// # Errors
    /// A program is missing, a daemon did not come up, or the switch refused a port.
    pub fn start(
        ports: [&CableEnd; 2],
        as_ports: OvsPorts,
        flows: OvsFlows,
        cpu: u32,
    ) -> Result<OpenVswitch, OvsError> {
        let programs = Programs::find()?;
        let version = programs.version()?;
        let instance = Instance::make(programs)?;
        let database = start_database(&instance, cpu)?;
        instance.vsctl(&["--no-wait", "init"])?;
        let mask = format!("other_config:pmd-cpu-mask={}", cpu_mask(cpu));
        instance.vsctl(&["--no-wait", "set", "Open_vSwitch", ".", &mask])?;
        let switch = start_switch(&instance, ports[0], cpu)?;
        let ovs = OpenVswitch { version, xdp_mode: None, switch, database, instance };
        ovs.configure(ports, as_ports, flows).map_err(|error| ovs.cause(error))?;
        let shown = ovs.instance.appctl(&["dpctl/show"])?;
        Ok(OpenVswitch { xdp_mode: xdp_mode_in(&shown, &ports[0].interface), ..ovs })
    }

    /// In words: version, and how its ports reach the interfaces.
    #[must_use]
    pub fn describe(&self) -> String {
        let ports = self.xdp_mode.as_ref().map_or_else(|| "AF_PACKET".to_owned(), |mode| format!("AF_XDP {mode}"));
        format!("Open vSwitch {} in user space, ports by {ports}", self.version)
    }

    /// The version of the switch, as `3.1.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The mode of AF_XDP that the first port is in, as `native`; `None` of ports by AF_PACKET.
    #[must_use]
    pub fn xdp_mode(&self) -> Option<&str> {
        self.xdp_mode.as_deref()
    }

    /// What the ports have counted since their interfaces were made; port 1 is the first.
    ///
    /// # Errors
    /// The switch does not answer.
    pub fn counters(&self) -> Result<[OvsPortCounters; 2], OvsError> {
        counters::read(&self.instance.ofctl(&["dump-ports"], &[])?)
    }

    /// Whether both of its processes run.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.switch.is_alive() && self.database.is_alive()
    }

    /// The last lines of the switch's log.
    #[must_use]
    pub fn last_log_lines(&self) -> String {
        last_lines(self.switch.log())
    }

    /// Process of the switch, whose CPU time is what the device costs.
    #[must_use]
    pub fn switch_process_id(&self) -> u32 {
        self.switch.process_id()
    }

    /// Process of its database.
    #[must_use]
    pub fn database_process_id(&self) -> u32 {
        self.database.process_id()
    }

    fn configure(&self, ports: [&CableEnd; 2], as_ports: OvsPorts, flows: OvsFlows) -> Result<(), OvsError> {
        // Without a flow nothing is forwarded: `secure`.
        let bridge = ["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev", "fail_mode=secure"];
        self.instance.vsctl(&bridge)?;
        for (port, number) in ports.into_iter().zip(1_u32..) {
            self.add_port(port, number, as_ports)?;
        }
        flows.rules().iter().try_for_each(|rule| self.instance.ofctl(&["add-flow"], &[rule]).map(drop))
    }

    fn add_port(&self, port: &CableEnd, number: u32, as_ports: OvsPorts) -> Result<(), OvsError> {
        let name = port.interface.as_str();
        let (kind, number) = (format!("type={}", as_ports.interface_type()), format!("ofport_request={number}"));
        let options = match as_ports {
            OvsPorts::Netdev => Vec::new(),
            OvsPorts::Afxdp => afxdp_options(port).to_vec(),
        };
        let mut arguments = vec!["add-port", BRIDGE, name, "--", "set", "interface", name, &kind, &number];
        arguments.extend(options.iter().map(String::as_str));
        // It succeeds also where the switch refuses the port: the reason is in the database.
        self.instance.vsctl(&arguments)?;
        let said = self.instance.vsctl(&["get", "interface", name, "error"])?;
        match said.trim().trim_matches('"') {
            "[]" | "" => Ok(()),
            said => Err(OvsError::refused(name, as_ports, said, self.switch.log())),
        }
    }

    /// A command that failed since the switch has ended: then that is the cause.
    fn cause(&self, error: OvsError) -> OvsError {
        match error {
            OvsError::Command { .. } if !self.switch.is_alive() => self.switch.ended(),
            other => other,
        }
    }
}

fn start_database(instance: &Instance, cpu: u32) -> Result<Daemon, OvsError> {
    instance.create_database()?;
    let command = instance.database_command();
    let plan = DaemonPlan { name: "ovsdb-server", log: instance.log_of("ovsdb-server"), namespace: None, cpu };
    let daemon = Daemon::start(command, plan)?;
    daemon.await_socket(&instance.database_socket())?;
    Ok(daemon)
}

fn start_switch(instance: &Instance, port: &CableEnd, cpu: u32) -> Result<Daemon, OvsError> {
    let namespace = Some(port.namespace.clone());
    let plan = DaemonPlan { name: "ovs-vswitchd", log: instance.log_of("ovs-vswitchd"), namespace, cpu };
    let daemon = Daemon::start(instance.switch_command(), plan)?;
    daemon.await_socket(&instance.switch_socket())?;
    Ok(daemon)
}

/// Every queue of the interface has a socket: a frame of a queue without one is the kernel's.
fn afxdp_options(port: &CableEnd) -> [String; 2] {
    ["options:xdp-mode=best-effort".to_owned(), format!("options:n_rxq={}", port.queues)]
}

/// The mode in which a port is open, of what `dpctl/show` prints: `native` of
/// `port 2: nw1 (afxdp: n_rxq=2, xdp-mode=best-effort, xdp-mode-in-use=native)`.
fn xdp_mode_in(shown: &str, interface: &str) -> Option<String> {
    let named = |line: &&str| line.split_ascii_whitespace().any(|word| word == interface);
    let (_, mode) = shown.lines().find(named)?.split_once("xdp-mode-in-use=")?;
    Some(mode.split([',', ')']).next()?.to_owned())
}

/// A mask of CPUs in hexadecimal with one bit.
fn cpu_mask(cpu: u32) -> String {
    format!("0x{:x}{}", 1_u32 << (cpu % 4), "0".repeat(cpu as usize / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_has_the_bit_of_the_cpu() {
        assert_eq!(cpu_mask(0), "0x1");
        assert_eq!(cpu_mask(3), "0x8");
        assert_eq!(cpu_mask(65), "0x20000000000000000");
    }

    #[test]
    fn mode_is_that_of_the_port() {
        let shown = "netdev@ovs-netdev:\n  port 1: br0 (tap)\n  port 2: nw2 (afxdp: n_rxq=2, xdp-mode-in-use=generic)\n  \
                     port 3: nw1 (afxdp: n_rxq=2, xdp-mode=best-effort, xdp-mode-in-use=native)\n  port 4: nw3\n";
        assert_eq!(xdp_mode_in(shown, "nw1").as_deref(), Some("native"));
        assert_eq!(xdp_mode_in(shown, "nw2").as_deref(), Some("generic"));
        assert_eq!(xdp_mode_in(shown, "nw3"), None);
    }
}
