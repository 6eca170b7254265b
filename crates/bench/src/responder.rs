//! The far end: does what the initiator asks, one experiment at a time, and echoes.

mod door;

pub use door::{Door, draw_token};

use std::collections::BTreeMap;
use std::time::Duration;

use nearwire_report::record::Reading;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;

use crate::control::{Answer, Ask, Control, ControlError, PROTOCOL, ResponderReport};
use crate::endpoint::{Endpoint, EndpointError};
use crate::paths::{EndAddress, LocalEnd, Path, PathError, PathVisitor, Setup, with_path};
use crate::workloads::Workload;
use nearwire_sys::affinity::pin_current_thread;

/// What the responder needs from the program around it.
pub struct Host<'a> {
    /// Token to ask for; none on a cable that the initiator laid.
    pub token: Option<&'a str>,
    /// Own end of the cable when the initiator does not know it.
    pub local: Option<LocalEnd>,
    /// Reads the environment of this host, with the settings of these interfaces.
    pub environment: &'a dyn Fn(&[String]) -> BTreeMap<String, Reading>,
    /// How long an initiator may stay silent before it is given up.
    pub idle_timeout: Option<Duration>,
}

/// Serves one initiator until it says goodbye or goes away.
///
/// # Errors
/// The connection broke, the initiator is a stranger, or it stayed silent too long.
pub fn serve(control: &mut Control, host: &Host<'_>) -> Result<(), ServeError> {
    let local = welcome(control, host)?;
    let clock = Clock::calibrate();
    loop {
        control.await_news(host.idle_timeout, interrupted)?;
        if interrupted() {
            return Err(ServeError::Interrupted);
        }
        match control.hear::<Ask>(host.idle_timeout) {
            Ok(Ask::Open { setup }) => {
                let session = Session { control, local: &local, clock, setup: &setup, idle_timeout: host.idle_timeout };
                if let Err(why) = with_path(setup.path, setup.fault.is_some(), session)? {
                    control.tell(&Answer::Failed { why })?;
                }
            }
            Ok(Ask::Bye) => return Ok(()),
            // A round that never started here, because opening failed on one side.
            Ok(Ask::Stop) => control.tell(&Answer::Done { report: ResponderReport::default() })?,
            Ok(Ask::Hello { .. } | Ask::Start { .. }) => {
                control.tell(&Answer::Failed { why: "that request is out of order".to_owned() })?;
            }
            Err(ControlError::Gone) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn welcome(control: &mut Control, host: &Host<'_>) -> Result<LocalEnd, ServeError> {
    let Ask::Hello { protocol, version, token, cpu, local } = control.hear(Some(Duration::from_secs(10)))? else {
        return refuse(control, "the first request must be hello".to_owned());
    };
    if protocol != PROTOCOL {
        let own = env!("CARGO_PKG_VERSION");
        return refuse(
            control,
            format!("this is nearwire {own}, the initiator is {version}: use the same on both hosts"),
        );
    }
    if host.token.is_some_and(|wanted| !same_token(wanted, &token)) {
        return refuse(control, "wrong token; give the one the responder printed with --token".to_owned());
    }
    let Some(local) = local.map(|local| *local).or_else(|| host.local.clone()) else {
        return refuse(control, "this end does not know its side of the cable".to_owned());
    };
    let pinned = cpu.filter(|cpu| pin_current_thread(*cpu).is_ok());
    let interfaces = local.interface.iter().chain(&local.second_interface).map(|i| i.name.clone()).collect::<Vec<_>>();
    control.tell(&Answer::Welcome {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        environment: (host.environment)(&interfaces),
        local: local.clone(),
        cpu: pinned,
        boot_id: boot_id(),
    })?;
    Ok(local)
}

fn refuse<T>(control: &mut Control, why: String) -> Result<T, ServeError> {
    control.tell(&Answer::Failed { why: why.clone() })?;
    Err(ServeError::Refused { why })
}

/// Compares in constant time, so that a stranger cannot guess the token byte by byte.
fn same_token(wanted: &str, given: &str) -> bool {
    wanted.len() == given.len() && wanted.bytes().zip(given.bytes()).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

/// This boot of this kernel; the same at both ends means one machine.
#[must_use]
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// One cell's round at the far end.
struct Session<'a> {
    control: &'a mut Control,
    local: &'a LocalEnd,
    clock: Clock,
    setup: &'a Setup,
    idle_timeout: Option<Duration>,
}

impl PathVisitor for Session<'_> {
    /// Outer error: the control connection is of no more use. Inner error: the cell failed, in words.
    type Output = Result<Result<(), String>, ServeError>;

    fn visit<P: Path>(self) -> Self::Output {
        let opened = match P::open(self.setup, self.local) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.control.tell(&Answer::Opened { address: opened.address() })?;
        let peer = match self.control.hear::<Ask>(self.idle_timeout)? {
            Ask::Start { peer } => peer,
            Ask::Stop => {
                self.control.tell(&Answer::Done { report: ResponderReport::default() })?;
                return Ok(Ok(()));
            }
            _ => return Ok(Err("start or stop must follow open".to_owned())),
        };
        self.respond(opened, &peer)
    }
}

impl Session<'_> {
    fn respond<P: Path>(self, opened: P, peer: &EndAddress) -> Result<Result<(), String>, ServeError> {
        let mut endpoint = match opened.connect(peer) {
            Ok(endpoint) => endpoint,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.control.tell(&Answer::Started)?;
        let control = &*self.control;
        let stop = || control.has_news() || interrupted();
        let outcome = self.setup.workload.respond(&mut endpoint, self.clock, stop);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return self.drain_stop(&error),
        };
        match self.control.hear::<Ask>(self.idle_timeout)? {
            Ask::Stop => {}
            _ => return Ok(Err("stop must follow start".to_owned())),
        }
        let report = ResponderReport { outcome, remarks: endpoint.remarks() };
        drop(endpoint);
        self.control.tell(&Answer::Done { report })?;
        Ok(Ok(()))
    }

    /// The end failed while the initiator was measuring: its `Stop` is still to come and is answered with the failure.
    fn drain_stop(self, error: &EndpointError) -> Result<Result<(), String>, ServeError> {
        self.control.hear::<Ask>(self.idle_timeout)?;
        Ok(Err(error.to_string()))
    }
}

/// Why a responder stopped serving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The control connection.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A path failed in a way that ends the session.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A signal ended it.
    #[error("interrupted")]
    Interrupted,
    /// The initiator was turned away.
    #[error("turned an initiator away: {why}")]
    Refused {
        /// What it was told.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_matches_only_itself() {
        assert!(same_token("abc", "abc"));
        assert!(!same_token("abc", "abd"));
        assert!(!same_token("abc", "ab"));
        assert!(!same_token("abc", ""));
    }
}
