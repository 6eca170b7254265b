//! `nearwire bench`: from what was typed to an experiment, its record, and what people see.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};

use anyhow::{Context, anyhow};
use nearwire_bench::affinity::allowed_cpus;
use nearwire_bench::bed::TestBed;
use nearwire_bench::engine::{Engine, Results};
use nearwire_bench::experiment::{Amount, CellSpec, Experiment, Workload, check_size};
use nearwire_bench::paths::{ALL, How, PathId, RxMode, Setup, TxMode};
use nearwire_bench::round;
use nearwire_bench::workloads::ping_pong::{RoundPlan, SampleBuffer};
use nearwire_host::Root;
use nearwire_host::topology::{Topology, choose_cpus};
use nearwire_lab::{Cable, LabError, LabErrorKind, LoopbackCable, VirtualCable, VirtualCableOptions};
use nearwire_report::{
    Format, TableOptions, ensure_writable, record, render, render_html, render_table, write_record, write_text,
};
use nearwire_sys::netns::enter_user_namespace;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::catch_interrupts;

use super::environment;
use super::progress::Progress;
use crate::args::bench::BenchArgs;
use crate::args::{CableArg, CpuPair};
use crate::exit::{CANNOT, FAILED, Failure, INTERRUPTED, OrExit, Outcome, USAGE};

pub fn run(args: &BenchArgs) -> Outcome {
    let started_at = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    for file in args.json.iter().chain(&args.report).chain(&args.samples) {
        ensure_writable(file).or_exit(USAGE)?;
    }
    catch_interrupts().or_exit(FAILED)?;
    take_privileges(&args.cable)?;
    let cpus = args.cpus.or_else(default_cpus);
    let pairs = if Workload::from(args.workload) == Workload::Forward { 2 } else { 1 };
    let mut bed = lay(&args.cable, args.token.as_deref(), pairs, cpus)?;
    let clock = Clock::calibrate();
    let mut warnings = Vec::new();
    let cells = cells(args, &mut bed, clock, &mut warnings)?;
    let experiment = experiment(args, cells, cpus);
    let mut progress = Progress::new(args.quiet);
    let mut samples = args.samples.as_ref().map(File::create).transpose().or_exit(USAGE)?.map(BufWriter::new);
    if let Some(file) = &mut samples {
        writeln!(file, "path,tx,rx,size_bytes,ip_version,round,sent_ns,rtt_ns").or_exit(FAILED)?;
    }
    let out = samples.as_mut().map(|file| file as &mut dyn Write);
    let results = Engine::new(&experiment, &mut bed, clock, &mut progress, out).run().or_exit(FAILED)?;
    progress.finish();
    if let Some(mut file) = samples {
        file.flush().context("write the samples").or_exit(FAILED)?;
    }
    warnings.extend(results.warnings.iter().cloned());
    let (interrupted, failure) = (results.interrupted, results.failure.clone());
    let record = record_of(args, started_at, &experiment, &bed, clock, results, warnings)?;
    show(args, &record)?;
    match (interrupted, failure) {
        (true, _) => Err(Failure::silent(INTERRUPTED)),
        (_, Some(why)) => Err(anyhow!(why)).or_exit(FAILED),
        _ if record.runs.iter().all(|run| run.samples == 0) => Err(anyhow!("nothing was measured")).or_exit(FAILED),
        _ => Ok(()),
    }
}

/// Without root, a user namespace gives what the virtual cable needs; some paths stay out of reach.
pub fn take_privileges(cable: &CableArg) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() || *cable != CableArg::Virtual {
        return Ok(());
    }
    enter_user_namespace().context("become root in a user namespace (run as root otherwise)").or_exit(CANNOT)
}

