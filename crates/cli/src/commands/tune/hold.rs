//! `nearwire tune hold`: holds a request for a short wake-up time.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::Context;
use nearwire_host::LatencyRequest;
use nearwire_sys::usage::{catch_interrupts, ignore_interrupts, interrupted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::args::tune::HoldArgs;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

/// How often it is checked for Ctrl-C.
const TICK: Duration = Duration::from_millis(200);
const TICK_OF_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

pub fn run(args: &HoldArgs) -> Outcome {
    catch_interrupts().or_exit(exit::FAILED)?;
    let request = LatencyRequest::hold(args.latency.0).or_exit(exit::CANNOT)?;
    let said = said(request.asked_us(), request.in_effect_us().or_exit(exit::CANNOT)?);
    match args.program.split_first() {
        Some((program, arguments)) => {
            // Standard output belongs to the program.
            eprintln!("nearwire: {said} while {} runs.", program.display());
            around(program, arguments)
        }
        None => {
            output::print(&format!("{said} until Ctrl-C.\n"))?;
            while !interrupted() {
                std::thread::sleep(TICK);
            }
            Ok(())
        }
    }
}

fn said(asked_us: u32, in_effect_us: u32) -> String {
    let holds = format!("A wake-up takes {in_effect_us} us at most");
    if in_effect_us == asked_us {
        return format!("{holds}, held");
    }
    format!("{holds}: another program asks for less than {asked_us} us, and that is held")
}

/// Runs a program and ends with its exit code.
fn around(program: &OsString, arguments: &[OsString]) -> Outcome {
    let start = || format!("start {}", program.display());
    let mut child = Command::new(program).args(arguments).spawn().with_context(start).or_exit(exit::USAGE)?;
    // A terminal sends Ctrl-C to the program too, which decides what to do.
    ignore_interrupts().or_exit(exit::FAILED)?;
    let status = wait(&mut child).with_context(|| format!("wait for {}", program.display())).or_exit(exit::FAILED)?;
    match code(status) {
        0 => Ok(()),
        code => Err(Failure::silent(code)),
    }
}

/// Waits for a program and passes a request to end on to it.
pub(super) fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupted() && !is_told {
            kill_process(pid, Signal::TERM)?;
            is_told = true;
        }
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&TICK_OF_POLL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The exit code as a shell reports it: 128 plus the number for a program that a signal ended.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}
