//! Hardware as arguments of QEMU.

use std::path::Path;

use super::hardware::{HostHardware, HostNic};

/// What the harness adds to every kernel command line, in front of the test's: messages of trouble on the serial console;
/// a panic ends QEMU instead of waiting; the kernel does not test its ciphers, which takes half a second here, nor count
/// ticks of the timer in real time, which fails where this machine has no time for QEMU ("timer not connected to IO-APIC").
pub(super) const OWN_OPTIONS: &str = "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check";

/// The files that QEMU opens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) kernel: &'a Path,
    pub(super) initramfs: &'a Path,
    pub(super) disk: &'a Path,
    pub(super) console: &'a Path,
}

/// The arguments of `qemu-system-x86_64`.
pub(super) fn arguments(hardware: &HostHardware, files: Files<'_>, command_line: &str) -> Vec<String> {
    let mut arguments = Arguments::default();
    // Translated code that another processor patches at that moment is run half old, half new by QEMU 7.2 when each
    // processor has a thread of its own (`Oops: int3` while the kernel patches itself): one thread runs them in turn.
    arguments.option("-accel", "tcg,thread=single");
    arguments.option("-machine", "q35,vmport=off");
    arguments.option("-cpu", &hardware.processor);
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
        let bus = nic.node.map_or_else(
            || "pcie.0".to_owned(),
            |node| {
                if !roots.contains(&node) {
                    roots.push(node);
                    // Bus numbers of the roots lie far apart, to leave each its ports.
                    let first_bus = 32 * roots.len();
                    let root = format!("pxb-pcie,id=root{node},bus=pcie.0,bus_nr={first_bus},numa_node={node}");
                    arguments.option("-device", &root);
                }
                let port = format!("pcie-root-port,id=port{index},bus=root{node},chassis={},slot={index}", index + 1);
                let can = |port: &super::PciePort| format!(",x-speed={},x-width={}", port.speed_gt_s, port.lanes);
                let can = nic.port.as_ref().map_or_else(String::new, can);
                arguments.option("-device", &(port + &can));
                format!("port{index}")
            },
        );
        let netdev = if nic.has_tap() {
            format!("tap,id=net{index},ifname=tap{index},script=no,downscript=no,queues={}", nic.queues)
        } else {
            format!("hubport,id=net{index},hubid={}", nic.segment)
        };
        arguments.option("-netdev", &netdev);
        let address = format!("52:54:00:00:00:{index:02x}");
        // Without a boot ROM the firmware need not try it.
        let mut device = format!("{},bus={bus},netdev=net{index},mac={address},romfile=", nic.kind.device());
        if nic.has_tap() {
            // One vector each for every queue in each direction, for changes and for control.
            device += &format!(",mq=on,vectors={}", 2 * nic.queues + 2);
        }
        arguments.option("-device", &device);
    }
}
