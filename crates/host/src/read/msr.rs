//! Model-specific registers, by the `msr` module.

use super::HostFiles;
use crate::Reading;
use crate::setting::MsrField;

const DEVICE: &str = "/dev/cpu/0/msr";

/// A field of a register of CPU 0. Only Intel's numbers are known here.
pub(super) fn read(files: &HostFiles<'_>, field: MsrField) -> Reading {
    if !files.root().is_whole() {
        return Reading::unknown("registers are read on a live host or from a snapshot only");
    }
    match files.cpuinfo_field("vendor_id") {
        Ok("GenuineIntel") => {}
        Ok(_) | Err(Reading::Unsupported) => return Reading::Unsupported,
        Err(reading) => return reading,
    }
    match files.root().read_device(DEVICE, u64::from(field.register)) {
        Ok(bytes) => value(u64::from_ne_bytes(bytes), field),
        Err(Reading::Unsupported) => Reading::unknown(format!("{DEVICE} is not there: load the module msr")),
        Err(reading) => reading,
    }
}

fn value(register: u64, field: MsrField) -> Reading {
    let mask = 1_u64.checked_shl(field.bits).map_or(u64::MAX, |bit| bit - 1);
    let value = (register >> field.low_bit) & mask;
    let word = usize::try_from(value).ok().and_then(|index| field.words.get(index));
    word.map_or_else(|| Reading::value(value), Reading::value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_field_read_gives_its_word_or_number() {
        let field = MsrField { register: 0x1a4, low_bit: 1, bits: 2, words: &["on", "off"] };
        assert_eq!(value(0b001, field), Reading::value("on"));
        assert_eq!(value(0b010, field), Reading::value("off"));
        assert_eq!(value(0b110, field), Reading::value("3"));
        let whole = MsrField { register: 0x34, low_bit: 0, bits: 64, words: &[] };
        assert_eq!(value(u64::MAX, whole), Reading::value(u64::MAX));
    }
}
