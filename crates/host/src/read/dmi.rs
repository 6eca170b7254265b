//! Memory modules from the SMBIOS tables (DMTF DSP0134, structure type 17). Serial numbers, which
//! the same structures hold, are never looked at.

use super::HostFiles;
use crate::Reading;

const ENTRIES: &str = "/sys/firmware/dmi/entries";
/// A structure has a few hundred bytes.
const ENTRY_BYTES_MAX: u64 = 4096;
const SIZE_AT: usize = 0x0c;
const SPEED_AT: usize = 0x15;
const CONFIGURED_SPEED_AT: usize = 0x20;
const CONFIGURED_VOLTAGE_AT: usize = 0x26;

/// Configured and rated speed of the memory modules: `16 of 24 slots, 2933 of 3200 MT/s`.
pub(crate) fn memory_speed(files: &HostFiles<'_>) -> Reading {
    let modules = match modules(files) {
        Ok(modules) => modules,
        Err(reading) => return reading,
    };
    let filled: Vec<_> = modules.iter().filter(|module| is_filled(module)).collect();
    let speeds = filled.iter().map(|module| {
        let speed = |at| word(module, at).filter(|&speed| speed != 0);
        match (speed(CONFIGURED_SPEED_AT), speed(SPEED_AT)) {
            (Some(configured), Some(rated)) => format!("{configured} of {rated} MT/s"),
            (Some(configured), None) => format!("{configured} MT/s"),
            _ => "unknown speed".to_owned(),
        }
    });
    Reading::Value(format!("{} of {} slots, {}", filled.len(), modules.len(), distinct(speeds)))
}

/// Configured voltage of the memory modules, millivolts.
pub(crate) fn memory_voltage(files: &HostFiles<'_>) -> Reading {
    let modules = match modules(files) {
        Ok(modules) => modules,
        Err(reading) => return reading,
    };
    let filled = modules.iter().filter(|module| is_filled(module));
    let voltages: Vec<_> = filled
        .filter_map(|module| word(module, CONFIGURED_VOLTAGE_AT).filter(|&voltage_mv| voltage_mv != 0))
        .map(|voltage_mv| voltage_mv.to_string())
        .collect();
    if voltages.is_empty() {
        return Reading::Unsupported;
    }
    Reading::Value(distinct(voltages.into_iter()))
}

fn modules(files: &HostFiles<'_>) -> Result<Vec<Vec<u8>>, Reading> {
    let entries = files.root().list(ENTRIES)?;
    let modules: Result<Vec<_>, _> = entries
        .iter()
        .filter(|name| name.starts_with("17-"))
        .map(|name| files.root().read_bytes(&format!("{ENTRIES}/{name}/raw"), ENTRY_BYTES_MAX))
        .collect();
    let modules = modules?;
    if modules.is_empty() { Err(Reading::Unsupported) } else { Ok(modules) }
}

fn is_filled(module: &[u8]) -> bool {
    word(module, SIZE_AT).is_some_and(|size| size != 0)
}

/// A field, if the structure is long enough to have it: its second byte is its length.
fn word(module: &[u8], at: usize) -> Option<u16> {
    let length = usize::from(*module.get(1)?);
    let bytes = module.get(at..at + 2).filter(|_| at + 2 <= length)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn distinct(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<_> = texts.collect();
    texts.sort();
    texts.dedup();
    if texts.is_empty() { "none filled".to_owned() } else { texts.join(", ") }
}
