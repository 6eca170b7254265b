//! The record of an experiment: its results, its settings, and the environment of both ends.

use std::collections::BTreeMap;

use nearwire_bench::bed::TestBed;
use nearwire_bench::engine::Results;
use nearwire_bench::experiment::Experiment;
use nearwire_host::Root;
use nearwire_host::topology::Topology;
use nearwire_lab::LabError;
use nearwire_report::record;
use nearwire_sys::tsc::Clock;

use crate::args::CableArg;
use crate::args::bench::BenchArgs;
use crate::commands::environment;
use crate::exit::{FAILED, Failure, OrExit};

/// What a record contains besides the results.
pub struct Described<'a> {
    pub args: &'a BenchArgs,
    pub started_at: String,
    pub experiment: &'a Experiment,
    pub cpu_choice: Option<String>,
    pub bed: &'a TestBed,
    pub clock: Clock,
}

impl Described<'_> {
    /// Puts everything together. Reads the environment of both ends.
    ///
    /// # Errors
    /// The near namespace could not be entered.
    pub fn record(self, results: Results) -> Result<record::Record, Failure> {
        let Described { args, started_at, experiment, cpu_choice, bed, clock } = self;
        let own_host = environment::of_host();
        let mut initiator = bed.enter(|| environment::of_interfaces(&bed.interfaces())).or_exit(FAILED)?;
        let mut responder = bed.responder.environment.clone();
        if !matches!(args.cable, CableArg::Host(_)) {
            responder.extend(own_host.clone());
        }
        initiator.extend(own_host);
        let mut warnings = results.warnings;
        warnings.extend(shared_core(experiment, bed));
        let machine = record::Machine { tick_hz: tick_hz(&initiator), ..results.machine };
        Ok(record::Record {
            schema: record::SCHEMA.to_owned(),
            schema_version: record::SCHEMA_VERSION,
            nearwire_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at,
            command: std::env::args().collect(),
            interrupted: results.interrupted,
            experiment: record::Experiment {
                workload: experiment.workload.name().to_owned(),
                latency: experiment.workload.latency(),
                arrivals: experiment.workload.arrivals().map(|arrivals| arrivals.to_string()),
                cable: bed.kind.to_owned(),
                cable_detail: bed.detail.clone(),
                rounds: experiment.effective_rounds(),
                time_ns: args.count.is_none().then_some(args.time.as_nanos() as u64),
                count: args.count,
                warm_up_messages: experiment.warm_up_messages,
                warm_up_ns: experiment.warm_up_ns,
                timeout_ns: experiment.timeout_ns,
                cpu_initiator: experiment.cpu_initiator,
                cpu_responder: bed.responder.cpu,
                cpu_choice,
                seed: experiment.seed,
                fault: experiment.fault.map(|fault| fault.to_string()),
            },
            clock: record::Clock {
                source: clock.source().name().to_owned(),
                hz: clock.hz(),
                stamp_cost_ns: clock.stamp_cost_ns(),
                drift_ppm: clock.drift_ppm(),
                reason: clock.reason().to_owned(),
            },
            machine,
            environment: record::Environment { initiator, responder },
            runs: results.runs,
            warnings,
        })
    }
}

fn tick_hz(environment: &BTreeMap<String, record::Reading>) -> Option<u32> {
    match environment.get("kernel.hz")? {
        record::Reading::Value { value } => value.parse().ok(),
        _ => None,
    }
}

/// A warning where both ends share a CPU, and so take turns, or share a core, and so slow each other down.
fn shared_core(experiment: &Experiment, bed: &TestBed) -> Option<record::Warning> {
    let (a, b) = (experiment.cpu_initiator?, bed.responder.cpu?);
    let siblings = || Root::live().is_ok_and(|root| Topology::read(&root).share_core(a, b));
    let text = match a == b {
        _ if !bed.responder.same_machine => return None,
        true => format!("both ends ran on CPU {a}: spinning paths wait for each other's time slice"),
        false if siblings() => format!("CPUs {a} and {b} are threads of one core: each end slows the other down"),
        false => return None,
    };
    let advice = "give CPUs of two cores with --cpus A,B".to_owned();
    Some(record::Warning { code: "shared-core".to_owned(), text, advice })
}

/// A warning that the interfaces of a loopback cable could not be put back.
pub fn not_put_back(error: &LabError) -> record::Warning {
    record::Warning {
        code: "not-put-back".to_owned(),
        text: error.to_string(),
        advice: "correct what is named here by hand, with ip(8)".to_owned(),
    }
}
