//! A program's side of the connection.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nearwire_sys::tcp_repair::Repair;
use rustix::io::Errno;

use crate::adoption::{Buffer, Privileged};
use crate::connection::Connection;
use crate::give_back::{Ip, Received};
use crate::message::{
    Addresses, Answer, Cause, GIVE_BACK_MOST_BYTES, InterfaceName, Malformed, ProgramName, ProgramStatus, Request,
    VERSION,
};
use crate::service::Caller;

/// An agent that takes longer for an answer is of no use: whoever asks keeps a program waiting. Answers take some ten microseconds, and as
/// long as the agent waits for a CPU, or opens a port for another program.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The same for what the agent does beside its other work: opening a port takes tens of milliseconds, seconds with a driver that sets its device
/// up anew. Whoever asked does without then, and keeps what it has.
const PORT_WITHIN: Duration = Duration::from_secs(10);
/// Events that nobody has taken; the oldest goes.
const EVENTS_MOST: usize = 256;

/// Why the agent did not do something.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens in this network namespace.
    #[error("no agent runs in this network namespace")]
    NoAgent,
    /// Anybody may take the agent's name. Only root or the program's own user is believed.
    #[error("the agent's name is taken by process {pid} of user {uid}, who is neither root nor user {own_uid}")]
    Untrusted {
        /// The process.
        pid: u32,
        /// Its user.
        uid: u32,
        /// The program's.
        own_uid: u32,
    },
    /// The connection ended, or the kernel refused.
    #[error("the connection to the agent failed: {0}")]
    Connection(#[from] io::Error),
    /// It said something else than an answer.
    #[error("the agent's answer is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// It answered another question.
    #[error("the agent gave an answer that does not fit")]
    Unfit,
    /// The agent is there, and has not opened a share in time, or not asked for times.
    #[error(
        "the agent has not done it within {waited_ms} ms; it waits for the interface's driver, or for who changes interfaces"
    )]
    NotInTime {
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// It said why.
    #[error(transparent)]
    Refused(#[from] Cause),
}

impl From<Errno> for ClientError {
    fn from(errno: Errno) -> ClientError {
        ClientError::Connection(errno.into())
    }
}

/// A share that was opened.
#[derive(Debug)]
pub struct OpenedShare {
    /// Its number.
    pub share: u32,
    /// Packet memory that it added to what the user has, in bytes.
    pub memory_bytes: u64,
    /// For the port's code.
    pub description: Vec<u8>,
    /// What it speaks of.
    pub descriptors: Vec<OwnedFd>,
    /// How long the link may still be away: whoever sends is to wait for it.
    pub carrier_within: Duration,
}

/// A connection to an agent that was believed and has said welcome. Requests wait for their answer.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    agent: Caller,
    number: u16,
    events: VecDeque<Answer>,
    /// Requests for shares that were not answered in time.
    given_up: Vec<u16>,
    /// Shares that are opened while the program does something else.
    begun: Vec<BegunShare>,
}

/// See [`Client::begin_share`].
#[derive(Debug)]
struct BegunShare {
    interface: String,
    number: u16,
    /// From then on it is waited for.
    until: Instant,
    answer: Option<(Answer, Vec<OwnedFd>)>,
}

impl Client {
    /// Connects to the agent of the calling thread's network namespace.
    ///
    /// # Errors
    /// There is none, it is not to be believed, or it does not serve this program.
    pub fn connect(name: &str) -> Result<Client, ClientError> {
        Client::connect_with_pass(name, None)
    }

