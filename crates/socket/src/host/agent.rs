//! The agent of the network namespace (`nearwire agent`), as the engines of this process use it: one connection, which is made when the
//! first port is opened.
//!
//! The agent is asked when a port or a flow is opened or closed, and around fork(2): never for a frame. An answer that does not come
//! in time is the end of the connection, and with it of all that the process had from the agent: what the agent did since is undone when it
//! sees that. What it tells by itself is taken when a look finds that frames come by the kernel.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearwire_agent::client::{Client, ClientError, OpenedShare};
use nearwire_agent::message::{Answer, Cause};
use nearwire_frames::PortError;
use nearwire_sys::descriptor::Descriptor;
use rustix::process::{Uid, geteuid};

use super::AgentPid;

/// What the agent told and nobody took: events of flows that this process had closed. The oldest goes.
const NEWS_MOST: usize = 1024;

/// Why the agent did not do something.
#[derive(Debug)]
pub(super) enum NotDone {
    /// There is none, and the process never had one.
    NoAgent,
    /// The one that this process had has ended, or does not answer.
    Gone,
    /// It said why, or it is not to be believed.
    Refused(Cause, String),
}

impl NotDone {
    /// Of an interface.
    pub(super) fn into_error(self, interface: &str) -> PortError {
        let interface = interface.to_owned();
        let is_socket_shared = matches!(&self, NotDone::Refused(cause, _) if cause.is_socket_shared());
        match self {
            NotDone::NoAgent | NotDone::Gone => PortError::HolderGone { interface },
            NotDone::Refused(
                Cause::SocketShared { .. } | Cause::AddressShared { .. } | Cause::Stranger { .. },
                words,
            ) => PortError::FlowShared { interface, words, is_socket_shared },
            NotDone::Refused(Cause::PacketsChanged { .. }, words) => PortError::PacketsChanged { interface, words },
            NotDone::Refused(_, words) => PortError::ShareRefused { interface, words },
        }
    }
}

/// The process's way to the agent.
#[derive(Debug, Default)]
pub(super) struct Link {
    known: Mutex<Known>,
    /// By which it may use the agent as whatever user.
    pass: Option<u64>,
}

#[derive(Debug, Default)]
enum Known {
    #[default]
    Nobody,
    Connected(Arc<Connected>),
    /// There was one, of another user.
    Former,
}

impl Known {
    fn connected(&self) -> Option<&Arc<Connected>> {
        match self {
            Known::Connected(connected) if !connected.is_gone() => Some(connected),
            Known::Connected(_) | Known::Former | Known::Nobody => None,
        }
    }
}

impl Link {
    /// `pass`: of the agent that served the program when it was started.
    pub(super) fn with_pass(pass: Option<u64>) -> Link {
        Link { pass, ..Link::default() }
    }

