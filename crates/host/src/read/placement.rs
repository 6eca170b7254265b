//! What runs and interrupts where.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::HostFiles;
use super::condense::condense;
use super::host_files::field_of;
use super::seen::{Place, Thread, Watch};
use crate::{CpuSet, Reading};

const IRQS: &str = "/proc/irq";
/// What everything about isolated CPUs says where there are none.
pub(crate) const NOTHING_ISOLATED: &str = "no CPU is isolated";

/// How long a live host is watched for interrupts: what else is read takes as long, and a check has 15 ms. An interrupt that comes more seldom is
/// left to `check --probe noise`.
const WATCHED: Duration = Duration::from_millis(8);

/// Interrupts that come to isolated CPUs, with those CPUs: `30 on 2, 31 on 2-3`. Those whose counters have stood at 0 there
/// since boot are out; of the others the ones count that grow.
pub(crate) fn irqs_on_isolated(files: &HostFiles<'_>) -> Reading {
    let isolated = match isolated(files) {
        Ok(isolated) => isolated,
        Err(reading) => return reading,
    };
    let watch = files.watch(|| begin(files, &isolated));
    let before = match &watch.before {
        Ok(counts) => counts,
        Err(reading) => return reading.clone(),
    };
    if before.is_empty() {
        return Reading::value("none");
    }
    if !files.root().is_live() {
        let came = in_words(before.keys().copied());
        return Reading::unknown(format!(
            "interrupts came to isolated CPUs since boot ({came}), and one reading of /proc/interrupts cannot tell whether they still do"
        ));
    }
    thread::sleep(WATCHED.saturating_sub(watch.since.elapsed()));
    let after = match counts_on(files, &isolated) {
        Ok(counts) => counts,
        Err(reading) => return reading,
    };
    Reading::Value(in_words(grown(before, &after)))
}

/// The setting whose value takes time to tell.
pub(crate) const TAKES_TIME: &str = "irq.on-isolated";

fn begin(files: &HostFiles<'_>, isolated: &CpuSet) -> Watch {
    Watch { before: counts_on(files, isolated), since: Instant::now() }
}

/// Begins to watch interrupts, so that other settings can be read meanwhile.
pub(crate) fn begin_watch(files: &HostFiles<'_>) {
    if let Ok(isolated) = isolated(files) {
        files.watch(|| begin(files, &isolated));
    }
}

/// Those whose counter is higher in the second of two readings.
fn grown(before: &BTreeMap<Place, u64>, after: &BTreeMap<Place, u64>) -> impl Iterator<Item = Place> {
    let higher = after.iter().filter(move |(place, count)| before.get(*place).is_none_or(|before| *count > before));
    higher.map(|(place, _)| *place)
}

/// How often each numbered interrupt came to each of these CPUs, where it did.
fn counts_on(files: &HostFiles<'_>, cpus: &CpuSet) -> Result<BTreeMap<Place, u64>, Reading> {
    let text = files.root().read("/proc/interrupts")?;
    let mut lines = text.lines();
    let titles = lines.next().unwrap_or_default().split_whitespace();
    let columns: Vec<u32> = titles.map_while(|title| title.strip_prefix("CPU")?.parse().ok()).collect();
    let mut counts = BTreeMap::new();
    for (irq, rest) in lines.filter_map(|line| line.split_once(':')) {
        // Those with letters are the processor's own: ticks, calls between CPUs.
        let Ok(irq) = irq.trim().parse::<u32>() else { continue };
        for (cpu, count) in columns.iter().zip(rest.split_whitespace()) {
            let came = count.parse::<u64>().ok().filter(|&count| count > 0 && cpus.contains(*cpu));
            counts.extend(came.map(|count| ((irq, *cpu), count)));
        }
    }
    Ok(counts)
}

