//! Programs of all kinds at an agent with ports in memory: ordinary users, wrong ones, and such as are killed.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearwire_agent::client::{Client, ClientError};
use nearwire_agent::connection::{Connection, Listener};
use nearwire_agent::life::{Ended, serve};
use nearwire_agent::message::{Answer, Cause, ProgramName, Request, VERSION};
use nearwire_agent::ports::in_memory::InMemoryPorts;
use nearwire_agent::server::Stay;
use nearwire_lab::{Namespace, made_or_skip};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType};

const NOBODY: u32 = 65_534;
/// What this program does when it is started as a peer.
const ROLE: &str = "NEARWIRE_TEST_PEER";

/// An agent in a namespace of its own; it ends when the last program is gone.
struct Bed {
    inside: Namespace,
    ports: InMemoryPorts,
    rights: tempfile::NamedTempFile,
    agent: JoinHandle<Ended>,
}

impl Bed {
    /// `None` where namespaces cannot be had, which is said.
    fn new(rights: &str) -> Option<Bed> {
        let inside = namespace()?;
        let ports = InMemoryPorts::new(&["eth1"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), rights).unwrap();
        let (of_agent, path) = (ports.clone(), file.path().to_owned());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let agent = inside.enter(|| {
            std::thread::spawn(move || {
                let stay = Stay::Linger(Duration::from_millis(500));
                serve(of_agent, &path, stay, || ready.send(()).unwrap()).unwrap()
            })
        });
        is_ready.recv().unwrap();
        Some(Bed { inside, ports, rights: file, agent: agent.unwrap() })
    }

    fn client(&self) -> Client {
        self.inside.enter(|| Client::connect("test").unwrap()).unwrap()
    }

    fn connection(&self) -> Connection {
        let connection = self.inside.enter(|| Connection::open().unwrap()).unwrap();
        connection.set_receive_timeout(Some(Duration::from_secs(20))).unwrap();
        connection
    }

    fn socket(&self) -> UdpSocket {
        self.inside.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap()
    }

    /// This program again, inside, as a user and in a role.
    fn peer(&self, uid: u32, role: &str) -> Child {
        // Whoever it runs as can read it below /proc, wherever it lies.
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", "as_a_peer", "--ignored", "--nocapture"]).env(ROLE, role);
        command.uid(uid).gid(uid).stdout(Stdio::piped());
        self.inside.enter(|| command.spawn().unwrap()).unwrap()
    }

    /// Every program is gone, nothing is left, and the agent ends.
    fn end(self) {
        wait_until("the agent takes everything back", || self.ports.shares().is_empty());
        assert!(self.ports.flows().is_empty(), "{:?}", self.ports.flows());
        assert_eq!(self.agent.join().unwrap(), Ended::Done);
    }
}

