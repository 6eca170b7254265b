//! `nearwire forward`: a device under test of its own.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::Context;
use nearwire_dataplane::forwarder::{Forwarded, FunctionError, forward, function_between};
use nearwire_dataplane::function::{AnyFunction, FunctionKind};
use nearwire_dataplane::ports::{Taken, open_packet, open_xdp};
use nearwire_frames::PortError;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::Side;
use nearwire_sys::socket::hold_promiscuous;
use nearwire_sys::usage::{catch_interrupts, interrupted};
use nearwire_wire::MacAddress;
use rustix::io::Errno;

use super::{check_interface, pin, text};
use crate::args::dataplane::{ForwardArgs, PortArg};
use crate::exit::{CANNOT, FAILED, Failure, INTERRUPTED, OrExit, Outcome, USAGE};
use crate::output;

/// Time between two lines, and between two looks at whether the interfaces are up: a port over AF_XDP that nothing comes to does not tell.
const LINE_GAP_NS: u64 = 1_000_000_000;

pub fn run(args: &ForwardArgs) -> Outcome {
    let [one, two] = names(args);
    for interface in [one, two] {
        check_interface(interface)?;
    }
    if one == two {
        return Err(anyhow::anyhow!("forward between {one} and {two}: name two interfaces")).or_exit(USAGE);
    }
    catch_interrupts().or_exit(FAILED)?;
    pin(args.cpu)?;
    let _promiscuous = hear_all(args)?;
    let function = function_between(args.function, &[one, two]).map_err(function_failure)?;
    match args.port {
        PortArg::Xdp => {
            let open = |interface, side| open_xdp(interface, side, Taken::All).or_exit(CANNOT);
            run_between(args, function, vec![open(one, Side::Far)?, open(two, Side::Near)?])
        }
        PortArg::Packet => {
            let open = |interface| open_packet(interface, Taken::All).or_exit(CANNOT);
            run_between(args, function, vec![open(one)?, open(two)?])
        }
    }
}

fn names(args: &ForwardArgs) -> [&str; 2] {
    [0, 1].map(|at| args.interfaces.get(at).map_or("", String::as_str))
}

/// Has both interfaces receive what is addressed to others: to all functions but a router, which takes what is addressed to it.
fn hear_all(args: &ForwardArgs) -> Result<Vec<OwnedFd>, Failure> {
    if args.function == FunctionKind::L3 {
        return Ok(Vec::new());
    }
    let hold = |interface: &String| {
        let facts = InterfaceFacts::read(interface).or_exit(USAGE)?;
        let held = hold_promiscuous(facts.ifindex);
        held.with_context(|| format!("receive on {interface} what is addressed to others")).or_exit(CANNOT)
    };
    args.interfaces.iter().map(hold).collect()
}

fn function_failure(error: FunctionError) -> Failure {
    Failure { code: CANNOT, error: Some(error.into()) }
}

fn run_between<P: Port>(args: &ForwardArgs, function: AnyFunction, ports: Vec<P>) -> Outcome {
    if !args.quiet {
        let ports = ports.iter().map(Port::describe).collect::<Vec<_>>().join("; ");
        output::note(&format!("forwarding between {ports}; Ctrl-C ends it"));
    }
    let mut watch = Watch::new(args);
    let (done, outcome) = forward(ports, function, false, |now_ns, so_far| watch.goes_on(now_ns, so_far));
    output::print(&report(&names(args), &done))?;
    outcome.or_exit(FAILED)?;
    if interrupted() { Err(Failure::silent(INTERRUPTED)) } else { Ok(()) }
}

/// Looks at the time while frames are forwarded.
struct Watch<'a> {
    args: &'a ForwardArgs,
    began_ns: Option<u64>,
    line_ns: u64,
    before: Forwarded,
}

impl Watch<'_> {
    fn new(args: &ForwardArgs) -> Watch<'_> {
        Watch { args, began_ns: None, line_ns: 0, before: Forwarded::default() }
    }

    fn goes_on(&mut self, now_ns: u64, so_far: &dyn Fn() -> Forwarded) -> Result<bool, PortError> {
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let elapsed_ns = now_ns - began_ns;
        if elapsed_ns >= self.line_ns + LINE_GAP_NS {
            self.args.interfaces.iter().try_for_each(|interface| is_up(interface))?;
            self.line(elapsed_ns, so_far());
        }
        let is_over = self.args.time.is_some_and(|time| elapsed_ns >= time.as_nanos() as u64);
        Ok(!is_over && !interrupted())
    }

    fn line(&mut self, elapsed_ns: u64, now: Forwarded) {
        let seconds = (elapsed_ns - self.line_ns) as f64 / 1e9;
        let rate = |frames: u64| text::mega(frames as f64 / seconds);
        if !self.args.quiet {
            output::note(&format!(
                "{:.0} s: {} received, {} sent, {} dropped",
                elapsed_ns as f64 / 1e9,
                rate(now.received_frames() - self.before.received_frames()),
                rate(now.sent_frames() - self.before.sent_frames()),
                rate(now.drops.total() - self.before.drops.total()),
            ));
        }
        self.line_ns = elapsed_ns;
        self.before = now;
    }
}

/// An interface that went down, or away, is a port that failed for good.
fn is_up(interface: &str) -> Result<(), PortError> {
    let gone =
        |errno: Errno| PortError::InterfaceGone { interface: interface.to_owned(), source: io::Error::from(errno) };
    match InterfaceFacts::read(interface) {
        Ok(facts) if facts.up => Ok(()),
        Ok(_) => Err(gone(Errno::NETDOWN)),
        Err(PortError::NoSuchInterface { .. }) => Err(gone(Errno::NODEV)),
        Err(error) => Err(error),
    }
}

fn report(names: &[&str; 2], done: &Forwarded) -> String {
    let mut report = String::new();
    for (name, port) in names.iter().zip(&done.ports) {
        report += &format!("{name}: {} frames received, {} sent\n", port.received_frames, port.sent_frames);
    }
    for (cause, frames) in done.drops.iter() {
        report += &format!("dropped {cause}: {frames} frames\n");
    }
    if let Some(seen) = done.looped {
        let [from, to] = seen.ports.map(|port| names.get(port).copied().unwrap_or_default());
        let station = MacAddress(seen.address);
        report += &format!(
            "a loop was seen: {station} moved from {from} to {to} and back, more than ten times in a second\n"
        );
    }
    report
}

#[cfg(test)]
mod tests {
    use nearwire_dataplane::forwarder::PortCounts;
    use nearwire_dataplane::function::{DropCause, Loop};

    use super::*;

    #[test]
    fn report_names_ports_causes_and_a_loop() {
        let mut done = Forwarded { ports: vec![PortCounts::default(); 2], ..Forwarded::default() };
        assert_eq!(report(&["a", "b"], &done), "a: 0 frames received, 0 sent\nb: 0 frames received, 0 sent\n");
        done.drops.add(DropCause::TtlExpired, 3);
        done.looped = Some(Loop { address: [2, 0, 0, 0, 0, 9], vlan_id: 0, ports: [1, 0] });
        let report = report(&["a", "b"], &done);
        assert!(report.contains("dropped ttl-expired: 3 frames\n"), "{report}");
        assert!(report.contains("02:00:00:00:00:09 moved from b to a"), "{report}");
    }
}
