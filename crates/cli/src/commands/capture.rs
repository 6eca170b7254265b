//! `nearwire capture`: the frames of an interface in a file.
//!
//! Through AF_PACKET, which copies: the traffic goes its way as without. What passes an AF_XDP socket is not seen, neither way:
//! the XDP program takes frames before (`do_xdp_generic` of net/core/dev.c too), and sent ones go to the driver directly
//! (`__dev_direct_xmit`).

use std::fs::File;
use std::io::BufWriter;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nearwire_frames::capture::{Direction, PcapngWriter};
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::Steer;
use nearwire_frames::steering::{Filter, FlowFilter, FrameFilter, Transport};
use nearwire_frames::{Port, PortError, RawPort};
use nearwire_sys::usage::{catch_interrupts, interrupted};

use super::status;
use crate::args::{CaptureArgs, FlowArg};
use crate::exit::{CANNOT, FAILED, Failure, OrExit, Outcome, USAGE};
use crate::output;

/// Time between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);
const OUTPUT_BUFFER_BYTES: usize = 1 << 20;

pub fn run(args: &CaptureArgs) -> Outcome {
    catch_interrupts().context("catch Ctrl-C").or_exit(FAILED)?;
    let mut port = open(args)?;
    let file =
        File::create(&args.output).with_context(|| format!("create {}", args.output.display())).or_exit(FAILED)?;
    let output = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, file);
    let wrote = || format!("write {}", args.output.display());
    let mut writer =
        PcapngWriter::start(output, Some(&args.interface), &port.describe()).with_context(wrote).or_exit(FAILED)?;
    output::note(&format!("capturing on {}; Ctrl-C ends it", args.interface));
    for (pid, name) in status::programs_on(&args.interface) {
        output::note(&format!("nearwire: accelerated traffic of {name} (process {pid}) is not seen here"));
    }
    let ended = copy(args, &mut port, &mut writer);
    let statistics = port.statistics();
    let dropped_frames = statistics.receive_dropped_frames;
    let (Ok((count, now_ns)) | Err(((count, now_ns), _))) = ended;
    writer.finish(now_ns, count + dropped_frames, dropped_frames).with_context(wrote).or_exit(FAILED)?;
    output::print(&format!("{count} frames in {}, {dropped_frames} dropped\n", args.output.display()))?;
    match ended {
        Ok(_) => Ok(()),
        Err((_, error)) => Err(error).context("the capture ended early; its file is whole").or_exit(FAILED),
    }
}

fn open(args: &CaptureArgs) -> Result<PacketPort, Failure> {
    let filters = filters(args);
    let steer = if filters.is_empty() { Steer::All } else { Steer::Filters };
    let config =
        PacketConfig { outgoing: !args.inbound, ring_slots: args.ring, ..PacketConfig::new(&args.interface, steer) };
    let mut port = PacketPort::open(&config).map_err(|error| {
        let wrong = matches!(error, PortError::NoSuchInterface { .. } | PortError::Config { .. });
        Failure { code: if wrong { USAGE } else { CANNOT }, error: Some(anyhow!(error)) }
    })?;
    for filter in filters {
        port.add_filter(filter).or_exit(USAGE)?;
    }
    Ok(port)
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
    // The same given twice is the same.
    filters.sort_unstable();
    filters.dedup();
    filters
}

/// How many frames were written, and when it ended, nanoseconds since 1970.
type Count = (u64, u64);

/// Writes frames until there are enough, time is over, or somebody ends it.
fn copy(
    args: &CaptureArgs,
    port: &mut PacketPort,
    writer: &mut PcapngWriter<BufWriter<File>>,
) -> Result<Count, (Count, anyhow::Error)> {
    let end = args.time.and_then(|time| Instant::now().checked_add(time));
    let mut count = 0;
    let over = |count: u64| interrupted() || args.count == Some(count) || end.is_some_and(|end| Instant::now() >= end);
    while !over(count) && writer.failed().is_none() {
        match step(port, writer) {
            Ok(true) => count += 1,
            Ok(false) => {
                let left = end.map_or(LOOK, |end| LOOK.min(end.saturating_duration_since(Instant::now())));
                // A signal ends the wait; the next look sees it.
                let _ = port.wait(Some(left));
            }
            Err(error) => return Err(((count, now_ns()), error.into())),
        }
    }
    Ok((count, now_ns()))
}

/// Writes one frame. `false`: there is none.
fn step(port: &mut PacketPort, writer: &mut PcapngWriter<BufWriter<File>>) -> Result<bool, PortError> {
    let Some(frame) = port.lend()? else { return Ok(false) };
    let direction = if frame.outgoing { Direction::Outbound } else { Direction::Inbound };
    let time_ns = frame.stamp.map_or_else(now_ns, |stamp| stamp.time_ns);
    writer.frame(time_ns, direction, frame.bytes);
    port.give_back()?;
    Ok(true)
}

fn now_ns() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since_1970.as_nanos() as u64
}
