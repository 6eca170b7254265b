//! A small program of ordinary socket calls: this binary, started again. What it does is its arguments; what it measured it
//! prints as `name figure` lines.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nearwire_sys::tsc::Clock;

/// The argument that says that this is such a program.
pub const MARK: &str = "--program";
/// Messages between two looks at the clock.
const BATCH: usize = 64;
/// Sent before the time that is measured: in it the ports are opened, which takes some 30 ms where the agent is started for it.
const SEND_WARM: Duration = Duration::from_millis(300);

type Answer = Result<(), Box<dyn Error>>;

/// `send TO BYTES MS THREADS`, `drain AT`, `echo AT`, `wait AT`, `ping TO IDLE TRIPS`, `requests TO COUNT`.
pub fn run(arguments: &[String]) -> Answer {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["send", to, bytes, ms, threads] => {
            send_by(threads.parse()?, to.parse()?, bytes.parse()?, Duration::from_millis(ms.parse()?))
        }
        ["drain", at] => drain(at.parse()?),
        ["echo", at] => echo(at.parse()?),
        ["wait", at] => wait(at.parse()?),
        ["ping", to, idle, trips] => ping(to.parse()?, idle.parse()?, trips.parse()?),
        ["requests", to, count] => requests(to.parse()?, count.parse()?),
        _ => crate::waiting::program::run(&words).unwrap_or_else(|| Err(format!("no program: {words:?}").into())),
    }
}

fn connected(to: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    Ok(socket)
}

/// Threads send as fast as it goes, each by a socket of its own.
fn send_by(threads: usize, to: SocketAddr, bytes: usize, time: Duration) -> Answer {
    let rates = std::thread::scope(|scope| {
        let sender = || send(to, bytes, time).map_err(|error| error.to_string());
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(sender)).collect();
        let own = sender();
        others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|_| Err("a thread failed".to_owned())))
            .chain([own])
            .collect::<Result<Vec<f64>, _>>()
    })?;
    println!("mpps {}", rates.iter().sum::<f64>());
    Ok(())
}

/// Sends as fast as it goes; datagrams a microsecond.
fn send(to: SocketAddr, bytes: usize, time: Duration) -> Result<f64, Box<dyn Error>> {
    let socket = connected(to)?;
    let message = vec![0x5a; bytes];
    let send_for = |time: Duration| -> std::io::Result<(u64, Duration)> {
        let (began, mut sent) = (Instant::now(), 0);
        while began.elapsed() < time {
            for _ in 0..BATCH {
                socket.send(&message)?;
            }
            sent += BATCH as u64;
        }
        Ok((sent, began.elapsed()))
    };
    send_for(SEND_WARM)?;
    let (sent, took) = send_for(time)?;
    Ok(sent as f64 / took.as_secs_f64() / 1e6)
}

/// Receives as fast as it goes.
fn drain(at: SocketAddr) -> Answer {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    let mut message = [0; 2048];
    loop {
        match socket.recv(&mut message) {
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error.into()),
            _ => {}
        }
    }
}

fn echo(at: SocketAddr) -> Answer {
    let socket = UdpSocket::bind(at)?;
    let mut message = [0; 2048];
    loop {
        let (bytes, from) = socket.recv_from(&mut message)?;
        socket.send_to(&message[..bytes], from)?;
    }
}

/// Waits for what does not come, and says when it begins to.
fn wait(at: SocketAddr) -> Answer {
    let socket = UdpSocket::bind(at)?;
    // A socket has frames from its first use on.
    socket.set_nonblocking(true)?;
    let mut message = [0; 2048];
    let _ = socket.recv(&mut message);
    socket.set_nonblocking(false)?;
    println!("ready");
    loop {
        socket.recv(&mut message)?;
    }
}

/// Round trips while other sockets are open and nothing comes for them.
fn ping(to: SocketAddr, idle: u16, trips: usize) -> Answer {
    // Below those that the kernel gives to `socket`.
    const FIRST_PORT: u16 = 10_000;
    let socket = connected(to)?;
    let others = (0..idle).map(|at| UdpSocket::bind(("0.0.0.0", FIRST_PORT + at))).collect::<Result<Vec<_>, _>>()?;
    let clock = Clock::calibrate();
    let mut message = [0x5a; crate::SIZE_BYTES as usize];
    let mut half_rtt_ns = Vec::with_capacity(trips);
    for _ in 0..trips {
        let began = clock.now_ticks();
        socket.send(&message)?;
        socket.recv(&mut message)?;
        half_rtt_ns.push(clock.ns(clock.now_ticks() - began) / 2);
    }
    let warm = &mut half_rtt_ns[trips / 10..];
    warm.sort_unstable();
    println!("p50_ns {}", warm[warm.len() / 2]);
    for (name, key) in [("rss_mib", "VmRSS:"), ("peak_virtual_mib", "VmPeak:")] {
        println!("{name} {}", kib_of(key).ok_or("no memory figures in /proc/self/status")? / 1024.0);
    }
    drop(others);
    Ok(())
}

/// Requests by a socket each: what such a one takes from its opening to its end.
fn requests(to: SocketAddr, count: usize) -> Answer {
    let clock = Clock::calibrate();
    let mut message = [0x5a; crate::SIZE_BYTES as usize];
    let mut whole_ns = Vec::with_capacity(count);
    for _ in 0..count {
        let began = clock.now_ticks();
        let socket = connected(to)?;
        socket.send(&message)?;
        socket.recv(&mut message)?;
        drop(socket);
        whole_ns.push(clock.ns(clock.now_ticks() - began));
    }
    let warm = &mut whole_ns[count / 10..];
    warm.sort_unstable();
    println!("p50_ns {}", warm[warm.len() / 2]);
    Ok(())
}

fn kib_of(key: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix(" kB")?.parse().ok()
}
