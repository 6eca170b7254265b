//! openvpn: a network device in user space, whose packets travel in datagrams.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Running, Side, found_or_skip};

const PORT: u16 = 1194;
const INSIDE: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
const CONTENT_BYTES: usize = 400_000;
/// A full packet has 1300 bytes and more of them.
const DATAGRAMS_LEAST: u64 = 250;
const PATIENCE: Duration = Duration::from_secs(10);

#[track_caller]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "it did not come to this");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn file_sent_through_a_tunnel_of_openvpn_arrives_whole() {
    let Some([openvpn, socat]) = found_or_skip(["openvpn", "socat"]) else { return };
    if !Path::new("/dev/net/tun").exists() {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs /dev/net/tun");
        println!("SKIP no /dev/net/tun");
        return;
    }
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        bed.run(Side::Near, &openvpn, "--genkey secret key");
        let start = |side, other, [own, theirs]: [&str; 2]| -> Running {
            let ends = format!("--local {} --remote {}", bed.address(side), bed.address(other));
            bed.start(
                side,
                &openvpn,
                &format!("--dev tun --secret key --cipher AES-256-CBC --ping 1 --port {PORT} {ends} --ifconfig {own} {theirs} --verb 3"),
            )
        };
        let [near, far] = INSIDE;
        let ends = [start(Side::Near, Side::Far, [near, far]), start(Side::Far, Side::Near, [far, near])];
        wait_until(|| ends.iter().all(|end| end.printed().contains("Initialization Sequence Completed")));
        let sent: Vec<u8> = (0..CONTENT_BYTES).map(|at| (at * 7 + at / 251) as u8).collect();
        let from = format!("-u TCP4-LISTEN:7000,bind={far} OPEN:arrived,creat");
        let server = bed.start(Side::Far, &socat, &from);
        bed.wait_for_listener(Side::Far, 7000);
        bed.start_with_input(Side::Near, &socat, &format!("-u STDIN TCP4:{far}:7000"), &sent).succeed();
        server.succeed();
        assert!(fs::read(bed.path("arrived")).unwrap() == sent, "{accelerated:?}: the bytes are those that were sent");
        ends.into_iter().for_each(|end| drop(end.stop(Signal::TERM)));
        bed.assert_paths_each_way(DATAGRAMS_LEAST, 0);
    }
}
