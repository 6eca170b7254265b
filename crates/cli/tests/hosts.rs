//! Two hosts: a responder that listens, and an initiator that presents its token.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use common::measuring::Place;
use common::{assert_says, code, command, errors, kill, may_run, record, start_and_hear, text};
use nearwire_lab::{Cable, Namespace, VirtualCable, VirtualCableOptions};
use rustix::process::Signal;

/// A responder that is ended with the test.
struct Responder {
    child: Child,
    address: String,
    token: String,
}

impl Responder {
    fn listen(program: &mut Command) -> Responder {
        let (child, line) = start_and_hear(program);
        let (address, token) = line.trim().strip_prefix("listening on ").unwrap().split_once(", token ").unwrap();
        Responder { child, address: address.to_owned(), token: token.to_owned() }
    }

    fn here() -> Responder {
        Responder::listen(&mut command(&["responder", "--listen", "127.0.0.1:0"]))
    }

    fn bench<'a>(&'a self, paths: &[&'a str]) -> Vec<&'a str> {
        let mut args = paths.to_vec();
        args.extend(["--cable", &self.address, "--token", &self.token]);
        args
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn right_token_measures_and_the_next_initiator_is_served_too() {
    let responder = Responder::here();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    for _ in 0..2 {
        let mut args = responder.bench(&["udp/spin", "tcp/block"]);
        args.extend(["--json", file.to_str().unwrap()]);
        let output = common::bench(&args);
        assert_eq!(code(&output), Some(0), "{}", errors(&output));
        let record = record(&file);
        assert_eq!(record["experiment"]["cable"], "hosts");
        assert_eq!(record["runs"].as_array().unwrap().len(), 2);
        assert!(!record["environment"]["responder"].as_object().unwrap().is_empty());
    }
}

#[test]
fn wrong_token_is_refused_in_words() {
    let mut responder = Responder::here();
    responder.token = "0".repeat(32);
    let output = common::bench(&responder.bench(&["udp/spin"]));
    assert_says(&output, 4, &["wrong token", "--token"]);
}

#[test]
fn second_initiator_is_told_busy_at_once() {
    let responder = Responder::here();
    let mut first = command(&["bench"]);
    first.args(responder.bench(&["udp/block"])).args(["--size", "64", "--time", "20s", "--rounds", "200", "--quiet"]);
    let directory = tempfile::tempdir().unwrap();
    let samples = directory.path().join("s.csv");
    let mut first = first.arg("--samples").arg(&samples).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(20);
    while std::fs::metadata(&samples).map_or(0, |file| file.len()) == 0 && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    let second = common::bench(&responder.bench(&["udp/block"]));
    let waited = began.elapsed();
    kill(first.id(), Signal::KILL);
    first.wait().unwrap();
    assert_says(&second, 4, &["busy"]);
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    // The first was killed: the responder notices and serves again.
    let give_up = Instant::now() + Duration::from_secs(10);
    let mut next = common::bench(&responder.bench(&["udp/block"]));
    while code(&next) != Some(0) && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(50));
        next = common::bench(&responder.bench(&["udp/block"]));
    }
    assert_eq!(code(&next), Some(0), "{}", errors(&next));
}

#[test]
fn nobody_listening_says_what_to_start() {
    let output = common::bench(&["udp/spin", "--cable", "127.0.0.1:1", "--token", "x"]);
    assert_says(&output, 4, &["127.0.0.1:1", "nearwire responder --listen"]);
}

#[test]
fn interrupted_responder_leaves_with_130() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut responder = Responder::here();
        kill(responder.child.id(), signal);
        assert_eq!(responder.child.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn responder_with_nothing_to_do_leaves_after_its_timeout() {
    let mut program = command(&["responder", "--listen", "127.0.0.1:0", "--timeout", "100ms"]);
    let mut responder = Responder::listen(&mut program);
    assert_eq!(responder.child.wait().unwrap().code(), Some(0));
}

#[test]
fn responder_asked_for_one_experiment_leaves_after_it() {
    let mut responder = Responder::listen(&mut command(&["responder", "--listen", "127.0.0.1:0", "--once"]));
    let output = common::bench(&responder.bench(&["udp/spin"]));
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert_eq!(responder.child.wait().unwrap().code(), Some(0));
}

/// Two namespaces with a cable between them stand for two hosts: frames go too.
#[test]
fn frame_paths_run_between_hosts() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let listen = format!("{}:0", cable.far().ipv4);
    let far = &cable.far().namespace;
    let responder = far.enter(|| Responder::listen(&mut command(&["responder", "--listen", &listen]))).unwrap();
    let args = responder.bench(&["udp/spin", "udp/bypass", "tcp/bypass", "frame/packet", "frame/xdp"]);
    let output = cable.near().namespace.enter(|| common::bench(&args)).unwrap();
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(text(&output).contains("frame/xdp"));
    assert!(text(&output).contains("udp/bypass"));
    assert!(text(&output).contains("tcp/bypass"));
}

/// A command on a host of its own, whose `/sys` shows its interfaces.
fn on_host(host: &Namespace, words: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount -t sysfs none /sys && exec \"$@\"", "sh"]).args(words);
    host.enter(|| command.output().unwrap()).unwrap()
}

