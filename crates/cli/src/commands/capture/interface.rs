//! Captures the frames of an interface.
//!
//! AF_PACKET gives copies, so the traffic itself is not changed. Frames of AF_XDP sockets are not seen in either direction: the XDP
//! program takes received frames before AF_PACKET sees them (also in generic mode, `do_xdp_generic` of net/core/dev.c), and sent
//! frames go to the driver directly (`__dev_direct_xmit`).

use anyhow::{Context, anyhow};
use nearwire_frames::capture::{CaptureInterface, CapturePacket, Direction, PcapngWriter};
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::Steer;
use nearwire_frames::{Port, PortError, RawPort};

use super::{LOOK, Limits, Writer, create, filters, now_ns, snap};
use crate::args::CaptureArgs;
use crate::commands::status;
use crate::exit::{CANNOT, FAILED, Failure, OrExit, Outcome, USAGE};
use crate::output;

pub fn run(args: &CaptureArgs, interface: &str) -> Outcome {
    let mut port = open(args, interface)?;
    let wrote = || format!("write {}", args.output.display());
    let mut writer = PcapngWriter::start_section(create(args)?).with_context(wrote).or_exit(FAILED)?;
    let snap_bytes = args.snaplen.map_or(0, u32::from);
    writer.interface(&CaptureInterface { name: Some(interface), description: &port.describe(), snap_bytes });
    output::note(&format!("capturing on {interface}; Ctrl-C ends it"));
    for (pid, name) in status::programs_on(interface) {
        output::note(&format!(
            "nearwire: accelerated traffic of {name} (process {pid}) is not captured here; nearwire capture --pid {pid} captures it"
        ));
    }
    let ended = copy(args, &mut port, &mut writer);
    let statistics = port.statistics();
    let dropped_frames = statistics.receive_dropped_frames;
    let (Ok((count, now_ns)) | Err(((count, now_ns), _))) = ended;
    writer.finish(now_ns, count + dropped_frames, dropped_frames).with_context(wrote).or_exit(FAILED)?;
    output::print(&format!("{count} frames in {}, {dropped_frames} dropped\n", args.output.display()))?;
    match ended {
        Ok(_) => Ok(()),
        Err((_, error)) => Err(error).context("the capture ended early; its file is complete").or_exit(FAILED),
    }
}

fn open(args: &CaptureArgs, interface: &str) -> Result<PacketPort, Failure> {
    let filters = filters(args);
    let steer = if filters.is_empty() { Steer::All } else { Steer::Filters };
    let config = PacketConfig { outgoing: !args.inbound, ring_slots: args.ring, ..PacketConfig::new(interface, steer) };
    let mut port = PacketPort::open(&config).map_err(|error| {
        let wrong = matches!(error, PortError::NoSuchInterface { .. } | PortError::Config { .. });
        Failure { code: if wrong { USAGE } else { CANNOT }, error: Some(anyhow!(error)) }
    })?;
    for filter in filters {
        port.add_filter(filter).or_exit(USAGE)?;
    }
    Ok(port)
}

/// How many frames were written, and when the capture ended, nanoseconds since 1970.
type Count = (u64, u64);

/// Writes frames until there are enough, the time is over, or Ctrl-C is pressed.
fn copy(args: &CaptureArgs, port: &mut PacketPort, writer: &mut Writer) -> Result<Count, (Count, anyhow::Error)> {
    let limits = Limits::start(args);
    let mut count = 0;
    // Frames that are in the ring at the end came before it and are written: at most as many as the ring holds, since more may arrive all the
    // time.
    let mut left_at_end = args.ring;
    while !limits.has_enough(count) && left_at_end > 0 && writer.failed().is_none() {
        let is_over = limits.is_over();
        left_at_end -= u32::from(is_over);
        match step(port, writer, snap(args)) {
            Ok(true) => count += 1,
            Ok(false) if is_over => break,
            Ok(false) => {
                // A signal ends the wait, and the next check sees it.
                let _ = port.wait(Some(limits.rest(LOOK)));
            }
            Err(error) => return Err(((count, now_ns()), error.into())),
        }
    }
    Ok((count, now_ns()))
}

/// Writes one frame. `false`: there was none.
fn step(port: &mut PacketPort, writer: &mut Writer, snap_bytes: usize) -> Result<bool, PortError> {
    let Some(frame) = port.lend()? else { return Ok(false) };
    writer.packet(&CapturePacket {
        interface: 0,
        time_ns: frame.stamp.map_or_else(now_ns, |stamp| stamp.time_ns),
        direction: if frame.outgoing { Direction::Outbound } else { Direction::Inbound },
        bytes: &frame.bytes[..frame.bytes.len().min(snap_bytes)],
        frame_bytes: frame.bytes.len() as u32,
    });
    port.give_back()?;
    Ok(true)
}
