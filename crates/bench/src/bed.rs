//! The test bed: a cable, the responder at its far end, the control connection to it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, CableEnd, LabError, Namespace};
use nearwire_report::record::Reading;
use nearwire_wire::MacAddress;

use crate::control::{Answer, Ask, Control, ControlError, PROTOCOL, Stream};
use crate::paths::{EndInterface, LocalEnd, Role};
use crate::responder::boot_id;

/// How long a child responder may take to leave after goodbye before it is killed.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A cable with a responder at its far end.
pub struct TestBed {
    control: Control,
    /// The initiator's end.
    pub local: LocalEnd,
    /// What the responder said of itself.
    pub responder: ResponderFacts,
    /// `virtual`, `loopback` or `hosts`.
    pub kind: &'static str,
    /// The cable in words.
    pub detail: String,
    namespace: Option<Namespace>,
    child: Option<Child>,
    /// Last, so that it outlives the responder.
    cable: Option<Box<dyn Cable>>,
}

/// What the responder said of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponderFacts {
    /// Its environment, keyed by setting id.
    pub environment: BTreeMap<String, Reading>,
    /// Its end of the cable.
    pub local: LocalEnd,
    /// CPU it is pinned to.
    pub cpu: Option<u32>,
    /// Whether it runs on the initiator's machine.
    pub same_machine: bool,
}

impl TestBed {
    /// Starts a responder in the far namespace of a cable. `program` is called as `program responder --control-stdin`.
    ///
    /// # Errors
    /// The responder could not be started or does not answer.
    pub fn on_cable(cable: Box<dyn Cable>, program: &Path, cpu_responder: Option<u32>) -> Result<TestBed, BedError> {
        let (ours, theirs) = UnixStream::pair().map_err(|source| BedError::Spawn { source })?;
        let child = cable.far().namespace.enter(|| {
            Command::new(program)
                .args(["responder", "--control-stdin"])
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .spawn()
        })?;
        let child = child.map_err(|source| BedError::Spawn { source })?;
        let second = cable.second_pair();
        let far = local_end(Role::Responder, cable.far(), cable.near(), second.map(|pair| &pair.far));
        let local = local_end(Role::Initiator, cable.near(), cable.far(), second.map(|pair| &pair.near));
        let control = Control::new(Stream::Unix(ours));
        let namespace = cable.near().namespace.clone();
        let kind = cable.kind();
        let detail = describe(&*cable);
        let mut bed = TestBed {
            control,
            local,
            responder: ResponderFacts::unknown(far.clone()),
            kind,
            detail,
            namespace: Some(namespace),
            child: Some(child),
            cable: Some(cable),
        };
        bed.hello(String::new(), cpu_responder, Some(far))?;
        Ok(bed)
    }

    /// Joins a responder on another host. `frames` says whether frame paths are wanted, for which the interface towards
    /// the other host is looked up.
    ///
    /// # Errors
    /// It cannot be reached, is busy, or refuses the token.
    pub fn on_host(address: &str, token: &str, cpu_responder: Option<u32>) -> Result<TestBed, BedError> {
        let stream = connect(address)?;
        let unreachable = |source| BedError::Connect { address: address.to_owned(), source };
        stream.set_nodelay(true).map_err(unreachable)?;
        let own = stream.local_addr().map_err(unreachable)?.ip();
        let peer = stream.peer_addr().map_err(unreachable)?.ip();
        let local = host_end(Role::Initiator, own, peer);
        let mut bed = TestBed {
            control: Control::new(Stream::Tcp(stream)),
            responder: ResponderFacts::unknown(local.clone()),
            detail: format!("two hosts, {own} to {peer}"),
            local,
            kind: "hosts",
            namespace: None,
            child: None,
            cable: None,
        };
        bed.hello(token.to_owned(), cpu_responder, None)?;
        Ok(bed)
    }

