//! Boots a guest: by KVM, and where that does not work in software.

use std::sync::OnceLock;
use std::time::Duration;

use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::{Accelerator, EmulatedHostError, HostHardware, HostPlace, HostSystem, SOONER};

use super::GuestError;

/// What a guest's description says where no processor runs its instructions, so that its speed says nothing.
pub const EMULATED: &str = "emulated in software";
/// A boot by KVM takes two seconds.
const KVM_LIMIT: Duration = Duration::from_secs(30);

/// A guest that was booted.
pub(super) struct Booted {
    pub(super) host: EmulatedHost,
    /// What runs its instructions, in words.
    pub(super) by: String,
}

/// A device `/dev/kvm` that can be opened may still not run a guest, as in a virtual machine without nested virtualization: this is tried
/// once in a process.
pub(super) fn boot(hardware: &HostHardware, system: &HostSystem, place: &HostPlace) -> Result<Booted, GuestError> {
    static KVM_FAILURE: OnceLock<String> = OnceLock::new();
    let build = |accelerator| {
        let hardware = HostHardware { accelerator, ..hardware.clone() };
        EmulatedHost::build(&hardware, system).map(|host| host.in_place(place.clone()))
    };
    if KVM_FAILURE.get().is_none() {
        let mut host = build(Accelerator::KvmIfPossible)?;
        if host.has_kvm() {
            match host.power_on_within("", KVM_LIMIT).map_err(why) {
                Ok(()) => return Ok(Booted { host, by: "KVM".to_owned() }),
                Err(Ok(why)) => drop(KVM_FAILURE.set(why)),
                Err(Err(error)) => return Err(error.into()),
            }
        }
    }
    let mut host = build(Accelerator::Software)?;
    host.power_on(SOONER)?;
    let by = match KVM_FAILURE.get() {
        Some(why) => format!("{EMULATED}, as /dev/kvm runs no guest here: {why}"),
        None => format!("{EMULATED}, as /dev/kvm cannot be opened"),
    };
    Ok(Booted { host, by })
}

/// Why a guest did not boot by KVM, in a line; or an error that has nothing to do with it.
fn why(error: EmulatedHostError) -> Result<String, EmulatedHostError> {
    match error {
        EmulatedHostError::Ended { said, status, .. } => {
            let said = said.lines().map(|line| line.trim_start_matches("qemu-system-x86_64: ")).next();
            Ok(said.map_or(status, str::to_owned))
        }
        EmulatedHostError::TimedOut { limit, .. } => Ok(format!("it did not boot in {} s", limit.as_secs())),
        other => Err(other),
    }
}
