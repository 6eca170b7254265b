//! What must be so that sockets of a program can be accelerated, checked before it starts: privileges, the kernel, memory,
//! interfaces.

use std::{fmt, io};

use nearwire_frames::PortError;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::XdpMode;
use nearwire_frames::xdp::programs;
use nearwire_sys::netdev::{XdpFeatures, xdp_features};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::config::{Config, Mode};
use crate::host::{ThisHost, try_program};
use crate::kernel_tables::packet_filters::PacketFilters;
use crate::kernel_tables::vlan_tags::HiddenTags;
use crate::program::{Caller, Capability};
use crate::reason::Reason;

/// Packet memory and rings of one queue, rounded up.
const MEMORY_BYTES_PER_QUEUE: u64 = 1024 * 1024;
/// Every interface of the calling thread's network namespace, one a line behind two lines of heading.
const INTERFACES: &str = "/proc/thread-self/net/dev";

/// Kinds of interfaces whose frames are another interface's.
const STACKED_KINDS: [&str; 7] = ["bond", "bridge", "ipvlan", "macvlan", "team", "vlan", "vrf"];

/// Something that is not so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// What it comes to.
    pub reason: Reason,
    /// What was found.
    pub found: String,
    /// What to do.
    pub advice: String,
}

impl Unmet {
    fn new(reason: Reason, found: impl Into<String>, advice: impl Into<String>) -> Unmet {
        Unmet { reason, found: found.into(), advice: advice.into() }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.reason, self.found, self.advice)
    }
}

/// An interface that the configuration allows.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// What it is; `None` where it cannot be asked.
    pub facts: Option<InterfaceFacts>,
    /// What its driver can do; `None` where the kernel does not report it.
    pub features: Option<XdpFeatures>,
    /// Why it cannot be used.
    pub unmet: Option<Unmet>,
    /// The port that was opened to try it, in words.
    pub tried: Option<String>,
    /// What differs from the kernel there, and what to do about it.
    pub caution: Option<String>,
    /// That holds in generic mode only.
    is_caution_of_generic: bool,
}

/// All that was looked at.
#[derive(Clone, Debug)]
pub struct Preconditions {
    /// What is not so; empty when sockets can be accelerated.
    pub unmet: Vec<Unmet>,
    /// The interfaces, usable or not.
    pub interfaces: Vec<Candidate>,
    /// The packet filters that accelerated traffic will bypass.
    pub filters: PacketFilters,
    /// Why datagrams have the time at which they are read instead of the time at which they came: the kernel refuses the program that takes it.
    pub no_times: Option<String>,
}

impl Preconditions {
    /// Looks at this process, this kernel and the interfaces of the calling thread's network namespace. `by_agent`: an agent serves the
    /// program, which needs no capability and no locked memory of its own then, and an interface that the agent has is free for it.
    #[must_use]
    pub fn check(config: &Config, caller: &Caller, by_agent: bool) -> Preconditions {
        let names = if config.interfaces.is_empty() { interfaces() } else { config.interfaces.clone() };
        let mut interfaces: Vec<Candidate> = names.iter().map(|name| Candidate::look(name, config.mode)).collect();
        // What cannot be asked is found when a port is opened.
        let hidden_tags = HiddenTags::read().unwrap_or_default();
        interfaces.iter_mut().for_each(|interface| interface.look_for_tags(&hidden_tags));
        let (mut unmet, mut no_times) = (Vec::new(), None);
        if by_agent {
            let is_busy = |unmet: &mut Unmet| unmet.reason == Reason::InterfaceBusy;
            interfaces.iter_mut().for_each(|interface| drop(interface.unmet.take_if(is_busy)));
        } else {
            unmet.extend(capabilities(caller));
            match kernel(caller, || load_program(&interfaces, config.mode)) {
                Ok(why) => no_times = why,
                Err(refused) => unmet.push(refused),
            }
            unmet.extend(memory(caller, &interfaces));
        }
        unmet.extend(of_interfaces(config, &interfaces));
        // The program will be in the control group of this process.
        let filters = PacketFilters::read(std::process::id());
        Preconditions { unmet, interfaces, filters, no_times }
    }

