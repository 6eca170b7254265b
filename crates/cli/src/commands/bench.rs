//! `nearwire bench`: makes an experiment of the arguments, runs it, and writes its record and the output.

mod record;
mod vary;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use nearwire_bench::bed::TestBed;
use nearwire_bench::cells::{CellError, LeftOut, Rates, Wish, cells};
use nearwire_bench::engine::{Engine, Observer};
use nearwire_bench::experiment::{Amount, Experiment};
use nearwire_bench::paths::{RxMode, TxMode};
use nearwire_bench::workloads::load::Arrivals;
use nearwire_bench::workloads::{AnyWorkload, Forward, Load, PingPong, Stream};
use nearwire_host::Root;
use nearwire_host::topology::{Topology, choose_cpus};
use nearwire_lab::{Cable, GuardedCable, LabError, LabErrorKind, VirtualCable, VirtualCableOptions};
use nearwire_report::record::{Latency, Record, Warning};
use nearwire_report::{
    Format, RenderError, TableOptions, ensure_writable, render, render_html, render_table, write_record, write_text,
};
use nearwire_sys::affinity::allowed_cpus;
use nearwire_sys::netns::enter_user_namespace;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::{catch_every_interrupt, catch_interrupts};
use nearwire_worth::vary::Variations;

use self::record::{Described, not_put_back};
use super::progress::Progress;
use crate::args::bench::{BenchArgs, WorkloadArg};
use crate::args::{CableArg, CpuPair};
use crate::exit::{CANNOT, FAILED, Failure, INTERRUPTED, OrExit, Outcome, USAGE};
use crate::output;

pub fn run(args: &BenchArgs) -> Outcome {
    check_workload(args)?;
    for file in args.json.iter().chain(&args.report).chain(&args.samples) {
        ensure_writable(file).or_exit(USAGE)?;
    }
    // What was varied is to be put back whatever comes.
    let catch = if args.vary.is_empty() { catch_interrupts } else { catch_every_interrupt };
    catch().or_exit(FAILED)?;
    take_privileges(&args.cable)?;
    let (cpus, cpu_choice) = cpus(args.cpus, &args.cable)?;
    let pairs = if workload(args, 0).uses_two_cables() { 2 } else { 1 };
    let options = VirtualCableOptions { pairs, mtu_bytes: args.mtu, ..Default::default() };
    let mut bed = lay(&args.cable, args.token.as_deref(), options, cpus)?;
    let measured = measure(args, &mut bed, cpus, cpu_choice);
    let put_back = bed.take_up();
    let Measured { mut record, failure } = match (measured, &put_back) {
        (Ok(measured), _) => measured,
        (Err(failure), Ok(())) => return Err(failure),
        (Err(failure), Err(error)) => {
            eprintln!("nearwire: {error}");
            return Err(failure);
        }
    };
    record.warnings.extend(put_back.as_ref().err().map(not_put_back));
    show(args, &record)?;
    match failure {
        _ if record.interrupted => Err(Failure::silent(INTERRUPTED)),
        Some(why) => Err(anyhow!(why)).or_exit(FAILED),
        None if record.runs.iter().all(|run| run.samples == 0) => Err(anyhow!("nothing was measured")).or_exit(FAILED),
        None => put_back.or_exit(FAILED),
    }
}

/// What is of one workload only is refused with another: it would change nothing, and nobody would see that.
fn check_workload(args: &BenchArgs) -> Outcome {
    let of_args = workload(args, 0);
    if of_args.latency() != Latency::HalfRtt && !args.format.is_of_any_workload() {
        let (format, workload) = (args.format, of_args.name().to_owned());
        return Err(RenderError::NotOfPingPong { format, workload }).or_exit(USAGE);
    }
    if args.workload == WorkloadArg::Load {
        return Ok(());
    }
    let given = [("--rate", args.rate.is_some()), ("--arrivals", args.arrivals.is_some())];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(anyhow!("{option} is of --workload load; give both, or neither")).or_exit(USAGE),
        None => Ok(()),
    }
}

