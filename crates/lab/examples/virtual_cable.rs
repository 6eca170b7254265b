//! Lays a virtual cable, says what it is, and holds it until its input ends.
//!
//! ```text
//! virtual_cable [--user-namespace]
//! ```

use std::io::{self, Read};
use std::process::ExitCode;
use std::time::Instant;

use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions};

fn main() -> ExitCode {
    match hold() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn hold() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|argument| argument == "--user-namespace") {
        nearwire_sys::netns::enter_user_namespace()?;
    }
    let started = Instant::now();
    let cable = VirtualCable::lay(VirtualCableOptions::default())?;
    println!("laid in {} us", started.elapsed().as_micros());
    describe("near", cable.near())?;
    describe("far", cable.far())?;
    for warning in cable.warnings() {
        println!("warning: {warning}");
    }
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn describe(side: &str, end: &CableEnd) -> io::Result<()> {
    println!(
        "{side}: {} ({} queues, MTU {} bytes) {} {} in net:[{}]",
        end.interface,
        end.queues,
        end.mtu_bytes,
        end.ipv4,
        end.ipv6,
        end.namespace.inode()?
    );
    Ok(())
}
