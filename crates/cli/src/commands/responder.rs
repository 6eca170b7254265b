//! `nearwire responder`: the far end of a measurement.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Context;
use nearwire_bench::bed::host_end;
use nearwire_bench::control::{Control, Stream};
use nearwire_bench::paths::Role;
use nearwire_bench::responder::{Door, Host, ServeError, draw_token, serve};
use nearwire_sys::usage::{catch_interrupts, ignore_interrupts, interrupted};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::environment;
use crate::args::{ListenArg, ResponderArgs};
use crate::exit::{CANNOT, FAILED, Failure, INTERRUPTED, OrExit, Outcome};
use crate::output;

/// How often a listening responder checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// How long an initiator may stay silent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub fn run(args: &ResponderArgs) -> Outcome {
    match &args.listen {
        Some(ListenArg(address)) if !args.control_stdin => listen(args, address),
        _ => as_child(),
    }
}

/// Started by an initiator in the far namespace. It ends with the initiator, also when that is killed.
fn as_child() -> Outcome {
    set_parent_process_death_signal(Some(Signal::KILL)).or_exit(FAILED)?;
    if getppid().is_none_or(|parent| parent.is_init()) {
        return Ok(());
    }
    ignore_interrupts().or_exit(FAILED)?;
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().or_exit(FAILED)?;
    let mut control = Control::new(Stream::Unix(UnixStream::from(socket)));
    let host = Host { token: None, local: None, environment: &environment::of_interfaces, idle_timeout: None };
    serve(&mut control, &host).or_exit(FAILED)
}

fn listen(args: &ResponderArgs, address: &str) -> Outcome {
    catch_interrupts().or_exit(FAILED)?;
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}")).or_exit(CANNOT)?;
    let token = match &args.token {
        Some(token) => token.clone(),
        None => draw_token().context("make a token").or_exit(FAILED)?,
    };
    let bound = listener.local_addr().or_exit(FAILED)?;
    output::print(&format!("listening on {bound}, token {token}\n"))?;
    let door = Door::open(listener);
    let mut idle_since = Instant::now();
    while idle_since.elapsed() < args.timeout {
        if interrupted() {
            return Err(Failure::silent(INTERRUPTED));
        }
        let Some((stream, peer)) = door.next(LOOK) else { continue };
        let own = stream.local_addr().or_exit(FAILED)?.ip();
        let host = Host {
            token: Some(&token),
            local: Some(host_end(Role::Responder, own, peer.ip())),
            environment: &environment::whole,
            idle_timeout: Some(IDLE_TIMEOUT),
        };
        match serve(&mut Control::new(Stream::Tcp(stream)), &host) {
            Ok(()) if args.once => return Ok(()),
            Ok(()) => {}
            Err(ServeError::Interrupted) => return Err(Failure::silent(INTERRUPTED)),
            Err(error) => eprintln!("nearwire: {peer}: {error}"),
        }
        door.reopen();
        idle_since = Instant::now();
    }
    Ok(())
}
