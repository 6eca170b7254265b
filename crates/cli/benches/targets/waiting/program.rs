//! The programs of the cells: ordinary socket calls, as any program makes them.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

pub const RATE: &str = "rate ";
pub const P99_US: &str = "p99_us ";

type Answer = Result<(), Box<dyn std::error::Error>>;

const MESSAGE_BYTES: usize = 64;
/// Not measured at the begin: what policies learn, and caches.
const WARM: Duration = Duration::from_millis(1400);
/// An answer that has not come by then is lost.
const LOST: Duration = Duration::from_millis(200);
const WINDOW: usize = 32;

/// `None`: none of these programs.
pub fn run(words: &[&str]) -> Option<Answer> {
    Some(match words {
        ["wait-busy"] => loop {
            std::hint::black_box(0);
        },
        ["wait-echo", at] => echo(at),
        ["wait-ping", to, ms] => ask(to, ms, 1),
        ["wait-window", to, ms] => ask(to, ms, WINDOW),
        _ => return None,
    })
}

fn echo(at: &str) -> Answer {
    let socket = UdpSocket::bind(at)?;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let (bytes, from) = socket.recv_from(&mut message)?;
        socket.send_to(&message[..bytes], from)?;
    }
}

/// Keeps so many messages on the way; each holds when it was sent.
fn ask(to: &str, ms: &str, window: usize) -> Answer {
    let measured = Duration::from_millis(ms.parse()?);
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(LOST))?;
    let began = Instant::now();
    let mut message = [0x5a; MESSAGE_BYTES];
    let mut send = |now: Duration| {
        message[..8].copy_from_slice(&(now.as_nanos() as u64).to_le_bytes());
        socket.send(&message)
    };
    let mut took_ns: Vec<u64> = Vec::with_capacity(1 << 21);
    let mut answer = [0; MESSAGE_BYTES];
    (0..window).try_for_each(|_| send(began.elapsed()).map(|_| ()))?;
    loop {
        match socket.recv(&mut answer) {
            Ok(_) => {
                let (now, sent_ns) = (began.elapsed(), u64::from_le_bytes(answer[..8].try_into()?));
                if now >= WARM {
                    took_ns.push((now.as_nanos() as u64).saturating_sub(sent_ns));
                }
                if now >= WARM + measured {
                    break;
                }
                send(now)?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let now = began.elapsed();
                if now >= WARM {
                    took_ns.push(LOST.as_nanos() as u64);
                }
                if now >= WARM + measured {
                    break;
                }
                (0..window).try_for_each(|_| send(now).map(|_| ()))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let seconds = (began.elapsed() - WARM).as_secs_f64();
    took_ns.sort_unstable();
    println!("{RATE}{}", took_ns.len() as f64 / seconds);
    println!("{P99_US}{}", took_ns[(took_ns.len() * 99 / 100).min(took_ns.len() - 1)] as f64 / 1e3);
    Ok(())
}
