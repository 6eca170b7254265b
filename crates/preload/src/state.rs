//! The library's state: all sockets of the process behind the gate, and a mark for each number that is in it.
//!
//! Nothing happens before the program opens its first UDP socket. Should something in here ever panic, the engine is taken
//! down: the kernel has all packets again and all calls go to it.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

use nearwire_socket::config::Config;
use nearwire_socket::engine::EngineKick;
use nearwire_socket::reason::HandedCall;
use nearwire_socket::status::{Engine, EngineState, Process};
use nearwire_socket::wait::SpinFor;
use nearwire_socket::{AfterSend, Reason, Sender, Sockets};
use nearwire_sys::descriptor::{Descriptor, Refusal, Request, Source, from_kernel};

use crate::calls::process;
use crate::gate::{self, AfterFork, Entered, Gate};
use crate::turn::{errno, fail};
use crate::{internal_fd, keeper};

/// Numbers that can be marked; a descriptor beyond them is the kernel's.
const NUMBERS: usize = 1 << 16;
const SOCKET: u8 = 1;
const EPOLL: u8 = 2;

/// What each number is to the library; zero pages until they are written.
static MARKS: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];
static STATE: Gate<Option<State>> = Gate::new(None);
/// Nothing is accelerated any more.
static OFF: AtomicBool = AtomicBool::new(false);

/// Descriptors of the library come from the kernel and get high numbers.
struct OutOfTheWay;

impl Source for OutOfTheWay {
    fn obtain(&self, request: &Request<'_>) -> Result<OwnedFd, Refusal> {
        from_kernel(request).map(internal_fd::protect)
    }

    fn place(&self, descriptor: OwnedFd) -> OwnedFd {
        internal_fd::protect(descriptor)
    }
}

/// What is behind the gate.
struct State {
    sockets: Sockets,
    spin: SpinFor,
}

#[inline]
fn mark(number: i32) -> u8 {
    usize::try_from(number).ok().and_then(|at| MARKS.get(at)).map_or(0, |mark| mark.load(Relaxed))
}

/// Whether a number is a UDP socket that the library follows.
#[inline]
pub fn is_socket(number: i32) -> bool {
    mark(number) & SOCKET != 0
}

/// Whether a number is an epoll descriptor that the library follows.
#[inline]
pub fn is_epoll(number: i32) -> bool {
    mark(number) & EPOLL != 0
}

/// Whether a number is anything that the library follows.
#[inline]
pub fn is_followed(number: i32) -> bool {
    mark(number) != 0
}

/// Whether a socket was ever followed; before, nothing has to be asked.
#[inline]
pub fn is_in_use() -> bool {
    !OFF.load(Relaxed) && IN_USE.load(Relaxed)
}

static IN_USE: AtomicBool = AtomicBool::new(false);

fn set_mark(number: i32, value: u8) {
    if let Some(mark) = usize::try_from(number).ok().and_then(|at| MARKS.get(at)) {
        mark.store(value, Relaxed);
    }
}

/// A number is a UDP socket from now on.
pub fn follow_socket(number: i32) {
    set_mark(number, SOCKET);
    IN_USE.store(true, Relaxed);
}

/// A number is an epoll descriptor from now on.
pub fn follow_epoll(number: i32) {
    set_mark(number, EPOLL);
}

/// `new` is what `old` is.
pub fn follow_copy(old: i32, new: i32) {
    set_mark(new, mark(old));
}

/// A number is closed.
pub fn unfollow(number: i32) {
    set_mark(number, 0);
}

/// Whether a number could be followed at all.
pub fn can_follow(number: i32) -> bool {
    !OFF.load(Relaxed) && usize::try_from(number).is_ok_and(|at| at < NUMBERS)
}

/// Runs `work` on the sockets. `None`: it did not run, and the call is the kernel's: a signal handler interrupted a call
/// of the same thread, or the library is off.
#[inline]
pub fn with<R>(work: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
    enter(|sockets| {
        sockets.end_send_run();
        work(sockets)
    })
}

/// The same for a send, which goes on with the run of sends that it belongs to.
#[inline]
pub fn send_with<R>(work: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
    let (result, after) = enter(|sockets| {
        sockets.set_sender(if STATE.is_biased() { Sender::Alone } else { Sender::OneOf(gate::thread_identity()) });
        (work(sockets), sockets.take_after_send())
    })?;
    if let Some(after) = after {
        finish(after);
    }
    Some(result)
}

/// The rest of a send, with the gate open for others: the kick is most of what a send takes.
fn finish(after: AfterSend) {
    if let Some(kicked) = after.kick.and_then(EngineKick::make) {
        enter(|sockets| sockets.kicked(kicked));
    }
    if after.looks {
        enter(Sockets::look);
    }
    if let Some(held) = after.unkept {
        keeper::keep(held);
    }
}

