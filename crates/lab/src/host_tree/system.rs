//! The kernel, its services and processes.

use super::description::{Description, ProcessKeys};
use super::machine::{Machine, list};
use super::tree::Tree;

const UNITS: &str = "/usr/lib/systemd/system";
const GROUPS: &str = "/sys/fs/cgroup/system.slice";

pub(super) fn files(description: &Description, machine: &Machine<'_>, tree: &mut Tree) {
    kernel(description, machine, tree);
    services(description, tree);
    for process in &description.process {
        process_files(process, machine, tree);
    }
    memory(machine, tree);
}

fn kernel(description: &Description, machine: &Machine<'_>, tree: &mut Tree) {
    let keys = &description.kernel;
    let all = machine.mask(&machine.online());
    tree.text("/proc/cmdline", &keys.command_line);
    tree.texts("/proc/sys/kernel", [("osrelease", &keys.release), ("version", &keys.version)]);
    tree.text("/proc/version", format!("Linux version {} {}", keys.release, keys.version));
    tree.text(&format!("/boot/config-{}", keys.release), &keys.config);
    tree.text("/dev/kmsg", format!("5,0,0,-;Linux version {} {}", keys.release, keys.version));
    tree.text("/proc/sys/kernel/watchdog_cpumask", list(&machine.online()));
    tree.texts("/sys/devices/virtual/workqueue", [("cpumask", &all), ("cpumask_isolated", &machine.mask(&[]))]);
    tree.text("/sys/devices/virtual/workqueue/writeback/cpumask", &all);
    tree.text("/sys/fs/cgroup/cpuset.cpus.isolated", "");
    for cpu in machine.online() {
        tree.text(&format!("/sys/devices/system/machinecheck/machinecheck{cpu}/check_interval"), 300);
        tree.text(&format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"), 50_000_000);
    }
    let counters = "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n";
    tree.text("/proc/net/softnet_stat", counters.repeat(machine.online().len()));
}

fn services(description: &Description, tree: &mut Tree) {
    let keys = &description.services;
    tree.directory(UNITS);
    tree.directory(GROUPS);
    for unit in keys.installed.iter().chain(&keys.enabled).chain(&keys.running) {
        tree.text(&format!("{UNITS}/{unit}"), "[Unit]");
    }
    for unit in &keys.enabled {
        let target = if unit.ends_with(".timer") { "timers" } else { "multi-user" };
        tree.link(&format!("/etc/systemd/system/{target}.target.wants/{unit}"), &format!("{UNITS}/{unit}"));
    }
    for unit in &keys.running {
        tree.text(&format!("{GROUPS}/{unit}/cgroup.events"), "populated 1\nfrozen 0");
    }
    tree.text(&format!("{UNITS}/multi-user.target"), "[Unit]");
    tree.link("/etc/systemd/system/default.target", &format!("{UNITS}/multi-user.target"));
}

fn process_files(process: &ProcessKeys, machine: &Machine<'_>, tree: &mut Tree) {
    let ProcessKeys { pid, comm, cpu, is_kernel } = process;
    let cpus = cpu.map_or_else(|| machine.online(), |cpu| vec![cpu]);
    let memory = if *is_kernel { "" } else { "VmSize:\t   10240 kB\n" };
    let status = format!("Name:\t{comm}\nPid:\t{pid}\n{memory}Cpus_allowed_list:\t{}\n", list(&cpus));
    for directory in [format!("/proc/{pid}"), format!("/proc/{pid}/task/{pid}")] {
        tree.texts(&directory, [("comm", comm), ("status", &status)]);
    }
}

fn memory(machine: &Machine<'_>, tree: &mut Tree) {
    let total_kb = machine.memory_mib() * 1024;
    let free_kb = total_kb - total_kb / 16;
    let text = format!(
        "MemTotal:       {total_kb} kB\nMemFree:        {free_kb} kB\nMemAvailable:   {free_kb} kB\n\
         HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\nHugepagesize:       2048 kB\n\
         Hugetlb:               0 kB\n"
    );
    tree.text("/proc/meminfo", text);
}