fn namespace() -> Option<Namespace> {
    made_or_skip(Namespace::new())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

/// What a peer says, without what the test harness says around it.
fn said(mut peer: Child) -> String {
    let line = word(&mut peer);
    assert!(peer.wait().unwrap().success());
    line
}

fn word(peer: &mut Child) -> String {
    let stdout = peer.stdout.as_mut().unwrap();
    let mut lines = BufReader::new(stdout).lines().map(Result::unwrap);
    let line = lines.find_map(|line| line.split_once("PEER ").map(|(_, said)| said.to_owned()));
    line.expect("the peer says something")
}

/// Not a test: what this program does as a peer.
#[test]
#[ignore = "it is started by the others"]
fn as_a_peer() {
    let role = std::env::var(ROLE).unwrap_or_default();
    let (role, pass) = role.split_once(' ').map_or((&*role, None), |(role, pass)| (role, pass.parse().ok()));
    match role {
        "connect" => match Client::connect_with_pass("peer", pass) {
            Ok(mut client) => {
                let share = client.open_share("eth1", 1 << 20).map(|share| share.memory_bytes);
                println!("PEER {share:?} {}", client.status().unwrap().len());
            }
            Err(error) => println!("PEER {error}"),
        },
        "pass" => {
            let told = Client::connect("peer").and_then(|mut client| client.want_pass());
            println!("PEER {}", told.map_or_else(|error| error.to_string(), |pass| pass.to_string()));
        }
        "squat" => {
            let listener = Listener::bind().unwrap();
            println!("PEER has it");
            std::thread::sleep(Duration::from_secs(600));
            drop(listener);
        }
        "crowd" => {
            let open = || Connection::open().ok();
            let mut crowd: Vec<_> = (0..400).map(|_| open()).collect();
            println!("PEER stands there");
            for at in (0..crowd.len()).cycle() {
                crowd[at] = None;
                crowd[at] = open();
            }
        }
        "hoard" => {
            let connect = || Connection::open().ok();
            let hangs = || {
                let (near, far) = lingering();
                (with_in_its_queue(near), far)
            };
            let hanging: Vec<_> = (0..40).map(|_| hangs()).collect();
            for (hangs, _) in &hanging {
                let _ = connect().unwrap().send(&[0; 4], &[hangs.as_fd()]);
            }
            let far: Vec<_> = hanging.into_iter().map(|(_, far)| far).collect();
            println!("PEER has hung");
            std::thread::sleep(Duration::from_secs(1));
            // Files of any kind behind them.
            let file = std::fs::File::open("/proc/self/status").unwrap();
            for _ in 0..300 {
                let _ = connect().map(|one| one.send(&[0; 4], &vec![file.as_fd(); 200]));
            }
            println!("PEER goes on");
            std::thread::sleep(Duration::from_secs(600));
            drop(far);
        }
        "live" => {
            let mut client = Client::connect("peer").unwrap();
            println!("PEER lives");
            for round in 0u32.. {
                let share = client.open_share("eth1", 0).unwrap().share;
                let sockets: Vec<_> = (0..4).map(|_| UdpSocket::bind("0.0.0.0:0").unwrap()).collect();
                for socket in &sockets {
                    client.open_flow(share, None, socket).unwrap();
                }
                if round % 3 == 0 {
                    client.close_share(share).unwrap();
                } else if round > 6 {
                    std::thread::sleep(Duration::from_secs(600));
                }
                std::mem::forget(sockets);
            }
        }
        // Without a role: somebody runs all ignored tests.
        _ => {}
    }
}

#[test]
fn ordinary_user_is_served_where_the_file_names_him_alone() {
    let Some(bed) = Bed::new("") else { return };
    let keeper = bed.client();
    assert!(said(bed.peer(NOBODY, "connect")).contains("user 65534 may not use the agent"));
    let write = |text: &str| std::fs::write(bed.rights.path(), text).unwrap();
    write("[[allow]]\ngroups = [65534]\nmemory_mib = 0");
    assert_eq!(said(bed.peer(NOBODY, "connect")), "Ok(0) 1", "he sees his own program alone");
    write("[[allow]]\nusers = [65534]\ninterfaces = [\"eth2\"]");
    assert!(said(bed.peer(NOBODY, "connect")).contains("InterfaceNotAllowed"));
    write("[[allow]]\nusers = [65533]\n[[allow]]\nusers = [65534]");
    assert_eq!(said(bed.peer(NOBODY, "connect")), "Ok(1048576) 1");
    write("[[allow]\nusers = [65534]");
    assert!(said(bed.peer(NOBODY, "connect")).contains("file of rights cannot be used"));
    drop(keeper);
    bed.end();
}

#[test]
fn user_whom_the_file_does_not_name_is_served_with_the_pass_of_this_agent_which_root_gets() {
    let Some(bed) = Bed::new("") else { return };
    let mut root = bed.client();
    let pass = root.want_pass().unwrap();
    assert_eq!(said(bed.peer(NOBODY, &format!("connect {pass}"))), "Ok(1048576) 1");
    let wrong = said(bed.peer(NOBODY, &format!("connect {}", pass ^ 1)));
    assert!(wrong.contains("user 65534 may not use the agent"), "{wrong}");
    std::fs::write(bed.rights.path(), "[[allow]]\nusers = [65534]\ninterfaces = [\"eth2\"]").unwrap();
    let limited = said(bed.peer(NOBODY, &format!("connect {pass}")));
    assert!(limited.contains("InterfaceNotAllowed"), "the file decides for those whom it names: {limited}");
    let refused = said(bed.peer(NOBODY, "pass"));
    assert!(refused.contains("user 65534 may not use the agent"), "{refused}");
    drop(root);
    bed.end();
}

#[test]
fn agent_of_a_stranger_is_not_believed() {
    let Some(inside) = namespace() else { return };
    let agent = InMemoryPorts::new(&[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let bed = Bed { inside, ports: agent, rights: file, agent: std::thread::spawn(|| Ended::Done) };
    let mut squatter = bed.peer(NOBODY, "squat");
    assert_eq!(word(&mut squatter), "has it");
    let refused = bed.inside.enter(|| Client::connect("test")).unwrap();
    let pid = squatter.id();
    assert!(matches!(refused, Err(ClientError::Untrusted { uid: NOBODY, own_uid: 0, pid: found }) if found == pid));
    squatter.kill().unwrap();
    squatter.wait().unwrap();
}

#[test]
fn descriptor_that_is_no_right_to_a_flow_is_refused_with_the_reason() {
    let Some(bed) = Bed::new("") else { return };
    let (mut client, Some(other)) = (bed.client(), namespace()) else { return };
    let share = client.open_share("eth1", 0).unwrap().share;
    let mut refusal = |socket: BorrowedFd<'_>| match client.open_flow(share, None, socket) {
        Err(ClientError::Refused(cause)) => cause,
        other => panic!("{other:?}"),
    };
    let unbound = bed.inside.enter(|| rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap());
    assert_eq!(refusal(unbound.unwrap().as_fd()), Cause::NotBound {});
    let tcp = bed.inside.enter(|| TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
    assert_eq!(refusal(tcp.as_fd()), Cause::WrongSocket { domain: 2, kind: 1, protocol: 6 });
    let foreign = other.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    assert_eq!(refusal(foreign.as_fd()), Cause::OtherNamespace {});
    // What is no socket at all ends the connection.
    let file = std::fs::File::open("/proc/self/status").unwrap();
    assert_eq!(refusal(file.as_fd()), Cause::NotASocket {});
    wait_until("the agent ends the connection", || bed.ports.shares().is_empty());
    bed.end();
}

#[test]
fn flow_is_the_one_that_the_socket_is_bound_to_and_ends_with_the_socket() {
    let Some(bed) = Bed::new("") else { return };
    let mut client = bed.client();
    let share = client.open_share("eth1", 0).unwrap().share;
    let (socket, kept) = (bed.socket(), bed.socket());
    for socket in [&socket, &kept] {
        let (_, addresses) = client.open_flow(share, None, socket).unwrap();
        assert_eq!(addresses.local, socket.local_addr().unwrap());
    }
    drop(socket);
    wait_until("the flow of the closed socket ends", || bed.ports.flows().len() == 1);
    assert_eq!(bed.ports.flows()[0].1.local, kept.local_addr().unwrap());
    drop(client);
    bed.end();
}

#[test]
fn interface_gone_is_an_event() {
    let Some(bed) = Bed::new("") else { return };
    let mut client = bed.client();
    let share = client.open_share("eth1", 0).unwrap().share;
    assert_eq!(client.take_events().unwrap(), []);
    bed.ports.remove("eth1");
    wait_until("the agent closes the share", || bed.ports.shares().is_empty());
    let until = Instant::now() + Duration::from_secs(20);
    let events = loop {
        let events = client.take_events().unwrap();
        assert!(Instant::now() < until);
        if !events.is_empty() {
            break events;
        }
    };
    assert!(
        matches!(&events[..], [Answer::ShareRevoked { share: told, cause: Cause::InterfaceGone { .. } }] if *told == share)
    );
    drop(client);
    bed.end();
}

fn hello() -> Vec<u8> {
    Request::Hello { version: VERSION, name: ProgramName::cut("raw") }.to_bytes(1)
}

/// The answer, and then the end of the connection.
fn last_words(connection: &Connection) -> Cause {
    let packet = connection.receive().unwrap();
    let (Answer::Refused { cause }, _) = Answer::from_bytes(&packet.bytes).unwrap() else { panic!("{packet:?}") };
    let end = connection.receive();
    assert!(end.as_ref().map_or(true, |packet| packet.bytes.is_empty()), "{end:?}");
    cause
}

#[test]
fn garbage_ends_its_own_connection_and_no_other() {
    let Some(bed) = Bed::new("") else { return };
    let mut client = bed.client();
    let share = client.open_share("eth1", 0).unwrap().share;
    let garbage: [Vec<u8>; 6] =
        [vec![0], vec![0xff; 100], vec![1; 32 * 1024], vec![0; 40_000], Answer::Done {}.to_bytes(1), vec![7, 0, 0, 0]];
    for bytes in &garbage {
        let connection = bed.connection();
        connection.send(bytes, &[]).unwrap();
        assert!(matches!(last_words(&connection), Cause::Malformed { .. }), "{bytes:?}");
        let connection = bed.connection();
        connection.send(&hello(), &[]).unwrap();
        connection.receive().unwrap();
        connection.send(bytes, &[]).unwrap();
        assert!(matches!(last_words(&connection), Cause::Malformed { .. }), "{bytes:?}");
    }
    let early = bed.connection();
    early.send(&Request::Status { from: 0 }.to_bytes(1), &[]).unwrap();
    assert_eq!(last_words(&early), Cause::NotGreeted {});
    let older = bed.connection();
    older.send(&Request::Hello { version: 0, name: ProgramName::cut("") }.to_bytes(1), &[]).unwrap();
    assert_eq!(last_words(&older), Cause::WrongVersion { agent: VERSION });
    let many = bed.connection();
    let file = std::fs::File::open("/dev/null").unwrap();
    many.send(&hello(), &vec![file.as_fd(); 200]).unwrap();
    assert_eq!(last_words(&many), Cause::WrongDescriptors { found: 200, wanted: 0 });
    client.open_flow(share, None, bed.socket()).unwrap();
    drop(client);
    bed.end();
}

/// A TCP socket that waits for minutes when it is closed, and its far end, which does not read.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    near.set_nonblocking(true).unwrap();
    while near.write(&[0; 1 << 16]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&near, Some(Duration::from_secs(30))).unwrap();
    (near, far)
}

/// A socket that takes a file with it when it is closed, which only its queue has.
fn with_in_its_queue(inner: impl AsFd) -> UnixDatagram {
    let (near, far) = UnixDatagram::pair().unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let inner = [inner.as_fd()];
    assert!(beside.push(SendAncillaryMessage::ScmRights(&inner)));
    rustix::net::sendmsg(&far, &[std::io::IoSlice::new(b"x")], &mut beside, SendFlags::empty()).unwrap();
    near
}

impl Bed {
    /// The agent reads nothing while this acts, so that what is sent and closed here is the agent's alone.
    fn while_it_waits(&self, act: impl FnOnce()) {
        let mut asks = self.client();
        let hold = self.ports.hold();
        let asking = std::thread::spawn(move || asks.open_share("eth1", 0).map(drop));
        // Until it has read that.
        std::thread::sleep(Duration::from_millis(200));
        act();
        drop(hold);
        asking.join().unwrap().unwrap();
    }

    /// Another program is served at once.
    fn serves_others(&self, beside: &str) {
        let (sent, done) = std::sync::mpsc::channel();
        let status = || Client::connect("other").and_then(|mut client| client.status());
        // A crowd of its user that is gone may not have been seen to go.
        let again = move || {
            std::iter::repeat_with(status).find(|status| !matches!(status, Err(ClientError::Connection(error)) if error.kind() == ErrorKind::ConnectionReset))
        };
        let connect = || std::thread::spawn(move || sent.send(again().unwrap()));
        let _other = self.inside.enter(connect).unwrap();
        let status = done.recv_timeout(Duration::from_secs(5));
        assert!(matches!(status, Ok(Ok(_))), "{beside}: {status:?}");
    }
}

#[test]
fn socket_that_lingers_keeps_nobody_waiting_sent_before_hello() {
    let Some(bed) = Bed::new("") else { return };
    let (lingers, _far) = lingering();
    let ungreeted = bed.connection();
    bed.while_it_waits(move || ungreeted.send(&Request::Release {}.to_bytes(1), &[lingers.as_fd()]).unwrap());
    bed.serves_others("sent before hello");
}

#[test]
fn socket_that_lingers_keeps_nobody_waiting_sent_instead_of_another() {
    let Some(bed) = Bed::new("") else { return };
    let greeted = bed.connection();
    greeted.send(&hello(), &[]).unwrap();
    greeted.receive().unwrap();
    let (lingers, _far) = lingering();
    bed.while_it_waits(move || greeted.send(&Request::Release {}.to_bytes(1), &[lingers.as_fd()]).unwrap());
    bed.serves_others("sent instead of a UDP socket");
}

#[test]
fn socket_that_lingers_keeps_nobody_waiting_in_the_queue_of_another() {
    let Some(bed) = Bed::new("") else { return };
    let greeted = bed.connection();
    greeted.send(&hello(), &[]).unwrap();
    greeted.receive().unwrap();
    let (lingers, _far) = lingering();
    bed.while_it_waits(move || {
        let beside = with_in_its_queue(&lingers);
        greeted.send(&Request::Release {}.to_bytes(1), &[beside.as_fd()]).unwrap();
        drop(lingers);
    });
    bed.serves_others("in the queue of a Unix socket");
}

#[test]
fn socket_that_lingers_keeps_nobody_waiting_in_a_connection_that_is_one_too_many() {
    let Some(bed) = Bed::new("") else { return };
    let (lingers, _far) = lingering();
    let mut crowd = Vec::new();
    bed.while_it_waits(|| {
        crowd.extend((0..65).map(|_| bed.connection()));
        crowd[64].send(&hello(), &[lingers.as_fd()]).unwrap();
        drop(lingers);
    });
    drop(crowd);
    bed.serves_others("one too many");
}

#[test]
fn user_whose_files_are_never_closed_is_not_read_and_others_are() {
    let Some(bed) = Bed::new("[[allow]]\nusers = [65534]") else { return };
    let _keeper = bed.client();
    let up = bed.inside.enter(|| Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap());
    assert!(up.unwrap().success());
    let mut hoarder = bed.peer(NOBODY, "hoard");
    bed.while_it_waits(|| assert_eq!(word(&mut hoarder), "has hung"));
    assert_eq!(word(&mut hoarder), "goes on");
    bed.serves_others("beside a user whose files are never closed");
    let kept = std::fs::read_dir("/proc/self/fd").unwrap().count();
    println!("{kept} descriptors");
    assert!(kept < 2000, "{kept} descriptors");
    hoarder.kill().unwrap();
    hoarder.wait().unwrap();
    bed.serves_others("after it");
}

#[test]
fn peer_that_floods_and_does_not_read_keeps_nobody_waiting() {
    let Some(bed) = Bed::new("") else { return };
    let mut client = bed.client();
    let flooding = bed.connection();
    rustix::io::ioctl_fionbio(&flooding, true).unwrap();
    flooding.send(&hello(), &[]).unwrap();
    let silent = bed.connection();
    let request = Request::Status { from: 0 }.to_bytes(2);
    let (mut longest, mut sent) = (Duration::ZERO, 0);
    for _ in 0..200 {
        while flooding.send(&request, &[]).is_ok() {
            sent += 1;
        }
        let start = Instant::now();
        client.status().unwrap();
        longest = longest.max(start.elapsed());
    }
    println!("{sent} requests of a flood; the longest answer to another took {longest:?}");
    assert!(sent > 100 && longest < Duration::from_secs(1), "{sent} {longest:?}");
    // Who says nothing is not kept for ever.
    assert!(silent.receive().unwrap().bytes.is_empty());
    drop((flooding, client));
    bed.end();
}

#[test]
fn user_who_connects_and_says_nothing_keeps_nobody_out() {
    let Some(bed) = Bed::new("") else { return };
    let keeper = bed.client();
    let mut crowd: Vec<Child> = vec![bed.peer(NOBODY, "crowd")];
    crowd.iter_mut().for_each(|peer| assert_eq!(word(peer), "stands there"));
    let mut times: Vec<Duration> = (0..40).map(|_| time(|| drop(bed.client()))).collect();
    times.sort();
    println!("connected beside the crowd within {:?}, at most {:?}", times[20], times[39]);
    // A program waits for 2 s, and then does without the agent.
    assert!(times[39] < Duration::from_secs(2), "{times:?}");
    for peer in &mut crowd {
        peer.kill().unwrap();
        peer.wait().unwrap();
    }
    drop(keeper);
    bed.end();
}

#[test]
fn programs_killed_at_any_moment_leave_nothing() {
    let Some(bed) = Bed::new("") else { return };
    let keeper = bed.client();
    for round in 0..4 {
        let mut peers: Vec<Child> = (0..6).map(|_| bed.peer(0, "live")).collect();
        for (at, peer) in peers.iter_mut().enumerate() {
            word(peer);
            std::thread::sleep(Duration::from_micros(300 * (at as u64 * 7 + round) % 3000));
            peer.kill().unwrap();
            peer.wait().unwrap();
        }
        wait_until("shares and flows are taken back", || bed.ports.shares().is_empty() && bed.ports.flows().is_empty());
    }
    drop(keeper);
    bed.end();
}

#[test]
fn port_that_takes_long_to_open_keeps_nobody_else_waiting() {
    let Some(bed) = Bed::new("") else { return };
    let (mut slow, mut other) = (bed.client(), bed.client());
    let share = other.open_share("eth1", 0).unwrap().share;
    bed.ports.be_slow();
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| slow.open_share("eth1", 0));
        let ports = bed.ports.clone();
        wait_until("the port is being opened", || ports.unfinished() == 1);
        let asked = time(|| {
            let socket = bed.socket();
            let (flow, _) = other.open_flow(share, None, &socket).unwrap();
            other.close_flow(flow).unwrap();
            assert_eq!(other.status().unwrap().len(), 2);
            drop(bed.client());
        });
        assert!(asked < Duration::from_secs(1), "others were answered after {asked:?}");
        let with_times = scope.spawn(|| other.want_times(share).map(|()| other));
        wait_until("times are asked for", || ports.unfinished() == 2);
        assert!(!opened.is_finished() && !with_times.is_finished());
        bed.ports.finish();
        assert_ne!(opened.join().unwrap().unwrap().share, share);
        drop(with_times.join().unwrap().unwrap());
    });
    drop(slow);
    bed.end();
}