/// Lays the cable and starts or joins the responder.
pub fn lay(cable: &CableArg, token: Option<&str>, pairs: u32, cpus: Option<CpuPair>) -> Result<TestBed, Failure> {
    let cpu = cpus.map(|cpus| cpus.responder);
    let cable: Box<dyn Cable> = match cable {
        CableArg::Virtual => {
            Box::new(VirtualCable::lay(VirtualCableOptions { pairs, ..Default::default() }).map_err(lab_failure)?)
        }
        CableArg::Loopback(near, far) => Box::new(LoopbackCable::lay(near, far).map_err(lab_failure)?),
        CableArg::Host(address) => {
            return TestBed::on_host(address, token.unwrap_or_default(), cpu).or_exit(FAILED);
        }
    };
    let program = std::env::current_exe().context("find this program's own file").or_exit(FAILED)?;
    TestBed::on_cable(cable, &program, cpu).or_exit(FAILED)
}

fn lab_failure(error: LabError) -> Failure {
    let code = match error.kind() {
        LabErrorKind::UnusableInput => USAGE,
        LabErrorKind::HostCannot => CANNOT,
        _ => FAILED,
    };
    Failure { code, error: Some(error.into()) }
}

fn default_cpus() -> Option<CpuPair> {
    let root = Root::live().ok()?;
    let pair = choose_cpus(&Topology::read(&root), &allowed_cpus());
    Some(CpuPair { initiator: pair.first, responder: pair.second })
}

/// Tries a path with three messages.
pub fn probe(bed: &mut TestBed, clock: Clock, path: PathId) -> Result<(), String> {
    let setup = Setup {
        path,
        tx: TxMode::Frame,
        rx: RxMode::InPlace,
        size_bytes: 64,
        ip_version: if bed.local.addresses.iter().any(std::net::IpAddr::is_ipv4) { 4 } else { 6 },
        timeout_ns: 200_000_000,
        busy_poll_us: 50,
        busy_poll_budget_packets: 8,
        pass_program: path.is_busy_poll() && bed.local.interface.as_ref().is_some_and(|i| i.driver == "veth"),
        token: std::process::id(),
        xdp: None,
        forward: false,
        vlan: None,
    };
    let plan = RoundPlan {
        warm_up_messages: 0,
        warm_up_ns: 0,
        messages: Some(3),
        time_ns: None,
        timeout_ns: setup.timeout_ns,
        cpu: None,
    };
    let result = round::run(bed, clock, &setup, &plan, &mut SampleBuffer::new(4)).map_err(|error| error.to_string())?;
    if result.outcome.lost < 3 { Ok(()) } else { Err("messages were sent and none came back".to_owned()) }
}

fn cells(
    args: &BenchArgs,
    bed: &mut TestBed,
    clock: Clock,
    warnings: &mut Vec<record::Warning>,
) -> Result<Vec<CellSpec>, Failure> {
    let named = !args.paths.is_empty();
    let forward = Workload::from(args.workload) == Workload::Forward;
    let wanted = if named { args.paths.clone() } else { ALL.iter().map(|(_, path, _)| *path).collect() };
    let mut cells = Vec::new();
    for path in wanted.into_iter().filter(|path| named || !(forward && path.is_socket())) {
        if forward && path.is_socket() {
            return Err(anyhow!("{path}: the forward workload needs frame paths; give frame/xdp or frame/packet"))
                .or_exit(USAGE);
        }
        if let Err(why) = probe(bed, clock, path) {
            if named {
                return Err(anyhow!("{path} cannot run on this host: {why}")).or_exit(CANNOT);
            }
            warnings.push(record::Warning {
                code: "path-left-out".to_owned(),
                text: format!("{path} cannot run on this host: {why}"),
                advice: "see `nearwire paths`".to_owned(),
            });
            continue;
        }
        add_cells(args, path, named, bed.mtu_bytes(), &mut cells)?;
    }
    Ok(cells)
}

fn add_cells(
    args: &BenchArgs,
    path: PathId,
    named: bool,
    mtu_bytes: u32,
    cells: &mut Vec<CellSpec>,
) -> Result<(), Failure> {
    for &size_bytes in &args.size {
        let versions = if path.is_socket() { args.ip.iter().map(|ip| Some(*ip)).collect() } else { vec![None] };
        for ip_version in versions {
            match check_size(path, size_bytes, ip_version.unwrap_or(4), mtu_bytes) {
                Ok(()) => {}
                Err(error) if named || path.is_socket() => return Err(error).or_exit(USAGE),
                Err(_) => continue,
            }
            for (tx, rx) in modes(args, path) {
                cells.push(CellSpec { path, tx, rx, size_bytes, ip_version });
            }
        }
    }
    Ok(())
}

