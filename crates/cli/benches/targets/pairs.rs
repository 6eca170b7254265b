//! Two programs at each end, on one interface. The pairs take turns: one stands still, with its sockets and shares, while the other one
//! has both CPUs.

use std::time::Duration;

use nearwire_lab::CableEnd;

use crate::process::{Running, SERVER_READY, start};
use crate::sockperf::{FIRST_PORT, RUN_UDP, p50_ns};
use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU, SIZE_BYTES};

pub const NAME: &str = "run sockperf udp, two programs";
/// As long as the second pair runs before it stands still: its sockets have frames then.
const BEGINS: Duration = Duration::from_millis(300);
/// sockperf's time goes on while a program stands still, and the first pair takes some 1.5 s.
const SECONDS: [&str; 2] = ["1", "3"];

/// Of the slower pair.
pub fn half_rtt_p50_ns(near: &CableEnd, far: &CableEnd) -> Result<f64, AnyError> {
    let servers = [server(far, 0)?, server(far, 1)?];
    std::thread::sleep(2 * SERVER_READY);
    servers[0].stop()?;
    let second = client(near, far, 1)?;
    std::thread::sleep(BEGINS);
    second.stop()?;
    servers[1].stop()?;
    servers[0].go_on()?;
    let first_text = client(near, far, 0)?.output()?;
    servers[0].stop()?;
    servers[1].go_on()?;
    second.go_on()?;
    let second_text = second.output()?;
    let figure = |text: &str| p50_ns(text).ok_or_else(|| format!("{NAME}: no figures in its output:\n{text}"));
    Ok(figure(&first_text)?.max(figure(&second_text)?))
}

fn to(far: &CableEnd, pair: usize) -> Vec<String> {
    let port = usize::from(FIRST_PORT) + pair;
    ["-i".to_owned(), far.ipv4.to_string(), "-p".to_owned(), port.to_string()].into()
}

fn server(far: &CableEnd, pair: usize) -> Result<Running, AnyError> {
    start(RUN_UDP.command("server", &to(far, pair)), far, RESPONDER_CPU)
}

fn client(near: &CableEnd, far: &CableEnd, pair: usize) -> Result<Running, AnyError> {
    let mut client = RUN_UDP.command("ping-pong", &to(far, pair));
    client.args(["-m", &SIZE_BYTES.to_string(), "-t", SECONDS[pair]]);
    start(client, near, INITIATOR_CPU)
}
