//! `nearwire generate`: sends numbered frames, and counts what comes back where it has a sink.

use nearwire_dataplane::ports::{Taken, open_packet, open_xdp};
use nearwire_dataplane::tester::{Tester, generate};
use nearwire_dataplane::traffic::{Hops, Traffic};
use nearwire_dataplane::trial::{Testbed, TrialPlan};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::Side;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::{catch_interrupts, interrupted};
use nearwire_wire::MacAddress;

use super::{check_interface, pin, tester_failure, text, traffic};
use crate::args::dataplane::{GenerateArgs, PortArg};
use crate::exit::{CANNOT, FAILED, Failure, INTERRUPTED, OrExit, Outcome, USAGE};
use crate::output;

/// Wait for frames that are still on their way.
const RESIDUAL_NS: u64 = 500_000_000;

pub fn run(args: &GenerateArgs) -> Outcome {
    for interface in std::iter::once(&args.interface).chain(&args.sink) {
        check_interface(interface)?;
    }
    let traffic = traffic(&args.traffic, args.size.clone())?;
    catch_interrupts().or_exit(FAILED)?;
    pin(args.cpu)?;
    let outcome = match args.port {
        PortArg::Xdp => send(args, &traffic, |interface, side, taken| open_xdp(interface, side, taken).or_exit(CANNOT)),
        PortArg::Packet => send(args, &traffic, |interface, _, taken| open_packet(interface, taken).or_exit(CANNOT)),
    };
    outcome.and_then(|()| if interrupted() { Err(Failure::silent(INTERRUPTED)) } else { Ok(()) })
}

fn send<P: Port + Send>(
    args: &GenerateArgs,
    traffic: &Traffic,
    open: impl Fn(&str, Side, Taken) -> Result<P, Failure>,
) -> Outcome {
    let clock = Clock::calibrate();
    let plan = TrialPlan::steady(args.rate, args.time.as_nanos() as u64, RESIDUAL_NS);
    let source = mac_of(&args.interface)?;
    let sink = args.sink.as_deref().map(mac_of).transpose()?;
    let Some(destination) = args.to.or(sink) else { return Ok(()) };
    let hops = Hops { source, destination };
    let mut port = open(&args.interface, Side::Near, Taken::None)?;
    let Some((sink, interface)) = sink.zip(args.sink.as_deref()) else {
        let sent = generate(&mut port, traffic, hops, plan, clock, text::progress(args.quiet));
        return output::print(&text::sent(&sent.map_err(tester_failure)?));
    };
    let receiving = open(interface, Side::Far, Taken::TestTraffic)?;
    let tester = Tester::new(port, receiving, traffic, hops, sink, clock).map_err(tester_failure)?;
    let mut tester = tester.with_sink_on(args.sink_cpu);
    let trial = tester.trial(plan).map_err(tester_failure)?;
    output::print(&(text::sent(&trial) + &text::received(&trial)))
}

fn mac_of(interface: &str) -> Result<MacAddress, Failure> {
    Ok(MacAddress(InterfaceFacts::read(interface).or_exit(USAGE)?.mac))
}
