//! sockperf: its ways to wait, its ways to send, and what it counts.

use std::fs;

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Found, Side, found_or_skip, number_after};

/// sockperf's own.
const PORT: u16 = 11111;
/// So many messages are exchanged at least, on however busy a machine.
const MESSAGES_MIN: u64 = 100;
const GROUP: &str = "239.9.0.1";

fn sockperf_or_skip() -> Option<Found> {
    found_or_skip(["sockperf"]).map(|[sockperf]| sockperf)
}

/// What one exchange came to.
struct Exchanged {
    client: String,
    sent: u64,
    received: u64,
    served: u64,
}

/// A server at the far end and a client, for a second.
fn exchange(bed: &Bed, sockperf: &Found, server: &str, client: &str) -> Exchanged {
    let running = bed.start(Side::Far, sockperf, &format!("server {server}"));
    bed.wait_for_port(Side::Far, PORT);
    let client = bed.run(Side::Near, sockperf, client);
    let served = number_after(&running.stop(Signal::INT), "sockperf: Total ");
    let total = client.lines().find(|line| line.contains("[Total Run]"));
    let total = total.unwrap_or_else(|| panic!("no totals of sockperf: {client}"));
    let [sent, received] = ["SentMessages=", "ReceivedMessages="].map(|words| number_after(total, words));
    assert!(sent >= MESSAGES_MIN, "{client}");
    Exchanged { client, sent, received, served }
}

impl Exchanged {
    /// Each message was served and answered; the last answer may come after the end.
    #[track_caller]
    fn assert_complete(&self) {
        assert!(self.served == self.sent && self.received + 1 >= self.sent, "served {}: {}", self.served, self.client);
        for what in ["dropped", "duplicated", "out-of-order"] {
            assert!(self.client.contains(&format!("# {what} messages = 0")), "{}", self.client);
        }
    }
}

/// Ping-pong over one socket or several, in the combinations of ends.
fn ping_pong(wait: &str, sockets: u16, more: &str) {
    let Some(sockperf) = sockperf_or_skip() else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let feed: String = (0..sockets).map(|number| format!("U:{address}:{}\n", PORT + number)).collect();
        bed.write("feed", feed);
        let common = format!("-f feed -F {wait} {more}");
        let exchanged = exchange(&bed, &sockperf, &common, &format!("ping-pong {common} -t 1 --data-integrity"));
        exchanged.assert_complete();
        bed.assert_paths(exchanged.sent - 1);
    }
}

#[test]
fn sockperf_that_selects_exchanges_every_message() {
    ping_pong("s", 3, "");
}

#[test]
fn sockperf_that_polls_exchanges_every_message() {
    ping_pong("p", 3, "");
}

#[test]
fn sockperf_that_waits_by_epoll_exchanges_every_message() {
    ping_pong("e", 20, "");
}

#[test]
fn sockperf_that_receives_at_once_exchanges_every_message() {
    ping_pong("r", 1, "");
}

#[test]
fn sockperf_that_does_not_block_exchanges_every_message() {
    ping_pong("r", 3, "--nonblocked");
    ping_pong("e", 3, "--nonblocked");
}

#[test]
fn sockperf_log_has_every_message_with_its_times() {
    let Some(sockperf) = sockperf_or_skip() else { return };
    let bed = Bed::lay(Accelerated::BOTH);
    let client = format!("ping-pong -i {} -t 1 --full-log log.csv", bed.address(Side::Far));
    let exchanged = exchange(&bed, &sockperf, "", &client);
    exchanged.assert_complete();
    let log = fs::read_to_string(bed.path("log.csv")).unwrap();
    // Number, time sent, time received, latency.
    let (_, rows) = log.split_once("packet, txTime").unwrap();
    let time = |row: &str, column| row.split(", ").nth(column).unwrap().parse::<f64>().unwrap();
    let times: Vec<_> = rows
        .lines()
        .skip(1)
        .take_while(|row| row.starts_with(|first: char| first.is_ascii_digit()))
        .map(|row| (time(row, 1), time(row, 2)))
        .collect();
    let valid = exchanged.client.lines().find(|line| line.contains("[Valid Duration]")).unwrap();
    assert!(times.len() as u64 >= number_after(valid, "ReceivedMessages="), "{} rows\n{valid}", times.len());
    assert!(times.iter().all(|(sent, received)| sent < received));
}

