//! Trees of files with a value for every row of the catalogue, made from where the rows are read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nearwire_host::{NicFact, PcieFact, ReadFrom, Root, Setting, Value, catalogue};
use nearwire_lab::host_tree::scratch_directory;
use serde_json::{Map, json};
use tempfile::TempDir;

use super::special;

const NIC: &str = "/sys/class/net/eth0";

/// Why there is no value.
#[derive(Clone, Copy)]
pub enum Lack {
    Absent,
    NeedsRoot,
}

/// What is in a tree, by path as it is asked for.
#[derive(Default)]
pub struct Content {
    files: BTreeMap<String, Vec<u8>>,
    /// Texts that several rows share a file with, a line or word each.
    shared: BTreeMap<&'static str, String>,
    answers: Map<String, serde_json::Value>,
    registers: BTreeMap<u32, u64>,
    /// The device's place on its bus.
    slot: &'static str,
    /// Files of which two rows want different texts.
    conflicts: Vec<String>,
}

impl Content {
    fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        let before = self.files.insert(path.to_owned(), bytes.clone());
        if before.is_some_and(|before| before != bytes) {
            self.conflicts.push(path.to_owned());
        }
    }

    fn share(&mut self, path: &'static str, text: &str) {
        self.shared.entry(path).or_default().push_str(text);
    }
}

/// The two trees, and where everything in them is.
pub struct Trees {
    wanted: TempDir,
    other: TempDir,
    paths: BTreeSet<String>,
    directories: BTreeSet<String>,
    answers: Vec<String>,
    scratch: TempDir,
}

impl Trees {
    pub fn new() -> Self {
        let (wanted, other) = (content(true), content(false));
        let directory = || tempfile::tempdir_in(scratch_directory()).unwrap();
        let (first, second, scratch) = (directory(), directory(), directory());
        let (paths, directories) = write(first.path(), &wanted);
        write(second.path(), &other);
        let answers = wanted.answers.keys().cloned().collect();
        Self { wanted: first, other: second, paths, directories, answers, scratch }
    }

    pub fn wanted(&self) -> Root {
        Root::directory(self.wanted.path()).unwrap()
    }

    pub fn other(&self) -> Root {
        Root::directory(self.other.path()).unwrap()
    }

