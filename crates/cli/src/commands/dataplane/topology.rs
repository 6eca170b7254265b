//! `nearwire dataplane`, which is `nearwire bench --topology`: what devices under test carry.

use std::time::SystemTime;

use anyhow::anyhow;
use nearwire_dataplane::bed::Cpus;
use nearwire_dataplane::device::guest::EMULATED;
use nearwire_dataplane::device::{DeviceId, Engine};
use nearwire_dataplane::experiment::{Experiment, Goal, Method, Observer, Results, Rfc2544Times};
use nearwire_dataplane::function::FunctionKind;
use nearwire_dataplane::search::{Pauses, mlr};
use nearwire_dataplane::topology::Topology;
use nearwire_dataplane::traffic::{Family, Flows, Sizes, least_frame_bytes};
use nearwire_report::dataplane::record::{DataplaneRecord, SCHEMA, SCHEMA_VERSION};
use nearwire_report::record::Warning;
use nearwire_report::{
    ensure_writable, render_dataplane_csv, render_dataplane_html, render_dataplane_table, write_record, write_text,
};
use nearwire_sys::affinity::allowed_cpus;
use nearwire_sys::tsc::{Clock, monotonic_raw_ns};
use nearwire_sys::usage::catch_interrupts;

use super::super::{bench, environment};
use super::family;
use crate::args::CableArg;
use crate::args::dataplane::{DataplaneArgs, DataplaneFormat, MethodArg, PortArg};
use crate::exit::{FAILED, Failure, INTERRUPTED, OrExit, Outcome, USAGE};
use crate::output;

/// Sizes of the deck's chart, bytes without FCS.
const SIZES_BYTES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1514];
/// Parts of the throughput at which latency is measured.
const LATENCY_SHARES: [f64; 3] = [0.1, 0.5, 0.9];
/// Trials that a cell may take, and their time: a search that needs more does not converge.
const TRIALS_MOST: usize = 2000;
const TIME_MOST_NS: u64 = 300_000_000_000;

pub fn run(args: &DataplaneArgs) -> Outcome {
    let devices = devices(args)?;
    for file in args.json.iter().chain(&args.report) {
        ensure_writable(file).or_exit(USAGE)?;
    }
    catch_interrupts().or_exit(FAILED)?;
    bench::take_privileges(&CableArg::Virtual)?;
    let (cpus, choice) = cpus_of_parts(args)?;
    let mut notes = Notes { quiet: args.quiet };
    notes.note(choice.as_deref());
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let experiment = experiment(args, devices, cpus)?;
    experiment.check().or_exit(USAGE)?;
    let results = experiment.run(Clock::calibrate(), &mut notes);
    let record = record(&experiment, started_at, cpus, results);
    show(args, &record)?;
    if record.interrupted {
        return Err(Failure::silent(INTERRUPTED));
    }
    let failed = record.cells.iter().find_map(|cell| Some((cell, cell.failure.as_ref()?)));
    match failed {
        Some((cell, why)) => Err(anyhow!("{}, {} bytes: {why}", cell.device, cell.sizes)).or_exit(FAILED),
        None => Ok(()),
    }
}

/// CPUs for all parts: those that were asked for, or that the host's topology suggests, and why.
fn cpus_of_parts(args: &DataplaneArgs) -> Result<(Cpus, Option<String>), Failure> {
    let (cpus, choice) = bench::cpus(args.cpus, &CableArg::Virtual)?;
    let cpus =
        cpus.ok_or_else(|| anyhow!("this host's CPUs are not known; name two with --cpus A,B")).or_exit(USAGE)?;
    let (tester, device) = (cpus.initiator, cpus.responder);
    let first_free = |used: &[u32]| allowed_cpus().into_iter().find(|cpu| !used.contains(cpu));
    let second_device = args.second_cpu.or_else(|| first_free(&[tester, device])).unwrap_or(device);
    // Without a device the second CPU is free for the sink; else one that nobody has.
    let sink = match (args.topology.has_device(), args.dual) {
        (false, _) => Some(device).filter(|cpu| *cpu != tester),
        (true, false) => first_free(&[tester, device]),
        (true, true) => first_free(&[tester, device, second_device]),
    };
    Ok((Cpus { tester, sink, device, second_device }, choice))
}

/// Lines on standard error.
struct Notes {
    quiet: bool,
}

impl Notes {
    fn note(&self, line: Option<&str>) {
        if let Some(line) = line.filter(|_| !self.quiet) {
            output::note(line);
        }
    }
}

impl Observer for Notes {
    fn begins(&mut self, device: &str, sizes: &str, nth: usize, of: usize) {
        self.note(Some(&format!("{nth} of {of}: {device}, {sizes} bytes")));
    }
}

/// Those that were given, if the topology has a place for each, or its bridges.
fn devices(args: &DataplaneArgs) -> Result<Vec<DeviceId>, Failure> {
    if !args.topology.has_device() && (args.dual || !args.device.is_empty()) {
        return Err(anyhow!("{} has no device in the middle; leave out --device and --dual", args.topology))
            .or_exit(USAGE);
    }
    for device in &args.device {
        args.topology.check(*device).or_exit(USAGE)?;
    }
    if !args.device.is_empty() {
        return Ok(args.device.clone());
    }
    let ours_and_the_kernel = [[Engine::Xdp, Engine::Kernel], [Engine::GuestXdp, Engine::GuestKernel]];
    let engines = ours_and_the_kernel[usize::from(args.topology == Topology::PortVmPort)];
    Ok(engines.map(|engine| DeviceId { function: FunctionKind::L2, engine }).to_vec())
}

