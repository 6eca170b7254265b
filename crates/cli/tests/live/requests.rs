//! Clients by the agent: sockets that live for one request, and sockets that stay.

use std::net::UdpSocket;
use std::time::Duration;

use nearwire_lab::Cable;
use serde_json::Value;

use crate::by_agent::{start_agent_for_nobody, status_of};
use crate::common::accelerated::{Bed, Running};

/// What the key has where nobody sets it.
const BY_KERNEL_FIRST: [(&str, &str); 1] = [("NEARWIRE_KERNEL_FIRST", "8")];

/// A socket that is accelerated at once, as it has the port opened.
const FIRST: &str = "first = udp(); first.connect((far, 7100)); select.select([first], [], [], 0); first.close()\n";

/// Answers each datagram with the number in it: so many datagrams, numbered from 0.
fn answer(socket: &UdpSocket) {
    let socket = socket.try_clone().unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let mut asked = [0; 64];
        while let Ok((len, from)) = socket.recv_from(&mut asked) {
            let wanted: u32 = std::str::from_utf8(&asked[..len]).unwrap().parse().unwrap();
            for number in 0..wanted {
                socket.send_to(number.to_string().as_bytes(), from).unwrap();
                if number % 16 == 15 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        }
    });
}

/// A bed with an agent, a far end that answers, and a script that runs there.
fn start(script: &str) -> Option<(Bed, Running)> {
    let bed = Bed::lay()?;
    start_agent_for_nobody(&bed);
    answer(&bed.far());
    let program = bed.start(bed.cable.near(), script, &BY_KERNEL_FIRST);
    Some((bed, program))
}

fn socket_of(program: &Running) -> Value {
    status_of(&program.pid())["sockets"][0].clone()
}

#[test]
fn sockets_that_live_for_one_request_do_not_ask_the_agent_for_flows() {
    let script = "
def connected():
    one = udp(); one.connect((far, 7100)); one.send(b'1'); return one
def sent():
    one = udp(); one.sendto(b'1', (far, 7100)); return one
def awaited():
    one = connected(); select.select([one], [], [], 10); return one
def watched():
    one = connected(); waits = select.epoll(); waits.register(one, select.EPOLLIN); waits.poll(10); return one
# The first one has the port opened.
connected().close()
for ask in [connected, sent, awaited, watched] * 50:
    one = ask()
    assert one.recv(10) == b'0'
    one.close()
step()
";
    let Some((_bed, mut program)) = start(script) else { return };
    program.step();
    let shown = status_of(&program.pid());
    assert_eq!(shown["counters"]["sockets_accelerated"], 1, "{shown:#}");
}

/// The script has made `one`, which asks for and gets all that it wants.
fn stays(made: &str) {
    let script = "
FIRST
MADE
def ask(wanted):
    send(b'%d' % wanted)
    for number in range(wanted):
        got = one.recv(10)
        assert got == b'%d' % number, (got, number)
one.settimeout(10)
for _ in range(3): ask(1)
step()
# No more at once than the kernel's buffer holds for a program that has no CPU.
for _ in range(10): ask(64)
for _ in range(50): ask(1)
step()
";
    let Some((_bed, mut program)) = start(&script.replace("FIRST", FIRST).replace("MADE", made)) else { return };
    program.step();
    assert_eq!(socket_of(&program)["reason"], "FewDatagrams", "{:#}", socket_of(&program));
    program.say("");
    program.step();
    let shown = socket_of(&program);
    assert_eq!(shown["accelerated"], true, "{shown:#}");
    assert!(shown["counters"]["received_datagrams"].as_u64().unwrap() >= 300, "{shown:#}");
    assert!(shown["counters"]["sent_datagrams"].as_u64().unwrap() >= 50, "{shown:#}");
}

#[test]
fn connected_socket_that_stays_is_accelerated_and_keeps_the_order_of_what_comes() {
    stays("one = udp(); one.connect((far, 7100)); send = one.send");
}

#[test]
fn unconnected_socket_that_stays_is_accelerated_and_keeps_the_order_of_what_comes() {
    stays("one = udp()\ndef send(data): one.sendto(data, (far, 7100))");
}

#[test]
fn socket_that_only_sends_is_accelerated_and_keeps_the_order_of_what_it_sends() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let far = bed.far();
    far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let script = "
FIRST
one = udp(); one.connect((far, 7100))
step()
for number in range(100): one.send(b'%d' % number)
step()
";
    let mut program = bed.start(bed.cable.near(), &script.replace("FIRST", FIRST), &BY_KERNEL_FIRST);
    program.step();
    program.say("");
    let mut got = [0; 64];
    for number in 0..100 {
        let len = far.recv(&mut got).unwrap();
        assert_eq!(std::str::from_utf8(&got[..len]).unwrap(), number.to_string());
    }
    program.step();
    let shown = socket_of(&program);
    assert!(shown["accelerated"] == true && shown["counters"]["sent_datagrams"].as_u64().unwrap() >= 80, "{shown:#}");
}

#[test]
fn connected_socket_that_has_sent_nothing_says_what_it_waits_for() {
    let script = format!("{FIRST}one = udp(); one.connect((far, 7100))\nstep()\n");
    let Some((_bed, mut program)) = start(&script) else { return };
    program.step();
    assert_eq!(socket_of(&program)["reason"], "FewDatagrams", "{:#}", socket_of(&program));
}

#[test]
fn sockets_of_a_rule_are_the_kernels_by_the_rule_once_they_are_told_of() {
    let Some(bed) = Bed::lay() else { return };
    let rules = bed.directory.path().join("rules.toml");
    std::fs::write(&rules, "[[rule]]\nuse = \"kernel\"\nport = \"7100\"\n").unwrap();
    let rules = rules.to_str().unwrap();
    let _far = bed.far();
    let first = FIRST.replace("7100", "7200");
    let script = format!("{first}one = udp(); one.connect((far, 7100))\nfor _ in range(4): one.send(b'0')\nstep()\n");
    let variables = [BY_KERNEL_FIRST[0], ("NEARWIRE_CONFIG", rules)];
    let mut program = bed.start(bed.cable.near(), &script, &variables);
    program.step();
    assert_eq!(socket_of(&program)["reason"], "RuleSaysKernel", "{:#}", socket_of(&program));
}
