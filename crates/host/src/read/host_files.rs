//! A host's files, those that many settings share read once.

use std::cell::OnceCell;
use std::io::Read;

use flate2::read::GzDecoder;

use super::condense::condense;
use super::{cpus, module, msr, one_line, seen, service};
use crate::redact::redact;
use crate::setting::ReadFrom;
use crate::topology::{Cpu, Topology};
use crate::{CpuSet, Reading, Root, Setting};

/// What a command line or configuration says about an option that it does not have.
const NOT_SET: &str = "not set";
/// The first CPUs of `/proc/cpuinfo` are enough; on large hosts the whole file takes milliseconds
/// and wakes every CPU.
const CPUINFO_BYTES_MAX: u64 = 16 << 10;
/// A kernel configuration unpacked has 300 KB; more is not one.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Entries of which each CPU has one, or some CPUs together.
const CPU_ENTRIES: [&str; 3] = ["cpu", "policy", "machinecheck"];

type Text = OnceCell<Result<String, Reading>>;

/// The files of one host while its environment is read.
#[derive(Debug)]
pub struct HostFiles<'a> {
    root: &'a Root,
    command_line: Text,
    cpuinfo: Text,
    meminfo: Text,
    config: Text,
    topology: OnceCell<Topology>,
    has_systemd: OnceCell<Result<(), Reading>>,
    watch: OnceCell<seen::Watch>,
    threads: OnceCell<Result<Vec<seen::Thread>, Reading>>,
}

impl<'a> HostFiles<'a> {
    pub(crate) fn new(root: &'a Root) -> Self {
        Self {
            root,
            command_line: Text::new(),
            cpuinfo: Text::new(),
            meminfo: Text::new(),
            config: Text::new(),
            topology: OnceCell::new(),
            has_systemd: OnceCell::new(),
            watch: OnceCell::new(),
            threads: OnceCell::new(),
        }
    }

