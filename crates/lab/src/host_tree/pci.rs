//! The configuration space of a PCI Express function, as much of it as settings are read from.
//!
//! Source: PCI Express Base Specification 5.0, 7.5; `include/uapi/linux/pci_regs.h`.

use super::description::NicKeys;

const CONFIG_BYTES: usize = 4096;
const STATUS: usize = 0x06;
const HAS_CAPABILITIES: u8 = 0x10;
const CAPABILITIES_AT: usize = 0x34;
const EXPRESS_AT: u8 = 0x40;
const EXPRESS: u8 = 0x10;
const DEVICE_CONTROL: usize = 0x08;
/// Relaxed ordering and extended tags on, as devices come out of reset.
const RELAXED_ORDERING: u16 = 1 << 4;
const EXTENDED_TAGS: u16 = 1 << 8;
const NO_SNOOP: u16 = 1 << 11;

/// 4096 bytes with the PCI Express capability; ASPM is off.
pub(super) fn config(nic: &NicKeys) -> Vec<u8> {
    let mut config = vec![0; CONFIG_BYTES];
    config[STATUS] = HAS_CAPABILITIES;
    config[CAPABILITIES_AT] = EXPRESS_AT;
    let express = usize::from(EXPRESS_AT);
    config[express] = EXPRESS;
    let control = field(nic.max_payload_bytes) << 5
        | field(nic.max_read_request_bytes) << 12
        | RELAXED_ORDERING
        | EXTENDED_TAGS
        | NO_SNOOP;
    config[express + DEVICE_CONTROL..][..2].copy_from_slice(&control.to_le_bytes());
    config
}

/// 128 bytes is 0, 256 is 1, up to 4096.
fn field(size_bytes: u32) -> u16 {
    u16::try_from(size_bytes.max(128).ilog2() - 7).unwrap_or(0).min(5)
}
