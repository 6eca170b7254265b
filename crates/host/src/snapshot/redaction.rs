//! Takes out of files what identifies a machine, by what the files are. No reading changes by it.

use super::identifiers::Identifiers;
use crate::read::log;
use crate::redact::redact;

/// The lines of `/proc/PID/status` and `/proc/PID/task/TID/status` that say where a thread may run.
const STATUS: [&str; 6] = ["Name:", "VmSize:", "Threads:", "Cpus_allowed:", "Cpus_allowed_list:", "Mems_allowed_list:"];
/// PCI Express extended capability with the serial number of a card, in many its MAC address (PCI
/// Express Base Specification 5.0, 7.9.3).
const DEVICE_SERIAL: u16 = 3;
const EXTENDED_AT: usize = 0x100;
const CAPABILITIES_MAX: usize = 64;

/// The bytes of a file as they may be given away; `None` when nothing of them may.
pub(super) fn redacted(path: &str, bytes: Vec<u8>, identifiers: &Identifiers) -> Option<Vec<u8>> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == "address" || name.contains("serial") || name.contains("uuid") {
        return None;
    }
    if directory.starts_with("/sys/firmware/dmi/entries/") {
        return structure_without_texts(&bytes);
    }
    if name == "config" && directory.starts_with("/sys/devices/") {
        return Some(configuration_without_serial(bytes));
    }
    let Ok(text) = String::from_utf8(bytes.clone()) else { return Some(bytes) };
    let text = match (path, name) {
        ("/proc/cmdline", _) => redact(&text),
        ("/proc/cpuinfo", _) => lines(&text, |line| (!line.starts_with("Serial")).then(|| line.to_owned())),
        ("/proc/swaps", _) => swaps(&text),
        ("/dev/kmsg", _) => log::only_needed(&text),
        (_, "status") if directory.starts_with("/proc/") => {
            lines(&text, |line| STATUS.iter().any(|field| line.starts_with(field)).then(|| line.to_owned()))
        }
        // Comments are for people, and may name machines and people.
        _ if path.starts_with("/etc/") => {
            lines(&text, |line| (!line.trim_start().starts_with('#')).then(|| redact(line)))
        }
        _ => text,
    };
    Some(identifiers.scrub(&text).into_bytes())
}

fn lines(text: &str, of: impl Fn(&str) -> Option<String>) -> String {
    text.lines().filter_map(of).flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// A swap area's name may identify a disk.
fn swaps(text: &str) -> String {
    let area = |(at, line): (usize, &str)| match (at, line.split_once([' ', '\t'])) {
        (0, _) => format!("{line}\n"),
        (_, Some((_, rest))) => format!("<area> {rest}\n"),
        (_, None) => "<area>\n".to_owned(),
    };
    text.lines().enumerate().map(area).collect()
}

/// A memory module's structure (DSP0134, type 17) without the texts behind it, among them its
/// serial number. Other structures, which have a UUID or serial number elsewhere, are left out.
fn structure_without_texts(raw: &[u8]) -> Option<Vec<u8>> {
    const MEMORY_DEVICE: u8 = 17;
    let [MEMORY_DEVICE, length, ..] = raw else { return None };
    let fields = raw.get(..usize::from(*length)).unwrap_or(raw);
    Some([fields, &[0, 0]].concat())
}

fn configuration_without_serial(mut config: Vec<u8>) -> Vec<u8> {
    let mut at = EXTENDED_AT;
    for _ in 0..CAPABILITIES_MAX {
        let Some(&[id_low, id_high, next_low, next_high]) = config.get(at..at + 4) else { break };
        if u16::from_le_bytes([id_low, id_high]) == DEVICE_SERIAL {
            let end = config.len().min(at + 12);
            config[at + 4..end].fill(0);
        }
        at = usize::from(u16::from_le_bytes([next_low, next_high]) >> 4 & !3);
        if at < EXTENDED_AT {
            break;
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, text: &str) -> Option<String> {
        let bytes = redacted(path, text.as_bytes().to_vec(), &Identifiers::default())?;
        Some(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn file_with_identifiers_redacted_has_none() {
        for (path, given, wanted) in [
            ("/sys/devices/x/net/eth0/address", "00:1b:21:aa:bb:cc\n", None),
            ("/sys/class/dmi/id/product_serial", "CZ1\n", None),
            ("/sys/class/dmi/id/product_uuid", "x\n", None),
            ("/proc/cmdline", "root=UUID=0b7dd5a5-9cf1-4e2d-a1b8-0d8f4b7c1a2e ro", Some("root=UUID=<uuid> ro")),
            ("/proc/cpuinfo", "flags : a\nSerial : 00ff\n", Some("flags : a\n")),
            (
                "/proc/swaps",
                "Filename Type\n/dev/disk/by-uuid/a partition 8\n",
                Some("Filename Type\n<area> partition 8\n"),
            ),
            (
                "/proc/7/task/8/status",
                "Name:\ta\nUid:\t1000\nThreads:\t1\nCpus_allowed_list:\t0-3\n",
                Some("Name:\ta\nThreads:\t1\nCpus_allowed_list:\t0-3\n"),
            ),
            (
                "/dev/kmsg",
                "5,0,0,-;Linux version 6.1.0 (me@mine) x\n6,1,0,-;eth0: 00:1b:21:aa:bb:cc\n \
                 SUBSYSTEM=net\n5,9,0,-;Malformed early option 'ip=10.0.0.1'\n",
                Some("5,0,0,-;Linux version 6.1.0\n5,9,0,-;Malformed early option 'ip=<address>'\n"),
            ),
            ("/etc/modprobe.d/a.conf", "# mine\noptions a ip=10.0.0.1\n", Some("options a ip=<address>\n")),
            ("/sys/module/a/version", "20.0.8.13\n", Some("20.0.8.13\n")),
        ] {
            assert_eq!(text(path, given).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn memory_module_redacted_keeps_its_fields_and_no_texts() {
        let path = "/sys/firmware/dmi/entries/17-0/raw";
        let none = Identifiers::default();
        let raw = [&[17, 6, 1, 2, 3, 4][..], b"SERIAL1\0\0"].concat();
        assert_eq!(redacted(path, raw, &none), Some(vec![17, 6, 1, 2, 3, 4, 0, 0]));
        assert_eq!(redacted(path, vec![17, 200, 1], &none), Some(vec![17, 200, 1, 0, 0]));
        assert_eq!(redacted("/sys/firmware/dmi/entries/1-0/raw", vec![1, 8, 0, 0], &none), None);
        assert_eq!(redacted(path, Vec::new(), &none), None);
    }

    #[test]
    fn configuration_space_redacted_has_no_device_serial() {
        let mut config = vec![0; 4096];
        config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x01, 0x14]);
        config[0x140..0x14c].copy_from_slice(&[3, 0, 1, 0x15, 1, 2, 3, 4, 5, 6, 7, 8]);
        config[0x150..0x154].copy_from_slice(&[0x0f, 0, 1, 0]);
        let mut wanted = config.clone();
        wanted[0x144..0x14c].fill(0);
        let path = "/sys/devices/pci0000:00/0000:00:01.0/config";
        assert_eq!(redacted(path, config, &Identifiers::default()), Some(wanted));
        for noise in [vec![0xff; 4096], vec![3; 0x106], vec![0; 64], Vec::new()] {
            let length = noise.len();
            assert_eq!(redacted(path, noise, &Identifiers::default()).unwrap().len(), length);
        }
    }
}
