//! Several programs at once on one interface: servers of different kinds, and name servers of several processes.

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Found, Running, Side, found_or_skip, number_after, source_file};

/// Memcached's; those of sockperf follow.
const PORT: u16 = 11311;
const NAMES: u32 = 60;
/// DNS is accelerated.
const RULE: &str = "[[rule]]\nuse = \"nearwire\"\nport = \"53\"\n";

#[test]
fn two_sockperf_servers_and_memcached_on_one_interface_answer_each_message() {
    let Some([sockperf, memcached, python]) = found_or_skip(["sockperf", "memcached", "python3"]) else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let ports = [PORT + 1, PORT + 2];
        let servers = ports.map(|port| bed.start(Side::Far, &sockperf, &format!("server -p {port}")));
        let store = bed.start(Side::Far, &memcached, &format!("-u root -t 2 -l {address} -p {PORT} -U {PORT}"));
        [PORT, ports[0], ports[1]].into_iter().for_each(|port| bed.wait_for_port(Side::Far, port));
        let ask = |port| {
            let client = format!("ping-pong -i {address} -p {port} -t 1 --data-integrity");
            bed.start(Side::Near, &sockperf, &client)
        };
        let clients = ports.map(ask);
        let script = source_file("memcached.py");
        let told = bed.run(Side::Near, &python, &format!("{} {address} {PORT} 100", script.display()));
        assert_eq!(told, "100 right, 0 wrong\n");
        let sent: u64 = clients.map(exchanged).into_iter().sum();
        let served: u64 =
            servers.map(|server| number_after(&server.stop(Signal::INT), "sockperf: Total ")).iter().sum();
        assert_eq!(served, sent);
        store.stop(Signal::INT);
        bed.assert_paths(sent - 2 + 200);
    }
}

#[test]
fn servers_of_three_profiles_on_one_interface_each_wait_as_theirs_says_and_answer_each_message() {
    let Some([sockperf]) = found_or_skip(["sockperf"]) else { return };
    let bed = Bed::lay(Accelerated::FAR);
    let address = bed.address(Side::Far);
    let profiles = [("latency", "forever"), ("shared", "50us"), ("sleep", "0")];
    let ports: [u16; 3] = std::array::from_fn(|at| PORT + 1 + at as u16);
    let servers: Vec<Running> = std::iter::zip(profiles, ports)
        .map(|((profile, _), port)| bed.start_by_profile(Side::Far, &sockperf, &format!("server -p {port}"), profile))
        .collect();
    ports.into_iter().for_each(|port| bed.wait_for_port(Side::Far, port));
    for ((profile, spin), port) in std::iter::zip(profiles, ports) {
        assert_eq!(bed.spin_at(Side::Far, port), spin, "{profile}");
    }
    let client = |port: u16| format!("ping-pong -i {address} -p {port} -t 1 --data-integrity");
    let clients = ports.map(|port| bed.start(Side::Near, &sockperf, &client(port)));
    let sent: u64 = clients.map(exchanged).into_iter().sum();
    let served: u64 =
        servers.into_iter().map(|server| number_after(&server.stop(Signal::INT), "sockperf: Total ")).sum();
    assert_eq!(served, sent);
    bed.assert_paths(sent - 3);
}

/// How many messages a client of sockperf sent, which all came back but the last one, which may come after the end.
fn exchanged(client: Running) -> u64 {
    let told = client.succeed();
    let total = told.lines().find(|line| line.contains("[Total Run]")).expect("sockperf's totals");
    let [sent, received] = ["SentMessages=", "ReceivedMessages="].map(|words| number_after(total, words));
    assert!(received + 1 >= sent && told.contains("# dropped messages = 0"), "{told}");
    sent
}

fn unbound(bed: &Bed, program: &Found, number: u32) -> Running {
    let names = (0..NAMES).map(|name| format!("  local-data: \"n{name}.nw.example A 192.0.2.{name}\"\n"));
    let configuration = format!(
        "server:\n  interface: {}@53\n  access-control: 0.0.0.0/0 allow\n  num-threads: 1\n  so-reuseport: yes\n  chroot: \
         \"\"\n  directory: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  do-daemonize: no\n  \
         module-config: iterator\n  local-zone: \"nw.example.\" static\n{}remote-control:\n  control-enable: no\n",
        bed.address(Side::Near),
        names.collect::<String>()
    );
    let file = format!("unbound-{number}.conf");
    bed.write(&file, configuration);
    bed.start(Side::Near, program, &format!("-d -c {file}"))
}

fn dnsdist(bed: &Bed, program: &Found) -> Running {
    let (own, backend) = (bed.address(Side::Far), bed.address(Side::Near));
    let configuration = format!(
        "setLocal('{own}:53', {{reusePort=true}})\nsetACL('0.0.0.0/0')\nnewServer({{address='{backend}:53', \
         checkName='n1.nw.example.', sockets=2}})\nsetSecurityPollSuffix('')\n"
    );
    bed.write("dnsdist.conf", configuration);
    bed.start(Side::Far, program, "--supervised --disable-syslog -C dnsdist.conf")
}

#[test]
fn dnsperf_gets_every_answer_through_two_dnsdist_of_two_unbound() {
    let programs = ["unbound", "dnsdist", "dnsperf"];
    let Some([resolver, balancer, dnsperf]) = found_or_skip(programs) else { return };
    let bed = Bed::lay(Accelerated::BOTH).with_configuration(RULE);
    let resolvers = [0, 1].map(|number| unbound(&bed, &resolver, number));
    wait_for_sockets(&bed, Side::Near, 2);
    let balancers = [0, 1].map(|_| dnsdist(&bed, &balancer));
    wait_for_sockets(&bed, Side::Far, 2);
    bed.write("questions", (0..NAMES).map(|name| format!("n{name}.nw.example A\n")).collect::<String>());
    let asked = format!("-s {} -d questions -c 8 -T 2 -l 2 -Q 2000 -q 30 -t 2", bed.address(Side::Far));
    let told = bed.run(Side::Near, &dnsperf, &asked);
    let sent = number_after(&told, "Queries sent:");
    assert!(sent > 200 && sent == number_after(&told, "Queries completed:"), "{told}");
    assert_eq!(number_after(&told, "NOERROR"), sent, "{told}");
    balancers.into_iter().chain(resolvers).for_each(|server| drop(server.stop(Signal::TERM)));
    bed.assert_paths(2 * sent);
}

/// So many sockets of one port, each decided.
fn wait_for_sockets(bed: &Bed, side: Side, count: usize) {
    let fits = |line: &str| line.split_ascii_whitespace().nth(1).is_some_and(|local| local.ends_with(":0035"));
    bed.wait_for_lines(side, &["udp"], fits, count);
    bed.wait_for_library(side, 53);
}