/// The call that had a program's first connection adopted waited 30 ms for its port.
#[test]
fn share_that_was_begun_keeps_its_program_waiting_for_nothing() {
    let Some(bed) = Bed::new("") else { return };
    let mut client = bed.client();
    bed.ports.be_slow();
    assert_eq!(client.is_share_there("eth1").unwrap(), None);
    for _ in 0..2 {
        assert!(!client.begin_share("eth1").unwrap());
    }
    assert_eq!(client.status().unwrap().len(), 1, "other answers come meanwhile");
    assert_eq!((bed.ports.unfinished(), client.is_share_there("eth1").unwrap()), (1, Some(false)));
    bed.ports.finish();
    wait_until("it is there", || client.begin_share("eth1").unwrap());
    let opened = client.open_share("eth1", 0).unwrap();
    assert_eq!((bed.ports.shares(), client.is_share_there("eth1").unwrap()), (vec![opened.share], None));

    // One that is wanted before it is there is waited for, and comes once.
    assert!(!client.begin_share("eth1").unwrap());
    std::thread::scope(|scope| {
        let ports = bed.ports.clone();
        let opening = scope.spawn(|| client.open_share("eth1", 0));
        wait_until("the port is being opened", || ports.unfinished() == 1);
        ports.finish();
        opening.join().unwrap().unwrap();
    });
    assert_eq!(bed.ports.shares().len(), 2);

    // What the agent refuses it says when it is opened.
    assert!(!client.begin_share("eth7").unwrap());
    wait_until("the port is being opened", || bed.ports.unfinished() == 1);
    bed.ports.finish();
    wait_until("it is refused", || client.begin_share("eth7").unwrap());
    let refused = client.open_share("eth7", 0);
    assert!(matches!(refused, Err(ClientError::Refused(Cause::InterfaceGone { .. }))), "{refused:?}");
    drop(client);
    bed.end();
}

