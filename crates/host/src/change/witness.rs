//! Values that a reset moves although nobody asked for it: interrupts come back with the kernel's
//! CPUs, queues without their masks. They are part of the change, so that they stay and are put
//! back.

use super::{Change, Host, RootHost, Scope, targets};
use crate::catalogue;
use crate::setting::Disruption;

/// The values that these changes may move and do not mean to, each wanted as it is found. What
/// cannot be read is left out.
pub(super) fn witnesses(host: &mut RootHost, changes: &[Change]) -> Vec<Change> {
    let mut interfaces: Vec<String> = Vec::new();
    for change in changes.iter().filter(|change| change.disruption() == Disruption::LinkReset && !change.is_as_wanted())
    {
        if let Some(device) = change.target.device()
            && !interfaces.contains(&device.interface)
        {
            interfaces.push(device.interface.clone());
        }
    }
    let scope = Scope { interfaces: &interfaces, cpus: None };
    let settings = catalogue::settings().filter(|setting| setting.nic.is_moved_by_reset);
    let located: Vec<_> =
        settings.flat_map(|setting| targets(host.root(), setting, &scope).unwrap_or_default()).collect();
    let is_meant = |key: &str| changes.iter().any(|change| change.target.key() == key);
    let mut found = Vec::new();
    for place in located {
        if !is_meant(&place.target.key())
            && let Ok(value) = host.read(&place.target)
            && host.probe(&place.target, &value).is_ok()
            && host.rehearse(&place.target).is_ok()
        {
            found.push(Change { id: place.id, target: place.target, found: value.clone(), wanted: value });
        }
    }
    found
}
