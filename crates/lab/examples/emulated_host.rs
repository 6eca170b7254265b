//! Boots an emulated host of two packages with a NIC on the second node, runs commands in it and says what they say.
//!
//! ```text
//! emulated_host KERNEL_DIRECTORY [--with PROGRAM]... [--boot OPTIONS] [COMMAND]...
//! ```

use std::process::ExitCode;

use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::{HostHardware, HostNic, HostSystem, NicKind};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let kernel_directory = arguments.next().ok_or("which KERNEL_DIRECTORY?")?.into();
    let mut system = HostSystem { kernel_directory, programs: Vec::new(), files: Vec::new() };
    let (mut options, mut commands) = (String::new(), Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--with" => system.programs.push(arguments.next().ok_or("--with which PROGRAM?")?.into()),
            "--boot" => options = arguments.next().ok_or("--boot with which OPTIONS?")?,
            _ => commands.push(argument),
        }
    }
    let hardware = HostHardware {
        packages: 2,
        threads_per_core: 2,
        node_memory_mib: vec![256, 256],
        nics: vec![HostNic::new(NicKind::E1000e).on_node(1), HostNic::new(NicKind::Vmxnet3).on_node(0)],
        ..HostHardware::default()
    };
    let mut host = EmulatedHost::boot(&hardware, &system, &options)?;
    println!("booted in {:.1} s", host.boot_time().as_secs_f64());
    for command in commands {
        let output = host.run(&command)?;
        println!("# {command}\n{}", output.text());
        if !output.errors().is_empty() {
            println!("{}", output.errors());
        }
        if output.status != 0 {
            println!("status {}", output.status);
        }
    }
    Ok(())
}
