//! A network interface through `SIOCETHTOOL`: driver, rings, coalescing, channels, offloads, link,
//! timestamping, flow control, power saving, error correction, rules for flows.
//!
//! The interface is looked up in the network namespace of the thread that opened it
//! ([`Interface::open`]), unlike `/sys/class/net`, which shows the namespace of its mount. Only the
//! methods that begin with `set_` change anything. Answers can be written down and read back by
//! serde: keys are ethtool's words, and a key that is left out is 0, false or empty.
//!
//! Source: `include/uapi/linux/ethtool.h`, `net/ethtool/ioctl.c` (Linux 6.18). The older interface
//! is used instead of generic netlink because every driver answers it and one call is one answer;
//! its weakness: a coalescing parameter that the driver lacks reads as 0.

mod device;
mod layout;
mod link;
mod offload;
mod rules;
mod set;
mod statistics;
#[cfg(test)]
mod tests;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use device::{EnergyEfficient, Fec, Pause};
pub use link::{Duplex, LinkSettings, SoTimestamping, Timestamping};
pub use offload::{Feature, Features, PrivateFlags};
pub use rules::{FlowRule, FlowTarget};

use layout::{GetChannels, GetCoalesce, GetDriverInfo, GetRings, InterfaceRequest, Request};

/// Longest interface name, bytes, without the closing NUL (`IFNAMSIZ - 1`).
pub const INTERFACE_NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;

/// Why an interface did not answer.
#[derive(Debug, Error)]
pub enum EthtoolError {
    /// No interface can have this name.
    #[error("interface name {name:?} is empty, longer than {INTERFACE_NAME_BYTES_MAX} bytes or has a NUL")]
    Name {
        /// The name as given.
        name: String,
    },
    /// No socket to ask through.
    #[error("open a socket to ask about {interface}: {source}")]
    Socket {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The interface does not exist in the namespace of the thread that opened it.
    #[error("{interface}: no such interface in this network namespace")]
    NoInterface {
        /// The interface.
        interface: String,
    },
    /// The driver does not have this (`EOPNOTSUPP`): not a failure, the setting does not exist.
    #[error("{interface}: the driver does not support {command}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// The command without its prefix, e.g. `GCOALESCE`.
        command: &'static str,
    },
    /// The caller may not ask (`EPERM`).
    #[error("{interface}: {command} needs CAP_NET_ADMIN")]
    NotPermitted {
        /// The interface.
        interface: String,
        /// The command without its prefix.
        command: &'static str,
    },
    /// Anything else.
    #[error("{interface}: {command}: {source}")]
    Failed {
        /// The interface.
        interface: String,
        /// The command without its prefix.
        command: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel offers more names of offloads than fit.
    #[error("{interface}: kernel knows {found} offloads, at most {limit} are understood")]
    TooManyFeatures {
        /// The interface.
        interface: String,
        /// How many the kernel has.
        found: u32,
        /// How many fit.
        limit: u32,
    },
}

impl EthtoolError {
    /// Whether the driver lacks what was asked for, as opposed to having failed.
    #[must_use]
    pub const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported { .. })
    }
}

/// Who drives an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DriverInfo {
    /// Name of the driver: `mlx5_core`, `veth`.
    pub driver: String,
    /// Version of the driver; in-tree drivers give the kernel's.
    pub version: String,
    /// Version of the firmware; empty when there is none.
    pub firmware_version: String,
    /// Where the device sits, e.g. a PCI address; empty for virtual devices.
    pub bus_info: String,
    /// How many private flags the driver has.
    pub private_flags: u32,
}

/// Sizes of the descriptor rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Rings {
    /// Receive ring, descriptors.
    pub rx: u32,
    /// Largest possible receive ring, descriptors.
    pub rx_max: u32,
    /// Transmit ring, descriptors.
    pub tx: u32,
    /// Largest possible transmit ring, descriptors.
    pub tx_max: u32,
}

/// Interrupt coalescing. A parameter the driver lacks is 0 here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Coalesce {
    /// `rx-usecs`.
    pub rx_usecs: u32,
    /// `rx-frames`.
    pub rx_frames: u32,
    /// `tx-usecs`.
    pub tx_usecs: u32,
    /// `tx-frames`.
    pub tx_frames: u32,
    /// `rx-usecs-irq`.
    pub rx_usecs_irq: u32,
    /// `rx-frames-irq`.
    pub rx_frames_irq: u32,
    /// `tx-frames-irq`.
    pub tx_frames_irq: u32,
    /// `stats-block-usecs`.
    pub stats_block_usecs: u32,
    /// `sample-interval`, seconds.
    #[serde(rename = "sample-interval")]
    pub sample_interval_s: u32,
    /// `pkt-rate-low`, packets a second.
    pub pkt_rate_low: u32,
    /// `pkt-rate-high`, packets a second.
    pub pkt_rate_high: u32,
    /// `rx-usecs-low`.
    pub rx_usecs_low: u32,
    /// `rx-usecs-high`.
    pub rx_usecs_high: u32,
    /// `adaptive-rx`.
    pub adaptive_rx: bool,
    /// `adaptive-tx`.
    pub adaptive_tx: bool,
}

