//! `nearwire plan`.

use std::path::PathBuf;

use clap::Args;
use nearwire_host::plan::GuestRequest;

use super::HostSource;

const ABOUT: &str = "Plans the CPUs of this host, or of a copy of its files: CPUs for the OS, for interrupts, for the application, for \
pollers and for guests, near the NIC's memory node, with the reason of each choice and the configuration lines that \
carry it out. It changes nothing.";

const EXAMPLES: &str = "Examples:
  nearwire plan --nic eth0
  nearwire plan --app-cpus 4 --smt-off
  nearwire plan --nic eth0 --app-cpus 4 --irq-cpus 2 --json > plan.json
  nearwire plan --nic eth0 --os-cpus 4 --poller-cpus 4 --guest VM00:4:4G --guest VM01:4:4G@1 --svg plan.svg
  nearwire plan --from plan.json --svg plan.svg

Exit codes: 0 planned, 2 usage, no such interface or node, or no plan in the file, 3 the host does not have the CPUs or the \
memory, 4 a file could not be written.";

#[derive(Debug, Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct PlanArgs {
    /// Interfaces whose traffic matters; the first decides the memory node [default: none, and the node with the most free
    /// cores]
    #[arg(long, value_name = "IFACE", num_args = 1..)]
    pub nic: Vec<String>,
    /// CPUs of the application, each alone on its core [default: 1; 0 with pollers or guests]
    #[arg(long, value_name = "N", value_parser = count())]
    pub app_cpus: Option<u32>,
    /// CPUs for interrupts on each node that has a NIC; with 0 the OS takes them [default: 1 where there is a core to
    /// spare; 0 with pollers or guests]
    #[arg(long, value_name = "N", value_parser = count())]
    pub irq_cpus: Option<u32>,
    /// CPUs of pollers (a DPDK dataplane, Open vSwitch, a virtio relay), both siblings of a core
    #[arg(long, value_name = "N", value_parser = count(), default_value_t = 0)]
    pub poller_cpus: u32,
    /// CPUs of the OS in whole cores, one of each package in turn; the rest is kept free [default: all that are not
    /// asked for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub os_cpus: Option<u32>,
    /// A guest's name, virtual CPUs, memory, and node if not the first NIC's, as in VM00:4:4G or VM00:4:4G@1
    #[arg(long, value_name = "NAME:VCPUS:MEM[@NODE]")]
    pub guest: Vec<GuestRequest>,
    /// The memory node for everything, where the host does not report that of the NIC
    #[arg(long, value_name = "NODE")]
    pub node: Option<u32>,
    /// Plan as if SMT were off (nosmt, cpu.smt=off): one CPU of each core
    #[arg(long)]
    pub smt_off: bool,
    /// Show a plan from a file, if the host still has its CPUs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nic", "app_cpus", "irq_cpus", "poller_cpus", "os_cpus", "guest", "node", "smt_off"])]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub root: HostSource,
    /// Print JSON, which --from reads
    #[arg(long)]
    pub json: bool,
    /// Also draw the plan into a file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=65_536)
}
