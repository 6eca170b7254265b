//! chronyd: times of arrival and of departure with each datagram, read from control messages and the error queue.

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Side, found_or_skip};

const PORT: u16 = 1123;
/// Both ends have the same clock.
const WRONG_MOST_S: f64 = 0.005;

#[test]
fn chronyd_finds_the_clock_of_its_server_right() {
    let Some([chronyd]) = found_or_skip(["chronyd"]) else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let pid = |side: &str| bed.path(&format!("{side}.pid")).display().to_string();
        let common = "cmdport 0\nbindcmdaddress /\n";
        bed.write(
            "server.conf",
            format!(
                "{common}local stratum 3\nallow all\nbindaddress {address}\nport {PORT}\npidfile {}\n",
                pid("server")
            ),
        );
        bed.write(
            "client.conf",
            format!(
                "{common}server {address} port {PORT} iburst xleave maxsamples 1\nport 0\npidfile {}\n",
                pid("client")
            ),
        );
        // -x, -Q: the clock of this machine is left alone.
        let server = bed.start(Side::Far, &chronyd, "-d -x -u root -f server.conf");
        bed.wait_for_port(Side::Far, PORT);
        let told = bed.start(Side::Near, &chronyd, "-Q -t 10 -u root -f client.conf").succeed_and_tell();
        let (_, wrong) = told.split_once("System clock wrong by ").unwrap_or_else(|| panic!("{accelerated:?}: {told}"));
        let wrong_s: f64 = wrong.split(' ').next().unwrap().parse().unwrap();
        assert!(wrong_s.abs() < WRONG_MOST_S, "{accelerated:?}: {told}");
        server.stop(Signal::TERM);
    }
}
