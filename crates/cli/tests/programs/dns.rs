//! Name servers and those who ask them. Port 53 of a client stays with the kernel unless a rule says otherwise.

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Found, Running, Side, found_or_skip, number_after};

const PORT: u16 = 53;
/// DNS is accelerated.
const RULE: &str = "[[rule]]\nuse = \"nearwire\"\nport = \"53\"\n";
const NAMES: u32 = 60;

fn address_of(number: u32) -> String {
    format!("192.0.2.{number}")
}

fn dnsmasq(bed: &Bed, program: &Found) -> Running {
    let records: String =
        (0..NAMES).map(|number| format!("host-record=n{number}.nw.example,{}\n", address_of(number))).collect();
    let long: String = (0..4).map(|part| format!(",{}", "x".repeat(200 + part))).collect();
    bed.write("dnsmasq.conf", format!("{records}txt-record=long.nw.example{long}\n"));
    let server = bed.start(
        Side::Far,
        program,
        &format!(
            "--keep-in-foreground --conf-file=dnsmasq.conf --no-resolv --no-hosts --user=root --pid-file --bind-interfaces \
             --interface={} --edns-packet-max=1400",
            bed.interface(Side::Far)
        ),
    );
    bed.wait_for_port(Side::Far, PORT);
    server
}

/// Every name is asked for, and each answer is the right one.
fn ask_for_all(bed: &Bed, dig: &Found) {
    let questions: String = (0..NAMES).map(|number| format!("n{number}.nw.example A\n")).collect();
    bed.write("questions", questions);
    let answers =
        bed.run(Side::Near, dig, &format!("@{} +short +tries=1 +time=2 -f questions", bed.address(Side::Far)));
    assert_eq!(answers.lines().map(str::to_owned).collect::<Vec<_>>(), (0..NAMES).map(address_of).collect::<Vec<_>>());
}

#[test]
fn dig_gets_the_answers_of_dnsmasq() {
    let Some([program, dig]) = found_or_skip(["dnsmasq", "dig"]) else { return };
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        // dig has a socket for each question, which is the kernel's otherwise.
        let bed = Bed::lay(accelerated).with_configuration(&format!("kernel_first = 0\n{RULE}"));
        let server = dnsmasq(&bed, &program);
        ask_for_all(&bed, &dig);
        // dig sends by system calls of its own (libuv), which pass by its accelerated socket's kernel socket.
        bed.assert_received(Side::Near, NAMES.into());
        bed.assert_received(Side::Far, NAMES.into());
        let ask =
            |more: &str| bed.run(Side::Near, &dig, &format!("@{} long.nw.example TXT {more}", bed.address(Side::Far)));
        let (whole, by_tcp) = (ask("+short +bufsize=1400"), ask("+short +tcp"));
        assert!(whole.len() > 800 && whole == by_tcp, "{whole}\n{by_tcp}");
        assert!(ask("+noedns +ignore").contains("flags: qr aa tc rd"), "an answer that does not fit is cut");
        server.stop(Signal::TERM);
    }
}

#[test]
fn dns_without_a_rule_stays_with_the_kernel_of_the_client_and_is_accelerated_at_the_server() {
    let Some([program, dig]) = found_or_skip(["dnsmasq", "dig"]) else { return };
    let bed = Bed::lay(Accelerated::BOTH).with_configuration("kernel_first = 0\n");
    let server = dnsmasq(&bed, &program);
    ask_for_all(&bed, &dig);
    server.stop(Signal::TERM);
    bed.assert_kernel_moved(Side::Near, NAMES.into());
    bed.assert_received(Side::Far, NAMES.into());
}

