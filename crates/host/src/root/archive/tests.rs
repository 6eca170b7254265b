//! Archives as tools make them, as strangers make them, and damaged ones.

use std::io::Write;
use std::time::{Duration, Instant};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;
use crate::{Reading, Root, catalogue, read_settings};

/// `host()` below a directory, as `tar -cJ` packs it.
const HOST_XZ: &[u8] = include_bytes!("host.tar.xz");

/// An archive in which nothing is as it should be, if the test wants that.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn add(mut self, kind: EntryType, name: &str, link: &str, bytes: &[u8]) -> Self {
        self.push(kind, name, link, bytes.len() as u64, bytes);
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        self.add(EntryType::Regular, name, "", text.as_bytes())
    }

    fn link(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Symlink, name, target, b"")
    }

    /// A header that says a size, and other data.
    fn push(&mut self, kind: EntryType, name: &str, link: &str, size_bytes: u64, bytes: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size_bytes);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK_BYTES), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK_BYTES, 0);
        self.0
    }
}

fn host() -> Tar {
    Tar::default().file("proc/cmdline", "ro isolcpus=2-3\n")
}

fn root(archive: &[u8]) -> Root {
    Root::memory(read_from(archive).unwrap(), "test.tar".into()).unwrap()
}

fn reading(root: &Root, id: &str) -> Reading {
    let setting = catalogue::setting(id).unwrap();
    read_settings(root, &[setting], &["eth0".to_owned()]).remove(0).1
}

