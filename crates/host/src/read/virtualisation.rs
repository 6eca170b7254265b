//! Whether the host is a guest, by what each architecture tells.
//!
//! The order of the questions is that of `detect_vm` in `src/basic/virt.c` of systemd: the firmware's tables of makers
//! that also rent out whole machines, Xen, the processor, the other makers, the device tree, and what s390 says of the
//! levels above it.

use super::HostFiles;
use super::host_files::field_of;
use crate::{Reading, Root};

const DMI: &str = "/sys/class/dmi/id";
const DEVICE_TREE: &str = "/proc/device-tree";
/// What names of makers and products begin with when the machine is virtual.
const VIRTUAL: [&str; 15] = [
    "KVM",
    "OpenStack",
    "KubeVirt",
    "Amazon EC2",
    "QEMU",
    "VMware",
    "VMW",
    "innotek GmbH",
    "VirtualBox",
    "Xen",
    "Bochs",
    "Parallels",
    "BHYVE",
    "Apple Virtualization",
    "Google Compute Engine",
];
const DMI_FILES: [&str; 5] = ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];
/// Byte and bit of the first structure of SMBIOS by which the firmware says that the machine is virtual (DMTF DSP0134,
/// 7.1.2.2).
const VIRTUAL_BYTE: usize = 0x13;
const VIRTUAL_BIT: u8 = 1 << 4;

/// `yes` for a guest, `no` for a machine of its own.
pub(crate) fn is_guest(files: &HostFiles<'_>) -> Reading {
    let root = files.root();
    let questions: [fn(&HostFiles<'_>) -> Option<bool>; 7] =
        [by_rented_machine, by_xen, by_flag, by_firmware, by_device_tree, by_platform, by_sysinfo];
    match questions.into_iter().find_map(|ask| ask(files)) {
        Some(is_guest) => Reading::value(if is_guest { "yes" } else { "no" }),
        None if root.is_whole() => Reading::unknown("neither the processor nor firmware says whether this is a guest"),
        None => Reading::unknown("nothing that was copied says whether this is a guest"),
    }
}

fn dmi(root: &Root, file: &str) -> Option<String> {
    root.read(&format!("{DMI}/{file}")).ok().filter(|text| !text.is_empty())
}

/// Amazon names its whole machines as its guests, but for the end.
fn by_rented_machine(files: &HostFiles<'_>) -> Option<bool> {
    let root = files.root();
    let is_amazon = dmi(root, "sys_vendor").is_some_and(|maker| maker.starts_with("Amazon EC2"));
    let is_whole = dmi(root, "product_name").is_some_and(|name| name.ends_with(".metal") || name.contains(".metal-"));
    (is_amazon && is_whole).then_some(false)
}

/// The first domain of Xen runs the machine and is no guest of it.
fn by_xen(files: &HostFiles<'_>) -> Option<bool> {
    let root = files.root();
    if root.read("/proc/xen/capabilities").is_ok_and(|text| text.contains("control_d")) {
        return Some(false);
    }
    let kind = root.read("/sys/hypervisor/type").ok()?;
    (!kind.is_empty()).then_some(true)
}

fn by_flag(files: &HostFiles<'_>) -> Option<bool> {
    files.cpu_flag("hypervisor").as_value().map(|flag| flag == "yes").filter(|is_guest| *is_guest || !has_name(files))
}

/// Whether the firmware names a virtual machine, which counts where the processor does not say so.
fn has_name(files: &HostFiles<'_>) -> bool {
    let is_virtual = |name: String| VIRTUAL.iter().any(|start| name.starts_with(start));
    DMI_FILES.into_iter().filter_map(|file| dmi(files.root(), file)).any(is_virtual)
}

fn by_firmware(files: &HostFiles<'_>) -> Option<bool> {
    let root = files.root();
    if has_name(files) {
        return Some(true);
    }
    if let Ok(table) = root.read_bytes("/sys/firmware/dmi/entries/0-0/raw", 256)
        && let Some(byte) = table.get(VIRTUAL_BYTE)
        && byte & VIRTUAL_BIT != 0
    {
        return Some(true);
    }
    dmi(root, "sys_vendor").map(|_| false)
}

fn by_device_tree(files: &HostFiles<'_>) -> Option<bool> {
    let root = files.root();
    let names = root.list(DEVICE_TREE).ok()?;
    let has = |name: &str| names.iter().any(|found| found == name);
    let text = |name: &str| root.read(&format!("{DEVICE_TREE}/{name}")).unwrap_or_default();
    let is_qemu = text("compatible").contains("qemu,") || names.iter().any(|name| name.starts_with("fw-cfg"));
    // A partition of POWER is named by the console that manages it.
    let is_partition = has("ibm,partition-name") && has("hmc-managed?");
    Some(has("hypervisor") || is_qemu || is_partition)
}

/// The kernel for POWER names the platform it runs on.
fn by_platform(files: &HostFiles<'_>) -> Option<bool> {
    let text = files.root().read("/proc/cpuinfo").ok()?;
    match field_of(&text, "platform")? {
        "PowerNV" => Some(false),
        "pSeries" => Some(true),
        _ => None,
    }
}

/// z/VM and KVM are at level 0; a logical partition alone is what systemd calls none.
fn by_sysinfo(files: &HostFiles<'_>) -> Option<bool> {
    let text = files.root().read("/proc/sysinfo").ok()?;
    Some(text.lines().any(|line| line.starts_with("VM00 Control Program")))
}