/// A master binds a socket for each worker (SO_REUSEPORT); the workers, which it forks, use them.
#[test]
fn dnsperf_gets_every_answer_of_the_workers_of_nsd() {
    let Some([nsd, dnsperf]) = found_or_skip(["nsd", "dnsperf"]) else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let names: String = (0..NAMES).map(|number| format!("n{number} A {}\n", address_of(number))).collect();
        bed.write("zone", format!("$ORIGIN nw.example.\n$TTL 60\n@ SOA ns root 1 60 60 60 60\n@ NS ns\n{names}"));
        bed.write(
            "nsd.conf",
            format!(
                "server:\n  server-count: 3\n  ip-address: {address}\n  reuseport: yes\n  rrl-ratelimit: 0\n  username: \"\"\n  \
                 zonesdir: \"\"\n  database: \"\"\n  pidfile: \"\"\n  xfrdfile: \"\"\n  xfrdir: .\n  zonelistfile: zones\n  logfile: \
                 log\nremote-control:\n  control-enable: no\nzone:\n  name: nw.example\n  zonefile: zone\n"
            ),
        );
        let server = bed.start(Side::Far, &nsd, "-d -c nsd.conf");
        bed.wait_for_port(Side::Far, PORT);
        let sent = ask_many(&bed, &dnsperf);
        server.stop(Signal::TERM);
        bed.assert_received(Side::Far, sent);
    }
}

#[test]
fn dnsmasq_that_forwards_gives_the_answers_of_another() {
    let Some([program, dig]) = found_or_skip(["dnsmasq", "dig"]) else { return };
    let bed = Bed::lay(Accelerated::BOTH).with_configuration(RULE);
    let server = dnsmasq(&bed, &program);
    let far = bed.address(Side::Far);
    let forwarder = bed.start(
        Side::Near,
        &program,
        &format!(
            "--keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root --pid-file --cache-size=0 \
             --interface=lo --bind-interfaces --server={far}"
        ),
    );
    bed.wait_for_port(Side::Near, PORT);
    for number in [0, 1, 2, NAMES - 1] {
        let answer = bed.run(Side::Near, &dig, &format!("@127.0.0.1 +short +tries=1 +time=2 n{number}.nw.example"));
        assert_eq!(answer.trim(), address_of(number));
    }
    forwarder.stop(Signal::TERM);
    server.stop(Signal::TERM);
}

#[test]
fn dnsperf_gets_every_answer_of_unbound() {
    let Some([unbound, dnsperf]) = found_or_skip(["unbound", "dnsperf"]) else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated).with_configuration(RULE);
        let address = bed.address(Side::Far);
        let data =
            (0..NAMES).map(|number| format!("  local-data: \"n{number}.nw.example A {}\"\n", address_of(number)));
        let configuration = format!(
            "server:\n  interface: {address}\n  access-control: 0.0.0.0/0 allow\n  num-threads: 2\n  so-reuseport: yes\n  \
             chroot: \"\"\n  directory: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  do-daemonize: no\n  module-config: \
             iterator\n  local-zone: \"nw.example.\" static\n{}remote-control:\n  control-enable: no\n",
            data.collect::<String>()
        );
        bed.write("unbound.conf", configuration);
        let server = bed.start(Side::Far, &unbound, "-d -c unbound.conf");
        bed.wait_for_port(Side::Far, PORT);
        let sent = ask_many(&bed, &dnsperf);
        server.stop(Signal::TERM);
        bed.assert_paths(sent);
    }
}

/// For a second, and each question has its answer. How many there were.
fn ask_many(bed: &Bed, dnsperf: &Found) -> u64 {
    bed.write("questions", (0..NAMES).map(|number| format!("n{number}.nw.example A\n")).collect::<String>());
    let to = bed.address(Side::Far);
    let told = bed.run(Side::Near, dnsperf, &format!("-s {to} -d questions -c 4 -T 2 -l 1 -Q 3000 -q 30 -t 2"));
    let sent = number_after(&told, "Queries sent:");
    assert!(sent > 200 && sent == number_after(&told, "Queries completed:"), "{told}");
    assert!(number_after(&told, "Queries lost:") == 0 && told.contains("NOERROR"), "{told}");
    assert_eq!(number_after(&told, "NOERROR"), sent, "{told}");
    sent
}
