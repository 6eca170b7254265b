//! Scripts and sequences on stock kernels, in emulated hosts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nearwire_lab::emulated_host::{HostHardware, HostNic, NicKind, OwnTests, StockKernel, is_everything_wanted};

use crate::FILTER;
use crate::programs::Programs;
use crate::sequences::{BEDS_VARIABLE as BEDS, RUNS_VARIABLE as RUNS};

/// Scripts that run on stock kernels too, unless all of them are wanted there: what depends on the kernel, what signals, jumps,
/// cancellation, forks and namespaces do to calls, and one of each kind. In emulation a run of a script takes a second or two.
pub const CHOSEN: [&str; 53] = [
    "bind.reuseaddr_gives_to_the_last",
    "bind.wildcard_receives_from_cable_and_loopback",
    "cancel.calls_that_begin_to_wait",
    "cancel.calls_that_wait",
    "cancel.loops_that_send",
    "connect.again_changes_the_peer",
    "epoll_level.wakes",
    "errors.recverr_tells_more",
    "errors.sendmmsg_tells_an_error_and_sends_nothing",
    "exec.socket_is_inherited",
    "fork.child_makes_sockets_of_its_own",
    "fork.child_reads_what_was_queued",
    "fork.grandchildren",
    "handlers.asks_and_waits_for_the_answer",
    "handlers.closes_and_opens_in_the_middle_of_calls",
    "handlers.closes_the_socket_that_the_call_waits_at",
    "handlers.connects_elsewhere_in_the_middle_of_calls",
    "handlers.servers_end_by_a_flag_of_a_handler",
    "handlers.sets_options_while_a_call_waits",
    "handlers.shuts_down_while_a_call_waits",
    "ipv6.mapped_addresses",
    "jumbo.several_wait_in_order",
    "jumbo.sizes_there_and_back",
    "jumps.out_of_a_receive_and_closed",
    "jumps.out_of_a_receive_late",
    "jumps.out_of_calls_of_the_poll_family",
    "messages.recvmmsg_waits_for_all",
    "multicast.joined_and_left",
    "namespaces.new_sockets_belong_to_the_new_one",
    "namespaces.wildcard_in_the_new_one_takes_nothing_of_the_first",
    "options.device_changes_in_mid_life",
    "path_mtu.connected",
    "path_mtu.learnt_before_the_socket_was_made",
    "path_mtu.long_datagrams_through_a_router_with_a_narrow_leg",
    "path_mtu.long_datagrams_through_a_router_with_a_narrow_leg6",
    "pktinfo.everything_at_once",
    "poll.wakes",
    "reuseport.closing_one_moves_its_share",
    "reuseport.one_of_a_group_with_a_filter_has_its_copies",
    "reuseport.one_with_a_filter_has_its_share",
    "reuseport.program_chooses_among_the_sockets_of_a_port",
    "reuseport.program_of_bpf_chooses_among_the_sockets_of_a_port",
    "scm_rights.to_a_child",
    "select.sockets_with_high_numbers",
    "send_recv.damaged_and_odd_packets",
    "send_recv.sizes_at_the_mtu",
    "signals.restarts_receive",
    "streams.preadv_and_friends",
    "threads.two_readers_of_vectors_share_what_comes_slowly",
    "timestamps.of_each_kind",
    "timestamps.set_while_datagrams_come",
    "timestamps.set_while_datagrams_wait",
    "timestamps.timestamping_receive",
];

/// The test of sequences, which has words for VLANs over devices of an emulated host only.
const SEQUENCES: &str = "generated_sequences_trace_the_same_as_on_the_kernel";
/// Runs of the library in which they run on a kernel where scripts are few, and over a device that takes tags off, which the library leaves
/// to the kernel.
const RUNS_BESIDE_FEW_SCRIPTS: &str = "12";
const RUNS_WITHOUT_TAGS: &str = "24";

/// Of all scripts, so many run in one host, files together: what hangs or panics there costs only what is left of them.
const PART_SCRIPTS: usize = 80;

/// Compares on a stock kernel: the chosen scripts, or everything.
pub fn compare_on(kernel: StockKernel) {
    let Some(programs) = Programs::compiled_or_skip() else { return };
    let hardware = |kind| HostHardware { nics: vec![HostNic::new(kind); 2], ..HostHardware::default() };
    let scripts = programs.own_tests(&["every_script"]).on(hardware(NicKind::VirtioNet));
    // One bed, which is the one with VLANs.
    let with_vlan = |own: OwnTests, runs| own.with_variable(BEDS, "1").with_variable(RUNS, runs);
    // Whoever filters has chosen a part.
    if std::env::var_os(FILTER).is_some() {
        return scripts.as_part().run_or_skip(kernel);
    }
    if !is_everything_wanted() {
        let both = programs.own_tests(&["every_script", SEQUENCES]).on(hardware(NicKind::VirtioNet));
        let both = with_vlan(both, RUNS_BESIDE_FEW_SCRIPTS);
        return if kernel == StockKernel::Linux6_12 { both } else { scripts }.as_part().run_or_skip(kernel);
    }
    let of = |part: &String| scripts.clone().with_variable(FILTER, part).as_part();
    let parts = parts(&programs.list());
    let mut hosts: Vec<_> = parts.iter().map(|part| (part.as_str(), of(part))).collect();
    hosts.push(("generated sequences", programs.own_tests(&["generated"]).on(hardware(NicKind::VirtioNet)).as_part()));
    let without_tags = programs.own_tests(&[SEQUENCES]).on(hardware(NicKind::E1000e));
    hosts.push(("generated sequences without tags", with_vlan(without_tags, RUNS_WITHOUT_TAGS).as_part()));
    let run = |own: &OwnTests| catch_unwind(AssertUnwindSafe(|| own.run_or_skip(kernel)));
    let failed: Vec<_> = hosts.iter().filter(|(_, own)| run(own).is_err()).map(|(name, _)| *name).collect();
    assert!(failed.is_empty(), "{kernel}: not the same, see above: {failed:#?}");
}

/// Filters that together are all scripts, each of whole files.
fn parts(scripts: &[String]) -> Vec<String> {
    let mut files: Vec<(&str, usize)> = Vec::new();
    for name in scripts {
        let file = &name[..=name.find('.').unwrap()];
        match files.iter_mut().find(|(known, _)| *known == file) {
            Some((_, count)) => *count += 1,
            None => files.push((file, 1)),
        }
    }
    let mut parts: Vec<(String, usize)> = Vec::new();
    for (file, count) in files {
        match parts.last_mut().filter(|(_, scripts)| scripts + count <= PART_SCRIPTS) {
            Some((part, scripts)) => (*part, *scripts) = (format!("{part},{file}"), *scripts + count),
            None => parts.push((file.to_owned(), count)),
        }
    }
    parts.into_iter().map(|(part, _)| part).collect()
}