/// Numbers of queues, each with its interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Channels {
    /// Receive-only channels.
    pub rx: u32,
    /// Most possible receive-only channels.
    pub rx_max: u32,
    /// Transmit-only channels.
    pub tx: u32,
    /// Most possible transmit-only channels.
    pub tx_max: u32,
    /// Channels for link and other events.
    pub other: u32,
    /// Channels that receive and transmit.
    pub combined: u32,
    /// Most possible such channels.
    pub combined_max: u32,
}

/// A network interface that can be asked.
#[derive(Debug)]
pub struct Interface {
    name: String,
    socket: OwnedFd,
}

impl Interface {
    /// Opens the interface of this name in the calling thread's network namespace. Questions may
    /// then come from any thread. That the interface exists is found out by the first question.
    ///
    /// # Errors
    /// The name cannot be one, or no socket can be made.
    pub fn open(name: &str) -> Result<Self, EthtoolError> {
        let fits = (1..=INTERFACE_NAME_BYTES_MAX).contains(&name.len());
        if !fits || name.contains('\0') {
            return Err(EthtoolError::Name { name: name.to_owned() });
        }
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            // A kernel without IPv4, or a sandbox that forbids it: any family serves.
            .or_else(|_| socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None))
            .map_err(|errno| EthtoolError::Socket { interface: name.to_owned(), source: errno.into() })?;
        Ok(Self { name: name.to_owned(), socket })
    }

    /// The name it was opened by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index in its namespace.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn index(&self) -> Result<u32, EthtoolError> {
        rustix::net::netdevice::name_to_index(&self.socket, &self.name)
            .map_err(|errno| self.error("SIOCGIFINDEX", errno.into()))
    }

    /// Driver and firmware (`ETHTOOL_GDRVINFO`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn driver_info(&self) -> Result<DriverInfo, EthtoolError> {
        let found: GetDriverInfo = self.ask(|_| {})?;
        Ok(DriverInfo {
            driver: layout::text(&found.driver),
            version: layout::text(&found.version),
            firmware_version: layout::text(&found.fw_version),
            bus_info: layout::text(&found.bus_info),
            private_flags: found.n_priv_flags,
        })
    }

    /// Ring sizes (`ETHTOOL_GRINGPARAM`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn rings(&self) -> Result<Rings, EthtoolError> {
        self.ask(|_| {}).map(|found: GetRings| Rings::from(&found))
    }

    /// Interrupt coalescing (`ETHTOOL_GCOALESCE`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn coalesce(&self) -> Result<Coalesce, EthtoolError> {
        self.ask(|_| {}).map(|found: GetCoalesce| Coalesce::from(&found))
    }

    /// Numbers of queues (`ETHTOOL_GCHANNELS`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn channels(&self) -> Result<Channels, EthtoolError> {
        self.ask(|_| {}).map(|found: GetChannels| Channels::from(&found))
    }

    /// Sends one command and returns the kernel's answer. `prepare` fills in what the command
    /// takes besides its number.
    fn ask<T: Request>(&self, prepare: impl FnOnce(&mut T)) -> Result<T, EthtoolError> {
        // SAFETY: `Request` promises that all-zero bytes are a valid T.
        let mut request = unsafe { MaybeUninit::<T>::zeroed().assume_init() };
        prepare(&mut request);
        self.send(&mut request)?;
        Ok(request)
    }

    /// Sends one command, which the kernel may answer in place.
    fn send<T: Request>(&self, request: &mut T) -> Result<(), EthtoolError> {
        *request.command() = T::COMMAND;
        let mut name = [0; libc::IFNAMSIZ];
        for (to, from) in name.iter_mut().zip(self.name.bytes()) {
            *to = from.cast_signed();
        }
        let mut interface =
            InterfaceRequest { name, data: (&raw mut *request).cast(), rest: [0; InterfaceRequest::REST_BYTES] };
        // SAFETY: the socket is open for as long as `self` lives. The argument is a whole `ifreq`
        // (its layout is tested) with a name closed by NUL: `open` bounds its length and the array
        // is one byte longer. `data` points at `request`, which lives and is not otherwise used
        // during the call, and which `Request` promises to be as long as what the kernel reads and
        // writes for this command.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut interface) };
        if done < 0 {
            return Err(self.error(T::NAME, io::Error::last_os_error()));
        }
        Ok(())
    }

    fn error(&self, command: &'static str, source: io::Error) -> EthtoolError {
        let interface = self.name.clone();
        match source.raw_os_error() {
            Some(libc::EOPNOTSUPP) => EthtoolError::Unsupported { interface, command },
            Some(libc::ENODEV) => EthtoolError::NoInterface { interface },
            Some(libc::EPERM) => EthtoolError::NotPermitted { interface, command },
            _ => EthtoolError::Failed { interface, command, source },
        }
    }
}
