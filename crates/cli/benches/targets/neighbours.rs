//! 64 programs on one interface, one of which is active; and what their agent takes while nobody asks it.

use std::fs;
use std::time::Duration;

use nearwire_agent::client::Client;
use nearwire_lab::CableEnd;

use crate::accelerated::BESIDE_PROGRAMS;
use crate::process::{Running, Sockets, command, start_anywhere};
use crate::{AnyError, program};

pub const NAME: &str = "ping beside 63 programs, run";
pub const AGENT_CPU: &str = "agent of 64 programs, CPU us";
pub const AGENT_MEMORY: &str = "agent of 64 programs, MiB";

const IDLE_PROGRAMS: u16 = 63;
/// Below those that the kernel gives to sockets, and not those of other programs here.
const FIRST_PORT: u16 = 9_000;
/// What the agent has to do for programs that start is done then.
const SETTLED: Duration = Duration::from_millis(200);
const IDLE_TIME: Duration = Duration::from_millis(500);

pub fn figures(near: &CableEnd, far: &CableEnd) -> Result<Vec<(String, f64)>, AnyError> {
    let mut idle = (0..IDLE_PROGRAMS).map(|at| start_idle(near, FIRST_PORT + at)).collect::<Result<Vec<_>, _>>()?;
    for program in &mut idle {
        program.await_line()?;
    }
    // An agent is reached from within its network namespace.
    let connect = || Client::connect("targets").map(|client| client.agent().pid).map_err(|error| error.to_string());
    let agent = near.namespace.enter(connect)??;
    std::thread::sleep(SETTLED);
    let before_ns = cpu_time_ns(agent)?;
    std::thread::sleep(IDLE_TIME);
    let cpu_us = (cpu_time_ns(agent)? - before_ns) as f64 / 1e3;
    let mut figures = BESIDE_PROGRAMS.figures(near, far)?;
    figures.push((AGENT_CPU.to_owned(), cpu_us));
    figures.push((AGENT_MEMORY.to_owned(), own_memory_mib(agent)?));
    Ok(figures)
}

fn start_idle(near: &CableEnd, port: u16) -> Result<Running, AnyError> {
    let mut idle = command(Sockets::Asleep, std::env::current_exe()?.as_os_str());
    idle.arg(program::MARK).args(["wait", &format!("0.0.0.0:{port}")]);
    start_anywhere(idle, near)
}

/// The first number of proc_pid_schedstat(5): time on a CPU.
fn cpu_time_ns(pid: u32) -> Result<u64, AnyError> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    Ok(text.split_ascii_whitespace().next().ok_or("no figures in schedstat")?.parse()?)
}

/// What is resident and not in a memfd, as packet memory is.
fn own_memory_mib(pid: u32) -> Result<f64, AnyError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = |key: &str| -> Option<f64> {
        status.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix(" kB")?.parse().ok()
    };
    let parts = kib("RssAnon:").zip(kib("RssFile:")).ok_or("no memory figures in /proc/PID/status")?;
    Ok((parts.0 + parts.1) / 1024.0)
}
