//! `nearwire sink`: counts what a generator sends.

use anyhow::anyhow;
use nearwire_dataplane::ports::{Taken, open_packet, open_xdp};
use nearwire_dataplane::tester::{Heard, listen};
use nearwire_dataplane::traffic::Family;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::Side;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::{catch_interrupts, interrupted};

use super::{check_interface, pin, tester_failure, text};
use crate::args::dataplane::{PortArg, SinkArgs};
use crate::exit::{CANNOT, FAILED, Failure, INTERRUPTED, OrExit, Outcome};
use crate::output;

pub fn run(args: &SinkArgs) -> Outcome {
    check_interface(&args.interface)?;
    catch_interrupts().or_exit(FAILED)?;
    pin(args.cpu)?;
    let taken = Taken::TestTraffic;
    match args.port {
        PortArg::Xdp => receive(args, open_xdp(&args.interface, Side::Far, taken).or_exit(CANNOT)?),
        PortArg::Packet => receive(args, open_packet(&args.interface, taken).or_exit(CANNOT)?),
    }
}

fn receive(args: &SinkArgs, mut port: impl Port) -> Outcome {
    if !args.quiet {
        output::note(&format!("waiting for a generator on {}; Ctrl-C ends it", port.describe()));
    }
    let heard = listen(&mut port, Clock::calibrate(), args.same_host, args.time, text::progress(args.quiet));
    let heard = heard.map_err(tester_failure)?;
    let dropped_frames = port.statistics().receive_dropped_frames;
    match heard {
        Some(heard) => output::print(&report(&heard, dropped_frames))?,
        None if interrupted() => {}
        None => return Err(anyhow!("no generator was heard on {}", args.interface)).or_exit(FAILED),
    }
    if interrupted() { Err(Failure::silent(INTERRUPTED)) } else { Ok(()) }
}

fn report(heard: &Heard, dropped_frames: u64) -> String {
    let traffic = &heard.traffic;
    let version = if traffic.family == Family::V4 { 4 } else { 6 };
    let flows = traffic.flows.count();
    let mut report = format!("frames of {} bytes, IPv{version}, {flows} flows\n", traffic.sizes);
    report += &text::received(&heard.trial);
    if !heard.is_sent_known {
        report += "the generator's end was not heard: frames behind the last that came are not counted as lost\n";
    }
    if dropped_frames > 0 {
        report += &format!("{dropped_frames} frames had no room in the sink's own ring: the sink was too slow\n");
    }
    report
}
