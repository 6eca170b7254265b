//! Hardware as arguments of QEMU.

use std::path::Path;

use super::hardware::{HostHardware, HostNic, PciePort};

/// What the harness adds to every kernel command line, in front of the test's: messages of trouble on the serial console;
/// a panic ends QEMU instead of waiting; the kernel does not test its ciphers, which takes half a second here, nor count
/// ticks of the timer in real time, which fails where this machine has no time for QEMU ("timer not connected to IO-APIC").
pub(super) const OWN_OPTIONS: &str = "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check";

/// For the kernel's command line, where neither what the kernel does against faults of its processor nor how long it waits for readers of RCU
/// is what is tested: under emulation a change of page tables costs most of a system call. XDP programs of all kinds were tried on Linux
/// 6.12 in 112 s without these options, in 69 with them. Not `mitigations=off`, of which the verifier knows: it takes programs then
/// that it refuses to users without CAP_PERFMON otherwise.
pub const SOONER: &str = "nopti nospectre_v2 rcupdate.rcu_expedited=1";

/// The files that QEMU opens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) kernel: &'a Path,
    pub(super) initramfs: &'a Path,
    pub(super) disk: &'a Path,
    pub(super) console: &'a Path,
}

/// The arguments of `qemu-system-x86_64`.
pub(super) fn arguments(hardware: &HostHardware, has_kvm: bool, files: Files<'_>, command_line: &str) -> Vec<String> {
    let mut arguments = Arguments::default();
    if has_kvm {
        arguments.option("-accel", "kvm");
        arguments.option("-cpu", "host");
    } else {
        // Translated code that another processor patches at that moment is run half old, half new by QEMU 7.2 when each
        // processor has a thread of its own (`Oops: int3` while the kernel patches itself): one thread runs them in turn.
        arguments.option("-accel", "tcg,thread=single");
        arguments.option("-cpu", &hardware.processor);
    }
    arguments.option("-machine", "q35,vmport=off");
    for word in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        arguments.word(word);
    }
    arguments.option("-display", "none");
    processors_and_memory(&mut arguments, hardware);
    boot(&mut arguments, files, command_line);
    if hardware.has_iommu {
        arguments.option("-device", "intel-iommu,intremap=on");
    }
    nics(&mut arguments, &hardware.nics);
    for table in &hardware.smbios {
        let fields = table.fields.iter().map(|(name, value)| format!(",{name}={}", escaped(value)));
        arguments.option("-smbios", &format!("type={}{}", table.kind, fields.collect::<String>()));
    }
    arguments.0
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn word(&mut self, word: &str) {
        self.0.push(word.to_owned());
    }

    fn option(&mut self, name: &str, value: &str) {
        self.word(name);
        self.word(value);
    }
}

/// A comma ends a value unless it is doubled.
fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}

fn processors_and_memory(arguments: &mut Arguments, hardware: &HostHardware) {
    let HostHardware { packages, cores_per_package, threads_per_core, node_memory_mib, .. } = hardware;
    let cpus = hardware.cpus();
    let topology = format!("{cpus},sockets={packages},cores={cores_per_package},threads={threads_per_core}");
    arguments.option("-smp", &topology);
    let memory_mib: u32 = node_memory_mib.iter().sum();
    arguments.option("-m", &format!("{memory_mib}M"));
    let nodes = node_memory_mib.len() as u32;
    for (node, memory_mib) in (0..).zip(node_memory_mib) {
        let (first, beyond) = (cpus * node / nodes, cpus * (node + 1) / nodes);
        arguments.option("-object", &format!("memory-backend-ram,id=memory{node},size={memory_mib}M"));
        arguments.option("-numa", &format!("node,nodeid={node},cpus={first}-{},memdev=memory{node}", beyond - 1));
    }
}

fn boot(arguments: &mut Arguments, files: Files<'_>, command_line: &str) {
    let path = |path: &Path| escaped(&path.to_string_lossy());
    arguments.option("-kernel", &files.kernel.to_string_lossy());
    arguments.option("-initrd", &files.initramfs.to_string_lossy());
    arguments.option("-append", &format!("{OWN_OPTIONS} {command_line}"));
    arguments.option("-chardev", &format!("file,id=console,path={}", path(files.console)));
    arguments.option("-serial", "chardev:console");
    arguments.option("-chardev", "stdio,id=channel,signal=off");
    arguments.option("-device", "virtio-serial-pci");
    arguments.option("-device", "virtserialport,chardev=channel");
    // What the guest was told is written is with the host's kernel, so it is there after QEMU was killed.
    let drive = format!("if=none,id=disk,format=raw,cache=writethrough,file={}", path(files.disk));
    arguments.option("-drive", &drive);
    arguments.option("-device", "virtio-blk-pci,drive=disk");
}

