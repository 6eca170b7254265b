//! Settings whose effects are known not to add up: each alone may do nothing, or what the other already does.

/// Beginnings of ids.
const NAMED: &[(&str, &str)] = &[
    // A deferred interrupt waits for the timer.
    ("nic.napi-defer-hard-irqs", "nic.gro-flush-timeout-ns"),
    ("nic.napi.irq-suspend-timeout-ns", "nic.gro-flush-timeout-ns"),
    // A fixed delay is without effect while it adapts itself.
    ("nic.coalesce.adaptive-rx", "nic.coalesce.rx-usecs"),
    ("nic.coalesce.adaptive-tx", "nic.coalesce.tx-usecs"),
    ("nic.coalesce.rx-usecs", "nic.coalesce.rx-frames"),
    // Where a packet is received and where the program waits for it.
    ("nic.rps-cpus", "nic.irq-affinity"),
    ("nic.rps-cpus", "nic.rps-flow-count"),
    ("nic.rps-cpus", "nic.threaded"),
    ("net.core.busy_read", "nic.napi-defer-hard-irqs"),
    ("net.core.busy_poll", "nic.napi-defer-hard-irqs"),
    // Which of them keeps a CPU awake or fast.
    ("cpu.governor", "cpu.energy-performance"),
    ("cpu.governor", "cpu.frequency."),
    ("cpu.governor", "cpu.pstate."),
    ("cpu.idle.", "cpu.pm-qos-resume-latency-us"),
    ("cpu.idle.", "cpu.governor"),
    // Where pages are.
    ("memory.thp", "vm.nr_hugepages"),
    ("memory.thp", "kernel.numa_balancing"),
];

/// Whether two settings are named as interacting, by their ids with or without instance.
#[must_use]
pub fn are_named(one: &str, other: &str) -> bool {
    NAMED.iter().any(|(a, b)| one.starts_with(a) && other.starts_with(b) || one.starts_with(b) && other.starts_with(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_is_named_in_either_order_and_with_an_instance() {
        assert!(are_named("nic.gro-flush-timeout-ns[nw0]", "nic.napi-defer-hard-irqs[nw0]"));
        assert!(are_named("cpu.governor", "cpu.energy-performance-preference"));
        assert!(!are_named("vm.swappiness", "cpu.governor"));
    }

    #[test]
    fn every_name_is_one_of_the_catalogue() {
        for name in NAMED.iter().flat_map(|(one, other)| [one, other]) {
            let mut settings = nearwire_host::catalogue::settings();
            assert!(settings.any(|setting| setting.id.starts_with(name)), "{name}");
        }
    }
}
