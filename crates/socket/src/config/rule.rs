//! Rules: which sockets are accelerated.

use std::net::IpAddr;
use std::str::FromStr;

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The socket stays with the kernel.
    Kernel,
    /// The socket is accelerated.
    Nearwire,
}

/// How a socket came to its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connects or sends, and the kernel chose its port.
    Client,
    /// The program bound it to a port.
    Server,
}

/// A socket as rules see it. An address that is not known yet is `None` and fits only rules that
/// do not ask for it.
#[derive(Clone, Copy, Debug)]
pub struct Socket<'a> {
    /// File name of the executable, without directories.
    pub program: &'a str,
    /// How it came to its port.
    pub role: Role,
    /// The local address and port; an unspecified address for a wildcard.
    pub local: Option<(IpAddr, u16)>,
    /// The address and port it is connected or first sends to.
    pub remote: Option<(IpAddr, u16)>,
}

/// One rule. What it does not name fits everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it decides.
    pub to: Use,
    /// A pattern for the program's name, in which `*` stands for anything.
    pub program: Option<String>,
    /// The role.
    pub role: Option<Role>,
    /// Local addresses.
    pub local: Option<Prefix>,
    /// Remote addresses.
    pub remote: Option<Prefix>,
    /// Ports, as ranges with both ends; of a client its remote port, of a server its local one.
    pub ports: Vec<(u16, u16)>,
}

impl Rule {
    /// A rule for every socket.
    #[must_use]
    pub const fn all(to: Use) -> Self {
        Self { to, program: None, role: None, local: None, remote: None, ports: Vec::new() }
    }

    /// How many rules stand behind those of the user.
    const ALWAYS: usize = 2;

    /// The rules behind those of the user. A program that looks names up asks one question by a socket. A name server is meant to be fast.
    pub(super) fn always() -> [Self; Self::ALWAYS] {
        const DNS: (u16, u16) = (53, 53);
        let look_ups = Self { role: Some(Role::Client), ports: vec![DNS], ..Self::all(Use::Kernel) };
        [look_ups, Self::all(Use::Nearwire)]
    }

    /// Those of the user, among all that decide.
    pub(super) fn of_user(rules: &[Self]) -> &[Self] {
        &rules[..rules.len().saturating_sub(Self::ALWAYS)]
    }

    /// Whether it speaks of this socket.
    #[must_use]
    pub fn fits(&self, socket: &Socket<'_>) -> bool {
        let is_inside = |prefix: &Option<Prefix>, end: Option<(IpAddr, u16)>| {
            prefix.is_none_or(|prefix| end.is_some_and(|(address, _)| prefix.contains(address)))
        };
        let served = match socket.role {
            Role::Client => socket.remote,
            Role::Server => socket.local,
        };
        let is_port = || {
            let within = |port| self.ports.iter().any(|(first, last)| (*first..=*last).contains(&port));
            self.ports.is_empty() || served.is_some_and(|(_, port)| within(port))
        };
        self.program.as_ref().is_none_or(|pattern| is_match(pattern.as_bytes(), socket.program.as_bytes()))
            && self.role.is_none_or(|role| role == socket.role)
            && is_inside(&self.local, socket.local)
            && is_inside(&self.remote, socket.remote)
            && is_port()
    }
}

/// Whether a text fits a pattern with `*`. Linear in both, so that no pattern is slow: after a
/// mismatch only the latest `*` takes one more byte.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star_p, star_t)) = star else { return false };
                star = Some((star_p, star_t + 1));
                p = star_p + 1;
                t = star_t + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Addresses that begin with the same bits: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub(super) address: IpAddr,
    pub(super) bits: u32,
}

impl Prefix {
    /// Whether an address is one of them. An IPv4 address in IPv6 form counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let shift = 32_u32.saturating_sub(self.bits);
                (ours.to_bits() ^ theirs.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let shift = 128_u32.saturating_sub(self.bits);
                (ours.to_bits() ^ theirs.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().map_err(|_| ())?,
            Some(_) => return Err(()),
            None => most,
        };
        if bits > most { Err(()) } else { Ok(Self { address, bits }) }
    }
}