/// The result of an experiment, complete or not.
struct Measured {
    record: Record,
    /// Why the experiment ended early, if it did.
    failure: Option<String>,
}

fn measure(
    args: &BenchArgs,
    bed: &mut TestBed,
    cpus: Option<CpuPair>,
    cpu_choice: Option<String>,
) -> Result<Measured, Failure> {
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let clock = Clock::calibrate();
    let mut experiment = experiment(args, cpus);
    let (mut variations, values) = vary::variations(args, bed)?.unzip();
    experiment.variations = values.unwrap_or_default();
    let (cells, left_out) = cells(&wish(args), &experiment, bed, clock).map_err(cell_failure)?;
    experiment.cells = cells;
    let mut progress = Progress::new(args.quiet);
    if let Some(choice) = &cpu_choice {
        progress.note(choice);
    }
    let mut samples = args.samples.as_ref().map(File::create).transpose().or_exit(USAGE)?.map(BufWriter::new);
    let out = samples.as_mut().map(|file| file as &mut dyn Write);
    let engine = Engine::new(&experiment, bed, clock, &mut progress, out);
    let mut results = match &mut variations {
        Some(variations) => engine.with_settings(&mut vary::Writer(variations)).run(),
        None => engine.run(),
    };
    progress.finish();
    if let Some(Err(error)) = variations.as_mut().map(Variations::put_back) {
        results.failure = Some(error.to_string());
    }
    results.warnings.splice(0..0, left_out.into_iter().map(left_out_warning));
    let failure = results.failure.take();
    let described = Described { args, started_at, experiment: &experiment, cpu_choice, bed, clock };
    Ok(Measured { record: described.record(results)?, failure })
}

/// Without root, a user namespace has what the virtual cable needs; some paths cannot run there.
pub fn take_privileges(cable: &CableArg) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() || *cable != CableArg::Virtual {
        return Ok(());
    }
    enter_user_namespace().context("become root in a user namespace (run as root otherwise)").or_exit(CANNOT)
}

