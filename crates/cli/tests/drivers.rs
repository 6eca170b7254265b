//! The command on drivers of real devices, in an emulated host: pairs of NICs that QEMU joins, with several queues where the device has
//! them. The host is some thirty times slower than this machine, so what is shown is that messages pass, and how, never how fast.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::{HostHardware, HostNic, NicKind, SOONER, StockKernel, is_everything_wanted};

use common::emulated::booted_on_or_skip;
use common::tuning::JOURNAL;

const SOCKPERF: &str = "/usr/bin/sockperf";
/// How calls of accelerated programs wait: one after the other by each kernel, beginning with another one; all if everything is wanted.
const SPINS: [&str; 3] = ["50us", "0", "forever"];
/// Of the far end of [`all_queues_receive`]: as many flows, of which the device gives each to a queue.
const FLOWS: u32 = 16;

/// Two NICs that hear each other: the number of the first, the driver, and the modes that it has.
fn pairs(kernel: StockKernel) -> [(u32, &'static str, &'static [&'static str]); 3] {
    let of_virtio_net =
        if kernel == StockKernel::Newest { &["zero-copy", "native", "generic"][..] } else { &["native", "generic"] };
    // Its driver runs programs natively since Linux 6.6.
    let of_vmxnet3 = if kernel == StockKernel::Linux6_1 { &["generic"][..] } else { &["native", "generic"] };
    [(0, "virtio_net", of_virtio_net), (2, "e1000e", &["generic"]), (4, "vmxnet3", of_vmxnet3)]
}

fn hardware(kernel: StockKernel) -> HostHardware {
    let pair = |kind, queues, segment| [(); 2].map(|()| HostNic { queues, segment, ..HostNic::new(kind) });
    let virtio_net = pair(NicKind::VirtioNet, 2, 0);
    // Older drivers do not have it all: Linux 6.12 has zero-copy without sending.
    let virtio_net = virtio_net.map(|nic| HostNic { maps_dma: kernel == StockKernel::Newest, ..nic });
    let nics = [virtio_net, pair(NicKind::E1000e, 1, 1), pair(NicKind::Vmxnet3, 1, 2)];
    HostHardware { nics: nics.concat(), ..HostHardware::default() }
}

/// The library that the command preloads.
fn library() -> String {
    let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
    assert!(library.exists(), "cargo builds the library before these tests, but there is no {}", library.display());
    library.into_os_string().into_string().unwrap()
}

/// The output of a command that exits so.
#[track_caller]
fn exits(host: &mut EmulatedHost, command: &str, status: i32) -> String {
    let output = host.run(command).unwrap();
    let said = format!("{}\n{}", output.text(), output.errors());
    assert_eq!(output.status, status, "{command}:\n{said}\n{}", host.console());
    said
}

fn measure(first: u32, more: &str) -> String {
    let second = first + 1;
    let size = if more.contains("--size") { "" } else { "--size 64" };
    format!(
        "nearwire bench --cable nic{first}:nic{second} --count 20 --rounds 1 --warm-up 2 --tx prepared --rx in-place \
         --timeout 1s {size} {more}"
    )
}

fn ports_carry_frames_on(kernel: StockKernel) {
    let Some(mut host) = booted_on_or_skip(kernel, &hardware(kernel), SOONER, &[]) else { return };
    for (first, driver, modes) in pairs(kernel) {
        for mode in modes {
            let said = exits(&mut host, &measure(first, &format!("frame/xdp udp/bypass tcp/bypass --xdp {mode}")), 0);
            assert!(said.contains(&format!("AF_XDP {mode}")), "{driver}, {mode}: {said}");
            assert_eq!(lost(&said), [0, 0, 0], "{driver}, {mode}: {said}");
            // Of the ways of a port in the driver; a refusal of the options would be told.
            assert_eq!(said.contains("busy polling"), *mode != "generic", "{driver}, {mode}: {said}");
            assert!(!said.contains("without busy polling"), "{driver}, {mode}: {said}");
        }
    }
    a_mode_that_the_driver_lacks_is_refused_by_its_name(&mut host);
    jumbo_frames_pass(&mut host, kernel);
    tags_pass_filters_and_stripping(&mut host, kernel);
    if kernel == StockKernel::Linux6_12 {
        throttled_interrupts_are_found_by_tune_measure(&mut host);
        deferred_interrupts_are_found_by_tune_measure(&mut host);
    }
}

#[test]
#[ignore = "minutes: make test-kernels"]
fn ports_carry_frames_on_drivers_of_linux_6_1() {
    ports_carry_frames_on(StockKernel::Linux6_1);
}

#[test]
fn ports_carry_frames_on_drivers_of_linux_6_12() {
    ports_carry_frames_on(StockKernel::Linux6_12);
}

#[test]
fn ports_carry_frames_on_drivers_of_the_newest_linux() {
    ports_carry_frames_on(StockKernel::Newest);
}

/// The column `lost` of each row of the table.
fn lost(table: &str) -> Vec<u64> {
    let rows = table.lines().filter(|line| [" frame/", " udp/", " tcp/"].iter().any(|what| line.starts_with(what)));
    let count = |row: &str| {
        // Path, perhaps two modes, samples, lost.
        let numbers = row.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
        numbers[1]
    };
    rows.map(count).collect()
}

fn a_mode_that_the_driver_lacks_is_refused_by_its_name(host: &mut EmulatedHost) {
    let native = exits(host, &measure(2, "frame/xdp --xdp native"), 3);
    assert!(native.contains("native") && native.contains("e1000e"), "{native}");
    let zero_copy = exits(host, &measure(2, "frame/xdp --xdp zero-copy"), 3);
    assert!(
        zero_copy.contains("zero-copy") && zero_copy.contains("e1000e") && zero_copy.contains("--xdp"),
        "{zero_copy}"
    );
}

/// In the modes that the drivers have at an MTU of 9000. The emulated vmxnet3 device drops frames of more than a page, those of
/// AF_PACKET too.
fn jumbo_frames_pass(host: &mut EmulatedHost, kernel: StockKernel) {
    // A native program may have frames of several pages since Linux 6.3, and a port has them in one buffer before Linux 6.6.
    let (of_virtio_net, size_bytes) =
        if kernel == StockKernel::Linux6_1 { (&["generic"][..], 3700) } else { (&["native", "generic"][..], 8000) };
    for (first, driver, modes) in [(0, "virtio_net", of_virtio_net), (2, "e1000e", &["generic"])] {
        let mtu = |bytes| format!("for nic in {first} {}; do /bin/ip link set nic$nic mtu {bytes}; done", first + 1);
        exits(host, &mtu(9000), 0);
        for mode in modes {
            let said = exits(
                host,
                &measure(first, &format!("frame/xdp udp/bypass tcp/bypass --size {size_bytes} --xdp {mode}")),
                0,
            );
            assert!(said.contains("MTU 9000") && said.contains(&format!("AF_XDP {mode}")), "{driver}, {mode}: {said}");
            assert_eq!(lost(&said), [0, 0, 0], "{driver}, {mode}: {said}");
        }
        exits(host, &mtu(1500), 0);
    }
}

/// A virtio-net device drops VLANs that the host has no interface for; the others take tags out.
fn tags_pass_filters_and_stripping(host: &mut EmulatedHost, kernel: StockKernel) {
    for (first, driver, modes) in pairs(kernel) {
        let said = exits(host, &measure(first, &format!("frame/xdp --vlan 5 --xdp {}", modes[0])), 0);
        assert_eq!(lost(&said), [0], "{driver}: {said}");
    }
}

/// The device keeps so many microseconds between two interrupts, which is longer than a round trip takes without.
const THROTTLED_US: u32 = 2000;
const RX_USECS: &str = "nic.coalesce.rx-usecs";

/// Gives two NICs that hear each other a value of `nic.coalesce.rx-usecs`, and makes a profile that wants another one. Gives the command
/// that measures it.
fn measure_of_rx_usecs(host: &mut EmulatedHost, first: u32, [from, to]: [u32; 2]) -> String {
    let wish = format!("setting = '{RX_USECS}'\nequal = {to}\nreason = 'A test.'\nsource = 'A test'\n");
    host.write_file("/root/rx-usecs.toml", format!("purpose = 'A test'\n[[wish]]\n{wish}").as_bytes()).unwrap();
    let second = first + 1;
    exits(host, &format!("for nic in nic{first} nic{second}; do ethtool -C $nic rx-usecs {from} || exit; done"), 0);
    format!(
        "nearwire tune measure udp/block --profile /root/rx-usecs.toml --cable nic{first}:nic{second} --yes --quiet \
         --no-pairs --rounds 2"
    )
}

/// Waits until the journal has both NICs' values as written, or the process in the background ends.
fn until_written(second: u32) -> String {
    format!(
        "until grep -q complete {JOURNAL} 2>/dev/null || [ ! -e /proc/$! ]; do sleep 0.1; done; grep -c 'nic{second}.*rx-usecs' {JOURNAL}"
    )
}

#[track_caller]
fn assert_rx_usecs(host: &mut EmulatedHost, first: u32, value: u32) {
    let second = first + 1;
    let said =
        exits(host, &format!("for nic in nic{first} nic{second}; do ethtool -c $nic; done; [ ! -e {JOURNAL} ]"), 0);
    let now = said.lines().filter_map(|line| line.strip_prefix("rx-usecs:")).map(str::trim);
    assert_eq!(now.collect::<Vec<_>>(), vec![value.to_string(); 2]);
}

/// The change of the median, with the value found.
fn measured_rx_usecs(host: &mut EmulatedHost, first: u32, values: [u32; 2]) -> serde_json::Value {
    let measure = measure_of_rx_usecs(host, first, values);
    let written = until_written(first + 1);
    let script = format!(
        "{measure} --time 100ms --json /tmp/worth.json >/tmp/log 2>&1 & {written}; wait $! || {{ cat /tmp/log; exit 1; }}"
    );
    exits(host, &script, 0);
    assert_rx_usecs(host, first, values[0]);
    median_of(host, RX_USECS)
}

/// Of the setting whose id begins so, in the page of the last measurement.
fn median_of(host: &mut EmulatedHost, id: &str) -> serde_json::Value {
    let page: serde_json::Value = serde_json::from_slice(&host.read_file("/tmp/worth.json").unwrap()).unwrap();
    let is_it = |setting: &&serde_json::Value| setting["id"].as_str().unwrap().starts_with(id);
    let setting = page["settings"].as_array().unwrap().iter().find(is_it).unwrap_or_else(|| panic!("{page}"));
    let effects = setting["on"][0]["effects"].as_array().unwrap_or_else(|| panic!("{page}"));
    effects.iter().find(|effect| effect["figure"] == "p50_ns").unwrap_or_else(|| panic!("{page}")).clone()
}

/// Each NIC receives once in a round trip, so that this takes as long as the device keeps between two interrupts.
fn throttled_interrupts_are_found_by_tune_measure(host: &mut EmulatedHost) {
    let p50 = measured_rx_usecs(host, 2, [THROTTLED_US, 0]);
    assert_eq!(p50["verdict"], "better", "{p50}");
    let half_ns = f64::from(THROTTLED_US) * 500.0;
    let (found, change) = (p50["found"].as_f64().unwrap(), p50["change"].as_f64().unwrap());
    assert!((0.95..1.5).contains(&(found / half_ns)), "{p50}");
    assert!(change < -0.3 * half_ns, "{p50}");
}

/// So long the kernel leaves the interrupt of a queue off once it has received, and looks again: the device itself delays nothing.
const DEFERRED_NS: u32 = 2_000_000;

/// QEMU's virtio-net device keeps no time between interrupts, so the kernel does. Each NIC receives once in a round trip and then has its
/// interrupt off until the timer ends.
fn deferred_interrupts_are_found_by_tune_measure(host: &mut EmulatedHost) {
    let [deferral, placebo] = ["nic.napi-defer-hard-irqs", "net.ipv4.tcp_sack"];
    let wish = |setting, value| {
        format!("[[wish]]\nsetting = '{setting}'\nequal = {value}\nreason = 'A test.'\nsource = 'A test'\n")
    };
    let profile = format!("purpose = 'A test'\n{}{}", wish(deferral, "0"), wish(placebo, "false"));
    host.write_file("/root/deferral.toml", profile.as_bytes()).unwrap();
    let write = |times: u32, ns: u32| {
        format!(
            "for nic in nic0 nic1; do cd /sys/class/net/$nic; echo {times} > napi_defer_hard_irqs; echo {ns} > gro_flush_timeout; done"
        )
    };
    // More times than a round trip takes: else the interrupt is on again when the next frame comes.
    exits(host, &write(10, DEFERRED_NS), 0);
    let measure = "nearwire tune measure udp/block --profile /root/deferral.toml --cable nic0:nic1 --yes --quiet --no-pairs --rounds 2 \
                   --time 100ms --json /tmp/worth.json";
    exits(host, measure, 0);
    let said =
        exits(host, "cat /sys/class/net/nic[01]/napi_defer_hard_irqs /sys/class/net/nic[01]/gro_flush_timeout", 0);
    let ns = DEFERRED_NS.to_string();
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["10", "10", &ns, &ns]);
    exits(host, &write(0, 0), 0);

    let (p50, none) = (median_of(host, deferral), median_of(host, placebo));
    assert_eq!(p50["verdict"], "better", "{p50}");
    // Each end waits for its own timer, and half a round trip has one of the two waits.
    let (found, change) = (p50["found"].as_f64().unwrap(), p50["change"].as_f64().unwrap());
    assert!(found > 0.45 * f64::from(DEFERRED_NS), "{p50}");
    assert!(change < -0.3 * found, "{p50}");
    let is_told = none["verdict"] == "better" || none["verdict"] == "worse";
    assert!(!is_told || none["percent"].as_f64().unwrap().abs() < 10.0, "{none}");
}

#[test]
#[ignore = "minutes: make test-kernels"]
fn throttled_interrupts_are_found_both_ways_and_are_back_after_a_kill_on_linux_6_1_and_the_newest_linux() {
    for kernel in [StockKernel::Linux6_1, StockKernel::Newest] {
        let Some(mut host) = booted_on_or_skip(kernel, &hardware(kernel), SOONER, &[]) else { return };
        throttled_interrupts_are_found_by_tune_measure(&mut host);
        let p50 = measured_rx_usecs(&mut host, 2, [0, THROTTLED_US]);
        assert_eq!(p50["verdict"], "worse", "{p50}");
        throttled_interrupts_are_back_after_a_kill(&mut host);
        deferred_interrupts_are_found_by_tune_measure(&mut host);
        // QEMU's virtio-net device has no such setting, and its driver says so when it is written.
        let said =
            exits(&mut host, "nearwire tune measure --profile /root/rx-usecs.toml --cable nic0:nic1 --yes --quiet", 0);
        for words in ["1 given up", "the driver does not take this value", "All values are as found."] {
            assert!(said.contains(words), "no '{words}' in {said}");
        }
    }
}

fn throttled_interrupts_are_back_after_a_kill(host: &mut EmulatedHost) {
    let measure = measure_of_rx_usecs(host, 2, [0, THROTTLED_US]);
    let written = until_written(3);
    let lent = "until [ -e /sys/class/net/nic2 ] && [ -e /sys/class/net/nic3 ]; do sleep 0.1; done";
    exits(host, &format!("{measure} --time 60s >/dev/null 2>&1 & {written}; kill -9 $!; {lent}"), 0);
    exits(host, "nearwire tune revert --yes", 0);
    assert_rx_usecs(host, 2, 0);
}

fn accelerated_program_exchanges_messages_on(kernel: StockKernel) {
    let library = library();
    let Some(mut host) = booted_on_or_skip(kernel, &hardware(kernel), SOONER, &[SOCKPERF, &library]) else { return };
    let mut turns = SPINS.into_iter().cycle().skip(kernel as usize);
    let mut spins = || if is_everything_wanted() { SPINS.to_vec() } else { turns.by_ref().take(1).collect() };
    for (first, driver, modes) in pairs(kernel) {
        for end in [first, first + 1] {
            let ip = format!("/bin/ip -n n{end}");
            let address = format!("10.{first}.0.{}/24", end - first + 1);
            exits(
                &mut host,
                &format!(
                    "/bin/ip netns add n{end}; /bin/ip link set nic{end} netns n{end}; {ip} link set lo up; \
                     {ip} addr add {address} dev nic{end}; {ip} link set nic{end} up"
                ),
                0,
            );
        }
        // Of `native` a program gets the best that the driver has.
        let modes = modes.iter().filter(|mode| !(**mode == "native" && modes.contains(&"zero-copy")));
        for (number, mode) in modes.enumerate() {
            for spin in spins() {
                exchanges(&mut host, (first, driver), (mode, spin), "", 4);
            }
            if number == 0 {
                // More than the handshake and the end: in emulation a second may have twenty round trips.
                for spin in spins() {
                    exchanges(&mut host, (first, driver), (mode, spin), "--tcp", 30);
                }
            }
        }
    }
    all_queues_receive(&mut host);
}

/// The device chooses the queue by the flow, and by where the host sends what goes back: this one only receives.
fn all_queues_receive(host: &mut EmulatedHost) {
    let last = 7000 + FLOWS;
    let script = format!(
        "{RUN}; for port in $(seq 7001 {last}); do echo U:10.0.0.2:$port; done >/tmp/feed; \
         counted() {{ echo counted; /bin/ip netns exec n1 ethtool -S nic1; }}; \
         run 1 native 0 sockperf server -f /tmp/feed -F e >/tmp/server 2>&1 & sleep 3; counted; \
         /bin/ip netns exec n0 sockperf throughput -f /tmp/feed -F e -t 4 --mps 100 -m 64 2>&1; status=$?; sleep 1; \
         counted; kill -INT $(pidof sockperf); wait; cat /tmp/server; exit $status"
    );
    let said = exits(host, &script, 0);
    let [_, before, after] = said.splitn(3, "counted\n").collect::<Vec<_>>()[..] else { panic!("cut short: {said}") };
    let redirected = |counted: &str, queue: u32| {
        // Before Linux 6.11 a name begins with `rx_queue_0`.
        let names = ["rx", "rx_queue_"].map(|begin| format!("{begin}{queue}_xdp_redirects: "));
        let value = |line: &str| names.iter().find_map(|name| line.trim().strip_prefix(name)?.parse::<u64>().ok());
        counted.lines().find_map(value).unwrap_or_else(|| panic!("no counter of queue {queue}: {said}"))
    };
    let by_queue = [0, 1].map(|queue| redirected(after, queue) - redirected(before, queue));
    assert!(by_queue.iter().all(|frames| *frames > 0), "{by_queue:?}: {said}");
    let served = after.lines().find_map(|line| line.strip_prefix("sockperf: Total ")?.split(' ').next()?.parse().ok());
    let (served, frames): (Option<u64>, _) = (served, counters(after, "frames received"));
    // The first of a flow may come before its socket is accelerated.
    assert!(frames.len() == 1 && frames[0] + u64::from(FLOWS) >= served.unwrap(), "{by_queue:?}: {said}");
}

/// A server and a client exchange messages, both by shares of agents and in this mode, and the library counts so many frames at least.
#[track_caller]
fn exchanges(host: &mut EmulatedHost, pair: (u32, &str), waits: (&str, &str), tcp: &str, least: u64) {
    let ((first, driver), (mode, _)) = (pair, waits);
    let counts = ["frames received", "frames sent"];
    // Where others want this machine's processors too, an emulated one may not be far in this time.
    let soon = host.run(&exchange(first, waits, tcp, 6)).unwrap();
    let are_enough = |counts: Vec<u64>| counts.len() == 2 && counts.iter().all(|count| *count >= least);
    let is_enough = |said: &str| counts.iter().all(|name| are_enough(counters(said, name)));
    let mut said = soon.text();
    if is_enough(&said) {
        assert_eq!(soon.status, 0, "{driver}, {waits:?}: {said}\n{}", host.console());
    } else {
        said = exits(host, &exchange(first, waits, tcp, 30), 0);
    }
    let words = if mode == "native" { "native copy" } else { mode };
    assert_eq!(said.matches(&format!("queues, {words}")).count(), 2, "{driver}, {waits:?}: {said}");
    // Of the ways of a port in the driver; a refusal of the options would be told.
    let polling = if mode == "generic" { 0 } else { 2 };
    assert_eq!(said.matches(", busy polling").count(), polling, "{driver}, {waits:?}: {said}");
    assert!(!said.contains("without busy polling"), "{driver}, {waits:?}: {said}");
    assert!(said.contains("# dropped messages = 0"), "{driver}, {waits:?}: {said}");
    assert!(is_enough(&said), "{driver}, {waits:?}: {said}");
    let adopted = if tcp.is_empty() { &[][..] } else { &[1, 1] };
    assert_eq!(counters(&said, "connections adopted"), adopted, "{driver}, {waits:?}: {said}");
}

/// In a shell: an accelerated program at an end, in a mode, with calls that wait so.
const RUN: &str = "run() { end=$1; mode=$2; spin=$3; shift 3; /bin/ip netns exec n$end env NEARWIRE_SPIN=$spin NEARWIRE_KERNEL_FIRST=0 \
    NEARWIRE_ADOPT=eager NEARWIRE_MODE=$mode nearwire run --stats -- \"$@\"; }";

/// A server and a client, both accelerated, for so long, and what the library says of each. For the first two seconds, in which the port is opened, there
/// may be no message.
fn exchange(first: u32, (mode, spin): (&str, &str), tcp: &str, seconds: u32) -> String {
    let second = first + 1;
    let mode = if mode == "zero-copy" { "native" } else { mode };
    let address = format!("10.{first}.0.2");
    format!(
        "{RUN}; run {second} {mode} {spin} sockperf server {tcp} -i {address} >/tmp/server 2>&1 & sleep 2; \
         run {first} {mode} {spin} sockperf ping-pong {tcp} -i {address} -t {seconds} --data-integrity 2>&1; status=$?; \
         kill -INT $(pidof sockperf); wait; cat /tmp/server; exit $status"
    )
}

/// The counters of this name, of each process that told them.
fn counters(said: &str, name: &str) -> Vec<u64> {
    let lines = said.lines().filter(|line| line.trim_end().ends_with(name));
    lines.filter_map(|line| line.split_whitespace().find_map(|word| word.parse().ok())).collect()
}

#[test]
#[ignore = "minutes: make test-kernels"]
fn accelerated_program_exchanges_messages_on_drivers_of_linux_6_1() {
    accelerated_program_exchanges_messages_on(StockKernel::Linux6_1);
}

#[test]
fn accelerated_program_exchanges_messages_on_drivers_of_linux_6_12() {
    accelerated_program_exchanges_messages_on(StockKernel::Linux6_12);
}

#[test]
fn accelerated_program_exchanges_messages_on_drivers_of_the_newest_linux() {
    accelerated_program_exchanges_messages_on(StockKernel::Newest);
}
