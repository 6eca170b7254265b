//! Goals as words on the kernel's command line.

use super::words::{self, WordError};
use crate::Goal;
use crate::setting::Value;

/// One option on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The option's name, by which it is found and replaced.
    pub option: &'static str,
    /// What is to be said, several words for pools of huge pages; `None` where the option is to be
    /// gone.
    pub text: Option<String>,
}

/// Values of settings whose effect an option has by another name: id, value, option, text.
const TWINS: &[(&str, &str, &str, Option<&str>)] = &[
    ("cpu.smt", "off", "nosmt", Some("nosmt")),
    ("cpu.smt", "on", "nosmt", None),
    ("cpu.page-table-levels", "off", "no5lvl", Some("no5lvl")),
    ("cpu.page-table-levels", "on", "no5lvl", None),
    ("cpu.idle.driver", "acpi_idle", "intel_idle.max_cstate", Some("intel_idle.max_cstate=0")),
    ("cpu.frequency.driver", "acpi-cpufreq", "intel_pstate", Some("intel_pstate=disable")),
    ("cpu.frequency.driver", "intel_cpufreq", "intel_pstate", Some("intel_pstate=passive")),
    ("cpu.frequency.driver", "intel_pstate", "intel_pstate", Some("intel_pstate=active")),
    ("cpu.frequency.driver", "amd-pstate", "amd_pstate", Some("amd_pstate=passive")),
    ("cpu.frequency.driver", "amd-pstate-epp", "amd_pstate", Some("amd_pstate=active")),
    ("cpu.mitigations", "off", "mitigations", Some("mitigations=off")),
    ("cpu.mitigations", "auto", "mitigations", Some("mitigations=auto")),
    ("cpu.mitigations", "auto,nosmt", "mitigations", Some("mitigations=auto,nosmt")),
    ("memory.iommu-groups", "identity", "iommu", Some("iommu=pt")),
    ("noise.machine-check-interval", "0", "mce", Some("mce=ignore_ce")),
    ("kernel.config.init-on-alloc", "y", "init_on_alloc", Some("init_on_alloc=1")),
    ("kernel.config.init-on-alloc", "not set", "init_on_alloc", Some("init_on_alloc=0")),
    ("kernel.preemption", "none", "preempt", Some("preempt=none")),
    ("kernel.preemption", "voluntary", "preempt", Some("preempt=voluntary")),
    ("kernel.preemption", "lazy", "preempt", Some("preempt=lazy")),
    ("kernel.preemption", "full", "preempt", Some("preempt=full")),
    ("service.selinux", "disabled", "selinux", Some("selinux=0")),
    ("nic.pcie.aspm", "off", "pcie_aspm", Some("pcie_aspm=off")),
];

/// The word of a goal; none of a setting that the command line does not have.
pub(super) fn word(goal: &Goal) -> Result<Option<Word>, String> {
    let (id, value) = (goal.setting.id, goal.value.as_str());
    let mut twins = TWINS.iter().filter(|twin| twin.0 == id).peekable();
    if twins.peek().is_some() {
        let twin = twins.find(|twin| twin.1 == value);
        let no_word = || format!("the command line has no word for the value {value:?}");
        return twin.map(|twin| Some(Word { option: twin.2, text: twin.3.map(str::to_owned) })).ok_or_else(no_word);
    }
    let made = match id {
        "cpu.idle.states" => {
            return Err("the option counts idle states, and their numbers differ between processors".to_owned());
        }
        "boot.hugepages" => {
            words::number(value).map(|count| Some(format!("hugepages={count}"))).map(|text| ("hugepages", text))
        }
        "memory.huge-pages" => {
            let pools = huge_pages(value).ok_or_else(|| format!("{value:?} does not say node, size and count"))?;
            Ok(("hugepages", Some(pool_words(&pools))))
        }
        "memory.huge-page-size" => {
            let size = size(value).ok_or_else(|| format!("{value:?} is not a size of pages"))?;
            Ok(("default_hugepagesz", Some(format!("default_hugepagesz={size}"))))
        }
        _ => match words::command_line_forms(goal.setting).next() {
            Some(form) => of_form(form, goal),
            None => return Ok(None),
        },
    };
    let (option, text) = made.map_err(|error| error.to_string())?;
    Ok(Some(Word { option, text }))
}

/// A form of the catalogue with the value in it: `isolcpus=LIST`, `nosmt`, `psi=0`.
fn of_form(form: &'static str, goal: &Goal) -> Result<(&'static str, Option<String>), WordError> {
    let value = goal.value.as_str();
    let (option, parameter) =
        form.split_once('=').map_or((form, None), |(option, parameter)| (option, Some(parameter)));
    if words::is_nothing(value) {
        return Ok((option, None));
    }
    let text = match (goal.setting.value, parameter) {
        (_, None) => return Ok((option, words::switch(value)?.then(|| option.to_owned()))),
        (Value::Switch, Some(printed)) => {
            let names = if matches!(printed, "on" | "off") { ["off", "on"] } else { ["0", "1"] };
            names[usize::from(words::switch(value)?)].to_owned()
        }
        (Value::Number(_), _) => words::number(value)?,
        (Value::CpuList, _) => words::list(value)?,
        (Value::Word(known), _) => words::one_of(value, known)?,
        (Value::Text, _) => words::word(value)?,
    };
    Ok((option, Some(format!("{option}={text}"))))
}