    /// Opens a port on each interface that seemed usable, as a program's engine would, and closes it: what the driver says to
    /// that, nobody knows before. For a moment the interface has an XDP program, which may take its link down. Does nothing
    /// where something else is not met, as no port would be opened then.
    ///
    /// Where an agent serves the program, or would be started for it (`starts_agent`), the port is a share of the agent's, as the program's would be.
    pub fn try_interfaces(&mut self, config: &Config, starts_agent: bool) {
        if !self.unmet.is_empty() {
            return;
        }
        let host = ThisHost::default();
        for interface in &mut self.interfaces {
            let Some(facts) = interface.facts.as_ref().filter(|_| interface.unmet.is_none()) else { continue };
            match host.try_port(facts, config, starts_agent) {
                Ok((words, mode)) => {
                    interface.tried = Some(words);
                    interface.caution.take_if(|_| interface.is_caution_of_generic && mode != XdpMode::Generic);
                }
                Err(error) => {
                    let advice = "nearwire port shows what it can do; what the kernel says may help to report it";
                    interface.unmet = Some(Unmet::new(Reason::of_port(&error), error.to_string(), advice));
                }
            }
        }
        self.unmet = of_interfaces(config, &self.interfaces);
    }
}

/// What the interfaces lack: of those that were named each counts, of others one is enough.
fn of_interfaces(config: &Config, interfaces: &[Candidate]) -> Vec<Unmet> {
    if config.interfaces.is_empty() {
        return no_interface(interfaces).into_iter().collect();
    }
    interfaces.iter().filter_map(|interface| interface.unmet.clone()).collect()
}

fn capabilities(caller: &Caller) -> Option<Unmet> {
    let set = caller.after_exec();
    let wanted = [
        ("CAP_NET_ADMIN", Capability::NetAdmin.is_in(set)),
        ("CAP_NET_RAW", Capability::NetRaw.is_in(set)),
        ("CAP_BPF", Capability::Bpf.is_in(set) || Capability::SysAdmin.is_in(set)),
        ("CAP_PERFMON", Capability::Perfmon.is_in(set) || Capability::SysAdmin.is_in(set)),
    ];
    let missing: Vec<_> = wanted.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return None;
    }
    let found = format!("a program that user {} starts here is without {}", caller.effective_uid, missing.join(", "));
    let advice = if caller.effective_uid == 0 {
        "the container or service must leave them in the bounding set (docker --cap-add, CapabilityBoundingSet=)"
    } else {
        "have root start an agent that serves the user (nearwire agent), run as root, or with them as ambient capabilities (systemd: \
         AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW CAP_BPF CAP_PERFMON)"
    };
    Some(Unmet::new(Reason::NoCapability, found, advice))
}

/// Asks the kernel rather than its version: a container's seccomp filter or a user namespace refuses too. `load` loads the program that ports have. Returns why
/// frames could have no times.
fn kernel(
    caller: &Caller,
    load: impl FnOnce() -> Result<Option<io::Error>, PortError>,
) -> Result<Option<String>, Unmet> {
    let can_ask = [Capability::NetRaw, Capability::NetAdmin].iter().all(|wanted| wanted.is_in(caller.effective))
        && [Capability::Bpf, Capability::SysAdmin].iter().any(|wanted| wanted.is_in(caller.effective));
    if !can_ask {
        return Ok(None);
    }
    if let Err(errno) = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None) {
        let advice = "it needs a kernel with CONFIG_XDP_SOCKETS, and a sandbox that allows AF_XDP sockets";
        let found = format!("an AF_XDP socket cannot be opened ({errno})");
        return Err(Unmet::new(Reason::XdpRefused, found, advice));
    }
    if let Err(error) = programs::pass() {
        let advice = "in a user namespace or a container bpf(2) needs the capabilities of the host, and a sandbox that allows it";
        let found = format!("an XDP program cannot be loaded ({error})");
        return Err(Unmet::new(Reason::XdpRefused, found, advice));
    }
    match load() {
        Ok(no_times) => Ok(no_times.map(|error| error.to_string())),
        Err(error) => {
            let advice = "this kernel's verifier takes simpler programs only: please report it, with uname -r";
            Err(Unmet::new(Reason::XdpRefused, error.to_string(), advice))
        }
    }
}

