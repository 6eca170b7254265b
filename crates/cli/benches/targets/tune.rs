//! What the commands of tuning cost: `check` of this host and of a copy with many CPUs, and a whole `tune measure`.

#[path = "../../tests/common/placebos.rs"]
mod placebos;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use nearwire_lab::host_tree::shapes;
use placebos::PLACEBOS;
use tempfile::TempDir;

use crate::command::peak_kib;
use crate::verdicts::{spread, verdict};
use crate::{AnyError, NEARWIRE};

/// The word that chooses this part.
pub const NAME: &str = "tune";

const CALLS: usize = 21;
const CALLS_OF_A_COPY: usize = 5;
/// The copy with most CPUs.
const LARGEST: &str = "x86-1024-cpus";

/// Prints the targets; true when all are met.
pub fn judge() -> Result<bool, AnyError> {
    let work = tempfile::tempdir()?;
    let check = || nearwire(&["check"]);
    let check_ms = times_s(CALLS, check)?.into_iter().map(|took_s| took_s * 1e3).collect::<Vec<_>>();
    let peak_mib = (0..CALLS).map(|_| peak_mib(check())).collect::<Result<Vec<_>, _>>()?;
    let archive = archive(work.path())?;
    let copy_s = times_s(CALLS_OF_A_COPY, || nearwire(&["check", "--snapshot", &archive]))?;
    let met = [
        verdict("nearwire check, ms", spread(&check_ms)?, 0.0, 15.0),
        verdict("its peak memory, MiB", spread(&peak_mib)?, 0.0, 16.0),
        verdict("nearwire check of an archive of 1024 CPUs, s", spread(&copy_s)?, 0.0, 1.0),
        verdict("nearwire tune measure of 20 settings, s", [measure_s(&work)?; 3], 0.0, 300.0),
    ];
    Ok(met.iter().all(|met| *met))
}

fn nearwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(NEARWIRE);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// How long the command takes, call by call.
fn times_s(calls: usize, command: impl Fn() -> Command) -> Result<Vec<f64>, AnyError> {
    let timed = |_| -> Result<f64, AnyError> {
        let mut command = command();
        let began = Instant::now();
        let status = command.status()?;
        let took_s = began.elapsed().as_secs_f64();
        is_answer(&command, status)?;
        Ok(took_s)
    };
    (0..calls).map(timed).collect()
}

/// That something differs from the profile is an answer too.
fn is_answer(command: &Command, status: ExitStatus) -> Result<(), AnyError> {
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(format!("{command:?} ended with {status}").into()),
    }
}

/// The most that was resident, as far as it was seen: the command is looked at again and again, without a break.
fn peak_mib(mut command: Command) -> Result<f64, AnyError> {
    let mut child = command.spawn()?;
    let mut most_kib = 0;
    let status = loop {
        most_kib = most_kib.max(peak_kib(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
    };
    is_answer(&command, status)?;
    Ok(most_kib as f64 / 1024.0)
}

/// An archive of the largest described host.
fn archive(work: &Path) -> Result<String, AnyError> {
    let shape = shapes()?.into_iter().find(|shape| shape.name == LARGEST).ok_or("the largest host is not described")?;
    let host = work.join("host");
    shape.tree().write(&host)?;
    let archive = work.join("host.tar.gz").display().to_string();
    let tar = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&host).arg(".").status()?;
    if tar.success() { Ok(archive) } else { Err(format!("tar ended with {tar}").into()) }
}

/// As a user has it who names neither paths nor times.
fn measure_s(work: &TempDir) -> Result<f64, AnyError> {
    let mut profile = "purpose = 'What measuring takes'\n".to_owned();
    for (setting, value) in PLACEBOS {
        profile += &format!(
            "[[wish]]\nsetting = '{setting}'\nequal = {value}\nreason = 'It is measured.'\nsource = 'targets'\n"
        );
    }
    let path = |name: &str| work.path().join(name);
    fs::write(path("profile.toml"), profile)?;
    let mut command = nearwire(&["tune", "measure", "--yes", "--quiet"]);
    command.arg("--profile").arg(path("profile.toml")).arg("--journal").arg(path("journal"));
    command.arg("--results").arg(path("results")).arg("--json").arg(path("measured.json"));
    let began = Instant::now();
    let status = command.status()?;
    let took_s = began.elapsed().as_secs_f64();
    let measured: serde_json::Value = serde_json::from_slice(&fs::read(path("measured.json")).unwrap_or_default())?;
    let settings = measured["settings"].as_array().map_or(0, Vec::len);
    if status.success() && settings == PLACEBOS.len() {
        return Ok(took_s);
    }
    Err(format!("nearwire tune measure ended with {status} and measured {settings} of {} settings", PLACEBOS.len())
        .into())
}