fn error(archive: &[u8]) -> ArchiveError {
    read_from(archive).expect_err("the archive is refused")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packer = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

#[test]
fn archive_packed_in_any_known_way_is_read() {
    let plain = host().end();
    let (start, end) = plain.split_at(700);
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let two_frames = [skipped.to_vec(), zstd(start), zstd(end)];
    for packed in [plain.clone(), gzip(&plain), bzip2(&plain), zstd(&plain), two_frames.concat()] {
        assert_eq!(reading(&root(&packed), "boot.isolcpus"), Reading::value("2-3"));
    }
    assert_eq!(reading(&root(HOST_XZ), "boot.isolcpus"), Reading::value("2-3"));
    for length in 0..HOST_XZ.len() {
        assert!(read_from(&HOST_XZ[..length]).is_err(), "{length} of {}", HOST_XZ.len());
    }
}

/// `sos` packs some files twice, names others that it left out as targets of hard links, and has more names than a small
/// host.
#[test]
fn archive_of_sos_as_it_is_read_is_taken() {
    let mut tar = host()
        .add(EntryType::Regular, "proc/cmdline", "", b"ro isolcpus=4-5\n")
        .add(EntryType::Link, "proc/x", "proc/nothing", b"")
        .add(EntryType::Link, "proc/y", "../../etc/passwd", b"")
        .link("etc", "/root")
        .file("etc/selinux/config", "x")
        .file("/proc/sys/vm/swappiness", "1\n")
        .file("proc/cmdline/x", "x")
        .add(EntryType::Regular, "usr/lib/udev/hwdb.bin", "", &vec![b'x'; 9 << 20])
        .file("sys/kernel/slab/x/order", "0\n");
    for at in 0..70_000 {
        tar = tar.add(EntryType::Regular, &format!("proc/irq/{at}"), "", b"");
    }
    let root = root(&tar.end());
    assert_eq!(reading(&root, "boot.isolcpus"), Reading::value("4-5"));
    assert_eq!(reading(&root, "vm.swappiness"), Reading::value("1"));
    assert_eq!(root.list("/proc/irq").unwrap().len(), 70_000);
    for path in ["/proc/x", "/proc/y", "/sys/kernel/slab/x/order", "/usr/lib/udev/hwdb.bin"] {
        assert!(!root.has(path), "{path}");
    }
}

/// A file beside copied ones was said not to be on the host.
#[test]
fn file_that_an_archive_lacks_read_is_not_copied() {
    let archive = host()
        .file("sys/devices/system/cpu/online", "0-1\n")
        .file("etc/systemd/system/some.service", "[Unit]\n")
        .file("sys/module/kvm/parameters/halt_poll_ns", "0\n")
        .file("sys/fs/cgroup/system.slice/x", "")
        .file("proc/sys/kernel/osrelease", "6.12\n")
        .end();
    let root = root(&archive);
    let settings: Vec<_> = catalogue::settings().collect();
    let says_absent = |reading: &Reading| match reading {
        Reading::Value(value) => ["none", "absent", "not installed"].contains(&value.as_str()),
        other => *other == Reading::Unsupported,
    };
    let readings = read_settings(&root, &settings, &["eth0".to_owned()]);
    let wrong: Vec<_> = readings.into_iter().filter(|(_, reading)| says_absent(reading)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn host_below_directories_is_found() {
    for top in ["", "./", "host1/", "./host1/", "must-gather/node1/"] {
        let archive = Tar::default()
            .add(EntryType::Directory, if top.is_empty() { "./" } else { top }, "", b"")
            .file(&format!("{top}sys/devices/system/cpu/isolated"), "2-3\n")
            .link(&format!("{top}sys/class/net/eth0"), "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .file(&format!("{top}sys/devices/pci0000:00/0000:00:03.0/net/eth0/mtu"), "9000\n")
            // Absolute links are those of the host, not of the archive.
            .link(&format!("{top}sys/devices/system/cpu/nohz_full"), "/sys/devices/system/cpu/isolated")
            .end();
        let root = root(&archive);
        assert_eq!(reading(&root, "cpu.isolated"), Reading::value("2-3"), "{top}");
        assert_eq!(reading(&root, "cpu.nohz_full"), Reading::value("2-3"), "{top}");
        assert_eq!(reading(&root, "nic.mtu"), Reading::value("9000"), "{top}");
        assert_eq!(reading(&root, "nic.pcie.path"), Reading::value("0000:00:03.0"), "{top}");
    }
    let deep = Tar::default().file("a/b/c/proc/cmdline", "ro\n").end();
    assert!(matches!(error(&deep), ArchiveError::NoHost));
    assert!(matches!(error(&Tar::default().file("notes/readme", "x").end()), ArchiveError::NoHost));
}

#[test]
fn long_names_of_both_kinds_are_read() {
    let long = format!("sys/devices/{}/numa_node", "d".repeat(120));
    let pax = |key: &str, value: &str| {
        let rest = format!(" {key}={value}\n");
        let length = rest.len() + 3;
        format!("{length}{rest}")
    };
    let archive = Tar::default()
        .add(EntryType::GNULongName, "././@LongLink", "", format!("{long}\0").as_bytes())
        .file("cut", "1\n")
        .add(EntryType::XHeader, "pax", "", pax("path", &long.replace('d', "e")).as_bytes())
        .file("cut", "2\n")
        .add(EntryType::XGlobalHeader, "pax", "", pax("comment", &"c".repeat(90)).as_bytes())
        .file("proc/cmdline", "ro\n")
        .end();
    let root = root(&archive);
    assert_eq!(root.read(&format!("/{long}")).unwrap(), "1");
    assert_eq!(root.read(&format!("/{}", long.replace('d', "e"))).unwrap(), "2");
    assert_eq!(root.read("/proc/cmdline").unwrap(), "ro");
}

#[test]
fn entry_that_leads_out_is_refused() {
    for name in ["../proc/x", "proc/../../x", ".."] {
        let archive = host().file(name, "x").end();
        assert!(matches!(error(&archive), ArchiveError::Escape { .. }), "{name}");
    }
}

#[test]
fn link_that_leads_out_is_followed_inside_only() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "secret").unwrap();
    let target = format!("../../../../../../..{}", outside.path().display());
    let archive = host()
        .link("proc/up", &target)
        .link("proc/absolute", &outside.path().display().to_string())
        .link("proc/loop", "loop")
        .link("proc/version", "../../../../proc/cmdline")
        .end();
    let root = root(&archive);
    for path in ["/proc/up", "/proc/absolute", "/proc/loop"] {
        assert!(matches!(root.read(path), Err(Reading::Unknown { .. })), "{path}: {:?}", root.read(path));
    }
    assert_eq!(root.read("/proc/version").unwrap(), "ro isolcpus=2-3");
}

#[test]
fn device_or_pipe_in_place_of_a_file_is_no_value() {
    let archive = host()
        .add(EntryType::Char, "dev/kmsg", "", b"")
        .add(EntryType::Block, "dev/sda", "", b"")
        .add(EntryType::Fifo, "proc/meminfo", "", b"")
        .end();
    let root = root(&archive);
    for id in ["boot.rejected", "memory.total"] {
        assert!(matches!(reading(&root, id), Reading::Unknown { .. }), "{id}");
    }
}

#[test]
fn too_much_of_anything_names_the_limit_soon() {
    let start = Instant::now();
    let mut huge = host();
    huge.push(EntryType::Regular, "proc/kcore", "", 10 << 30, b"");
    let mut many_large = host();
    for at in 0..KEPT_BYTES_MAX / FILE_BYTES_MAX + 1 {
        many_large = many_large.add(EntryType::Regular, &format!("proc/{at}"), "", &vec![0; 4 << 20]);
    }
    let mut long_name = host();
    long_name.push(EntryType::GNULongName, "x", "", 1 << 30, b"");
    let mut many = host();
    for at in 0..NAMES_MAX / 2000 + 1 {
        let deep = format!("etc/{at}/{}", "d/".repeat(2000));
        many = many.add(EntryType::GNULongName, "x", "", deep.as_bytes()).add(EntryType::Directory, "x", "", b"");
    }
    for (archive, what) in [
        (huge.0, "bytes when unpacked"),
        (many_large.end(), "bytes of system files"),
        (long_name.0, "bytes in one name"),
        (many.end(), "names"),
    ] {
        let error = error(&archive);
        assert!(matches!(error, ArchiveError::TooLarge { what: found, .. } if found == what), "{what}: {error}");
    }
    let long = "d/".repeat(3000);
    let deep = host().add(EntryType::GNULongName, "x", "", long.as_bytes()).file("x", "").end();
    assert!(matches!(error(&deep), ArchiveError::Damaged { .. }));
    // A second, mostly for making them; the rest is for a loaded test host.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn window_of_zstd_larger_than_memory_allows_is_refused() {
    // A frame that asks for 2 GiB.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    let error = error(&frame);
    assert!(matches!(error, ArchiveError::Read { .. }));
    assert!(error.to_string().contains("bytes of memory are needed, more than 8388608"), "{error}");
}

#[test]
fn file_longer_than_is_ever_read_is_cut_as_in_a_directory() {
    let archive = host().add(EntryType::Regular, "proc/long", "", &vec![b'x'; (4 << 20) + 1]).file("proc/z", "z").end();
    let root = root(&archive);
    assert_eq!(root.read("/proc/long").unwrap().len(), 4 << 20);
    assert_eq!(root.read("/proc/z").unwrap(), "z");
}

#[test]
fn archive_cut_off_anywhere_is_refused() {
    let plain = host().file("proc/meminfo", "MemTotal: 1 kB\n").end();
    // Of the two blocks of zeros at the end the first says all.
    for length in 1..plain.len() - BLOCK_BYTES {
        assert!(read_from(&plain[..length]).is_err(), "{length} of {}", plain.len());
    }
    for packed in [gzip(&plain), bzip2(&plain), zstd(&plain)] {
        for length in 0..packed.len() {
            assert!(read_from(&packed[..length]).is_err(), "{length} of {}", packed.len());
        }
    }
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    for bytes in [&b""[..], b"hello\n", &[0; 4096], &[0xff; 4096], b"PK\x03\x04"] {
        assert!(matches!(error(bytes), ArchiveError::NotAnArchive));
    }
    assert!(matches!(
        Root::archive("/proc"),
        Err(crate::RootError::Archive { source: ArchiveError::NotAnArchive, .. })
    ));
    let missing = Root::archive("/nonexistent/x.tar").unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/x.tar") && missing.contains("No such file"), "{missing}");
}

/// `hwloc-gather-topology` makes `NAME.tar.bz2` with a directory NAME, and PCI configuration
/// without privileges' rest.
#[test]
fn archive_in_the_shape_of_hwloc_is_read() {
    let cpu = "host1/sys/devices/system/cpu";
    let mut tar =
        Tar::default().add(EntryType::Directory, "host1/", "", b"").file("host1/proc/cpuinfo", "vendor_id : x\n");
    tar = tar.file(&format!("{cpu}/online"), "0-3\n");
    for id in 0..4 {
        let topology = format!("{cpu}/cpu{id}/topology");
        tar = tar
            .file(&format!("{topology}/physical_package_id"), &format!("{}\n", id / 2))
            .file(&format!("{topology}/core_id"), &format!("{id}\n"))
            .file(&format!("{topology}/thread_siblings_list"), &format!("{id}\n"));
    }
    let archive = bzip2(&tar.file("host1/sys/devices/system/node/node0/cpulist", "0-3\n").end());
    let root = root(&archive);
    for (id, wanted) in [("cpu.packages", "2"), ("cpu.cores", "4"), ("cpu.threads", "4"), ("cpu.online", "0-3")] {
        assert_eq!(reading(&root, id), Reading::value(wanted), "{id}");
    }
    // What it does not gather is not said to be missing on the host.
    for id in ["vm.swappiness", "nic.mtu", "net.core.busy_read", "service.tuned"] {
        assert!(matches!(reading(&root, id), Reading::Unknown { .. }), "{id}: {:?}", reading(&root, id));
    }
}

/// `sos report` copies 64 directories of CPUs, in the order of letters.
#[test]
fn archive_in_the_shape_of_sos_with_some_cpus_read_gives_no_wrong_counts() {
    let top = "sosreport-host1-2024-01-01-abcdefg";
    let cpu = format!("{top}/sys/devices/system/cpu");
    let mut names: Vec<_> = (0..128).map(|id| format!("cpu{id}")).collect();
    names.sort();
    let mut tar = Tar::default().file(&format!("{cpu}/online"), "0-127\n").file(&format!("{top}/proc/cmdline"), "ro\n");
    for name in &names[..64] {
        let id: u32 = name[3..].parse().unwrap();
        tar = tar
            .file(&format!("{cpu}/{name}/topology/physical_package_id"), &format!("{}\n", id % 64 / 32))
            .file(&format!("{cpu}/{name}/topology/thread_siblings_list"), &format!("{},{}\n", id % 64, id % 64 + 64))
            .file(&format!("{cpu}/{name}/cpufreq/scaling_governor"), "performance\n")
            .file(&format!("{top}/sys/devices/system/machinecheck/machinecheck{id}/check_interval"), "0\n");
    }
    let tar = tar.file(&format!("{top}/sos_commands/process/ps"), "x").file(&format!("{top}/var/log/messages"), "x");
    let tracing = format!("{top}/sys/kernel/tracing");
    let tar = tar.file(&format!("{tracing}/current_tracer"), "nop\n").file(&format!("{tracing}/trace"), "x");
    let root = root(&gzip(&tar.end()));
    assert_eq!(reading(&root, "cpu.online"), Reading::value("0-127"));
    assert_eq!(reading(&root, "cpu.threads"), Reading::value("128"));
    assert_eq!(reading(&root, "boot.isolcpus"), Reading::value("not set"));
    for id in ["cpu.cores", "cpu.packages", "cpu.governor", "noise.machine-check-interval"] {
        let Reading::Unknown { why } = reading(&root, id) else { panic!("{id}: {:?}", reading(&root, id)) };
        assert!(why.contains("lacks the directories of CPUs"), "{id}: {why}");
    }
    assert_eq!(reading(&root, "noise.tracer"), Reading::value("nop"));
    assert!(!root.has("/sys/kernel/tracing/trace"), "what settings are not read from is not kept");
    assert!(!root.has("/var/log/messages"), "what settings are not read from is not kept");
}

/// The entry of PCI Express in a configuration space: a link of x16 at 8 GT/s that is x8 at 5 GT/s now.
fn config_of_express() -> Vec<u8> {
    let mut config = [0_u8; 4096];
    config[0x34] = 0x40;
    config[0x40] = 0x10;
    config[0x48..0x4a].copy_from_slice(&0x2930_u16.to_le_bytes());
    config[0x4c..0x4e].copy_from_slice(&(16_u16 << 4 | 3).to_le_bytes());
    config[0x52..0x54].copy_from_slice(&(8_u16 << 4 | 2).to_le_bytes());
    config.to_vec()
}

/// `sos` copies a few files of an interface, and what commands printed; the interfaces of its reports were not found.
#[test]
fn report_of_sos_read_has_its_interfaces_and_what_commands_printed_about_them() {
    const UNITS: &str = "UNIT FILE STATE VENDOR PRESET\nirqbalance.service enabled enabled\n\
                         tuned.service disabled enabled\n\n2 unit files listed.\n";
    const RUNNING: &str = "  UNIT LOAD ACTIVE SUB DESCRIPTION\n  irqbalance.service loaded active running irqbalance daemon\n\
                           ● kdump.service loaded failed failed Crash recovery\n\n2 loaded units listed.\n";
    let top = "sosreport-host1-2024-01-01-abcdefg";
    let device = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";
    let commands = format!("{top}/sos_commands");
    let ethtool = |option: &str| format!("{commands}/networking/ethtool_{option}eth0");
    let interrupts = "           CPU0       CPU1\n 66:   0   9  IR-PCI-MSI 512-edge  eth0-TxRx-0\n";
    let archive = Tar::default()
        .link(&format!("{top}/sys/class/net/eth0"), &format!("../../{}/net/eth0", &device[4..]))
        .link(&format!("{top}/sys/class/net/br0"), "../../devices/virtual/net/br0")
        .link(&format!("{top}/sys/class/net/lo"), "../../devices/virtual/net/lo")
        .file(&format!("{top}/sys/class/net/bonding_masters"), "bond0\n")
        .file(&format!("{top}/sys/devices/virtual/net/br0/flags"), "0x1003\n")
        .file(&format!("{top}/{device}/net/eth0/flags"), "0x1003\n")
        .link(&format!("{top}/{device}/net/eth0/device"), "../../../0000:3b:00.0")
        .file(&format!("{top}/{device}/numa_node"), "1\n")
        .file(&format!("{top}/sys/devices/system/node/node1/cpulist"), "8-15\n")
        .add(EntryType::Regular, &format!("{top}/proc/bus/pci/3b/00.0"), "", &config_of_express())
        .file(&format!("{top}/proc/interrupts"), interrupts)
        .file(&format!("{top}/proc/irq/66/effective_affinity_list"), "1\n")
        .file(&ethtool("-i_"), "driver: i40e\nversion: 6.1\nfirmware-version: 9\nbus-info: 0000:3b:00.0\n")
        .file(&ethtool("-g_"), "netlink error: Operation not supported\n")
        .file(
            &format!("{commands}/kernel/sysctl_-a"),
            "net.core.busy_poll = 50\nnet.ipv4.tcp_sack = 1\nvm.swappiness = 60\n",
        )
        .file(
            &format!("{commands}/kernel/dmesg"),
            "[    0.000000] Linux version 6.1\n[    0.1] Malformed early option 'idle'\n",
        )
        .file(&format!("{commands}/systemd/systemctl_list-unit-files"), UNITS)
        .file(&format!("{commands}/systemd/systemctl_list-units"), RUNNING);
    let root = root(&gzip(&archive.end()));
    let mut found = crate::interfaces(&root).unwrap();
    found.sort();
    assert_eq!(found, ["br0", "eth0"]);
    assert!(crate::has_device(&root, "eth0") && !crate::has_device(&root, "br0"));
    for (id, wanted) in [
        ("nic.driver", "i40e"),
        ("nic.numa-node", "1"),
        ("nic.local-cpus", "8-15"),
        ("nic.irq-affinity", "1"),
        ("nic.pcie.speed", "5.0 GT/s PCIe"),
        ("nic.pcie.speed-max", "8.0 GT/s PCIe"),
        ("nic.pcie.width", "8"),
        ("nic.pcie.width-possible", "16"),
        ("nic.pcie.max-read-request", "512"),
        ("net.core.busy_poll", "50"),
        ("vm.swappiness", "60"),
        ("boot.rejected", "'idle'"),
        ("service.irqbalance", "running, enabled"),
        ("service.tuned", "stopped, disabled"),
        ("service.numad", "not installed"),
    ] {
        assert_eq!(reading(&root, id), Reading::value(wanted), "{id}");
    }
    assert_eq!(reading(&root, "nic.ring.rx"), Reading::Unsupported);
    assert_eq!(reading(&root, "net.core.busy_read"), Reading::Unsupported, "the kernel lacks what was not printed");
    let Reading::Unknown { why } = reading(&root, "nic.coalesce.rx-usecs") else { panic!("nothing was printed of it") };
    assert!(why.contains("no copy of /sos_commands/networking/ethtool_-c_eth0"), "{why}");
}

/// A device of virtio has no memory node, so `sos` copies nothing of it, and its interrupts have its own name.
#[test]
fn report_of_sos_with_a_virtio_interface_read_finds_its_interrupts_and_no_link_of_pci_express() {
    let interrupts = "      CPU0 CPU1\n 27: 1 0 PCI-MSIX-0000:00:03.0 0-edge virtio2-config\n \
                      28: 0 9 PCI-MSIX-0000:00:03.0 1-edge virtio2-input.0\n 29: 0 9 PCI-MSIX-0000:00:04.0 1-edge virtio3-input.0\n";
    let device = "sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0";
    let archive = Tar::default()
        .link("r/sys/class/net/eth0", &format!("../../{}", &device[4..]))
        .file(&format!("r/{device}/flags"), "0x1003\n")
        .file("r/proc/interrupts", interrupts)
        .file("r/proc/irq/27/effective_affinity_list", "1\n")
        .file("r/proc/irq/28/effective_affinity_list", "1\n")
        .add(EntryType::Regular, "r/proc/bus/pci/00/03.0", "", &[0; 256])
        .file(
            "r/sos_commands/networking/ethtool_-i_eth0",
            "driver: virtio_net\nversion: 1\nfirmware-version: \nbus-info: 0000:00:03.0\n",
        );
    let root = root(&gzip(&archive.end()));
    assert!(crate::has_device(&root, "eth0"));
    assert_eq!(reading(&root, "nic.irq-affinity"), Reading::value("1"));
    assert_eq!(reading(&root, "nic.pcie.speed"), Reading::Unsupported);
    assert_eq!(reading(&root, "nic.pcie.width"), Reading::Unsupported);
}

/// Older versions copy nothing of `/sys/class/net`.
#[test]
fn report_of_sos_without_a_directory_of_interfaces_read_has_those_of_the_table() {
    let table = "Inter-|   Receive\n face |bytes    packets\n    lo: 1 2\n  eth0: 1 2\n  tap0: 1 2\n";
    let info = |bus| format!("driver: x\nversion: 1\nfirmware-version: \nbus-info: {bus}\n");
    let archive = Tar::default()
        .file("r/proc/net/dev", table)
        .file("r/sos_commands/networking/ethtool_-i_eth0", &info("0000:00:03.0"))
        .file("r/sos_commands/networking/ethtool_-i_tap0", &info("tap"));
    let root = root(&gzip(&archive.end()));
    assert_eq!(crate::interfaces(&root).unwrap(), ["eth0", "tap0"]);
    assert!(crate::has_device(&root, "eth0") && !crate::has_device(&root, "tap0"));
    assert_eq!(reading(&root, "nic.bus-info"), Reading::value("0000:00:03.0"));
}

proptest! {
    #[test]
    fn any_bytes_read_as_archive_never_panic(
        start in prop::sample::select(vec![&b""[..], b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08", b"BZh9", b"\x50\x2a\x4d\x18"]),
        bytes in proptest::collection::vec(any::<u8>(), 0..2048),
    ) {
        let _ = read_from([start, bytes.as_slice()].concat().as_slice());
    }

    #[test]
    fn good_archive_with_flipped_bits_read_never_panics(
        packing in 0..4usize,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4),
    ) {
        let plain = host().link("proc/self", "7").file("proc/7/limits", "x").file("sys/class/net/eth0/mtu", "1\n").end();
        let mut bytes = [plain.clone(), gzip(&plain), bzip2(&plain), zstd(&plain)][packing].clone();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        if let Ok(tree) = read_from(bytes.as_slice())
            && let Ok(root) = Root::memory(tree, "test.tar".into())
        {
            let all: Vec<_> = catalogue::settings().collect();
            let _ = read_settings(&root, &all, &["eth0".to_owned()]);
        }
    }
}
