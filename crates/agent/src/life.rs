//! How an agent starts and ends.
//!
//! `nearwire agent --background` is a process of two steps: the first one leaves the session of whoever started it, gives everything away
//! that it inherited, and starts the second, which is the agent. So the agent is nobody's child and holds nothing of anybody's. The
//! first step ends when the agent has taken its name, or has found that another one has it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use nearwire_sys::descriptor::close_on_exec_from;
use nearwire_sys::socket::netns_cookie;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{Client, ClientError};
use crate::closed::ClosedSockets;
use crate::connection::Listener;
use crate::message::{Cause, Text};
use crate::ports::Ports;
use crate::rights::{Allowance, Rights};
use crate::server::{Server, Stay};
use crate::service::{Caller, Judge, Service};

/// What the agent says to whoever started it, on standard output.
const READY: &str = "ready\n";
/// The same, where there is an agent already.
const TAKEN: &str = "taken\n";
const WORD_MOST_BYTES: u64 = 1024;
/// An agent that ends between two steps of a start leaves room for the next.
const ATTEMPTS: usize = 5;

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The kernel refused the name.
    #[error("take the agent's name: {0}")]
    Name(io::Error),
    /// The kernel does not tell of sockets that are closed.
    #[error("hear of sockets that are closed (CAP_NET_ADMIN, CONFIG_INET_UDP_DIAG): {0}")]
    Closed(io::Error),
    /// The kernel does not tell of links.
    #[error("hear of interfaces: {0}")]
    Links(io::Error),
    /// Its loop failed.
    #[error("serve: {0}")]
    Serve(io::Error),
    /// It could not be started, and said why.
    #[error("start the agent: {0}")]
    Start(String),
    /// It is there, and does not serve this program.
    #[error(transparent)]
    Refused(#[from] ClientError),
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With its last program.
    Done,
    /// There is another one.
    Taken,
}

/// Allowances by the file of rights, read whenever a program says hello.
#[derive(Debug)]
pub struct ByFile {
    /// The file.
    pub path: PathBuf,
    /// The agent's user.
    pub own_uid: u32,
}

impl Judge for ByFile {
    fn allowance(&self, caller: &Caller) -> Result<Allowance, Cause> {
        let Caller { uid, groups, has_pass, .. } = caller;
        let (rights, unusable) = match Rights::read(&self.path, self.own_uid) {
            Ok(rights) => (rights, None),
            Err(error) => (Rights::default(), Some(Cause::RightsUnknown { words: Text::cut(&error.to_string()) })),
        };
        let allowance = rights.of(*uid, groups, self.own_uid).or_else(|| has_pass.then(Allowance::of_pass));
        allowance.ok_or_else(|| unusable.unwrap_or(Cause::UserNotAllowed { uid: *uid }))
    }
}

/// Serves in the calling thread's network namespace until the end; `ready` is called when programs can connect.
///
/// # Errors
/// The kernel refused what an agent needs.
pub fn serve<P: Ports>(ports: P, rights: &Path, stay: Stay, ready: impl FnOnce()) -> Result<Ended, AgentError> {
    let listener = match Listener::bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(Ended::Taken),
        listener => listener.map_err(AgentError::Name)?,
    };
    let closed = ClosedSockets::listen().map_err(AgentError::Closed)?;
    raise_descriptor_limit();
    raise_file_limit();
    let namespace = netns_cookie(&listener).map_err(AgentError::Name)?;
    let own_uid = rustix::process::geteuid().as_raw();
    let judge = ByFile { path: rights.to_owned(), own_uid };
    let service = Service::new(ports, judge, namespace, own_uid, Instant::now());
    let server = Server::new(service, listener, closed).map_err(AgentError::Serve)?;
    ready();
    server.run(stay).map_err(AgentError::Serve)?;
    Ok(Ended::Done)
}

/// A descriptor a program, and several a share.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without it there is room for fewer programs.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Packet memory is a file, and the limit (`ulimit -f`) that of the program that started the agent.
fn raise_file_limit() {
    let _ = setrlimit(Resource::Fsize, Rlimit { current: None, maximum: None }).or_else(|_| {
        let limit = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, maximum: limit.maximum })
    });
}

/// The first of the two steps: starts `arguments` of this command as a process that has nothing of this one's but its standard
/// output, and waits until it is ready.
///
/// # Errors
/// It could not be started.
pub fn start_detached(arguments: &[&str]) -> io::Result<()> {
    // It leads a process group where it was started by a shell, and then has no session to leave; its child has.
    let _ = rustix::process::setsid();
    close_on_exec_from(3)?;
    let mut agent = Command::new("/proc/self/exe");
    agent.arg0("nearwire").args(arguments).env_clear().current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
    agent.stdout(Stdio::inherit()).spawn().map(drop)
}

/// What an agent that was started so says to its starter.
#[derive(Debug)]
pub enum Word<'a> {
    /// Programs can connect.
    Ready,
    /// There is another one.
    Taken,
    /// It cannot serve, and why.
    Failed(&'a AgentError),
}

/// Says it, once. Nothing of its starter is left to the process then.
///
/// # Errors
/// There is no `/dev/null`.
pub fn say(word: &Word<'_>) -> io::Result<()> {
    let words = match word {
        Word::Ready => READY.to_owned(),
        Word::Taken => TAKEN.to_owned(),
        Word::Failed(error) => error.to_string(),
    };
    // Whoever started it may have gone.
    let _ = io::stdout().write_all(words.as_bytes()).and_then(|()| io::stdout().flush());
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}

/// Connects to the agent, and starts one where there is none: `command` is this program with the arguments of the first step.
///
/// # Errors
/// It cannot be started, or does not serve this program.
pub fn connect_or_start(name: &str, mut command: impl FnMut() -> Command) -> Result<Client, AgentError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match Client::connect(name) {
            Ok(client) => return Ok(client),
            // It ended in this moment.
            Err(ClientError::Connection(error)) if is_end(&error) => last = Some(error.to_string()),
            Err(ClientError::NoAgent) => start(&mut command())?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(AgentError::Start(last.unwrap_or_else(|| "it ends as soon as it has started".to_owned())))
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// Runs the first step, and waits for the agent's word.
fn start(command: &mut Command) -> Result<(), AgentError> {
    let failed = |error: io::Error| AgentError::Start(error.to_string());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        // The end comes with the agent's word: it lets go of the pipe then.
        stdout.take(WORD_MOST_BYTES).read_to_string(&mut said).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if said == READY || said == TAKEN {
        return Ok(());
    }
    let words = format!("{said}{}", String::from_utf8_lossy(&output.stderr)).trim().to_owned();
    Err(AgentError::Start(if words.is_empty() { "it ended without a word".to_owned() } else { words }))
}