    pub(crate) fn root(&self) -> &'a Root {
        self.root
    }

    /// Reads a setting; `None` for one of an interface.
    pub(crate) fn read_setting(&self, setting: &Setting) -> Option<Reading> {
        let is_elsewhere = setting.is_of_x86() && self.has_other_processors();
        if is_elsewhere { Some(Reading::Unsupported) } else { self.read(setting.read) }
    }

    /// Whether the processors are none of x86, of which alone the kernel gives flags by this name.
    fn has_other_processors(&self) -> bool {
        self.cpuinfo().is_ok_and(|text| !text.is_empty() && field_of(text, "flags").is_none())
    }

    fn read(&self, from: ReadFrom) -> Option<Reading> {
        Some(match from {
            ReadFrom::File(path) => self.line(path),
            ReadFrom::CpuList(path) => self.with(path, |text| cpus(path, text, CpuSet::from_list)),
            ReadFrom::CpuMask(path) => self.with(path, |text| cpus(path, text, CpuSet::from_mask)),
            ReadFrom::Chosen(path) => self.with(path, |text| chosen(path, text, ['[', ']'])),
            ReadFrom::Sysctl(name) => self.sysctl(name),
            ReadFrom::CommandLine(option) => self.command_line_option(option),
            ReadFrom::CpuInfo(field) => self.cpuinfo_field(field).map(one_line).into(),
            ReadFrom::CpuFlag(flag) => self.cpu_flag(flag),
            ReadFrom::MemInfo(field) => match self.meminfo() {
                Ok(text) => field_of(text, field).map_or(Reading::Unsupported, Reading::value),
                Err(reading) => reading,
            },
            ReadFrom::EachCpu(file) => {
                self.each_cpu(|cpu| self.line(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}")))
            }
            ReadFrom::Each { directory, prefix, file } => self.each(directory, prefix, file),
            ReadFrom::KernelConfig(option) => self.kernel_config(option),
            ReadFrom::ModuleParameter(module, parameter) => module::parameter(self, module, parameter),
            ReadFrom::Modules(names) => module::present(self, names),
            ReadFrom::Service(unit) => service::state(self, unit),
            ReadFrom::Names(directory) => self.names(directory),
            ReadFrom::Assignment(path, key) => self.with(path, |text| assignment(text, key)),
            ReadFrom::Msr(field) => msr::read(self, field),
            ReadFrom::Computed(compute, _) => compute(self),
            ReadFrom::Elsewhere { why, look } => {
                Reading::Unknown { why: format!("cannot be read here because {why}; see {look}") }
            }
            ReadFrom::Nic(_) => return None,
        })
    }

    /// A file's text in one line.
    pub(crate) fn line(&self, path: &str) -> Reading {
        self.with(path, |text| Reading::Value(one_line(text)))
    }

    fn with(&self, path: &str, make: impl FnOnce(&str) -> Reading) -> Reading {
        match self.root.read(path) {
            Ok(text) => make(&text),
            Err(reading) => reading,
        }
    }

    fn sysctl(&self, name: &str) -> Reading {
        let reading = self.line(&format!("/proc/sys/{}", name.replace('.', "/")));
        let may_be_hidden = reading == Reading::Unsupported && name.starts_with("net.");
        if may_be_hidden && self.root.is_thread_elsewhere() {
            return Reading::unknown("not shown in this thread's network namespace");
        }
        reading
    }

    /// One reading of those of all online CPUs, of files in their directories.
    pub(super) fn each_cpu(&self, read: impl Fn(u32) -> Reading) -> Reading {
        match self.all_cpus() {
            Ok(_) => self.each_online_cpu(read),
            Err(reading) => reading,
        }
    }

    /// One reading of those of all online CPUs, of what is not in their directories.
    pub(super) fn each_online_cpu(&self, read: impl Fn(u32) -> Reading) -> Reading {
        let cpus = self.topology().cpus();
        if cpus.is_empty() {
            return Reading::unknown("no list of online CPUs");
        }
        condense(cpus.iter().map(|cpu| (cpu.id.to_string(), read(cpu.id))).collect())
    }

    /// The online CPUs, when the directory of each is there.
    pub(super) fn all_cpus(&self) -> Result<&[Cpu], Reading> {
        let topology = self.topology();
        if topology.cpus().is_empty() {
            return Err(Reading::unknown("no list of online CPUs"));
        }
        match topology.not_copied() {
            missing if missing.is_empty() => Ok(topology.cpus()),
            missing => Err(Reading::unknown(format!("the copy lacks the directories of CPUs {missing}"))),
        }
    }

    /// The names in a directory, or `none`.
    fn names(&self, directory: &str) -> Reading {
        match self.root.list(directory) {
            Ok(names) if names.is_empty() => Reading::value("none"),
            Ok(names) => Reading::Value(names.join(" ")),
            Err(reading) => reading,
        }
    }

    fn kernel_config(&self, option: &str) -> Reading {
        let config = match self.config() {
            Ok(config) => config,
            Err(reading) => return reading,
        };
        let mut values = config.lines().filter_map(|line| line.strip_prefix(option)?.strip_prefix('='));
        Reading::value(values.next().unwrap_or(NOT_SET))
    }

    fn each(&self, directory: &str, prefix: &str, file: &str) -> Reading {
        let entries = match self.root.list(directory) {
            Ok(entries) => entries,
            Err(reading) => return reading,
        };
        let of_entry = |name: String| {
            let path = match file {
                "" => format!("{directory}/{name}"),
                file => format!("{directory}/{name}/{file}"),
            };
            (name, self.line(&path))
        };
        // Tools that copy only some CPUs copy only some of these too.
        if CPU_ENTRIES.contains(&prefix)
            && let Err(reading) = self.all_cpus()
            && !self.topology().cpus().is_empty()
        {
            return reading;
        }
        let named = entries.into_iter().filter(|name| name.starts_with(prefix));
        condense(named.map(of_entry).collect())
    }

    /// The command line, without what identifies the machine.
    pub(crate) fn command_line(&self) -> Result<&str, Reading> {
        let read = || Ok(redact(&one_line(&self.root.read("/proc/cmdline")?)));
        borrowed(self.command_line.get_or_init(read))
    }

    fn command_line_option(&self, option: &str) -> Reading {
        let line = match self.command_line() {
            Ok(line) => line,
            Err(reading) => return reading,
        };
        // What follows `--` is for the first process. Given twice, the last one counts.
        let options = line.split(' ').take_while(|&word| word != "--");
        let values = options.filter_map(|word| match word.split_once('=') {
            Some((name, value)) if is_option(name, option) => Some(value),
            None if is_option(word, option) => Some("set"),
            _ => None,
        });
        Reading::value(values.last().unwrap_or(NOT_SET))
    }

    pub(crate) fn cpuinfo_field(&self, field: &str) -> Result<&str, Reading> {
        field_of(self.cpuinfo()?, field).ok_or(Reading::Unsupported)
    }

    fn cpuinfo(&self) -> Result<&str, Reading> {
        let read = || self.root.read_first("/proc/cpuinfo", CPUINFO_BYTES_MAX);
        borrowed(self.cpuinfo.get_or_init(read))
    }

    pub(crate) fn cpu_flag(&self, flag: &str) -> Reading {
        match self.cpuinfo_field("flags") {
            Ok(flags) => {
                let has = flags.split_whitespace().any(|word| word == flag);
                Reading::value(if has { "yes" } else { "no" })
            }
            Err(reading) => reading,
        }
    }

    pub(crate) fn meminfo(&self) -> Result<&str, Reading> {
        borrowed(self.meminfo.get_or_init(|| self.root.read("/proc/meminfo")))
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.topology.get_or_init(|| Topology::read(self.root))
    }

    /// Whether the host has systemd, which takes lists of hundreds of files and is asked for each unit.
    pub(super) fn has_systemd(&self, look: impl FnOnce() -> Result<(), Reading>) -> Result<(), Reading> {
        self.has_systemd.get_or_init(look).clone()
    }

    /// The watch on interrupts, which the first who asks begins.
    pub(super) fn watch(&self, begin: impl FnOnce() -> seen::Watch) -> &seen::Watch {
        self.watch.get_or_init(begin)
    }

    /// The threads of the host, which take long to look at.
    pub(super) fn threads(
        &self,
        read: impl FnOnce() -> Result<Vec<seen::Thread>, Reading>,
    ) -> &Result<Vec<seen::Thread>, Reading> {
        self.threads.get_or_init(read)
    }

    /// The kernel's configuration, from itself or from where distributions put it.
    pub(crate) fn config(&self) -> Result<&str, Reading> {
        borrowed(self.config.get_or_init(|| self.read_config()))
    }

    fn read_config(&self) -> Result<String, Reading> {
        if let Ok(packed) = self.root.read_bytes("/proc/config.gz", CONFIG_BYTES_MAX) {
            let mut text = String::new();
            let mut unpacked = GzDecoder::new(packed.as_slice()).take(CONFIG_BYTES_MAX);
            if unpacked.read_to_string(&mut text).is_ok() {
                return Ok(text);
            }
        }
        let release = self.root.read("/proc/sys/kernel/osrelease")?;
        // The release becomes part of a path.
        if release.contains('/') {
            return Err(Reading::unknown("kernel release with a slash"));
        }
        self.root
            .read(&format!("/boot/config-{release}"))
            .map_err(|_| Reading::unknown(format!("neither /proc/config.gz nor /boot/config-{release}")))
    }
}