    /// A way of its own for the child of a fork.
    pub(super) fn of_child(&self) -> Link {
        Link::with_pass(self.pass)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that there is.
    pub(super) fn present(&self) -> Option<Arc<Connected>> {
        self.lock().connected().cloned()
    }

    /// The agent of the last connection, which may be gone.
    pub(super) fn known_agent(&self) -> Option<AgentPid> {
        match &*self.lock() {
            Known::Connected(connected) => Some(connected.agent),
            Known::Former | Known::Nobody => None,
        }
    }

    /// The connection to the agent of the calling thread's network namespace, made by the user that this process has now: the agent reads the
    /// user when a connection is made. Shares of a connection that another user made stay with that one.
    pub(super) fn connected(&self) -> Result<Arc<Connected>, NotDone> {
        let uid = geteuid();
        let mut known = self.lock();
        if let Some(connected) = known.connected() {
            if connected.uid == uid {
                return Ok(Arc::clone(connected));
            }
            // Also where the agent refuses the new user: a process that gave its rights up keeps no connection that has them.
            *known = Known::Former;
        }
        // Root needs none.
        let pass = self.pass.filter(|_| !uid.is_root());
        let client = match Client::connect_with_pass(crate::program::own_name(), pass) {
            Ok(client) => client,
            Err(error) => {
                return Err(match (error, &*known) {
                    (ClientError::NoAgent, Known::Nobody) => NotDone::NoAgent,
                    (ClientError::NoAgent | ClientError::Connection(_), Known::Connected(_) | Known::Former) => {
                        NotDone::Gone
                    }
                    (error, _) => refusal(error),
                });
            }
        };
        let connected = Arc::new(Connected::new(client, uid, pass).ok_or(NotDone::Gone)?);
        *known = Known::Connected(Arc::clone(&connected));
        Ok(connected)
    }

    /// In the child of a fork: closes its copy of the parent's connection, which would keep what the parent had after its end.
    pub(super) fn leave_to_parent(&self) {
        // What a thread of the parent's held at the fork is never let go of here: then the copy stays open until the child ends.
        if let Ok(known) = self.known.try_lock()
            && let Known::Connected(connected) = &*known
            && let Ok(mut client) = connected.client.try_lock()
        {
            *client = None;
        }
    }
}

fn refusal(error: ClientError) -> NotDone {
    let words = error.to_string();
    match error {
        ClientError::Refused(cause) => NotDone::Refused(cause, words),
        _ => NotDone::Refused(Cause::NotGreeted {}, words),
    }
}

/// A connection that was made. It ends when all ports that came by it are closed, also where the agent is taken for gone before: until
/// then the agent gives their rings to nobody else.
#[derive(Debug)]
pub(super) struct Connected {
    /// `None`: in the child of a fork.
    client: Mutex<Option<Client>>,
    /// Its descriptor, open as long as it.
    descriptor: Descriptor,
    agent: AgentPid,
    /// The effective user that made it.
    uid: Uid,
    /// The pass that was shown.
    pass: Option<u64>,
    is_gone: AtomicBool,
    /// Shares and flows that are not served any more.
    news: Mutex<VecDeque<Answer>>,
    has_news: AtomicBool,
}

impl Connected {
    fn new(client: Client, uid: Uid, pass: Option<u64>) -> Option<Connected> {
        let descriptor = Descriptor::new(client.as_fd().as_raw_fd())?;
        let agent = client.agent().pid;
        let (client, news) = (Mutex::new(Some(client)), Mutex::new(VecDeque::new()));
        let (is_gone, has_news) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(Connected { client, descriptor, agent, uid, pass, is_gone, news, has_news })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Acquire)
    }

    pub(super) const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    pub(super) fn pass(&self) -> Option<u64> {
        self.pass
    }

    /// Asks something.
    pub(super) fn ask<R>(&self, ask: impl FnOnce(&mut Client) -> Result<R, ClientError>) -> Result<R, NotDone> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(client) = client.as_mut().filter(|_| !self.is_gone()) else { return Err(NotDone::Gone) };
        match ask(client) {
            Ok(answer) => Ok(answer),
            Err(error @ (ClientError::Refused(_) | ClientError::NotInTime { .. })) => Err(refusal(error)),
            Err(_) => {
                self.is_gone.store(true, Release);
                Err(NotDone::Gone)
            }
        }
    }

    pub(super) fn open_share(&self, interface: &str) -> Result<OpenedShare, NotDone> {
        self.ask(|client| client.open_share(interface, 0))
    }

    /// Has a share opened while the program does something else; whether [`Connected::open_share`] would give it at once.
    pub(super) fn begin_share(&self, interface: &str) -> Result<bool, NotDone> {
        self.ask(|client| client.begin_share(interface))
    }

    /// The same of one that was begun; `None`: none was.
    pub(super) fn is_share_there(&self, interface: &str) -> Result<Option<bool>, NotDone> {
        self.ask(|client| client.is_share_there(interface))
    }

    /// Whether there is something of what the agent told that was read and not taken.
    pub(super) fn has_news(&self, wanted: impl Fn(&Answer) -> bool) -> bool {
        self.has_news.load(Acquire) && self.lock_news().iter().any(wanted)
    }

    fn lock_news(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the agent told, without waiting; `wanted` says what the caller takes of it.
    pub(super) fn take_news(&self, wanted: impl Fn(&Answer) -> bool) -> Result<Vec<Answer>, NotDone> {
        let told = self.ask(Client::take_events)?;
        let mut news = self.lock_news();
        news.extend(told);
        let (taken, left): (Vec<_>, Vec<_>) = std::mem::take(&mut *news).into_iter().partition(|told| wanted(told));
        news.extend(left);
        while news.len() > NEWS_MOST {
            news.pop_front();
        }
        self.has_news.store(!news.is_empty(), Release);
        Ok(taken)
    }
}

impl AsFd for Connected {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