    /// The same, and shows a pass before ([`Client::want_pass`]). One of an agent that is gone is worth nothing.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_with_pass(name: &str, pass: Option<u64>) -> Result<Client, ClientError> {
        let mut client = Client::open()?;
        if let Some(pass) = pass {
            match client.ask(&Request::ShowPass { pass }, None) {
                Ok(_) => {}
                // The agent has ended the connection.
                Err(ClientError::Refused(_)) => client = Client::open()?,
                Err(error) => return Err(error),
            }
        }
        match client.ask(&Request::Hello { version: VERSION, name: ProgramName::cut(name) }, None)? {
            (Answer::Welcome { .. }, _) => Ok(client),
            _ => Err(ClientError::Unfit),
        }
    }

    fn open() -> Result<Client, ClientError> {
        let connection = match Connection::open() {
            Err(error) if error.raw_os_error() == Some(Errno::CONNREFUSED.raw_os_error()) => {
                return Err(ClientError::NoAgent);
            }
            connection => connection?,
        };
        let (agent, own_uid) = (connection.peer()?, rustix::process::geteuid().as_raw());
        if agent.uid != 0 && agent.uid != own_uid {
            return Err(ClientError::Untrusted { pid: agent.pid, uid: agent.uid, own_uid });
        }
        Ok(Client { connection, agent, number: 0, events: VecDeque::new(), given_up: Vec::new(), begun: Vec::new() })
    }

    /// A pass for a program that is about to be started: its processes may use the agent, whatever user they become.
    ///
    /// # Errors
    /// As all requests; users other than root and the agent's are refused.
    pub fn want_pass(&mut self) -> Result<u64, ClientError> {
        match self.ask(&Request::WantPass {}, None)? {
            (Answer::Pass { pass }, _) => Ok(pass),
            _ => Err(ClientError::Unfit),
        }
    }

    /// The agent's process and user.
    #[must_use]
    pub const fn agent(&self) -> &Caller {
        &self.agent
    }

    /// Opens a share of the port on an interface: the one that was begun, if one was.
    ///
    /// # Errors
    /// As all requests: the agent refused, or is gone.
    pub fn open_share(&mut self, interface: &str, memory_bytes: u64) -> Result<OpenedShare, ClientError> {
        let answer = match self.begun_at(interface).map(|at| self.begun.swap_remove(at)) {
            None => self.ask(&Request::OpenShare { interface: InterfaceName::cut(interface), memory_bytes }, None)?,
            Some(BegunShare { answer: Some(answer), .. }) => answer,
            Some(BegunShare { number, .. }) => self.await_answer(number, Ok(()), true)?,
        };
        match answer {
            (Answer::Refused { cause }, _) => Err(cause.into()),
            (Answer::ShareOpened { share, memory_bytes, description, carrier_within_ms }, descriptors) => {
                let carrier_within = Duration::from_millis(carrier_within_ms.into());
                Ok(OpenedShare { share, memory_bytes, description, descriptors, carrier_within })
            }
            _ => Err(ClientError::Unfit),
        }
    }

    /// Has a share of the port on an interface opened while the program does something else; [`Client::open_share`] gives it. Whether it would be given at once.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn begin_share(&mut self, interface: &str) -> Result<bool, ClientError> {
        if let Some(is_there) = self.is_share_there(interface)? {
            return Ok(is_there);
        }
        let request = Request::OpenShare { interface: InterfaceName::cut(interface), memory_bytes: 0 };
        let number = self.next_number();
        self.connection.send(&request.to_bytes(number), &[])?;
        let until = Instant::now() + PORT_WITHIN;
        self.begun.push(BegunShare { interface: interface.to_owned(), number, until, answer: None });
        Ok(false)
    }

    /// The same of one that was begun; `None`: none was.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn is_share_there(&mut self, interface: &str) -> Result<Option<bool>, ClientError> {
        let Some(at) = self.begun_at(interface) else { return Ok(None) };
        self.read_what_came()?;
        let begun = &self.begun[at];
        Ok(Some(begun.answer.is_some() || begun.until <= Instant::now()))
    }

    fn begun_at(&self, interface: &str) -> Option<usize> {
        self.begun.iter().position(|begun| begun.interface == interface)
    }

    /// Opens the flow of a socket; `address`: of what is sent to this one of its addresses alone.
    ///
    /// # Errors
    /// As all requests.
    pub fn open_flow(
        &mut self,
        share: u32,
        address: Option<IpAddr>,
        socket: impl AsFd,
    ) -> Result<(u32, Addresses), ClientError> {
        match self.ask(&Request::OpenFlow { share, address }, Some(socket.as_fd()))? {
            (Answer::FlowOpened { flow, addresses }, _) => Ok((flow, addresses)),
            _ => Err(ClientError::Unfit),
        }
    }

    /// Ends a flow.
    ///
    /// # Errors
    /// As all requests.
    pub fn close_flow(&mut self, flow: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::CloseFlow { flow }, None)
    }

    /// Opens the flow of a connection; its number.
    ///
    /// # Errors
    /// As all requests.
    pub fn open_connection(&mut self, share: u32, socket: impl AsFd) -> Result<u32, ClientError> {
        self.ask_for_connection(&Request::OpenConnection { share }, socket)
    }

    /// Whether frames of a connection come by the port of a share; the agent listens from the first time on that it is asked, or soon after (`None`: not
    /// yet). With the connection's number.
    ///
    /// # Errors
    /// As all requests.
    pub fn hear_connection(&mut self, share: u32, socket: impl AsFd) -> Result<(u32, Option<bool>), ClientError> {
        match self.ask(&Request::HearConnection { share }, Some(socket.as_fd()))? {
            (Answer::ConnectionHeard { connection, is_heard }, _) => Ok((connection, is_heard)),
            _ => Err(ClientError::Unfit),
        }
    }

    /// Has the far end of a connection told when this program is gone, which has its frames by a port of its own. Its number.
    ///
    /// # Errors
    /// As all requests.
    pub fn guard_connection(&mut self, socket: impl AsFd) -> Result<u32, ClientError> {
        self.ask_for_connection(&Request::GuardConnection {}, socket)
    }

    fn ask_for_connection(&mut self, request: &Request, socket: impl AsFd) -> Result<u32, ClientError> {
        match self.ask(request, Some(socket.as_fd()))? {
            (Answer::ConnectionOpened { connection }, _) => Ok(connection),
            _ => Err(ClientError::Unfit),
        }
    }

    /// Ends either.
    ///
    /// # Errors
    /// As all requests.
    pub fn close_connection(&mut self, connection: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::CloseConnection { connection }, None)
    }

    /// Has a segment that was taken from a share sent to the connection it was for.
    ///
    /// # Errors
    /// As all requests; also where it is longer than a message.
    pub fn give_segment(&mut self, socket: impl AsFd, ip: Ip, segment: &[u8]) -> Result<(), ClientError> {
        if segment.len() > GIVE_BACK_MOST_BYTES {
            return Err(ClientError::Refused(Cause::NotGivenBack {}));
        }
        let request = Request::GiveSegment { ttl: ip.ttl, tos: ip.tos, segment: segment.to_vec() };
        self.ask_to_end(&request, Some(socket.as_fd()))
    }

    /// Does to a connection what changes of its owner need.
    ///
    /// # Errors
    /// As all requests.
    pub fn set_privileged(&mut self, socket: impl AsFd, asked: Privileged) -> Result<(), ClientError> {
        let request = match asked {
            Privileged::Repair(Repair::Freeze) => Request::Freeze {},
            Privileged::Repair(Repair::Thaw) => Request::Thaw { is_silent: false },
            Privileged::Repair(Repair::ThawSilently) => Request::Thaw { is_silent: true },
            Privileged::Buffer { buffer, bytes } => Request::SetBuffer { is_send: buffer == Buffer::Send, bytes },
            Privileged::Bind { local } => Request::BindConnection { local },
            Privileged::Connect { peer } => Request::ConnectConnection { peer },
        };
        self.ask_to_end(&request, Some(socket.as_fd()))
    }

    /// Gives a flow to another share of this program on the same interface.
    ///
    /// # Errors
    /// As all requests.
    pub fn move_flow(&mut self, flow: u32, share: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::MoveFlow { flow, share }, None)
    }

    /// Has the kernel get the frames of a share until [`Client::resume`].
    ///
    /// # Errors
    /// As all requests.
    pub fn pause(&mut self, share: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::Pause { share }, None)
    }

    /// Ends [`Client::pause`].
    ///
    /// # Errors
    /// As all requests.
    pub fn resume(&mut self, share: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::Resume { share }, None)
    }

    /// Has frames of a share's port carry times of arrival.
    ///
    /// # Errors
    /// As all requests.
    pub fn want_times(&mut self, share: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::WantTimes { share }, None)
    }

    /// Says that the flow of a socket is opened when it is first used; or not, as the kernel serves it.
    ///
    /// # Errors
    /// As all requests.
    pub fn announce(&mut self, socket: impl AsFd, is_to_be_used: bool) -> Result<(), ClientError> {
        self.ask_to_end(&Request::Announce { is_to_be_used }, Some(socket.as_fd()))
    }

    /// Says that a socket without a flow was connected, or is not any more.
    ///
    /// # Errors
    /// As all requests.
    pub fn show_connection(&mut self, socket: impl AsFd) -> Result<(), ClientError> {
        self.ask_to_end(&Request::ShowConnection {}, Some(socket.as_fd()))
    }

    /// Has a datagram that was taken from a share sent to the socket it was for.
    ///
    /// # Errors
    /// As all requests; also where it is longer than a message.
    pub fn give_back(&mut self, socket: impl AsFd, datagram: &Received<'_>) -> Result<(), ClientError> {
        let Received { source, destination, ttl, tos, payload } = *datagram;
        let address = destination.ip();
        if payload.len() > GIVE_BACK_MOST_BYTES {
            return Err(ClientError::Refused(Cause::NotGivenBack {}));
        }
        let request = Request::GiveBack { source, address, ttl, tos, payload: payload.to_vec() };
        self.ask_to_end(&request, Some(socket.as_fd()))
    }

    /// Ends all flows of a socket, whichever program has them.
    ///
    /// # Errors
    /// As all requests.
    pub fn release(&mut self, socket: impl AsFd) -> Result<(), ClientError> {
        self.ask_to_end(&Request::Release {}, Some(socket.as_fd()))
    }

    /// Has the agent stay as long as this process lives, also when it executes another program.
    ///
    /// # Errors
    /// As all requests.
    pub fn attend(&mut self) -> Result<(), ClientError> {
        self.ask_to_end(&Request::Attend {}, None)
    }

    /// Ends all flows of a share.
    ///
    /// # Errors
    /// As all requests.
    pub fn forget(&mut self, share: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::Forget { share }, None)
    }

    /// Gives a share back.
    ///
    /// # Errors
    /// As all requests.
    pub fn close_share(&mut self, share: u32) -> Result<(), ClientError> {
        self.ask_to_end(&Request::CloseShare { share }, None)
    }

    /// The programs that this one may see.
    ///
    /// # Errors
    /// As all requests.
    pub fn status(&mut self) -> Result<Vec<ProgramStatus>, ClientError> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let (Answer::Programs { programs, next }, _) = self.ask(&Request::Status { from }, None)? else {
                return Err(ClientError::Unfit);
            };
            all.extend(programs);
            match next {
                Some(next) if next > from => from = next,
                Some(_) => return Err(ClientError::Unfit),
                None => return Ok(all),
            }
        }
    }

    /// The events that have come, without waiting.
    ///
    /// # Errors
    /// The connection ended: every flow is the kernel's.
    pub fn take_events(&mut self) -> Result<Vec<Answer>, ClientError> {
        self.read_what_came().map(|()| self.events.drain(..).collect())
    }

    fn read_what_came(&mut self) -> Result<(), ClientError> {
        loop {
            match self.connection.receive_now() {
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(packet) if packet.bytes.is_empty() => return Err(Errno::CONNRESET.into()),
                Ok(packet) => match Answer::from_bytes(&packet.bytes)? {
                    (answer, 0) if answer.is_event() => self.keep(answer),
                    (answer, number) => self.take_other(number, answer, packet.descriptors),
                },
            }
        }
    }

    fn keep(&mut self, event: Answer) {
        if self.events.len() == EVENTS_MOST {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The answer to a request that was begun, or whose time was up. A share that comes late nobody uses.
    fn take_other(&mut self, number: u16, answer: Answer, descriptors: Vec<OwnedFd>) {
        if let Some(begun) = self.begun.iter_mut().find(|begun| begun.number == number) {
            begun.answer = Some((answer, descriptors));
            return;
        }
        let Some(at) = self.given_up.iter().position(|given_up| *given_up == number) else { return };
        self.given_up.swap_remove(at);
        if let Answer::ShareOpened { share, .. } = answer {
            let number = self.next_number();
            // Where there is no room to ask, it goes with the connection.
            let _ = self.connection.send(&Request::CloseShare { share }.to_bytes(number), &[]);
        }
    }

    fn next_number(&mut self) -> u16 {
        self.number = self.number.wrapping_add(1).max(1);
        self.number
    }

    fn ask_to_end(&mut self, request: &Request, socket: Option<BorrowedFd<'_>>) -> Result<(), ClientError> {
        match self.ask(request, socket)? {
            (Answer::Done {}, _) => Ok(()),
            _ => Err(ClientError::Unfit),
        }
    }

    fn ask(
        &mut self,
        request: &Request,
        socket: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
        let number = self.next_number();
        let is_of_port = matches!(request, Request::OpenShare { .. } | Request::WantTimes { .. });
        // An agent that refused at once may be gone already, and its reason waits.
        let sent = self.connection.send(&request.to_bytes(number), socket.as_slice());
        self.await_answer(number, sent, is_of_port)
    }

    /// `is_of_port`: the agent does it beside its other work.
    fn await_answer(
        &mut self,
        number: u16,
        sent: Result<(), Errno>,
        is_of_port: bool,
    ) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
        let patience = if is_of_port { PORT_WITHIN } else { ANSWER_WITHIN };
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.connection.set_receive_timeout(Some(left))?;
            let packet = match self.connection.receive() {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if is_of_port => {
                    self.given_up.push(number);
                    return Err(ClientError::NotInTime { waited_ms: patience.as_millis() as u64 });
                }
                Err(Errno::AGAIN) => return Err(Errno::TIMEDOUT.into()),
                Err(errno) => return Err(sent.err().unwrap_or(errno).into()),
                Ok(packet) if packet.bytes.is_empty() => return Err(sent.err().unwrap_or(Errno::CONNRESET).into()),
                Ok(packet) => packet,
            };
            match Answer::from_bytes(&packet.bytes)? {
                (event, 0) if event.is_event() => self.keep(event),
                // 0: the agent could not read which one it was.
                (Answer::Refused { cause }, of) if of == number || of == 0 => return Err(cause.into()),
                (answer, of) if of == number => return Ok((answer, packet.descriptors)),
                (answer, of) => self.take_other(of, answer, packet.descriptors),
            }
        }
    }
}

impl AsFd for Client {
    /// Readable when there are events, or the agent is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