fn borrowed(text: &Result<String, Reading>) -> Result<&str, Reading> {
    text.as_deref().map_err(Clone::clone)
}

/// The kernel takes `-` and `_` in option names for the same.
fn is_option(word: &str, option: &str) -> bool {
    let same = |a: u8, b: u8| a == b || (matches!(a, b'-' | b'_') && matches!(b, b'-' | b'_'));
    word.len() == option.len() && word.bytes().zip(option.bytes()).all(|(a, b)| same(a, b))
}

/// The value of the first line `field: value`.
pub(super) fn field_of<'t>(text: &'t str, field: &str) -> Option<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.trim() == field).map(|(_, value)| value.trim())
}

/// The value of the last `key=value` line of a shell-like file, quotes and comments left out.
fn assignment(text: &str, key: &str) -> Reading {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='));
    let value = lines.next_back().map(|value| value.split('#').next().unwrap_or_default().trim());
    Reading::value(value.map_or(NOT_SET, |value| value.trim_matches(['"', '\''])))
}

/// The word between two marks in a list of choices.
pub(super) fn chosen(path: &str, text: &str, [open, close]: [char; 2]) -> Reading {
    let marked = text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
    match marked {
        Some((word, _)) => Reading::value(word),
        None => Reading::unknown(format!("{path} marks no choice")),
    }
}
