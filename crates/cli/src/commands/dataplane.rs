//! Commands that send frames through a device under test.

pub mod forward;
pub mod generate;
pub mod sink;
mod text;
pub mod topology;

use anyhow::anyhow;
use nearwire_dataplane::tester::TesterError;
use nearwire_dataplane::traffic::{Family, Flows, Sizes, Traffic, least_frame_bytes};
use nearwire_lab::interfaces_of_default_routes;
use nearwire_sys::affinity::{allowed_cpus, pin_current_thread};
use nearwire_sys::tsc::monotonic_raw_ns;

use crate::args::dataplane::{IpArg, TrafficArgs};
use crate::exit::{FAILED, Failure, OrExit, Outcome, USAGE};

/// What a generator is to send.
fn traffic(args: &TrafficArgs, sizes: Option<Sizes>) -> Result<Traffic, Failure> {
    let family = family(args);
    let shortest = || Sizes::new(vec![least_frame_bytes(family, args.vlan.is_some())]);
    Ok(Traffic {
        family,
        sizes: sizes.map_or_else(shortest, Ok).or_exit(USAGE)?,
        flows: Flows::try_from(args.flows).or_exit(USAGE)?,
        vlan: args.vlan,
        // Tells apart what two generators send at the same time.
        token: (monotonic_raw_ns() >> 10) as u16,
    })
}

fn family(args: &TrafficArgs) -> Family {
    match args.ip {
        IpArg::V4 => Family::V4,
        IpArg::V6 => Family::V6,
    }
}

/// Refuses an interface that the host needs.
fn check_interface(interface: &str) -> Outcome {
    let defaults = interfaces_of_default_routes().or_exit(FAILED)?;
    if !defaults.iter().any(|name| name == interface) {
        return Ok(());
    }
    Err(anyhow!(
        "{interface} carries this host's default route: test traffic does not belong on a network that is in use (RFC 6815); name an \
         interface that is only joined to the device under test"
    ))
    .or_exit(USAGE)
}

fn pin(cpu: Option<u32>) -> Outcome {
    let Some(cpu) = cpu else { return Ok(()) };
    let allowed = allowed_cpus();
    if !allowed.contains(&cpu) {
        return Err(anyhow!("pin to CPU {cpu}: this process may run on {allowed:?} only")).or_exit(USAGE);
    }
    pin_current_thread(cpu).map_err(|errno| anyhow!("pin to CPU {cpu}: {errno}")).or_exit(FAILED)
}

/// Traffic that cannot be made is the user's to change.
fn tester_failure(error: TesterError) -> Failure {
    let code = if matches!(error, TesterError::Traffic(_)) { USAGE } else { FAILED };
    Failure { code, error: Some(error.into()) }
}
