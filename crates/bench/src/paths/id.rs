//! Names of paths.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// UDP datagrams.
    Udp,
    /// A TCP connection.
    Tcp,
    /// Ethernet frames.
    Frame,
}

/// How the application gets at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// A blocking receive that sleeps until the kernel wakes it.
    Block,
    /// A non-blocking receive, again and again.
    Spin,
    /// A blocking receive that polls the device queue before it sleeps.
    BusyPoll,
    /// epoll_wait(2), then a receive.
    Epoll,
    /// The same, with busy polling of the whole set.
    EpollBusyPoll,
    /// AF_PACKET.
    Packet,
    /// AF_XDP.
    Xdp,
    /// This project's stack over AF_XDP.
    Bypass,
    /// The same behind socket calls, as `nearwire run` gives it to programs.
    Sockets,
}

/// A path's name, `what/how`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathId {
    /// What goes over the wire.
    pub what: What,
    /// How the application gets at it.
    pub how: How,
}

/// Every path with its name and what it does, in the order in which they are listed.
pub const ALL: [(&str, PathId, &str); 15] = {
    const fn id(what: What, how: How) -> PathId {
        PathId { what, how }
    }
    [
        ("udp/block", id(What::Udp, How::Block), "recv(2) sleeps until the kernel wakes it"),
        ("udp/spin", id(What::Udp, How::Spin), "non-blocking recv(2), again and again"),
        (
            "udp/busy-poll",
            id(What::Udp, How::BusyPoll),
            "recv(2) polls the device queue: SO_BUSY_POLL, SO_PREFER_BUSY_POLL",
        ),
        ("udp/epoll", id(What::Udp, How::Epoll), "epoll_wait(2) sleeps, then recv(2)"),
        (
            "udp/epoll-busy-poll",
            id(What::Udp, How::EpollBusyPoll),
            "epoll_wait(2) polls the device queue: EPIOCSPARAMS",
        ),
        (
            "udp/bypass",
            id(What::Udp, How::Bypass),
            "UDP of our own over AF_XDP; a kernel socket holds the port, the kernel's stack is passed by",
        ),
        (
            "udp/sockets",
            id(What::Udp, How::Sockets),
            "the same behind the socket calls of `nearwire run`; measured with --through-sockets, or named",
        ),
        ("tcp/block", id(What::Tcp, How::Block), "recv(2) sleeps until the kernel wakes it"),
        ("tcp/spin", id(What::Tcp, How::Spin), "non-blocking recv(2), again and again"),
        (
            "tcp/busy-poll",
            id(What::Tcp, How::BusyPoll),
            "recv(2) polls the device queue: SO_BUSY_POLL, SO_PREFER_BUSY_POLL",
        ),
        ("tcp/epoll", id(What::Tcp, How::Epoll), "epoll_wait(2) sleeps, then recv(2)"),
        (
            "tcp/epoll-busy-poll",
            id(What::Tcp, How::EpollBusyPoll),
            "epoll_wait(2) polls the device queue: EPIOCSPARAMS",
        ),
        (
            "tcp/bypass",
            id(What::Tcp, How::Bypass),
            "TCP of our own over AF_XDP, for a connection that the kernel made; the kernel ends it too",
        ),
        ("frame/packet", id(What::Frame, How::Packet), "AF_PACKET: mmap receive ring, qdisc-bypass send"),
        ("frame/xdp", id(What::Frame, How::Xdp), "AF_XDP: receive and send rings, the kernel's stack is passed by"),
    ]
};

impl PathId {
    /// `what/how`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(_, id, _)| *id == self).map_or("unknown", |(name, _, _)| name)
    }

    /// True for `udp/…` and `tcp/…`: messages between IP addresses and ports.
    #[must_use]
    pub fn is_ip(self) -> bool {
        self.what != What::Frame
    }

    /// True where the kernel polls the device queue for the application.
    #[must_use]
    pub fn is_busy_poll(self) -> bool {
        matches!(self.how, How::BusyPoll | How::EpollBusyPoll)
    }

    /// True where frames pass through a port of this project, around which there can be faults.
    #[must_use]
    pub fn has_port(self) -> bool {
        matches!(self.how, How::Packet | How::Xdp | How::Bypass)
    }

    /// True where that port is one of AF_XDP.
    #[must_use]
    pub fn is_xdp(self) -> bool {
        matches!(self.how, How::Xdp | How::Bypass)
    }

    /// True where it is measured only when it is asked for.
    #[must_use]
    pub fn is_on_request(self) -> bool {
        self.how == How::Sockets
    }

    /// True where the end never sleeps, so that two of them on one CPU only wait for each other's time slice.
    #[must_use]
    pub fn spins(self) -> bool {
        matches!(self.how, How::Spin | How::Packet | How::Xdp | How::Bypass | How::Sockets)
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no path has.
#[derive(Debug, thiserror::Error)]
#[error("there is no path '{name}'; paths are {known}", known = ALL.map(|(name, _, _)| name).join(", "))]
pub struct UnknownPath {
    /// What was given.
    pub name: String,
}

impl FromStr for PathId {
    type Err = UnknownPath;

    fn from_str(name: &str) -> Result<PathId, UnknownPath> {
        let found = ALL.iter().find(|(known, _, _)| *known == name);
        found.map(|(_, id, _)| *id).ok_or_else(|| UnknownPath { name: name.to_owned() })
    }
}

impl TryFrom<String> for PathId {
    type Error = UnknownPath;

    fn try_from(name: String) -> Result<PathId, UnknownPath> {
        name.parse()
    }
}

impl From<PathId> for String {
    fn from(id: PathId) -> String {
        id.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_to_itself() {
        for (name, id, _) in ALL {
            assert_eq!(name.parse::<PathId>().unwrap(), id);
            assert_eq!(id.to_string(), name);
        }
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let message = "udp/blok".parse::<PathId>().unwrap_err().to_string();
        assert!(message.contains("udp/blok") && message.contains("udp/block") && message.contains("frame/xdp"));
    }
}