/// A pool of huge pages: node, size of a page in kB, pages.
pub(super) type Pool = (u32, u64, u64);

/// Reads what `memory.huge-pages` says: `node0 2048kB: 12 of 16 free, ...`. The pages that are free
/// do not matter.
pub(super) fn huge_pages(value: &str) -> Option<Vec<Pool>> {
    let number = |text: &str| words::number(text).ok().filter(|text| !text.starts_with('-'));
    value
        .split(", ")
        .map(|pool| {
            let (place, pages) = pool.split_once(": ")?;
            let (node, size) = place.split_once(' ')?;
            let total = pages.strip_suffix(" free").map_or(Some(pages), |pages| Some(pages.split_once(" of ")?.1))?;
            let node = number(node.strip_prefix("node")?)?.parse().ok()?;
            let size_kb = number(size.strip_suffix("kB")?)?.parse().ok()?;
            Some((node, size_kb, number(total)?.parse().ok()?))
        })
        .collect()
}

/// The pools, size by size: each size is said before its count, and of several nodes each has its
/// own count (`Documentation/admin-guide/mm/hugetlbpage.rst`).
fn pool_words(pools: &[Pool]) -> String {
    let mut sizes: Vec<_> = pools.iter().map(|&(_, size_kb, _)| size_kb).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let of_size = |size_kb: u64| {
        let counts: Vec<_> =
            pools.iter().filter(|pool| pool.1 == size_kb).map(|(node, _, count)| format!("{node}:{count}")).collect();
        format!("hugepagesz={} hugepages={}", in_largest_unit(size_kb), counts.join(","))
    };
    sizes.into_iter().map(of_size).collect::<Vec<_>>().join(" ")
}

/// `2048 kB` as the kernel prints it, or `1G`, as the command line takes it.
fn size(value: &str) -> Option<String> {
    if let Some(size_kb) = value.strip_suffix(" kB") {
        return size_kb.parse().ok().map(in_largest_unit);
    }
    let digits = value.strip_suffix(['K', 'M', 'G'])?;
    let is_number = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| value.to_owned())
}

fn in_largest_unit(size_kb: u64) -> String {
    match size_kb {
        kb if kb >= 1 << 20 && kb % (1 << 20) == 0 => format!("{}G", kb >> 20),
        kb if kb >= 1 << 10 && kb % (1 << 10) == 0 => format!("{}M", kb >> 10),
        kb => format!("{kb}K"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn text(id: &str, value: &str) -> Option<Option<String>> {
        let goal = Goal {
            setting: catalogue::setting(id).unwrap(),
            interface: None,
            cpus: None,
            value: value.to_owned(),
            wanted: crate::profile::Wanted::Equal(value.to_owned()),
            reason: String::new(),
        };
        word(&goal).ok().flatten().map(|word| word.text)
    }

    #[test]
    fn boot_setting_given_a_value_becomes_its_words() {
        let cases = [
            ("boot.isolcpus", "2-3", Some("isolcpus=2-3")),
            ("boot.isolcpus", "none", None),
            ("boot.nosmt", "on", Some("nosmt")),
            ("boot.nosmt", "off", None),
            ("boot.audit", "off", Some("audit=0")),
            ("boot.audit", "not set", None),
            ("boot.mem_encrypt", "off", Some("mem_encrypt=off")),
            ("boot.idle", "poll", Some("idle=poll")),
            ("boot.split_lock_detect", "ratelimit:5", Some("split_lock_detect=ratelimit:5")),
            ("cpu.isolated", "2-3", Some("isolcpus=2-3")),
            ("cpu.nohz_full", "2-3", Some("nohz_full=2-3")),
            ("cpu.smt", "off", Some("nosmt")),
            ("memory.huge-page-size", "1048576 kB", Some("default_hugepagesz=1G")),
            ("boot.hugepages", "16", Some("hugepages=16")),
        ];
        for (id, value, expected) in cases {
            assert_eq!(text(id, value), Some(expected.map(str::to_owned)), "{id} {value}");
        }
    }

    #[test]
    fn huge_pages_of_several_sizes_say_each_size_before_its_count() {
        let value = "node0 2048kB: 3 of 512 free, node0 1048576kB: 8 of 8 free, node1 2048kB: 0 of 256 free";
        let words = "hugepagesz=1G hugepages=0:8 hugepagesz=2M hugepages=0:512,1:256";
        assert_eq!(text("memory.huge-pages", value), Some(Some(words.to_owned())));
    }

    #[test]
    fn value_the_command_line_cannot_say_is_refused() {
        for (id, value) in [
            ("boot.isolcpus", "2-3 init=/bin/sh"),
            ("boot.clocksource", "tsc init=/bin/sh"),
            ("kernel.preemption", "rt"),
            ("memory.huge-pages", "16"),
            ("boot.hugepages", "many"),
        ] {
            assert_eq!(text(id, value), None, "{id} {value}");
        }
    }
}
