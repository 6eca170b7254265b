//! The kernel of the machines: real sockets in a network namespace that has the addresses of all machines, and an interface that brings them
//! what no share has. So it is the kernel itself that decides which socket gets such a datagram.

use std::process::Command;
use std::rc::Rc;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use nearwire_lab::Namespace;
use nearwire_sys::tun::Tun;

use crate::machine::address;

const INTERFACE: &str = "sim0";
/// The table of routes of what the kernel itself sends, in place of the loopback interface.
const OUTWARD: u32 = 77;
/// The MTU of the interface.
const PACKET_MOST_BYTES: usize = 1500;

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;

/// Who begins a process has this, and who simulates shares it: a process that begins has copies of all descriptors until it executes, which on a
/// busy host takes a while, and a socket that is closed meanwhile stays.
static BEGINS: RwLock<()> = RwLock::new(());

/// While this is there no process begins.
pub fn without_new_processes() -> RwLockReadGuard<'static, ()> {
    BEGINS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Begins processes while nobody simulates.
pub fn beginning_processes<R>(work: impl FnOnce() -> R) -> R {
    let _alone = BEGINS.write().unwrap_or_else(PoisonError::into_inner);
    work()
}

fn ip(arguments: &str) {
    assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success(), "ip {arguments}");
}

/// A namespace with every machine's address, and the way into its sockets. That is not the loopback interface: on a busy host its packets wait
/// for their turn, or are dropped.
#[derive(Debug)]
pub struct Kernel {
    namespace: Namespace,
    interface: Tun,
}

impl Kernel {
    /// `None` where the test has to be skipped.
    pub fn lay() -> Option<Rc<Kernel>> {
        let made = Namespace::new();
        let Ok(namespace) = made else {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{made:?}");
            println!("SKIP {made:?}");
            return None;
        };
        let interface = beginning_processes(|| namespace.enter(Kernel::lay_here)).unwrap();
        Some(Rc::new(Kernel { namespace, interface }))
    }

    fn lay_here() -> Tun {
        let interface = Tun::open(INTERFACE).unwrap();
        let own = |setting: &str| format!("conf/{INTERFACE}/{setting}");
        // All senders have addresses of this namespace. Errors are reported as often as they are, whatever time passes here.
        for (setting, value) in [(own("accept_local"), "1"), (own("rp_filter"), "0"), ("icmp_ratemask".to_owned(), "0")]
        {
            std::fs::write(format!("/proc/sys/net/ipv4/{setting}"), value).unwrap();
        }
        let network = format!("{}/24", address(0));
        for arguments in [
            "link set lo up",
            &format!("link set {INTERFACE} up"),
            &format!("route add local {network} dev lo"),
            &format!("route add {network} dev {INTERFACE} table {OUTWARD}"),
            "rule add pref 2 lookup local",
            &format!("rule add pref 1 iif lo lookup {OUTWARD}"),
            "rule del pref 0",
        ] {
            ip(arguments);
        }
        interface
    }

    /// Runs something in the namespace.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        self.namespace.enter(work).unwrap()
    }

    /// Has the sockets get what is in a frame, and the reports of errors that come of it.
    pub fn bring(&self, frame: &[u8]) {
        let packet = &frame[ETHERNET_BYTES..];
        let len_bytes = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        self.interface.receive(&packet[..len_bytes]).unwrap();
        self.settle();
    }

    /// Brings what the kernel itself has sent to sockets here: reports of errors, and what programs gave back to their shadows.
    pub fn settle(&self) {
        let mut packet = [0; PACKET_MOST_BYTES];
        while let Some(len_bytes) = self.interface.sent(&mut packet).unwrap() {
            self.interface.receive(&packet[..len_bytes]).unwrap();
        }
    }
}

/// The number of the datagram in a frame.
pub fn number_of(frame: &[u8]) -> u64 {
    u64::from_be_bytes(*frame[HEADERS_BYTES..].first_chunk().expect("every datagram has a number"))
}

/// The frame that the kernel of a machine sends.
pub fn frame(from: (usize, u16), to: (usize, u16), payload: &[u8]) -> Vec<u8> {
    let mac = |machine: usize| [2, 0, 0, 0, 0, machine as u8];
    let mut frame = [mac(to.0), mac(from.0)].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(((IP_BYTES + UDP_BYTES + payload.len()) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(address(from.0).octets());
    frame.extend(address(to.0).octets());
    let words = frame[ETHERNET_BYTES..].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[ETHERNET_BYTES + 10..ETHERNET_BYTES + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    for word in [from.1, to.1, (UDP_BYTES + payload.len()) as u16, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

#[test]
fn kernel_has_datagrams_and_reports_of_errors_at_once_also_on_a_busy_host() {
    use std::net::UdpSocket;
    let Some(kernel) = Kernel::lay() else { return };
    kernel.enter(|| {
        let bound = |number: usize| UdpSocket::bind((address(number), 5000)).unwrap();
        let (one, other) = (bound(1), bound(2));
        one.connect((address(3), 5000)).unwrap();
        [&one, &other].into_iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        let mut payload = [0; 64];
        for number in 0..2000_u64 {
            kernel.bring(&frame((1, 5000), (2, 5000), &number.to_be_bytes()));
            assert_eq!(other.recv(&mut payload).unwrap(), 8);
            assert_eq!(payload[..8], number.to_be_bytes());
            kernel.bring(&frame((1, 5000), (3, 5000), &number.to_be_bytes()));
            assert_eq!(one.recv(&mut payload).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        }
    });
}