#[inline]
fn enter<R>(work: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
    if OFF.load(Relaxed) || !process::is_ready() {
        return None;
    }
    // What the library asks the kernel on the way leaves no trace in the program's errno.
    let before = errno();
    let entered = STATE.enter(|state| {
        if state.is_none() {
            *state = State::begin();
        }
        let sockets = &mut state.as_mut()?.sockets;
        match catch_unwind(AssertUnwindSafe(|| work(sockets))) {
            Ok(result) => Some(result),
            Err(_) => {
                give_up(state);
                None
            }
        }
    });
    fail(before);
    match entered {
        Entered::Ran(result) => result,
        Entered::Reentered => None,
    }
}

/// A call that is made by the original function for a reason of its own; `None`, for returning.
#[cold]
pub fn handed<R>(number: i32, call: HandedCall) -> Option<R> {
    with(|sockets| sockets.handed(number, call));
    None
}

/// The process whose end prints counters. Its children inherit the handler.
static STATS_OF: AtomicU32 = AtomicU32::new(0);

/// At the end of the program, where `stats` is set: what `nearwire status` would print, on standard error.
extern "C" fn print_stats() {
    if STATS_OF.load(Relaxed) != std::process::id() {
        return;
    }
    let Some(status) = with(nearwire_socket::Sockets::status).flatten() else { return };
    let text = Process::of_self(&program_name(), status).page();
    let Some(standard_error) = Descriptor::new(libc::STDERR_FILENO) else { return };
    let mut rest = text.as_bytes();
    while let Ok(written @ 1..) = rustix::io::write(standard_error, rest) {
        rest = rest.get(written..).unwrap_or_default();
    }
}

/// Whether the calling thread is in the library's state: a call that comes now is its own.
#[must_use]
pub fn is_inside() -> bool {
    STATE.enter(|_| ()) == Entered::Reentered
}

/// Keeps other threads out until [`let_go`]; `false`: the calling thread is inside already.
pub fn hold() -> bool {
    STATE.hold()
}

/// Ends [`hold`].
pub fn let_go() {
    STATE.let_go();
}

/// In the child of a fork. `was_held`: the forking thread had kept the others out, after having prepared the sockets.
pub fn after_fork_in_child(was_held: bool) {
    let after = STATE.reset_after_fork();
    if was_held {
        STATE.let_go();
    }
    let before = errno();
    STATE.enter(|state| match after {
        AfterFork::Whole => {
            let Some(State { sockets, .. }) = state else { return };
            if catch_unwind(AssertUnwindSafe(|| sockets.after_fork_in_child(was_held))).is_err() {
                forget(state);
            }
        }
        AfterFork::Torn => forget(state),
    });
    fail(before);
}

/// The state is not to be trusted: nothing of it is used or dropped, which would detach the parent's programs.
fn forget(state: &mut Option<State>) {
    std::mem::forget(state.take());
    MARKS.iter().for_each(|mark| mark.store(0, Relaxed));
    internal_fd::close_all();
}

/// How calls wait.
pub fn spin() -> SpinFor {
    let entered = STATE.enter(|state| state.as_ref().map(|state| state.spin));
    match entered {
        Entered::Ran(Some(spin)) => spin,
        _ => SpinFor::Time(std::time::Duration::ZERO),
    }
}

#[cold]
fn give_up(state: &mut Option<State>) {
    OFF.store(true, Relaxed);
    let broken = state.take();
    if let Some(state) = &broken {
        let page = state.sockets.page().clone();
        page.set_engine(&Engine { state: EngineState::Failed, reason: Some(Reason::EngineFailed), text: "" });
        // It stays, and says so.
        std::mem::forget(page);
    }
    // What is left of it detaches its programs on the way down; should that panic too, it stays where it is.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
}

impl State {
    fn begin() -> Option<State> {
        let Some(config) = configuration() else {
            OFF.store(true, Relaxed);
            return None;
        };
        nearwire_sys::descriptor::set_source(&OutOfTheWay);
        let spin = SpinFor::choose(config.spin);
        if config.stats {
            STATS_OF.store(std::process::id(), Relaxed);
            // SAFETY: the function is of this type and stays as long as the process, as no program closes what is preloaded.
            // Refused for want of memory, nothing is printed.
            unsafe { libc::atexit(print_stats) };
        }
        Some(State { sockets: Sockets::new(config, &program_name()), spin })
    }
}

/// The file and the variables. A mistake in them turns the library off: `nearwire run` reads them first and says what is
/// wrong, and guessing what was meant would mislead.
fn configuration() -> Option<Config> {
    // SAFETY: getauxval only reads what the kernel gave the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("NEARWIRE_"))
        .collect();
    let file = variables.iter().find(|(name, _)| name == Config::FILE_VARIABLE).map(|(_, file)| file.clone());
    let text = match &file {
        Some(file) => Some(std::fs::read_to_string(file).ok()?),
        None => None,
    };
    let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Config::read(file.as_deref().zip(text.as_deref()), pairs).ok()
}

fn program_name() -> String {
    let executable = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    executable.file_name().map(Path::new).map(|name| name.display().to_string()).unwrap_or_default()
}