#[test]
fn sockperf_under_load_gets_every_answer() {
    let Some(sockperf) = sockperf_or_skip() else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let client = format!("under-load -i {} -t 1 --mps 500 --reply-every 1 -m 300", bed.address(Side::Far));
        let exchanged = exchange(&bed, &sockperf, "", &client);
        // What is under way at the end is not waited for: on a busy machine that of 50 ms.
        assert!(exchanged.received + 25 >= exchanged.sent, "{}", exchanged.client);
        assert!(
            exchanged.client.contains("# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0"),
            "{accelerated:?}: {}",
            exchanged.client
        );
        bed.assert_paths(exchanged.received);
    }
}

/// Where CPUs are kept from both ends, a client sends at once what it missed, which may be more than a receive buffer holds: only
/// what is lost each time is lost by the path.
#[test]
fn sockperf_throughput_arrives_whole() {
    const ATTEMPTS: usize = 3;
    let Some(sockperf) = sockperf_or_skip() else { return };
    for accelerated in Accelerated::EACH {
        let found: Vec<_> = (0..ATTEMPTS).map_while(|_| throughput(&sockperf, accelerated).err()).collect();
        assert!(found.len() < ATTEMPTS, "{found:?}");
    }
}

/// A second of messages one way. The error: what was lost.
fn throughput(sockperf: &Found, accelerated: Accelerated) -> Result<(), String> {
    let bed = Bed::lay(accelerated);
    let server = bed.start(Side::Far, sockperf, "server");
    bed.wait_for_port(Side::Far, PORT);
    let _opened = bed.hold_open(Side::Near);
    let client = format!("throughput -i {} -t 1 --mps 1000 -m 1400", bed.address(Side::Far));
    let client = bed.run(Side::Near, sockperf, &client);
    // What arrived last is served, by a server that may have been asleep.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let served = number_after(&server.stop(Signal::INT), "sockperf: Total ");
    let sent = number_after(&client, "Total of ");
    assert!(sent >= MESSAGES_MIN && served <= sent + sent / 2, "{accelerated:?}, served {served}: {client}");
    bed.assert_paths_each_way(sent.min(served), 0);
    (served + sent / 50 >= sent).then_some(()).ok_or_else(|| format!("{accelerated:?}: {served} of {sent}"))
}

#[test]
fn sockperf_playback_follows_its_file() {
    let Some(sockperf) = sockperf_or_skip() else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        // Time in seconds, size in bytes.
        let lines = (1..=400).map(|number| format!("{:.3}, {}\n", 0.5 + f64::from(number) * 0.001, 14 + number * 3));
        bed.write("playback", lines.collect::<String>());
        let client = format!("playback -i {} --data-file playback --reply-every 1", bed.address(Side::Far));
        let exchanged = exchange(&bed, &sockperf, "", &client);
        assert!(exchanged.sent >= 400 && exchanged.received + 20 >= exchanged.sent, "{}", exchanged.client);
        bed.assert_paths(exchanged.received);
    }
}

#[test]
fn sockperf_multicast_exchanges_every_message() {
    let Some(sockperf) = sockperf_or_skip() else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        bed.write("feed", format!("U:{GROUP}:{PORT}\nU:{GROUP}:{}\n", PORT + 1));
        let interfaces = |side| format!("--mc-rx-if {0} --mc-tx-if {0}", bed.address(side));
        let server = format!("-f feed -F e {}", interfaces(Side::Far));
        let client = format!("ping-pong -f feed -F e {} -t 1", interfaces(Side::Near));
        let exchanged = exchange(&bed, &sockperf, &server, &client);
        exchanged.assert_complete();
        bed.assert_paths(exchanged.sent - 1);
    }
}