/// `30 on 2, 31 on 2-3`, or `none`.
fn in_words(places: impl Iterator<Item = Place>) -> String {
    let mut cpus_of = BTreeMap::<u32, Vec<u32>>::new();
    for (irq, cpu) in places {
        cpus_of.entry(irq).or_default().push(cpu);
    }
    let words = cpus_of.into_iter().map(|(irq, cpus)| format!("{irq} on {}", CpuSet::from_iter(cpus)));
    let words: Vec<_> = words.collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// How many interrupts go to each CPU in effect.
pub(crate) fn irqs_of_each_cpu(files: &HostFiles<'_>) -> Reading {
    let irqs = match affinities(files) {
        Ok(irqs) => irqs,
        Err(reading) => return reading,
    };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for cpu in irqs.iter().flat_map(|(_, cpus)| cpus.iter()) {
        *counts.entry(cpu).or_default() += 1;
    }
    files.each_online_cpu(|cpu| Reading::value(counts.get(&cpu).copied().unwrap_or(0)))
}

fn affinities(files: &HostFiles<'_>) -> Result<Vec<(String, CpuSet)>, Reading> {
    let entries = files.root().list(IRQS)?;
    let irqs = entries.into_iter().filter(|name| name.parse::<u32>().is_ok()).filter_map(|irq| {
        let text = files.root().read(&format!("{IRQS}/{irq}/effective_affinity_list")).ok()?;
        Some((irq, CpuSet::from_list(&text).ok()?))
    });
    let irqs: Vec<_> = irqs.collect();
    if irqs.is_empty() && !files.root().tells_absence() {
        return Err(files.root().absent_or_not_copied("the interrupts' effective affinities"));
    }
    Ok(irqs)
}

/// CPUs that the scheduler leaves alone, by either way.
fn isolated(files: &HostFiles<'_>) -> Result<CpuSet, Reading> {
    let cpus = files.topology().cpus();
    let isolated: CpuSet = cpus.iter().filter(|cpu| cpu.is_isolated).map(|cpu| cpu.id).collect();
    if cpus.is_empty() {
        return Err(Reading::unknown("no list of online CPUs"));
    }
    if isolated.iter().next().is_none() { Err(Reading::value(NOTHING_ISOLATED)) } else { Ok(isolated) }
}

/// How many threads of programs may run on each isolated CPU.
pub(crate) fn threads_on_isolated(files: &HostFiles<'_>) -> Reading {
    count_threads(files, |thread| !thread.is_kernel)
}

/// How many kernel threads that are not bound to one CPU may run on each isolated CPU. Rescuers of work queues are not
/// among them: they sleep until memory is short, and nobody can move them (`init_rescuer` in `kernel/workqueue.c`).
pub(crate) fn kernel_threads_on_isolated(files: &HostFiles<'_>) -> Reading {
    count_threads(files, |thread| thread.is_kernel && !thread.is_rescuer && thread.cpus.iter().nth(1).is_some())
}

fn is_rescuer(status: &str) -> bool {
    field_of(status, "Name").is_some_and(|name| name.starts_with("kworker/R-"))
}

fn count_threads(files: &HostFiles<'_>, counts: impl Fn(&Thread) -> bool) -> Reading {
    let isolated = match isolated(files) {
        Ok(isolated) => isolated,
        Err(reading) => return reading,
    };
    let all = match files.threads(|| threads(files)) {
        Ok(threads) => threads,
        Err(reading) => return reading.clone(),
    };
    let mut counted: BTreeMap<u32, usize> = isolated.iter().map(|cpu| (cpu, 0)).collect();
    for thread in all.iter().filter(|thread| counts(thread)) {
        for (cpu, count) in &mut counted {
            *count += usize::from(thread.cpus.contains(*cpu));
        }
    }
    condense(counted.into_iter().map(|(cpu, count)| (cpu.to_string(), Reading::value(count))).collect())
}

/// All threads of the host.
fn threads(files: &HostFiles<'_>) -> Result<Vec<Thread>, Reading> {
    let processes = files.root().list("/proc")?.into_iter().filter(|name| name.parse::<u32>().is_ok());
    let mut threads = Vec::new();
    for process in processes {
        // Most processes have one thread, whose status is theirs: without a list of it that is half the work.
        match files.root().read(&format!("/proc/{process}/status")) {
            Ok(status) if field_of(&status, "Threads") == Some("1") => threads.extend(thread(&status)),
            _ => {
                let tasks = files.root().list(&format!("/proc/{process}/task")).unwrap_or_default();
                // A thread may end while it is looked at.
                let status = |task| files.root().read(&format!("/proc/{process}/task/{task}/status")).ok();
                threads.extend(tasks.into_iter().filter_map(status).filter_map(|status| thread(&status)));
            }
        }
    }
    Ok(threads)
}

fn thread(status: &str) -> Option<Thread> {
    Some(Thread { is_kernel: is_kernel(status), is_rescuer: is_rescuer(status), cpus: allowed(status)? })
}

fn allowed(status: &str) -> Option<CpuSet> {
    CpuSet::from_list(field_of(status, "Cpus_allowed_list")?).ok()
}

/// A kernel thread has no memory of its own.
fn is_kernel(status: &str) -> bool {
    field_of(status, "VmSize").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_counted_twice_are_those_whose_counters_grew() {
        let reading = |counts: &[(Place, u64)]| counts.iter().copied().collect::<BTreeMap<_, _>>();
        let before = reading(&[((30, 2), 7), ((31, 2), 5), ((31, 3), 5)]);
        let after = reading(&[((30, 2), 7), ((31, 2), 6), ((31, 3), 9), ((32, 3), 1)]);
        assert_eq!(in_words(grown(&before, &after)), "31 on 2-3, 32 on 3");
        assert_eq!(in_words(grown(&before, &before)), "none");
    }
}
