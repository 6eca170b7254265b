//! Parameters of the kernel as `sysctl -a` prints them: `net.core.busy_read = 0`.

/// Where the kernel has them as files.
pub(super) const PARAMETERS: &str = "/proc/sys/";
/// Where `sos` keeps what was printed.
pub(super) const ALL_PARAMETERS: &str = "/sos_commands/kernel/sysctl_-a";

/// What was printed about one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parameter<'t> {
    Value(&'t str),
    /// Others of its directory were printed, and more behind these: the kernel does not have it.
    Absent,
    NotPrinted,
}

/// Looks for the parameter with this path.
pub(super) fn parameter<'t>(printed: &'t str, path: &str) -> Parameter<'t> {
    let name = path.strip_prefix(PARAMETERS).unwrap_or(path);
    // Points in the names of interfaces are printed as slashes.
    let swap = |c| match c {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    let key: String = name.chars().map(swap).collect();
    let directory = key.rsplit_once('.').map_or("", |(directory, _)| directory);
    let is_beside = |found: &str| found.rsplit_once('.').is_some_and(|(found, _)| found == directory);
    let (mut has_some, mut is_last) = (false, false);
    for (found, value) in printed.lines().filter_map(|line| line.split_once(" =")) {
        if found == key {
            return Parameter::Value(value.trim());
        }
        is_last = is_beside(found);
        has_some |= is_last;
    }
    if has_some && !is_last { Parameter::Absent } else { Parameter::NotPrinted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_printed_is_told_from_one_that_the_kernel_lacks_and_from_one_that_was_cut_off() {
        let printed = "kernel.timer_migration = 1\nkernel.watchdog_cpumask = 0-15\nnet.core.busy_read = 0\n\
                       net.ipv4.conf.eth0/5.rp_filter = 2\nnet.ipv4.tcp_rmem = 4096\t131072\t6291456\n\
                       sysctl: permission denied on key \"net.ipv4.x\"\nvm.swappiness = 60\n";
        let of = |path: &str| parameter(printed, &format!("{PARAMETERS}{path}"));
        assert_eq!(of("net/core/busy_read"), Parameter::Value("0"));
        assert_eq!(of("net/ipv4/tcp_rmem"), Parameter::Value("4096\t131072\t6291456"));
        assert_eq!(of("net/ipv4/conf/eth0.5/rp_filter"), Parameter::Value("2"));
        assert_eq!(of("net/core/busy_poll"), Parameter::Absent);
        assert_eq!(of("vm/stat_interval"), Parameter::NotPrinted, "the text may be cut off in its last directory");
        assert_eq!(of("net/netfilter/nf_conntrack_max"), Parameter::NotPrinted);
    }
}