fn modes(args: &BenchArgs, path: PathId) -> Vec<(Option<TxMode>, Option<RxMode>)> {
    match path.how {
        How::Xdp => {
            let of =
                |tx: &_| args.rx.iter().map(move |rx| (Some(TxMode::from(*tx)), Some(RxMode::from(*rx)))).collect();
            args.tx.iter().flat_map(|tx| -> Vec<_> { of(tx) }).collect()
        }
        How::Packet => vec![(Some(TxMode::Frame), Some(RxMode::InPlace))],
        _ => vec![(None, None)],
    }
}

fn experiment(args: &BenchArgs, cells: Vec<CellSpec>, cpus: Option<CpuPair>) -> Experiment {
    Experiment {
        cells,
        workload: args.workload.into(),
        amount: match args.count {
            Some(count) => Amount::Messages(count),
            None => Amount::TimeNs(args.time.as_nanos() as u64),
        },
        rounds: args.rounds,
        warm_up_messages: args.warm_up,
        warm_up_ns: args.warm_up_time.as_nanos() as u64,
        timeout_ns: args.timeout.as_nanos() as u64,
        seed: args.seed.unwrap_or_else(nearwire_sys::tsc::monotonic_raw_ns),
        cpu_initiator: cpus.map(|cpus| cpus.initiator),
        cpu_responder: cpus.map(|cpus| cpus.responder),
        busy_poll_us: args.busy_poll,
        busy_poll_budget_packets: args.busy_poll_budget,
        vlan: args.vlan,
    }
}

fn record_of(
    args: &BenchArgs,
    started_at: String,
    experiment: &Experiment,
    bed: &TestBed,
    clock: Clock,
    results: Results,
    mut warnings: Vec<record::Warning>,
) -> Result<record::Record, Failure> {
    let interfaces = bed.interfaces();
    let initiator = bed.enter(|| environment::read(&interfaces)).or_exit(FAILED)?;
    if let (Some(a), Some(b)) = (experiment.cpu_initiator, bed.responder.cpu)
        && bed.responder.same_machine
        && a == b
    {
        warnings.push(record::Warning {
            code: "shared-core".to_owned(),
            text: format!("both ends ran on CPU {a}: spinning paths wait for each other's time slice"),
            advice: "give two CPUs with --cpus A,B".to_owned(),
        });
    }
    Ok(record::Record {
        schema: record::SCHEMA.to_owned(),
        schema_version: record::SCHEMA_VERSION,
        nearwire_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        command: std::env::args().collect(),
        interrupted: results.interrupted,
        experiment: record::Experiment {
            workload: experiment.workload.name().to_owned(),
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
            seed: experiment.seed,
            fault: None,
        },
        clock: record::Clock {
            source: clock.source().name().to_owned(),
            hz: clock.hz(),
            stamp_cost_ns: clock.stamp_cost_ns(),
            drift_ppm: clock.drift_ppm(),
            reason: clock.reason().to_owned(),
        },
        machine: results.machine,
        environment: record::Environment { initiator, responder: bed.responder.environment.clone() },
        runs: results.runs,
        warnings,
    })
}

fn show(args: &BenchArgs, record: &record::Record) -> Outcome {
    if let Some(file) = &args.json {
        write_record(file, record).or_exit(FAILED)?;
    }
    if let Some(file) = &args.report {
        let page = render_html(std::slice::from_ref(record)).or_exit(FAILED)?;
        write_text(file, &page).or_exit(FAILED)?;
    }
    let terminal = std::io::stdout().is_terminal();
    let text = match args.format {
        Format::Table => render_table(record, TableOptions { colour: terminal, ..TableOptions::default() }),
        format => render(record, format).or_exit(FAILED)?,
    };
    std::io::stdout().write_all(text.as_bytes()).context("print the results").or_exit(FAILED)
}
