//! Facts of an interface's device and queues, from sysfs.

use super::{Nic, Source};
use crate::read::condense::condense;
use crate::read::interrupts::{irq_names, named_for};
use crate::read::{cpus, one_line};
use crate::{CpuSet, Reading};

const VIRTIO: &str = "virtio";
const LOCAL_CPUS: &str = "local_cpulist";

impl Nic<'_> {
    /// The name that a link in the interface's directory points at.
    pub(super) fn device_link(&self, link: &str) -> Reading {
        match &self.sysfs {
            Ok(sysfs) => self.root.link_name(&format!("{sysfs}/{link}")).into(),
            Err(reading) => reading.clone(),
        }
    }

    /// A file of the function on the bus.
    pub(super) fn device_file(&self, file: &str) -> Reading {
        let device = self.device();
        let found = device.as_ref().map_err(Clone::clone);
        match found.and_then(|device| self.root.read(&format!("{device}/{file}"))) {
            Err(lack @ Reading::Unknown { .. }) if !self.root.tells_absence() => {
                let by_node =
                    || device.ok().filter(|_| file == LOCAL_CPUS).and_then(|device| self.cpus_of_node(&device));
                by_node().or_else(|| self.link_by_config(file)).unwrap_or(lack)
            }
            found => found.map(|text| one_line(&text)).into(),
        }
    }

    /// The CPUs near the device by its memory node, which is among the few files of a device that `sos` copies.
    fn cpus_of_node(&self, device: &str) -> Option<Reading> {
        let node: u32 = self.root.read(&format!("{device}/numa_node")).ok()?.parse().ok()?;
        self.root.read(&format!("/sys/devices/system/node/node{node}/cpulist")).ok().map(Reading::Value)
    }

    /// Where the device's files are. A virtio device sits on a PCI function that has them. A
    /// virtual interface has no device.
    fn device(&self) -> Result<String, Reading> {
        let device = format!("{}/device", self.sysfs.as_ref().map_err(Clone::clone)?);
        let bus = self.root.link_name(&format!("{device}/subsystem"));
        match bus.as_deref() {
            Ok(VIRTIO) => Ok(format!("{device}/..")),
            Ok(_) => Ok(device),
            Err(_) if self.root.has(&device) => Ok(device),
            Err(reading) => Err(reading.clone()),
        }
    }

    /// The CPUs in a mask of each queue.
    pub(super) fn queue_masks(&self, direction: &str, file: &str) -> Reading {
        self.of_queues(direction, file, |path, text| cpus(path, text, CpuSet::from_mask))
    }

    /// A file of each queue in one line.
    pub(super) fn queue_files(&self, direction: &str, file: &str) -> Reading {
        self.of_queues(direction, file, |_, text| Reading::Value(one_line(text)))
    }

    fn of_queues(&self, direction: &str, file: &str, of: impl Fn(&str, &str) -> Reading) -> Reading {
        let sysfs = match &self.sysfs {
            Ok(sysfs) => sysfs,
            Err(reading) => return reading.clone(),
        };
        let queues = match self.root.list(&format!("{sysfs}/queues")) {
            Ok(queues) => queues,
            Err(reading) => return reading,
        };
        let mine = queues.into_iter().filter_map(|queue| {
            let number = queue.strip_prefix(direction)?.strip_prefix('-')?;
            let path = format!("{sysfs}/queues/{queue}/{file}");
            let reading = match self.root.read(&path) {
                Ok(text) => of(&path, &text),
                // The kernel refuses the mask of a queue that is the only one.
                Err(Reading::Unknown { .. }) if self.root.tells_absence() => Reading::Unsupported,
                Err(reading) => reading,
            };
            Some((number.to_owned(), reading))
        });
        condense(mine.collect())
    }

    /// Counters with their names, those that the kernel has.
    pub(super) fn statistics(&self, names: &[&str]) -> Reading {
        let readings: Vec<_> = names.iter().map(|name| (name, self.file(&format!("statistics/{name}")))).collect();
        let known: Vec<_> =
            readings.iter().filter_map(|(name, reading)| Some(format!("{name} {}", reading.as_value()?))).collect();
        match readings.into_iter().next() {
            Some((_, first)) if known.is_empty() => first,
            _ => Reading::Value(known.join(", ")),
        }
    }

    /// Interfaces stacked on this one or below it: `above: bond0`, or `none`.
    pub(super) fn neighbours(&self) -> Reading {
        let (above, below) = match self.above_and_below() {
            Ok(found) => found,
            Err(reading) => return reading,
        };
        let side = |names: &[String], word: &str| (!names.is_empty()).then(|| format!("{word}: {}", names.join(" ")));
        let sides: Vec<_> = [side(&above, "above"), side(&below, "below")].into_iter().flatten().collect();
        Reading::Value(if sides.is_empty() { "none".to_owned() } else { sides.join(", ") })
    }

    fn above_and_below(&self) -> Result<(Vec<String>, Vec<String>), Reading> {
        if let Ok(Source::Outputs(outputs)) = &self.source {
            return outputs.neighbours();
        }
        let entries = self.root.list(self.directory()?)?;
        let side = |prefix| entries.iter().filter_map(|entry| Some(entry.strip_prefix(prefix)?.to_owned())).collect();
        let (above, below): (Vec<_>, Vec<_>) = (side("upper_"), side("lower_"));
        if above.is_empty() && below.is_empty() && !self.root.tells_absence() {
            return Err(self.root.absent_or_not_copied("the links to other interfaces"));
        }
        Ok((above, below))
    }

    pub(super) fn count_queues(&self, prefix: &str) -> Reading {
        let sysfs = match &self.sysfs {
            Ok(sysfs) => sysfs,
            Err(reading) => return reading.clone(),
        };
        match self.root.list(&format!("{sysfs}/queues")) {
            Ok(queues) => Reading::value(queues.iter().filter(|queue| queue.starts_with(prefix)).count()),
            Err(reading) => reading,
        }
    }

    /// The CPUs that the device's interrupts go to in effect.
    pub(super) fn irq_affinity(&self) -> Reading {
        let irqs = match self.own_or_named_irqs() {
            Ok(irqs) => irqs,
            Err(reading) => return reading,
        };
        let affinities = irqs.into_iter().map(|irq| {
            let path = format!("/proc/irq/{irq}/effective_affinity_list");
            let list = match self.root.read(&path) {
                Ok(text) => cpus(&path, &text, CpuSet::from_list),
                Err(reading) => reading,
            };
            (irq.to_string(), list)
        });
        condense(affinities.collect())
    }

    /// The device's interrupts. Copies lack the directory of them more often than the table of all, which names them.
    pub(crate) fn own_or_named_irqs(&self) -> Result<Vec<u32>, Reading> {
        let own = self.irqs();
        if self.root.is_live() || own.as_ref().is_ok_and(|irqs| !irqs.is_empty()) {
            return own;
        }
        let names = irq_names(&self.root.read("/proc/interrupts").unwrap_or_default());
        let mut named = named_for(self.name, self.bus_info().as_value(), &names);
        if let Some(device) = self.virtio_device() {
            named.extend(named_for(&device, None, &names));
        }
        if named.is_empty() { own } else { Ok(named) }
    }

    /// `virtio2`, whose name the interrupts have in place of the interface's.
    fn virtio_device(&self) -> Option<String> {
        let target = self.root.link_target(self.directory().ok()?).ok()?;
        target.split('/').find(|part| part.starts_with(VIRTIO)).map(str::to_owned)
    }

    /// The numbers of the device's interrupts, in order.
    pub(crate) fn irqs(&self) -> Result<Vec<u32>, Reading> {
        let device = self.device()?;
        let irqs = match self.root.list(&format!("{device}/msi_irqs")) {
            Ok(irqs) => irqs,
            Err(_) => match self.root.read(&format!("{device}/irq"))? {
                // The device has none of its own.
                irq if irq == "0" => return Err(Reading::Unsupported),
                irq => vec![irq],
            },
        };
        Ok(irqs.iter().filter_map(|irq| irq.parse().ok()).collect())
    }
}