#[test]
fn share_that_comes_too_late_costs_its_program_nothing_else() {
    let Some(bed) = Bed::new("") else { return };
    let mut client = bed.client();
    let share = client.open_share("eth1", 0).unwrap().share;
    let socket = bed.socket();
    client.open_flow(share, None, &socket).unwrap();
    bed.ports.be_slow();
    let refused = client.open_share("eth1", 0);
    assert!(matches!(refused, Err(ClientError::NotInTime { waited_ms: 10_000 })), "{refused:?}");
    assert_eq!(client.status().unwrap().len(), 1);
    bed.ports.finish();
    wait_until("the share comes late", || bed.ports.shares().len() == 2);
    let until = Instant::now() + Duration::from_secs(20);
    while bed.ports.shares().len() > 1 {
        assert!(client.take_events().unwrap().is_empty() && Instant::now() < until, "nobody keeps it");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((bed.ports.shares(), bed.ports.flows().len()), (vec![share], 1));
    drop(client);
    bed.end();
}

#[test]
fn second_agent_finds_the_first() {
    let Some(bed) = Bed::new("") else { return };
    let again = bed.inside.enter(|| {
        serve(InMemoryPorts::new(&[]), Path::new("/none"), Stay::Forever, || panic!("two agents in one namespace"))
    });
    assert_eq!(again.unwrap().unwrap(), Ended::Taken);
    bed.end();
}