fn values(host: &Namespace) -> String {
    let read = "cat /sys/class/net/nw*/queues/rx-*/rps_cpus /proc/sys/net/ipv4/tcp_notsent_lowat; ethtool -k nw0 || ethtool -k nw1";
    text(&on_host(host, &["sh", "-c", read]))
}

#[test]
fn settings_of_this_host_are_varied_towards_another_whose_own_stay() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let (near, far) = (&cable.near().namespace, &cable.far().namespace);
    let before = (values(near), values(far));
    let listen = format!("{}:0", cable.far().ipv4);
    let responder = far.enter(|| Responder::listen(&mut command(&["responder", "--listen", &listen]))).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let [file, journal] = ["r.json", "journal"].map(|name| directory.path().join(name));
    let (file, journal) = (file.to_str().unwrap(), journal.to_str().unwrap());
    let vary =
        "--vary nic.offload.gro=on,off --vary nic.rps-cpus=0,none --vary net.ipv4.tcp_notsent_lowat=65536,131072";
    let mut words = [&[common::NEARWIRE, "bench"], &responder.bench(&["udp/block"])[..]].concat();
    words.extend("--size 64 --count 100 --rounds 2 --quiet".split(' ').chain(vary.split(' ')));
    words.extend(["--json", file, "--journal", journal]);

    assert_says(&on_host(near, &words), 2, &["nic.offload.gro[nw0]", "net.ipv4.tcp_notsent_lowat", "--yes"]);
    words.push("--yes");
    let output = on_host(near, &words);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let record = record(file.as_ref());
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        let notes: Vec<&str> = run["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
        for (id, place) in
            [("nic.offload.gro", "[nw0]"), ("nic.rps-cpus", "[nw0/rx-0]"), ("net.ipv4.tcp_notsent_lowat", "")]
        {
            let wanted = format!("{id}{place} = {}, ", run["variation"][id].as_str().unwrap());
            assert!(notes.iter().any(|note| note.starts_with(&wanted)), "no '{wanted}' in {notes:?}");
        }
        assert!(!notes.iter().any(|note| note.contains("nw1")), "the other host was written to: {notes:?}");
    }
    assert_eq!((values(near), values(far)), before);
    assert!(!directory.path().join("journal/journal").exists());

    let route = format!("ip route add default via {}", cable.far().ipv4);
    assert_eq!(code(&on_host(near, &["sh", "-c", &route])), Some(0));
    assert_says(&on_host(near, &words), 2, &["nic.offload.gro of nw0", "default route"]);
    assert_eq!((values(near), values(far)), before);
}

#[test]
fn measurement_towards_another_host_leaves_alone_what_resets_the_link_or_is_in_use() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let (near, far) = (&cable.near().namespace, &cable.far().namespace);
    let before = (values(near), values(far));
    let listen = format!("{}:0", cable.far().ipv4);
    let responder = far.enter(|| Responder::listen(&mut command(&["responder", "--listen", &listen]))).unwrap();
    let wishes = [("nic.channels.rx", "equal = 1"), ("nic.offload.gro", "equal = true")];
    let place = Place::new(&wishes.map(|(setting, wanted)| (setting, wanted.to_owned())));
    let [profile, journal] = ["profile.toml", "journal"].map(|name| place.path(name));
    let mut words = [&[common::NEARWIRE, "tune", "measure"], &responder.bench(&["udp/block"])[..]].concat();
    words.extend(["--profile", profile.to_str().unwrap(), "--journal", journal.to_str().unwrap(), "--quiet"]);

    // Without an answer nothing is measured, and what would be is told.
    let asked = on_host(near, &words);
    assert_eq!(code(&asked), Some(2), "{}{}", text(&asked), errors(&asked));
    for told in ["1 setting to measure", "nic.offload.gro[nw0]  ", "nic.channels.rx[nw0]  it resets the link"] {
        assert!(text(&asked).contains(told), "no '{told}' in {}", text(&asked));
    }
    let route = format!("ip route add default via {}", cable.far().ipv4);
    assert_eq!(code(&on_host(near, &["sh", "-c", &route])), Some(0));
    let refused = on_host(near, &words);
    assert_says(&refused, 0, &[]);
    assert!(text(&refused).contains("Nothing to measure"), "{}", text(&refused));
    assert!(text(&refused).contains("nic.offload.gro[nw0]  it carries the default route"), "{}", text(&refused));
    assert_eq!((values(near), values(far)), before);
}
