//! A guest as the device under test: QEMU with two virtio-net NICs, all of it on the device's CPU.
//!
//! ```text
//!   generator                  host of the guest                              sink
//!   +-----+    +-----------------------------------------------------+    +-----+
//!   | nw0 |----| nw1 - nwbr0 - nwtap0 [ guest ] nwtap1 - nwbr1 - nw2 |----| nw3 |
//!   +-----+    |                  nic1         nic2                  |    +-----+
//!              +-----------------------------------------------------+
//! ```
//!
//! As on a hypervisor, each NIC of the guest is a tap device of the host, which the host's kernel joins with a cable by a bridge. The guest's
//! interfaces have the addresses of `nw1` and `nw2`, which give theirs away: neighbours see the guest as they would see any other device. QEMU
//! dies with this process, and everything else goes with the namespace.

mod boot;
mod error;
mod inside;
mod system;

use nearwire_lab::emulated_host::{HostHardware, HostNic, HostPlace, NicKind};
use nearwire_lab::{CableEnd, EmulatedHost, LabError, give_away_addresses, join_by_bridge, receive_on_cpus};

use super::{DeviceError, Place};
use crate::function::{Drops, FunctionKind};
pub use boot::EMULATED;
use boot::{Booted, boot};
pub use error::GuestError;
pub use inside::Inside;
pub use system::KERNEL_VARIABLE;

/// Memory of a guest.
const MEMORY_MIB: u32 = 512;
/// Link addresses that the host's ends get instead of those that the guest has; the last byte is that of the end.
const HOST_MAC: [u8; 6] = [0x02, b'N', b'W', 1, 0, 0];

/// A bridge of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBridge {
    /// Its name.
    pub name: String,
    /// What it joins: the end of a cable, and the tap device of a NIC.
    pub joins: [String; 2],
}

/// A guest that forwards. Dropping it ends it.
#[derive(Debug)]
pub struct RunningGuest {
    host: EmulatedHost,
    inside: Inside,
    bridges: [HostBridge; 2],
    describe: String,
}

impl RunningGuest {
    /// Boots a guest in a place and has it forward.
    pub(super) fn start(function: FunctionKind, inside: Inside, place: Place) -> Result<RunningGuest, GuestError> {
        let system = system::find(inside.is_ours())?;
        let bridges = [0, 1].map(|at| HostBridge {
            name: format!("nwbr{at}"),
            joins: [place.ports[at].interface.clone(), format!("nwtap{at}")],
        });
        let hardware = HostHardware {
            cores_per_package: 1,
            node_memory_mib: vec![MEMORY_MIB],
            nics: [0, 1].map(|at| nic(&bridges[at], place.ports[at])).to_vec(),
            ..HostHardware::default()
        };
        let namespace = Some(place.ports[0].namespace.clone());
        let Booted { mut host, by } = boot(&hardware, &system, &HostPlace { namespace, cpu: Some(place.cpu) })?;
        for (port, bridge) in place.ports.into_iter().zip(&bridges) {
            join(port, bridge, place.cpu)?;
        }
        let forwards = inside::set_up(&mut host, function, inside, place)?;
        let describe = describe(&mut host, &by, place.cpu, &forwards)?;
        Ok(RunningGuest { host, inside, bridges, describe })
    }

    /// Whether it runs still, and what forwards in it.
    pub(super) fn check(&mut self) -> Result<(), DeviceError> {
        self.host.check().map_err(|error| DeviceError::Ended { why: error.to_string() })?;
        match inside::last_words(&self.host.console()) {
            Some(why) => Err(DeviceError::Ended { why }),
            None => Ok(()),
        }
    }

    /// What it is made of, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        self.describe.clone()
    }

    /// Whether this machine's processor runs its instructions (KVM); else software emulates them, and its speed says nothing.
    #[must_use]
    pub fn has_kvm(&self) -> bool {
        self.host.has_kvm()
    }

    /// The bridges of its host: towards the generator, towards the sink.
    #[must_use]
    pub const fn bridges(&self) -> &[HostBridge; 2] {
        &self.bridges
    }

    /// Ends it: what its forwarder dropped; nothing of a kernel, which does not tell.
    pub(super) fn end(mut self) -> Drops {
        if self.inside.is_ours() { inside::end_forwarder(&mut self.host) } else { Drops::default() }
    }
}

/// A NIC with the address that the neighbours of a port know.
fn nic(bridge: &HostBridge, port: &CableEnd) -> HostNic {
    HostNic { tap: Some(bridge.joins[1].clone()), mac: Some(port.mac), ..HostNic::new(NicKind::VirtioNet) }
}

/// Joins an end of a cable with the tap device of a NIC, on the device's CPU.
fn join(port: &CableEnd, bridge: &HostBridge, cpu: u32) -> Result<(), LabError> {
    let mut mac = HOST_MAC;
    mac[5] = port.mac[5];
    give_away_addresses(port, mac)?;
    let [end, tap] = &bridge.joins;
    join_by_bridge(&port.namespace, &bridge.name, &[end, tap], port.mtu_bytes)?;
    receive_on_cpus(port, &[cpu])
}

fn describe(host: &mut EmulatedHost, by: &str, cpu: u32, forwards: &str) -> Result<String, GuestError> {
    let kernel = host.output_of("uname -r")?;
    Ok(format!(
        "{forwards} in a guest of QEMU ({by}): Linux {kernel}, 1 virtual CPU, two virtio-net NICs; all threads of QEMU and the host's \
         bridges on CPU {cpu}"
    ))
}

#[cfg(test)]
mod tests;