/// Loads the program of the ports of the first interface of which the kernel takes it, in a mode that may be used, and lets it go.
fn load_program(interfaces: &[Candidate], mode: Mode) -> Result<Option<io::Error>, PortError> {
    let usable = interfaces.iter().filter(|interface| interface.unmet.is_none());
    let mut refused = None;
    for facts in usable.filter_map(|interface| interface.facts.as_ref()) {
        match try_program(facts, mode) {
            Ok(no_times) => return Ok(no_times),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    // Without an interface there is no port that could be refused.
    refused.map_or(Ok(None), Err)
}

fn memory(caller: &Caller, interfaces: &[Candidate]) -> Option<Unmet> {
    if Capability::IpcLock.is_in(caller.after_exec()) {
        return None;
    }
    let usable = interfaces.iter().filter(|interface| interface.unmet.is_none());
    let queues: u32 = usable.filter_map(|interface| Some(interface.facts.as_ref()?.rx_queues)).sum();
    let wanted_bytes = u64::from(queues) * MEMORY_BYTES_PER_QUEUE;
    let limit_bytes = caller.memory_lock_limit_bytes.filter(|limit| *limit < wanted_bytes)?;
    let found = format!("the limit is {limit_bytes} bytes, and {queues} queues need about {wanted_bytes}");
    let advice = format!(
        "raise it (ulimit -l {}, LimitMEMLOCK=infinity), give CAP_IPC_LOCK, or name fewer interfaces",
        wanted_bytes / 1024
    );
    Some(Unmet::new(Reason::MemoryLimit, found, advice))
}

fn no_interface(interfaces: &[Candidate]) -> Option<Unmet> {
    if interfaces.iter().any(|interface| interface.unmet.is_none()) {
        return None;
    }
    // The loopback interface is on every host, and nobody wants to read of it.
    let others = interfaces.iter().filter_map(|interface| interface.unmet.as_ref());
    let others: Vec<_> =
        others.filter(|unmet| unmet.reason != Reason::Loopback).map(|unmet| unmet.found.as_str()).collect();
    let found =
        if others.is_empty() { "there is none but the loopback interface".to_owned() } else { others.join(", ") };
    Some(Unmet::new(Reason::NoInterface, found, "nearwire port shows what each interface is and can do"))
}

impl Candidate {
    fn look(name: &str, mode: Mode) -> Candidate {
        match InterfaceFacts::read(name) {
            Err(error) => {
                let advice = match error {
                    PortError::NoSuchInterface { .. } => "nearwire port lists those of this network namespace",
                    _ => "look at it with ip link",
                };
                let unmet = Unmet::new(Reason::NoInterface, format!("{name}: {error}"), advice);
                Candidate {
                    name: name.to_owned(),
                    facts: None,
                    features: None,
                    unmet: Some(unmet),
                    tried: None,
                    caution: None,
                    is_caution_of_generic: false,
                }
            }
            Ok(facts) => {
                let features = xdp_features(facts.ifindex).ok();
                let unmet = unusable(&facts, features, mode);
                Candidate {
                    name: name.to_owned(),
                    facts: Some(facts),
                    features,
                    unmet,
                    tried: None,
                    caution: None,
                    is_caution_of_generic: false,
                }
            }
        }
    }
}

impl Candidate {
    /// An engine opens no port where it could not distinguish VLANs.
    fn look_for_tags(&mut self, hidden: &[HiddenTags]) {
        let Some(hidden) = hidden.iter().find(|hidden| hidden.interface == self.name) else { return };
        let is_usable =
            |unmet: &Option<Unmet>| unmet.as_ref().is_none_or(|unmet| unmet.reason == Reason::InterfaceBusy);
        if !is_usable(&self.unmet) {
            return;
        }
        match hidden.obstacle() {
            Some((found, advice)) => self.unmet = Some(Unmet::new(Reason::HiddenVlanTags, found, advice)),
            None => {
                (self.caution, self.is_caution_of_generic) = (hidden.caution(), hidden.is_told_in_driver);
            }
        }
    }
}

fn unusable(facts: &InterfaceFacts, features: Option<XdpFeatures>, mode: Mode) -> Option<Unmet> {
    let name = &facts.name;
    if name == "lo" {
        return Some(Unmet::new(
            Reason::Loopback,
            format!("{name} is the loopback interface"),
            "name another interface",
        ));
    }
    // Tunnels have no hardware address, or one that is none of Ethernet.
    if facts.mac == [0; 6] {
        return Some(Unmet::new(Reason::NotEthernet, format!("{name} has no MAC address"), "name another interface"));
    }
    if STACKED_KINDS.contains(&facts.driver.as_str()) {
        let advice = "name the interface below it; a VLAN's sockets are served by the port of its parent";
        return Some(Unmet::new(Reason::StackedInterface, format!("{name} is of kind {}", facts.driver), advice));
    }
    if !facts.up {
        return Some(Unmet::new(Reason::InterfaceDown, format!("{name} is down"), format!("ip link set {name} up")));
    }
    if let Some(program) = facts.program {
        let found = format!("{name} has XDP program {} in {} mode", program.program_id, program.mode);
        let advice = format!("end whoever attached it, or ip link set {name} xdp off; bpftool net shows them");
        return Some(Unmet::new(Reason::InterfaceBusy, found, advice));
    }
    if mode == Mode::Native && features.is_some_and(|features| !features.contains(XdpFeatures::BASIC)) {
        let found = format!("{name} has driver {}", facts.driver);
        return Some(Unmet::new(Reason::DriverCannot, found, "use mode = \"auto\" or \"generic\""));
    }
    None
}

/// The names of all interfaces; none where they cannot be read.
fn interfaces() -> Vec<String> {
    let table = std::fs::read_to_string(INTERFACES).unwrap_or_default();
    let names = table.lines().skip(2).filter_map(|line| line.rsplit_once(": ").or_else(|| line.split_once(':')));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    fn facts(name: &str) -> InterfaceFacts {
        InterfaceFacts {
            name: name.into(),
            ifindex: 2,
            mac: [2, 0, 0, 0, 0, 1],
            mtu_bytes: 1500,
            up: true,
            carrier: true,
            receive_dropped_frames: 0,
            driver: "veth".into(),
            rx_queues: 4,
            tx_queues: 4,
            rx_ring_frames: 0,
            program: None,
        }
    }

    fn reason(facts: &InterfaceFacts, mode: Mode) -> Option<Reason> {
        unusable(facts, Some(XdpFeatures::REDIRECT), mode).map(|unmet| unmet.reason)
    }

    #[test]
    fn interface_that_cannot_be_used_has_its_reason() {
        assert_eq!(reason(&facts("eth4"), Mode::Auto), None);
        assert_eq!(reason(&facts("lo"), Mode::Auto), Some(Reason::Loopback));
        assert_eq!(reason(&InterfaceFacts { up: false, ..facts("eth4") }, Mode::Auto), Some(Reason::InterfaceDown));
        assert_eq!(reason(&InterfaceFacts { mac: [0; 6], ..facts("tun0") }, Mode::Auto), Some(Reason::NotEthernet));
        assert_eq!(reason(&facts("eth4"), Mode::Native), Some(Reason::DriverCannot));
        let bond = InterfaceFacts { driver: "bond".into(), ..facts("bond0") };
        assert_eq!(reason(&bond, Mode::Auto), Some(Reason::StackedInterface));
        let program = Some(nearwire_frames::interface::AttachedProgram { program_id: 7, mode: "generic" });
        assert_eq!(reason(&InterfaceFacts { program, ..facts("eth4") }, Mode::Auto), Some(Reason::InterfaceBusy));
    }

    #[test]
    fn missing_capabilities_are_named() {
        let root = Caller { bounding: ALL, ..Caller::default() };
        assert_eq!(capabilities(&root), None);
        let bpf = 1 << Capability::Bpf as u32;
        let system = 1 << Capability::SysAdmin as u32;
        let perfmon = 1 << Capability::Perfmon as u32;
        assert_eq!(capabilities(&Caller { bounding: ALL & !bpf, ..root }), None, "CAP_SYS_ADMIN has all of CAP_BPF");
        let said = capabilities(&Caller { bounding: ALL & !bpf & !system, ..root }).map(|unmet| unmet.to_string());
        assert!(said.is_some_and(|said| said.contains("CAP_BPF") && !said.contains("CAP_NET_RAW")));
        let said = capabilities(&Caller { bounding: ALL & !perfmon & !system, ..root }).map(|unmet| unmet.to_string());
        assert!(said.is_some_and(|said| said.contains("CAP_PERFMON") && !said.contains("CAP_BPF")));
        let user = Caller { uid: 9, effective_uid: 9, effective: ALL, bounding: ALL, ..root };
        let said = capabilities(&user).map(|unmet| unmet.to_string()).unwrap_or_default();
        assert!(
            said.contains("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON") && said.contains("AmbientCapabilities"),
            "{said}"
        );
    }

    #[test]
    fn refusal_of_the_program_that_ports_have_is_told_and_one_of_times_alone_is_no_refusal() {
        let caller = Caller::of_self().unwrap();
        if programs::pass().is_err() {
            assert!(
                std::env::var_os("NEARWIRE_REQUIRE").is_none(),
                "NEARWIRE_REQUIRE is set, but no program can be loaded"
            );
            return println!("SKIP no XDP program can be loaded here");
        }
        let error = || io::Error::from_raw_os_error(libc::E2BIG);
        let refused = || {
            let (tried, interface) = ("make the map of credits", "eth4".to_owned());
            Err(PortError::Kernel { tried, interface, source: error() })
        };
        let unmet = kernel(&caller, refused).unwrap_err();
        assert_eq!(unmet.reason, Reason::XdpRefused);
        assert!(unmet.found.contains("map of credits"), "{unmet}");
        assert_eq!(kernel(&caller, || Ok(Some(error()))), Ok(Some(error().to_string())));
        // The kernel takes what ports have here, with buffers of either kind.
        for mtu_bytes in [1500, 9000] {
            for mode in [Mode::Auto, Mode::Native, Mode::Generic] {
                let no_times = try_program(&InterfaceFacts { mtu_bytes, ..facts("eth4") }, mode).unwrap();
                assert!(no_times.is_none(), "{no_times:?}");
            }
        }
    }

    #[test]
    fn memory_limit_below_the_need_is_told() {
        let candidate = Candidate {
            name: "eth4".into(),
            facts: Some(facts("eth4")),
            features: None,
            unmet: None,
            tried: None,
            caution: None,
            is_caution_of_generic: false,
        };
        let user = Caller { uid: 9, effective_uid: 9, memory_lock_limit_bytes: Some(65_536), ..Caller::default() };
        let said = memory(&user, std::slice::from_ref(&candidate)).map(|unmet| unmet.to_string()).unwrap_or_default();
        assert!(said.contains("65536 bytes") && said.contains("4 queues need about 4194304"), "{said}");
        assert_eq!(memory(&Caller { memory_lock_limit_bytes: None, ..user }, std::slice::from_ref(&candidate)), None);
        assert_eq!(memory(&Caller { effective_uid: 0, bounding: ALL, ..user }, &[candidate]), None);
    }

    #[test]
    fn interfaces_listed_have_the_loopback_interface() {
        assert!(interfaces().contains(&"lo".to_owned()), "{:?}", interfaces());
        let checked = Preconditions::check(&Config::default(), &Caller::of_self().unwrap(), false);
        let lo = checked.interfaces.iter().find(|interface| interface.name == "lo");
        assert_eq!(lo.and_then(|lo| lo.unmet.as_ref()).map(|unmet| unmet.reason), Some(Reason::Loopback));
    }

    #[test]
    fn named_interface_that_is_missing_is_told() {
        let config = Config { interfaces: vec!["nw-none".to_owned()], ..Config::default() };
        let checked = Preconditions::check(&config, &Caller::of_self().unwrap(), false);
        let said: Vec<_> = checked.unmet.iter().map(Unmet::to_string).collect();
        assert!(said.iter().any(|said| said.contains("nw-none") && said.contains("nearwire port")), "{said:?}");
    }
}
