//! The instances of a setting on one host.

use super::super::{Device, EthtoolParameter, Form, LinkAttribute, Target, partition};
use super::table::Place;
use super::{Located, NotAtRunTime, Part, Scope};
use crate::read::Nic;
use crate::setting::{EthtoolCall, LinkFact, NicFact};
use crate::topology::Topology;
use crate::{ReadFrom, Root, Setting};

pub(super) struct Finder<'a> {
    pub(super) root: &'a Root,
    pub(super) setting: &'static Setting,
    pub(super) scope: &'a Scope<'a>,
}

impl Finder<'_> {
    pub(super) fn at(&self, place: &Place) -> Vec<Located> {
        match place {
            Place::Switches(switches) => {
                let there = switches.iter().find(|(path, ..)| self.root.has(path));
                let form = |on: &str, off: &str| Form::Switch { on: on.to_owned(), off: off.to_owned() };
                there.map(|(path, on, off)| self.file(None, (*path).to_owned(), form(on, off))).into_iter().collect()
            }
            Place::IdleStates => self.each_cpu(|cpu| self.idle_states(cpu)),
            Place::HugePages => self.huge_pages(),
            Place::Partition => self.partition(),
            Place::Unit(unit) => vec![self.whole(Target::Service { unit: (*unit).to_owned() })],
            Place::None(_) => Vec::new(),
        }
    }

    pub(super) fn where_it_is_read(&self) -> Result<Vec<Located>, NotAtRunTime> {
        let form = Form::of(self.setting.value);
        Ok(match self.setting.read {
            ReadFrom::File(path) => vec![self.file(None, path.to_owned(), form)],
            ReadFrom::CpuList(path) => vec![self.file(None, path.to_owned(), Form::CpuList)],
            ReadFrom::CpuMask(path) => vec![self.file(None, path.to_owned(), Form::CpuMask)],
            ReadFrom::Chosen(path) => vec![self.file(None, path.to_owned(), Form::Choice)],
            ReadFrom::Sysctl(name) => {
                // The one sysctl whose CPUs are a mask (net/core/sysctl_net_core.c).
                let form = if name == "net.core.rps_default_mask" { Form::CpuMask } else { form };
                vec![self.file(None, format!("/proc/sys/{}", name.replace('.', "/")), form)]
            }
            ReadFrom::EachCpu(file) => self.each_cpu(|cpu| {
                let path = format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
                vec![self.part(&format!("cpu{cpu}"), Part::Cpu(cpu), Target::File { path, form: form.clone() })]
            }),
            ReadFrom::Each { directory, prefix, file } => self.each(directory, prefix, file, &form),
            ReadFrom::ModuleParameter(module, parameter) => {
                let path = format!("/sys/module/{module}/parameters/{parameter}");
                let says_yes = matches!(self.root.text(&path).as_deref(), Ok("Y" | "N"));
                let form = if says_yes { Form::Switch { on: "Y".to_owned(), off: "N".to_owned() } } else { form };
                vec![self.file(None, path, form)]
            }
            ReadFrom::Nic(fact) => return self.of_interfaces(fact, &form),
            _ => return Err(self.no_writer()),
        })
    }

    fn of_interfaces(&self, fact: NicFact, form: &Form) -> Result<Vec<Located>, NotAtRunTime> {
        let file = |device: &Device, file: String, form: &Form| Target::InterfaceFile {
            device: device.clone(),
            file,
            form: form.clone(),
        };
        let attribute = match fact {
            NicFact::Link(LinkFact::Mtu) => Some(LinkAttribute::Mtu),
            NicFact::Link(LinkFact::TxQueueLength) => Some(LinkAttribute::TxQueueLength),
            _ => None,
        };
        if let Some(call) = &self.setting.nic.ethtool
            && !matches!(fact, NicFact::Offload(_))
        {
            return self.by_ethtool(call);
        }
        Ok(self.each_interface(|interface, device| match fact {
            NicFact::File(path) => vec![self.named(interface, file(device, path.to_owned(), form))],
            NicFact::Device(path) => {
                vec![self.named(interface, file(device, self.device_file(interface, path), form))]
            }
            NicFact::Link(_) => attribute
                .map(|attribute| self.named(interface, Target::Link { device: device.clone(), attribute }))
                .into_iter()
                .collect(),
            NicFact::Offload(names) => self.offloads(interface, device, names),
            NicFact::QueueMask(direction, path) => self
                .queues(interface, direction, |queue| file(device, format!("queues/{queue}/{path}"), &Form::CpuMask)),
            NicFact::QueueFile(direction, path) => {
                self.queues(interface, direction, |queue| file(device, format!("queues/{queue}/{path}"), form))
            }
            NicFact::IrqAffinity => {
                let vectors = Nic::open(self.root, interface).irqs().map_or(0, |irqs| irqs.len());
                let located = |vector| {
                    let name = format!("{interface}/vector{vector}");
                    self.part(&name, Part::Vector(vector), Target::Irq { device: device.clone(), vector })
                };
                (0..vectors).map(located).collect()
            }
            _ => Vec::new(),
        }))
    }

    /// One instance for each parameter of a call, with the parameter's word in its name if there are several.
    fn by_ethtool(&self, call: &EthtoolCall) -> Result<Vec<Located>, NotAtRunTime> {
        let parameters = EthtoolParameter::of(call);
        if parameters.is_empty() {
            let why = "only the netlink form of ethtool(8) writes it";
            return Err(NotAtRunTime::NoWriter { id: self.setting.id, why });
        }
        Ok(self.each_interface(|interface, device| {
            let located = |parameter: &EthtoolParameter| {
                let target = Target::Ethtool { device: device.clone(), parameter: parameter.clone() };
                match parameters.len() {
                    1 => self.named(interface, target),
                    _ => self.named(&format!("{interface}/{}", parameter.word()), target),
                }
            };
            parameters.iter().map(located).collect()
        }))
    }

    /// The PCI function's own file, also when a virtio device lies between.
    fn device_file(&self, interface: &str, file: &str) -> String {
        let bus = self.root.link_name(&format!("/sys/class/net/{interface}/device/subsystem"));
        if bus.as_deref() == Ok("virtio") { format!("device/../{file}") } else { format!("device/{file}") }
    }

    /// Those of the kernel's offloads that the driver lets be switched.
    fn offloads(&self, interface: &str, device: &Device, names: &[&str]) -> Vec<Located> {
        let located = |name: String| {
            let parameter = EthtoolParameter::Feature(name.clone());
            let target = Target::Ethtool { device: device.clone(), parameter };
            match names.len() {
                1 => self.named(interface, target),
                _ => self.named(&format!("{interface}/{name}"), target),
            }
        };
        Nic::open(self.root, interface).changeable_offloads(names).into_iter().map(located).collect()
    }

    fn queues(&self, interface: &str, direction: &'static str, target: impl Fn(&str) -> Target) -> Vec<Located> {
        let nic = Nic::open(self.root, interface);
        let queues = nic.directory().and_then(|directory| self.root.list(&format!("{directory}/queues")));
        let located = |queue: String| {
            let number = queue.strip_prefix(direction)?.strip_prefix('-')?.parse().ok()?;
            let target = target(&queue);
            // Of a queue that is the only one the kernel has no mask.
            let is_there = self.root.text(&target.to_string()).is_ok();
            is_there.then(|| self.part(&format!("{interface}/{queue}"), Part::Queue(direction, number), target))
        };
        queues.unwrap_or_default().into_iter().filter_map(located).collect()
    }

    fn idle_states(&self, cpu: u32) -> Vec<Located> {
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let states = self.root.list(&directory).unwrap_or_default();
        let located = |entry: String| {
            let path = format!("{directory}/{entry}/disable");
            let state = self.root.text(&format!("{directory}/{entry}/name")).unwrap_or_else(|_| entry.clone());
            let latency = self.root.text(&format!("{directory}/{entry}/latency"));
            let exit_latency_us = latency.ok().and_then(|latency| latency.parse().ok());
            let name = format!("cpu{cpu}/{state}");
            let part = Part::IdleState { cpu, state, exit_latency_us };
            self.part(&name, part, Target::File { path, form: Form::switch() })
        };
        states.into_iter().filter(|entry| entry.starts_with("state")).map(located).collect()
    }

    fn huge_pages(&self) -> Vec<Located> {
        const NODES: &str = "/sys/devices/system/node";
        let mut found = Vec::new();
        for node in self.root.list(NODES).unwrap_or_default() {
            let pools = format!("{NODES}/{node}/hugepages");
            for pool in self.root.list(&pools).unwrap_or_default() {
                let path = format!("{pools}/{pool}/nr_hugepages");
                let size = pool.strip_prefix("hugepages-").unwrap_or(&pool);
                found.push(self.named(&format!("{node}/{size}"), Target::File { path, form: Form::Text }));
            }
        }
        found
    }

    fn partition(&self) -> Vec<Located> {
        let form = Form::Controller(partition::CONTROLLER.to_owned());
        let controllers = Target::File { path: partition::ENABLED_CONTROLLERS.to_owned(), form };
        vec![
            self.part("controller", Part::Needed("on"), controllers),
            self.whole(Target::Partition { path: partition::GROUP.to_owned() }),
        ]
    }

    fn each(&self, directory: &str, prefix: &str, file: &str, form: &Form) -> Vec<Located> {
        let located = |entry: String| {
            let path = format!("{directory}/{entry}/{file}");
            let cpu = entry.strip_prefix(prefix).and_then(|number| number.parse().ok());
            let cpu = cpu.filter(|_| matches!(prefix, "cpu" | "machinecheck"));
            let marks = self.root.text(&path).is_ok_and(|text| text.contains('[') && text.contains(']'));
            let form = if marks { Form::Choice } else { form.clone() };
            let is_meant = cpu.is_none_or(|cpu| self.scope.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu)));
            let part = cpu.map_or_else(|| Part::Named(entry.clone()), Part::Cpu);
            is_meant.then(|| self.part(&entry, part, Target::File { path, form }))
        };
        let entries = self.root.list(directory).unwrap_or_default();
        entries.into_iter().filter(|entry| entry.starts_with(prefix) && !file.is_empty()).filter_map(located).collect()
    }

    fn each_cpu(&self, of: impl Fn(u32) -> Vec<Located>) -> Vec<Located> {
        let topology = Topology::read(self.root);
        let is_meant = |cpu: &u32| self.scope.cpus.as_ref().is_none_or(|cpus| cpus.contains(*cpu));
        topology.cpus().iter().map(|cpu| cpu.id).filter(is_meant).flat_map(of).collect()
    }

    fn each_interface(&self, of: impl Fn(&str, &Device) -> Vec<Located>) -> Vec<Located> {
        let located = |interface: &String| of(interface, &Device::of(self.root, interface));
        self.scope.interfaces.iter().flat_map(located).collect()
    }

    /// Leaves out what is not there; errs when nothing is left.
    pub(super) fn writable(&self, found: Vec<Located>) -> Result<Vec<Located>, NotAtRunTime> {
        let id = self.setting.id;
        let mut is_read_only = false;
        let mut left = Vec::new();
        for located in found {
            let path = match &located.target {
                Target::File { path, .. } => path.clone(),
                target @ Target::InterfaceFile { .. } => target.to_string(),
                _ => {
                    left.push(located);
                    continue;
                }
            };
            match self.root.has_writable_mode(&path) {
                Ok(true) => left.push(located),
                Ok(false) => is_read_only = true,
                Err(_) => {}
            }
        }
        match (left.is_empty(), is_read_only, self.setting.read) {
            (false, ..) => Ok(left),
            (true, true, ReadFrom::ModuleParameter(..)) => Err(NotAtRunTime::NeedsReload { id }),
            (true, true, _) => Err(NotAtRunTime::ReadOnly { id }),
            (true, false, _) => Err(NotAtRunTime::Absent { id }),
        }
    }

    fn no_writer(&self) -> NotAtRunTime {
        NotAtRunTime::NoWriter {
            id: self.setting.id,
            why: "it is the sum of other settings or told by a tool of its own",
        }
    }

    fn file(&self, name: Option<&str>, path: String, form: Form) -> Located {
        let target = Target::File { path, form };
        name.map_or_else(|| self.whole(target.clone()), |name| self.named(name, target.clone()))
    }

    fn whole(&self, target: Target) -> Located {
        Located { id: self.setting.id.to_owned(), part: Part::Whole, target }
    }

    fn named(&self, name: &str, target: Target) -> Located {
        let is_interface = self.scope.interfaces.iter().any(|interface| interface == name);
        let part = if is_interface { Part::Whole } else { Part::Named(name.to_owned()) };
        self.part(name, part, target)
    }

    fn part(&self, name: &str, part: Part, target: Target) -> Located {
        Located { id: format!("{}[{name}]", self.setting.id), part, target }
    }
}
