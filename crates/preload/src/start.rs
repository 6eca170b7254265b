//! What the first socket of a process begins, and what is printed at its end.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use nearwire_socket::config::{Adopt, Config};
use nearwire_socket::program::own_name;
use nearwire_socket::status::Process;
use nearwire_socket::wait::SpinFor;
use nearwire_socket::{Sockets, ThisHost};
use nearwire_sys::descriptor::{Descriptor, Refusal, Request, Source, from_kernel};
use nearwire_sys::held_signals;

use crate::signals::deferral;
use crate::{internal_fd, state, timer};

/// Fds of the library come from the kernel and are moved to high numbers.
struct OutOfTheWay;

impl Source for OutOfTheWay {
    fn obtain(&self, request: &Request<'_>) -> Result<OwnedFd, Refusal> {
        from_kernel(request).map(internal_fd::protect)
    }

    fn place(&self, descriptor: OwnedFd) -> OwnedFd {
        internal_fd::protect(descriptor)
    }

    fn copy(&self, descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Ok(internal_fd::copy(descriptor)?)
    }

    fn close(&self, descriptor: OwnedFd) {
        internal_fd::close(descriptor);
    }
}

/// How calls wait; chosen once.
static SPIN: OnceLock<SpinFor> = OnceLock::new();

/// How calls wait: not at all before there are sockets.
#[inline]
pub fn spin() -> SpinFor {
    SPIN.get().copied().unwrap_or(SpinFor::Time(Duration::ZERO))
}

/// Whether TCP connections may be adopted. Where not, a program without UDP sockets has nothing of the library.
pub fn adopts_connections() -> bool {
    static ADOPTS: OnceLock<bool> = OnceLock::new();
    *ADOPTS.get_or_init(|| configuration().is_some_and(|(config, _)| config.adopt != Adopt::Never))
}

/// The sockets of the first engine: none yet. `None`: the variables are not the program's user's to set.
pub fn first_sockets() -> Option<Sockets> {
    let (config, mistake) = configuration()?;
    nearwire_sys::descriptor::set_source(&OutOfTheWay);
    let _ = SPIN.set(SpinFor::choose(config.spin));
    if config.stats {
        STATS_OF.store(std::process::id(), Relaxed);
        // SAFETY: the function is of this type and stays as long as the process, as no program closes what is preloaded.
        // Refused for want of memory, nothing is printed.
        unsafe { libc::atexit(print_stats) };
    }
    let agent_in = std::env::var(Config::AGENT_IN_VARIABLE).ok().and_then(|text| text.parse().ok());
    let sockets = Sockets::new(ThisHost::with_agent(agent_in), config, own_name());
    Some(match mistake {
        Some(mistake) => sockets.with_mistake(mistake),
        None => sockets,
    })
}

/// The process whose end prints counters. Its children inherit the handler.
static STATS_OF: AtomicU32 = AtomicU32::new(0);

/// At the end of the program, where `stats` is set: what `nearwire status` would print, on standard error.
extern "C" fn print_stats() {
    // One that filters its system calls may be ended for any of these.
    if STATS_OF.load(Relaxed) != std::process::id() || timer::is_forbidden() {
        return;
    }
    let Some(status) = deferral::inside_deep(state::status) else { return };
    let text = Process::of_self(own_name(), status).page();
    let Some(standard_error) = Descriptor::new(libc::STDERR_FILENO) else { return };
    let mut rest = text.as_bytes();
    // The program ends as it would without: not by a signal, if nobody reads this or it may not write files.
    held_signals::without(&[libc::SIGPIPE, libc::SIGXFSZ], || {
        while let Ok(written @ 1..) = rustix::io::write(standard_error, rest) {
            rest = rest.get(written..).unwrap_or_default();
        }
    });
}

/// The file and the variables, and what is wrong with them. Guessing what was meant by a mistake would mislead.
fn configuration() -> Option<(Config, Option<String>)> {
    // SAFETY: getauxval only reads what the kernel gave the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("NEARWIRE_"))
        .collect();
    let file = variables.iter().find(|(name, _)| name == Config::FILE_VARIABLE);
    let file = file.map(|(_, file)| (file.as_str(), std::fs::read_to_string(file)));
    Some(Config::of_process(file, &variables))
}