    fn hello(&mut self, token: String, cpu: Option<u32>, local: Option<LocalEnd>) -> Result<(), BedError> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Ask::Hello { protocol: PROTOCOL, version, token, cpu, local: local.map(Box::new) };
        match self.control.ask(&hello)? {
            Answer::Welcome { environment, local, cpu, boot_id: theirs, .. } => {
                let same_machine = !theirs.is_empty() && theirs == boot_id();
                self.responder = ResponderFacts { environment, local, cpu, same_machine };
                Ok(())
            }
            other => Err(ControlError::unexpected("hello", &other).into()),
        }
    }

    /// The control connection.
    pub fn control(&mut self) -> &mut Control {
        &mut self.control
    }

    /// Runs `make` at the initiator's end of the cable: sockets made in it stay there.
    ///
    /// # Errors
    /// The namespace could not be entered.
    pub fn enter<R>(&self, make: impl FnOnce() -> R) -> Result<R, LabError> {
        match &self.namespace {
            Some(namespace) => namespace.enter(make),
            None => Ok(make()),
        }
    }

    /// Packets on veth carry a NAPI id, without which the kernel cannot busy poll, only while a program is attached at
    /// both ends.
    #[must_use]
    pub fn needs_pass_program(&self) -> bool {
        let veth = |end: &LocalEnd| end.interface.as_ref().is_some_and(|interface| interface.driver == "veth");
        veth(&self.local) && veth(&self.responder.local)
    }

    /// Sends the responder away and takes the cable up, and says what did not work, which dropping cannot.
    ///
    /// # Errors
    /// An interface of a loopback cable is not quite as it was before.
    pub fn take_up(mut self) -> Result<(), LabError> {
        self.dismiss();
        self.cable.take().map_or(Ok(()), Cable::take_up)
    }

    fn dismiss(&mut self) {
        // Gone already is as good as gone now.
        let _ = self.control.tell(&Ask::Bye);
        if let Some(mut child) = self.child.take() {
            leave_or_kill(&mut child);
        }
    }

    /// MTU of the cable, 1500 when it has no known interface.
    #[must_use]
    pub fn mtu_bytes(&self) -> u32 {
        self.local.interface.as_ref().map_or(1500, |interface| interface.mtu_bytes)
    }

    /// Interfaces at the initiator's end.
    #[must_use]
    pub fn interfaces(&self) -> Vec<String> {
        let ends = self.local.interface.iter().chain(&self.local.second_interface);
        ends.map(|interface| interface.name.clone()).collect()
    }

    /// The ends of the cable that are on this host and whose interface is known: the interface, and the namespace that
    /// holds it where that is not the one of the calling thread.
    #[must_use]
    pub fn ends_here(&self) -> Vec<(String, Option<Namespace>)> {
        match &self.cable {
            Some(cable) => {
                let pairs = [Some(cable.pair()), cable.second_pair()];
                let ends = pairs.into_iter().flatten().flat_map(|pair| [&pair.near, &pair.far]);
                ends.map(|end| (end.interface.clone(), Some(end.namespace.clone()))).collect()
            }
            None => self.interfaces().into_iter().map(|interface| (interface, None)).collect(),
        }
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        self.dismiss();
    }
}

fn leave_or_kill(child: &mut Child) {
    let give_up = Instant::now() + LEAVE_TIMEOUT;
    while Instant::now() < give_up {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl ResponderFacts {
    fn unknown(local: LocalEnd) -> ResponderFacts {
        ResponderFacts { environment: BTreeMap::new(), local, cpu: None, same_machine: false }
    }
}

fn connect(address: &str) -> Result<TcpStream, BedError> {
    let failed = |source| BedError::Connect { address: address.to_owned(), source };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for resolved in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&resolved, Duration::from_secs(5)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// As in `veth nw0 to veth nw1, MTU 1500, 2 queues`.
fn describe(cable: &dyn Cable) -> String {
    let (near, far) = (cable.near(), cable.far());
    let mut text = format!(
        "{} {} to {} {}, MTU {}, {} queues",
        near.driver, near.interface, far.driver, far.interface, near.mtu_bytes, near.queues
    );
    for warning in cable.warnings() {
        text += "; ";
        text += warning;
    }
    text
}

fn local_end(role: Role, own: &CableEnd, peer: &CableEnd, second: Option<&CableEnd>) -> LocalEnd {
    let addresses = |end: &CableEnd| {
        let ipv6 = end.ipv6_usable.then_some(IpAddr::V6(end.ipv6));
        std::iter::once(IpAddr::V4(end.ipv4)).chain(ipv6).collect()
    };
    LocalEnd {
        role,
        addresses: addresses(own),
        peer_addresses: addresses(peer),
        interface: Some(interface(own)),
        second_interface: second.map(interface),
    }
}

fn interface(end: &CableEnd) -> EndInterface {
    EndInterface {
        name: end.interface.clone(),
        mac: MacAddress(end.mac),
        mtu_bytes: end.mtu_bytes,
        queues: end.queues,
        driver: end.driver.clone(),
    }
}

/// This host's end of a two-host cable: the address the control connection uses, and the interface it leaves by.
#[must_use]
pub fn host_end(role: Role, own: IpAddr, peer: IpAddr) -> LocalEnd {
    let facts = nearwire_lab::route_to(peer).ok().map(|route| route.interface).filter(|facts| !facts.loopback);
    let interface = facts.map(|facts| EndInterface {
        driver: facts.driver_or_kind().to_owned(),
        mac: MacAddress(facts.mac),
        mtu_bytes: facts.mtu_bytes,
        queues: facts.rx_queues.min(facts.tx_queues),
        name: facts.name,
    });
    LocalEnd { role, addresses: vec![own], peer_addresses: vec![peer], interface, second_interface: None }
}

/// Why there is no test bed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BedError {
    /// The child could not be started.
    #[error("start the responder in the far namespace: {source}")]
    Spawn {
        /// What the kernel said.
        source: io::Error,
    },
    /// The other host could not be reached.
    #[error(
        "connect to the responder at {address}: {source}; is `nearwire responder --listen {address}` running there?"
    )]
    Connect {
        /// Where.
        address: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The control connection.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The cable.
    #[error(transparent)]
    Lab(#[from] LabError),
}