    /// A host of two CPUs on which nothing else can be read, for this reason.
    pub fn lacking(&self, lack: Lack) -> Root {
        let root = self.scratch.path();
        let online = "/sys/devices/system/cpu/online";
        put(root, online, b"0-1\n");
        let needs_root = json!({"needs-root": true});
        let mut looked_at = json!({});
        let answer = match lack {
            Lack::Absent => {
                looked_at["absent"] = json!(["/boot", "/dev", "/etc", "/lib", "/proc", "/run", "/sys", "/usr"]);
                json!({"unsupported": true})
            }
            Lack::NeedsRoot => {
                let all = |names: &BTreeSet<String>| -> Map<String, serde_json::Value> {
                    names.iter().filter(|name| *name != online).map(|name| (name.clone(), needs_root.clone())).collect()
                };
                // Names in directories can be seen: of a file only its text is kept from others.
                let (seen, unseen) = special::split_directories(&self.directories);
                looked_at["unread"] = all(&self.paths).into();
                looked_at["unlisted"] = all(&unseen).into();
                looked_at["listed"] = json!(seen);
                let lacks = json!({"lack": needs_root});
                looked_at["devices"] = special::devices(|_| lacks.clone());
                needs_root.clone()
            }
        };
        let answers: Map<_, _> = self.answers.iter().map(|key| (key.clone(), answer.clone())).collect();
        put(root, "/nearwire/interfaces/eth0.json", json!(answers).to_string().as_bytes());
        put(root, "/nearwire/clocks.json", json!({"chrony": answer, "ptp4l": answer}).to_string().as_bytes());
        put(root, "/nearwire/looked-at.json", looked_at.to_string().as_bytes());
        put(root, "/nearwire/snapshot.json", br#"{"format": 1}"#);
        if matches!(lack, Lack::NeedsRoot) {
            copy_names(self.wanted.path(), root);
        }
        Root::directory(root).unwrap()
    }
}

/// Makes the directories and links of one tree in another, and empty files where it has files.
fn copy_names(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_names(&entry.path(), &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else if !target.exists() {
            fs::write(target, "").unwrap();
        }
    }
}

fn content(is_wanted: bool) -> Content {
    let slot = if is_wanted { "0000:00:01.0" } else { "0000:00:02.0" };
    let mut content = Content { slot, ..Content::default() };
    for setting in catalogue::settings() {
        match special::FILES.iter().find(|(id, _)| *id == setting.id) {
            Some((_, files)) => {
                for (path, wanted, other) in *files {
                    content.file(path, if is_wanted { *wanted } else { *other });
                }
            }
            None => of_row(&mut content, setting, is_wanted),
        }
    }
    special::more(&mut content.files, is_wanted);
    for (path, text) in special::SHARED {
        content.share(path, text[usize::from(!is_wanted)]);
    }
    let shared = std::mem::take(&mut content.shared);
    for (path, text) in shared {
        if path == "/boot/config-6.12.0" {
            // That of the release that the other tree has.
            content.file("/boot/config-6.12.1", text.clone());
        }
        content.file(path, text);
    }
    assert!(content.conflicts.is_empty(), "two rows want different texts in {:?}", content.conflicts);
    content
}

/// One of two texts that the setting could have.
fn text(setting: &Setting, is_wanted: bool) -> String {
    let pick = |texts: [&str; 2]| texts[usize::from(!is_wanted)].replace(":N", ":5");
    match setting.value {
        Value::Switch => pick(["1", "0"]),
        Value::Number(_) => pick(["3", "5"]),
        Value::CpuList => pick(["0-1", "0"]),
        Value::Word(words) => pick([words[0], words[1]]),
        Value::Text => pick(["one", "two"]),
    }
}

fn of_row(content: &mut Content, setting: &'static Setting, is_wanted: bool) {
    let value = text(setting, is_wanted);
    match setting.read {
        ReadFrom::File(path) | ReadFrom::CpuList(path) => content.file(path, value),
        ReadFrom::CpuMask(path) => content.file(path, if is_wanted { "3" } else { "1" }),
        ReadFrom::Chosen(path) => content.file(path, format!("[{value}] another")),
        ReadFrom::Sysctl(name) => content.file(&format!("/proc/sys/{}", name.replace('.', "/")), value),
        ReadFrom::CommandLine(option) => content.share("/proc/cmdline", &format!("{option}={value} ")),
        ReadFrom::CpuInfo(field) => content.share("/proc/cpuinfo", &format!("{field}: {value}\n")),
        ReadFrom::CpuFlag(flag) if is_wanted => content.share("flags", &format!("{flag} ")),
        ReadFrom::MemInfo(field) => content.share("/proc/meminfo", &format!("{field}: {value} kB\n")),
        ReadFrom::EachCpu(file) => {
            for cpu in 0..3 {
                content.file(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}"), value.clone());
            }
        }
        ReadFrom::Each { directory, prefix, file } => {
            let path = if file.is_empty() {
                format!("{directory}/{prefix}0")
            } else {
                format!("{directory}/{prefix}0/{file}")
            };
            content.file(&path, value);
        }
        ReadFrom::KernelConfig(option) => content.share("/boot/config-6.12.0", &format!("{option}={value}\n")),
        ReadFrom::ModuleParameter(module, parameter) => {
            content.file(&format!("/sys/module/{module}/parameters/{parameter}"), value);
        }
        ReadFrom::Modules(names) if is_wanted => content.file(&format!("/sys/module/{}/refcnt", names[0]), "1"),
        ReadFrom::Names(directory) => content.file(&format!("{directory}/{value}"), ""),
        ReadFrom::Assignment(path, key) => content.share(path, &format!("{key}={value}\n")),
        ReadFrom::Service(unit) => {
            content.file(&format!("/usr/lib/systemd/system/{unit}"), "[Service]\n");
            let populated = if is_wanted { "populated 1\n" } else { "populated 0\n" };
            content.file(&format!("/sys/fs/cgroup/system.slice/{unit}/cgroup.events"), populated);
        }
        ReadFrom::Msr(field) => {
            *content.registers.entry(field.register).or_default() |= u64::from(is_wanted) << field.low_bit;
        }
        ReadFrom::Nic(fact) => of_interface(content, setting, fact, &value, is_wanted),
        ReadFrom::Computed(..) => panic!("{} is computed: it needs files of its own", setting.id),
        ReadFrom::Elsewhere { .. } | ReadFrom::CpuFlag(_) | ReadFrom::Modules(_) => {}
    }
}

fn of_interface(content: &mut Content, setting: &Setting, fact: NicFact, value: &str, is_wanted: bool) {
    match fact {
        NicFact::Offload(names) => {
            let features = content.answers.entry("features").or_insert_with(|| json!({}));
            features[names[0]] = json!(is_wanted);
        }
        NicFact::File(file) => content.file(&format!("{NIC}/{file}"), value),
        NicFact::Device(file) => content.file(&format!("{NIC}/device/{file}"), value),
        NicFact::QueueMask(direction, file) => {
            content.file(&format!("{NIC}/queues/{direction}-0/{file}"), if is_wanted { "3" } else { "1" });
        }
        NicFact::QueueFile(direction, file) => content.file(&format!("{NIC}/queues/{direction}-0/{file}"), value),
        NicFact::IrqAffinity => {
            content.file(&format!("{NIC}/device/msi_irqs/30"), "msix");
            content.file("/proc/irq/30/effective_affinity_list", if is_wanted { "0-1" } else { "0" });
        }
        NicFact::Statistics(names) => content.file(&format!("{NIC}/statistics/{}", names[0]), value),
        NicFact::Neighbours if is_wanted => content.file(&format!("{NIC}/upper_bond0"), ""),
        NicFact::Neighbours | NicFact::Pcie(PcieFact::Path) => {}
        NicFact::Pcie(_) => {
            content.file(&format!("/sys/devices/pci0000:00/{}/config", content.slot), special::pcie_config(is_wanted))
        }
        NicFact::Driver
        | NicFact::BusInfo
        | NicFact::Ethtool(_)
        | NicFact::Link(_)
        | NicFact::Netlink(_)
        | NicFact::EnaExpress
        | NicFact::Roce(_) => {
            let answer = special::ANSWERS.iter().find(|(id, ..)| *id == setting.id);
            let (_, key, wanted, other) = answer.unwrap_or_else(|| panic!("{}: no answer holds it", setting.id));
            let fields: serde_json::Value = serde_json::from_str(if is_wanted { wanted } else { other }).unwrap();
            let answer = content.answers.entry(*key).or_insert_with(|| json!({}));
            for (name, field) in fields.as_object().unwrap() {
                answer[name] = field.clone();
            }
        }
    }
}

/// Writes a tree in the form of a snapshot; gives the files and directories as they are asked for.
fn write(root: &Path, content: &Content) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut paths: BTreeSet<String> = content.files.keys().cloned().collect();
    let flags = content.files.get("flags").cloned().unwrap_or_default();
    paths.remove("flags");
    let device = format!("/sys/devices/pci0000:00/{}", content.slot);
    let interface = format!("{device}/net/eth0");
    fs::create_dir_all(root.join(&interface[1..])).unwrap();
    fs::create_dir_all(root.join("sys/class/net")).unwrap();
    symlink(format!("../..{}", &interface[4..]), root.join(&NIC[1..])).unwrap();
    symlink(format!("../../../{}", content.slot), root.join(&interface[1..]).join("device")).unwrap();
    fs::create_dir_all(root.join("sys/bus/pci")).unwrap();
    symlink("../../../bus/pci", root.join(&device[1..]).join("subsystem")).unwrap();
    for (path, bytes) in &content.files {
        match path.as_str() {
            "flags" => {}
            "/proc/cpuinfo" => put(root, path, &[bytes.as_slice(), b"flags: ", &flags, b"\n"].concat()),
            path => match bytes.strip_prefix(b"link:") {
                Some(target) => {
                    fs::create_dir_all(root.join(&path[1..]).parent().unwrap()).unwrap();
                    symlink(std::str::from_utf8(target).unwrap(), root.join(&path[1..])).unwrap();
                }
                None => put(root, path, bytes),
            },
        }
    }
    put(root, "/nearwire/interfaces/eth0.json", json!(content.answers).to_string().as_bytes());
    let mut directories = BTreeSet::new();
    for path in paths.iter().map(String::as_str).chain([NIC, "/sys/module/x", "/sys/class/iommu/x"]) {
        let mut at = path;
        while let Some((parent, _)) = at.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            directories.insert(parent.to_owned());
            at = parent;
        }
    }
    directories.insert(NIC.to_owned());
    for directory in &directories {
        fs::create_dir_all(root.join(&directory[1..])).unwrap();
    }
    let registers = |register| {
        let value = content.registers.get(&register).copied().unwrap_or_default();
        json!({"bytes": value.to_ne_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>()})
    };
    let mut devices = special::devices(registers);
    let latency_us: i32 = if content.registers.values().any(|value| *value != 0) { 3 } else { 5 };
    let bytes: String = latency_us.to_ne_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    devices["/dev/cpu_dma_latency"]["0x0"] = json!({"bytes": bytes});
    let looked_at = json!({"listed": directories, "devices": devices});
    put(root, "/nearwire/looked-at.json", looked_at.to_string().as_bytes());
    put(root, "/nearwire/snapshot.json", br#"{"format": 1}"#);
    (paths, directories)
}

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(&path[1..]);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}
