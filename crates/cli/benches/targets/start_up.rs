//! What `nearwire run` adds to the start of a program: with an agent that runs, and with its start.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions};
use nearwire_report::statistics::trend::median;
use nearwire_sys::affinity::pin_current_thread_to;

use crate::{AnyError, INITIATOR_CPU, NEARWIRE, RESPONDER_CPU};

pub const NAME: &str = "run -- true";
pub const WITH_AGENT: &str = "run -- true, agent running, ms";
pub const WITHOUT_AGENT: &str = "run -- true, with its start, ms";

const CALLS: usize = 11;
/// A link that has just come has addresses to settle.
const LINK_READY: Duration = Duration::from_millis(1500);

/// Cables that were used. They stay: a network namespace that goes holds locks for long, which others would wait for.
#[derive(Default)]
pub struct StartUps {
    used: Vec<VirtualCable>,
}

impl StartUps {
    /// In a network namespace of their own, which has had no agent before.
    pub fn figures(&mut self) -> Result<Vec<(String, f64)>, AnyError> {
        let cable = VirtualCable::lay(VirtualCableOptions::default())?;
        let near = cable.near().clone();
        self.used.push(cable);
        std::thread::sleep(LINK_READY);
        let all = std::thread::spawn(move || times_ms(&near).map_err(|error| error.to_string()));
        let all = all.join().map_err(|_| "the starting thread failed")??;
        let (first, others) = all.split_first().ok_or("no calls")?;
        let with_agent = median(others).ok_or("no calls")?;
        Ok(vec![(WITHOUT_AGENT.to_owned(), *first), (WITH_AGENT.to_owned(), with_agent)])
    }
}

/// How long each call takes. Programs may run on both CPUs.
fn times_ms(near: &CableEnd) -> Result<Vec<f64>, AnyError> {
    pin_current_thread_to(&[INITIATOR_CPU, RESPONDER_CPU])?;
    let timed = || -> Result<f64, String> {
        let began = Instant::now();
        let mut run = Command::new(NEARWIRE);
        run.args(["run", "--", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        let status = run.status().map_err(|error| error.to_string())?;
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        if status.success() { Ok(took_ms) } else { Err(format!("nearwire run -- true ended with {status}")) }
    };
    let calls = near.namespace.enter(|| (0..=CALLS).map(|_| timed()).collect::<Result<Vec<_>, _>>())?;
    Ok(calls?)
}