fn nics(arguments: &mut Arguments, nics: &[HostNic]) {
    let mut roots = Vec::new();
    for (index, nic) in nics.iter().enumerate() {
        if let Some(node) = nic.node.filter(|node| !roots.contains(node)) {
            roots.push(node);
            // Bus numbers of the roots lie far apart, to leave each its ports.
            let first_bus = 32 * roots.len();
            let root = format!("pxb-pcie,id=root{node},bus=pcie.0,bus_nr={first_bus},numa_node={node}");
            arguments.option("-device", &root);
        }
        one_nic(arguments, index, nic);
    }
}

fn one_nic(arguments: &mut Arguments, index: usize, nic: &HostNic) {
    let mut bus = "pcie.0".to_owned();
    if let Some(node) = nic.node {
        let mut port = format!("pcie-root-port,id=port{index},bus=root{node},chassis={},slot={index}", index + 1);
        if let Some(PciePort { speed_gt_s, lanes }) = &nic.port {
            port += &format!(",x-speed={speed_gt_s},x-width={lanes}");
        }
        arguments.option("-device", &port);
        bus = format!("port{index}");
    }
    // Without a boot ROM the firmware need not try it.
    let mut device = format!("{},bus={bus},netdev=net{index},romfile=", nic.kind.device());
    let mac = nic.mac.unwrap_or([0x52, 0x54, 0, 0, 0, index as u8]);
    device += &format!(",mac={}", mac.map(|byte| format!("{byte:02x}")).join(":"));
    if nic.maps_dma {
        device += ",iommu_platform=on,disable-legacy=on";
    }
    let netdev = if nic.has_tap() {
        if nic.queues > 1 {
            // One vector each for every queue in each direction, for changes and for control.
            device += &format!(",mq=on,vectors={}", 2 * nic.queues + 2);
        }
        let tap = nic.tap.clone().unwrap_or_else(|| format!("tap{index}"));
        format!("tap,id=net{index},ifname={tap},script=no,downscript=no,queues={}", nic.queues)
    } else {
        format!("hubport,id=net{index},hubid={}", nic.segment)
    };
    arguments.option("-netdev", &netdev);
    arguments.option("-device", &device);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{HostHardware, HostNic, NicKind, SmbiosTable};
    use super::{Files, arguments};

    fn given(hardware: &HostHardware) -> String {
        let nowhere = Path::new("/nowhere");
        let files = Files { kernel: nowhere, initramfs: nowhere, disk: nowhere, console: nowhere };
        arguments(hardware, false, files, "isolcpus=1").join(" ")
    }

    #[test]
    fn cpus_are_shared_out_evenly_and_memory_is_added_up() {
        let hardware = HostHardware {
            packages: 2,
            threads_per_core: 2,
            node_memory_mib: vec![300, 200],
            ..HostHardware::default()
        };
        let given = given(&hardware);
        for words in ["-m 500M", "-smp 8,sockets=2,cores=2,threads=2", "nodeid=0,cpus=0-3,", "nodeid=1,cpus=4-7,"] {
            assert!(given.contains(words), "no '{words}' in {given}");
        }
    }

    #[test]
    fn comma_in_a_firmware_string_is_no_end() {
        let smbios = vec![SmbiosTable::new(1, &[("manufacturer", "Example, Inc"), ("serial", "7")])];
        let given = given(&HostHardware { smbios, ..HostHardware::default() });
        assert!(given.contains("-smbios type=1,manufacturer=Example,, Inc,serial=7"), "{given}");
    }

    #[test]
    fn nic_of_the_callers_has_its_tap_device_and_address() {
        let nic = HostNic {
            tap: Some("guest7".to_owned()),
            mac: Some([2, 0x4e, 0x57, 0, 0, 9]),
            ..HostNic::new(NicKind::VirtioNet)
        };
        let given = given(&HostHardware { nics: vec![nic], ..HostHardware::default() });
        assert!(given.contains("ifname=guest7,") && given.contains("mac=02:4e:57:00:00:09"), "{given}");
        assert!(!given.contains("mq=on"), "{given}");
    }

    #[test]
    fn two_nics_of_a_node_share_its_root() {
        let nic = || HostNic::new(NicKind::E1000e).on_node(0);
        let given = given(&HostHardware { nics: vec![nic(), nic()], ..HostHardware::default() });
        assert_eq!(given.matches("pxb-pcie").count(), 1, "{given}");
        assert!(given.contains("e1000e,bus=port0,") && given.contains("e1000e,bus=port1,"), "{given}");
    }
}
