//! `nearwire capture`: writes the frames of an interface, or of an accelerated process, to a file.

mod interface;
mod process;
mod seccomp;
mod target;

use std::fs::File;
use std::io::BufWriter;
use std::time::{Duration, Instant};

use anyhow::Context;
use nearwire_frames::capture::PcapngWriter;
use nearwire_frames::steering::{Filter, FlowFilter, FrameFilter, Transport};
use nearwire_sys::usage::{catch_interrupts, interrupted};

use crate::args::{CaptureArgs, FlowArg};
use crate::exit::{FAILED, Failure, OrExit, Outcome};

/// Time between two checks whether the capture is over.
const LOOK: Duration = Duration::from_millis(50);
const OUTPUT_BUFFER_BYTES: usize = 1 << 20;

type Output = BufWriter<File>;
type Writer = PcapngWriter<Output>;

pub fn run(args: &CaptureArgs) -> Outcome {
    catch_interrupts().context("catch Ctrl-C").or_exit(FAILED)?;
    match (args.pid, &args.interface) {
        (Some(pid), _) => process::run(args, pid),
        (None, interface) => interface::run(args, interface.as_deref().unwrap_or_default()),
    }
}

fn create(args: &CaptureArgs) -> Result<Output, Failure> {
    let file =
        File::create(&args.output).with_context(|| format!("create {}", args.output.display())).or_exit(FAILED)?;
    Ok(BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, file))
}

/// When a capture ends.
struct Limits {
    count: Option<u64>,
    end: Option<Instant>,
}

impl Limits {
    fn start(args: &CaptureArgs) -> Limits {
        Limits { count: args.count, end: args.time.and_then(|time| Instant::now().checked_add(time)) }
    }

    /// As many frames were captured as were asked for.
    fn has_enough(&self, count: u64) -> bool {
        self.count == Some(count)
    }

    /// The time is over, or Ctrl-C was pressed.
    fn is_over(&self) -> bool {
        interrupted() || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// `most`, or the time that is left, if that is shorter.
    fn rest(&self, most: Duration) -> Duration {
        self.end.map_or(most, |end| most.min(end.saturating_duration_since(Instant::now())))
    }
}

/// How many bytes of each frame are kept.
fn snap(args: &CaptureArgs) -> usize {
    args.snaplen.map_or(usize::MAX, usize::from)
}

fn filters(args: &CaptureArgs) -> Vec<Filter> {
    let flows = |transport: Transport, flows: &[FlowArg]| -> Vec<Filter> {
        let each = |flow: &FlowArg| {
            let port = flow.port;
            flow.addresses.iter().map(move |&address| Filter::Flow(FlowFilter { transport, address, port })).collect()
        };
        flows.iter().flat_map(|flow| -> Vec<Filter> { each(flow) }).collect()
    };
    let of_type =
        |&ether_type: &u16| Filter::Frame(FrameFilter { ether_type: Some(ether_type), ..FrameFilter::default() });
    let types = args.ether_type.iter().map(of_type);
    let mut filters: Vec<_> =
        flows(Transport::Udp, &args.udp).into_iter().chain(flows(Transport::Tcp, &args.tcp)).chain(types).collect();
    // A filter that is given twice counts once.
    filters.sort_unstable();
    filters.dedup();
    filters
}

fn now_ns() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since_1970.as_nanos() as u64
}