/// Lays the cable, a virtual one by `options`, and starts or joins the responder.
pub fn lay(
    cable: &CableArg,
    token: Option<&str>,
    options: VirtualCableOptions,
    cpus: Option<CpuPair>,
) -> Result<TestBed, Failure> {
    let cpu = cpus.map(|cpus| cpus.responder);
    let program = std::env::current_exe().context("find this program's own file").or_exit(FAILED)?;
    let cable: Box<dyn Cable> = match cable {
        CableArg::Virtual => Box::new(VirtualCable::lay(options).map_err(lab_failure)?),
        CableArg::Loopback(near, far) => {
            let mut guardian = Command::new(&program);
            guardian.args(["lend", near, far]);
            Box::new(GuardedCable::lay(guardian).map_err(lab_failure)?)
        }
        CableArg::Host(address) => {
            return TestBed::on_host(address, token.unwrap_or_default(), cpu).or_exit(FAILED);
        }
    };
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

/// The CPUs that were asked for, or those that the topology suggests, and why.
pub fn cpus(asked: Option<CpuPair>, cable: &CableArg) -> Result<(Option<CpuPair>, Option<String>), Failure> {
    let allowed = allowed_cpus();
    if let Some(cpus) = asked {
        let far_is_here = !matches!(cable, CableArg::Host(_));
        let own = [Some(cpus.initiator), far_is_here.then_some(cpus.responder)];
        if let Some(cpu) = own.into_iter().flatten().find(|cpu| !allowed.contains(cpu)) {
            let message =
                anyhow!("pin to CPU {cpu}: this process may run on {allowed:?} only; give two of them with --cpus");
            return Err(message).or_exit(USAGE);
        }
        return Ok((Some(cpus), None));
    }
    let Ok(root) = Root::live() else {
        return Ok((None, None));
    };
    let pair = choose_cpus(&Topology::read(&root), &allowed);
    Ok((Some(CpuPair { initiator: pair.first, responder: pair.second }), Some(pair.explanation)))
}

fn wish(args: &BenchArgs) -> Wish {
    Wish {
        paths: args.paths.clone(),
        through_sockets: args.through_sockets,
        sizes_bytes: args.size.clone(),
        tx: args.tx.iter().map(|tx| TxMode::from(*tx)).collect(),
        rx: args.rx.iter().map(|rx| RxMode::from(*rx)).collect(),
        ip_versions: args.ip.clone(),
        rates: rates(args),
    }
}

pub fn cell_failure(error: CellError) -> Failure {
    let code = if matches!(error, CellError::CannotRun { .. }) { CANNOT } else { USAGE };
    Failure { code, error: Some(error.into()) }
}

fn left_out_warning(left_out: LeftOut) -> Warning {
    Warning {
        code: "path-left-out".to_owned(),
        text: format!("{} cannot run on this host: {}", left_out.path, left_out.why),
        advice: "see `nearwire paths`".to_owned(),
    }
}

fn rates(args: &BenchArgs) -> Rates {
    const DEFAULT_PER_SECOND: u64 = 10_000;
    match args.workload {
        WorkloadArg::PingPong | WorkloadArg::Forward | WorkloadArg::Stream => Rates::None,
        WorkloadArg::Load => args.rate.clone().unwrap_or_else(|| Rates::Given(vec![DEFAULT_PER_SECOND])),
    }
}

fn workload(args: &BenchArgs, seed: u64) -> AnyWorkload {
    match args.workload {
        WorkloadArg::PingPong => AnyWorkload::PingPong(PingPong {}),
        WorkloadArg::Forward => AnyWorkload::Forward(Forward {}),
        WorkloadArg::Stream => AnyWorkload::Stream(Stream {}),
        WorkloadArg::Load => {
            // Cells have the rates.
            let arrivals = args.arrivals.unwrap_or(Arrivals::Poisson);
            AnyWorkload::Load(Load { rate_per_second: 1, arrivals, seed })
        }
    }
}

fn experiment(args: &BenchArgs, cpus: Option<CpuPair>) -> Experiment {
    let seed = args.seed.unwrap_or_else(nearwire_sys::tsc::monotonic_raw_ns);
    Experiment {
        cells: Vec::new(),
        workload: workload(args, seed),
        amount: match args.count {
            Some(count) => Amount::Messages(count),
            None => Amount::TimeNs(args.time.as_nanos() as u64),
        },
        rounds: args.rounds,
        warm_up_messages: args.warm_up,
        warm_up_ns: args.warm_up_time.as_nanos() as u64,
        timeout_ns: args.timeout.as_nanos() as u64,
        seed,
        cpu_initiator: cpus.map(|cpus| cpus.initiator),
        cpu_responder: cpus.map(|cpus| cpus.responder),
        busy_poll_us: args.busy_poll,
        busy_poll_budget_packets: args.busy_poll_budget,
        vlan: args.vlan,
        fault: args.fault,
        xdp_mode: args.xdp.map(Into::into),
        variations: Vec::new(),
    }
}

/// Prints the record and writes its files. A failure of one does not stop the others, so that no measurement is lost.
fn show(args: &BenchArgs, record: &Record) -> Outcome {
    let json = args.json.as_ref().map_or(Ok(()), |file| write_record(file, record).or_exit(FAILED));
    let page = args.report.as_ref().map_or(Ok(()), |file| {
        let page = render_html(std::slice::from_ref(record)).or_exit(FAILED)?;
        write_text(file, &page).or_exit(FAILED)
    });
    print(args, record).and(json).and(page)
}

fn print(args: &BenchArgs, record: &Record) -> Outcome {
    output::print(&match args.format {
        Format::Table => render_table(record, TableOptions { intervals: args.intervals, ..output::table_options() }),
        format => render(record, format).or_exit(FAILED)?,
    })
}