fn experiment(args: &DataplaneArgs, devices: Vec<DeviceId>, cpus: Cpus) -> Result<Experiment, Failure> {
    let family = family(&args.traffic);
    let trial_ns = args.trial.map(|trial| trial.as_nanos() as u64);
    let method = match args.method {
        MethodArg::Mlrsearch => mlr_search(args, trial_ns.unwrap_or(50_000_000)),
        MethodArg::Rfc2544 => Method::Rfc2544(trial_ns.map_or(Rfc2544Times::STRICT, |trial_ns| Rfc2544Times {
            trial_ns,
            pauses: Pauses { residual_ns: trial_ns.min(Pauses::STRICT.residual_ns), settle_ns: 0 },
            ..Rfc2544Times::STRICT
        })),
    };
    Ok(Experiment {
        topology: args.topology,
        devices,
        is_dual: args.dual,
        sizes: sizes(args, family)?,
        family,
        flows: Flows::try_from(args.traffic.flows).or_exit(USAGE)?,
        vlan: args.traffic.vlan,
        method,
        latency_shares: LATENCY_SHARES.to_vec(),
        latency_trial_ns: 5 * trial_ns.unwrap_or(50_000_000),
        cpus,
        tester_is_xdp: args.port == PortArg::Xdp,
        mtu_bytes: args.mtu,
        token: (monotonic_raw_ns() >> 10) as u16,
    })
}

/// Those that were given, or the deck's; the shortest that has room for headers in place of a shorter one.
fn sizes(args: &DataplaneArgs, family: Family) -> Result<Vec<Sizes>, Failure> {
    if !args.size.is_empty() {
        return Ok(args.size.clone());
    }
    let least_bytes = least_frame_bytes(family, args.traffic.vlan.is_some());
    SIZES_BYTES.iter().map(|&bytes| Sizes::new(vec![bytes.max(least_bytes)]).or_exit(USAGE)).collect()
}

fn mlr_search(args: &DataplaneArgs, trial_ns: u64) -> Method {
    let goal = |name: &str, loss_ratio: f64, latency: Option<mlr::LatencyBound>| Goal {
        name: name.to_owned(),
        goal: mlr::Goal {
            loss_ratio,
            latency,
            initial_trial_ns: trial_ns,
            final_trial_ns: trial_ns,
            duration_sum_ns: trial_ns * u64::from(args.trials),
            exceed_ratio: 0.5,
            width: args.width / 100.0,
        },
    };
    let bound = args.latency_goal.map(|bound| {
        let name = format!("p{} {} us", bound.percentile, bound.at_most_ns as f64 / 1e3);
        let bound = mlr::LatencyBound { percentile: bound.percentile, at_most_ns: bound.at_most_ns };
        goal(&name, 0.005, Some(bound))
    });
    let goals = bound.into_iter().chain([goal("NDR", 0.0, None), goal("PDR", 0.005, None)]).collect();
    Method::MlrSearch { goals, trials_most: TRIALS_MOST, time_most_ns: TIME_MOST_NS }
}

fn record(experiment: &Experiment, started_at: String, cpus: Cpus, results: Results) -> DataplaneRecord {
    let warnings = shared_cpu(experiment, cpus).into_iter().chain(emulated_guest(&results)).collect();
    DataplaneRecord {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        nearwire_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        command: std::env::args().collect(),
        interrupted: results.is_interrupted,
        topology: format!("{}{}", experiment.topology, if experiment.is_dual { ", dual DUT" } else { "" }),
        cable: "virtual cables".to_owned(),
        method: experiment.method(),
        traffic: experiment.traffic(),
        goals: experiment.goals(),
        cells: results.cells,
        environment: environment::of_host(),
        warnings,
    }
}

fn shared_cpu(experiment: &Experiment, cpus: Cpus) -> Option<Warning> {
    let Cpus { tester, device, second_device, .. } = cpus;
    let shared = match () {
        () if !experiment.topology.has_device() => None,
        () if tester == device => Some(("generator, sink and device", device)),
        () if experiment.is_dual && device == second_device => Some(("both devices", device)),
        () if experiment.is_dual && tester == second_device => Some(("generator, sink and the second device", tester)),
        () => None,
    };
    shared.map(|(parts, cpu)| Warning {
        code: "shared-cpu".to_owned(),
        text: format!("{parts} shared CPU {cpu}: each waits for the others"),
        advice: "give them CPUs of their own with --cpus A,B and --second-cpu C".to_owned(),
    })
}

fn emulated_guest(results: &Results) -> Option<Warning> {
    let mut parts = results.cells.iter().flat_map(|cell| &cell.parts);
    parts.any(|part| part.detail.contains(EMULATED)).then(|| Warning {
        code: "emulated-guest".to_owned(),
        text: "guests were emulated in software: they did what is told here, and how fast says nothing of a guest on a processor".to_owned(),
        advice: "measure where /dev/kvm runs guests; each cell says why it did not here".to_owned(),
    })
}

/// Prints the record and writes its files. A failure of one does not stop the others, so that no measurement is lost.
fn show(args: &DataplaneArgs, record: &DataplaneRecord) -> Outcome {
    let json = args.json.as_ref().map_or(Ok(()), |file| write_record(file, record).or_exit(FAILED));
    let page = args.report.as_ref().map_or(Ok(()), |file| {
        let page = render_dataplane_html(std::slice::from_ref(record)).or_exit(FAILED)?;
        write_text(file, &page).or_exit(FAILED)
    });
    print(args, record).and(json).and(page)
}

fn print(args: &DataplaneArgs, record: &DataplaneRecord) -> Outcome {
    output::print(&match args.format {
        DataplaneFormat::Table => render_dataplane_table(record, output::table_options()),
        DataplaneFormat::Csv => render_dataplane_csv(record),
        DataplaneFormat::Json => serde_json::to_string_pretty(record).or_exit(FAILED)? + "\n",
    })
}
