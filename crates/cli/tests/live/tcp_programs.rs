//! Real programs with TCP connections under `nearwire run`: what they do is what they do on the kernel, and their connections are adopted.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, CableEnd, program_under_test};

use serde_json::Value;

use crate::by_agent::{kill, status_of, wait_until};
use crate::common::accelerated::Bed;
use crate::common::nearwire;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Where it runs and how its connections are adopted; without a policy on the kernel.
pub(crate) type Policy = Option<&'static str>;
const WAYS: [(Policy, Policy); 4] =
    [(Some("auto"), Some("auto")), (Some("eager"), None), (None, Some("eager")), (None, None)];

/// A server, the client that uses it, and how often something is in what the client says that it does on the kernel too.
struct Pair<'a> {
    server: &'a [&'a str],
    client: &'a [&'a str],
    says: &'a [&'a str],
    /// Sends and receives often enough for `auto`.
    is_adopted: bool,
}

impl Pair<'_> {
    fn run(&self) {
        let Some(bed) = Bed::lay() else { return };
        let programs = [self.server[0], self.client[0]];
        if let Some(missing) = programs.iter().find(|name| Command::new(name).arg("--version").output().is_err()) {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs {missing}");
            return println!("SKIP no {missing}");
        }
        for (at, (server, client)) in WAYS.into_iter().enumerate() {
            self.run_once(&bed, &format!("{}", 7300 + at), server, client);
        }
    }

    fn run_once(&self, bed: &Bed, port: &str, server: Policy, client: Policy) {
        let (near, far) = (bed.cable.near(), bed.cable.far());
        let address = near.ipv4.to_string();
        let words = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| word.replace("ADDRESS", &address).replace("PORT", port)).collect()
        };
        let mut server_child = start(bed, near, &words(self.server), server);
        await_listener(near, port, &mut server_child);
        let done = end(start(bed, far, &words(self.client), client));
        // One that ends by itself has, or does.
        let begun = Instant::now();
        while server_child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if server_child.try_wait().unwrap().is_none() {
            rustix::process::kill_process(
                rustix::process::Pid::from_child(&server_child),
                rustix::process::Signal::INT,
            )
            .unwrap();
        }
        let served = end(server_child);
        let (said, told) = (text(&done), text(&served));
        let what = format!("{:?} server {server:?} client {client:?}\n{said}\nserver: {told}", self.client);
        assert!(done.status.success(), "{what}");
        for words in self.says {
            assert!(said.contains(words), "'{words}' is missing: {what}");
        }
        for (policy, said) in [(server, &told), (client, &said)] {
            // By `auto` the kernel has a connection until its port is open, which some have no use for.
            if policy == Some("eager") && self.is_adopted && said.contains("counters") {
                assert!(said.contains("connections adopted"), "{what}");
            }
        }
    }
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn start(bed: &Bed, end: &CableEnd, words: &[String], policy: Policy) -> Child {
    let mut command = program_under_test("env");
    // Tests that run in the background of a shell have it ignored, and what they start has.
    command.arg("--default-signal=INT");
    if let Some(policy) = policy {
        command.arg(bed.installed()).args(["run", "--quiet", "--stats", "--"]);
        command.env("NEARWIRE_ADOPT", policy).env("NEARWIRE_SPIN", "50us");
    }
    command.args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir(bed.directory.path());
    end.namespace.enter(|| command.spawn()).unwrap().unwrap()
}

/// Waits until somebody listens; without connecting, which some servers would take for their client.
pub(crate) fn await_listener(end: &CableEnd, port: &str, server: &mut Child) {
    let wanted = format!(":{:04X} ", port.parse::<u16>().unwrap());
    let listens = || {
        let listed = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| {
            end.namespace.enter(|| std::fs::read_to_string(file.replace("/net", "/thread-self/net"))).unwrap().unwrap()
        });
        listed.concat().lines().any(|line| line.contains(&wanted) && line.contains(" 0A "))
    };
    let until = Instant::now() + TIMEOUT;
    while !listens() {
        assert!(Instant::now() < until && server.try_wait().unwrap().is_none(), "nobody listens at {port}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a program and its threads wait for, and what the library says of it.
fn state_of(pid: u32) -> String {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let directory = std::path::Path::new("/proc").join(pid.to_string());
    let command = read(directory.join("cmdline")).replace('\0', " ");
    let threads = std::fs::read_dir(directory.join("task")).into_iter().flatten().flatten().map(|thread| thread.path());
    let waits = threads.map(|thread| ["comm", "wchan", "syscall"].map(|file| read(thread.join(file))).join(" "));
    let status = Command::new(crate::common::NEARWIRE).args(["status", &pid.to_string()]).output();
    let (connections, signals) = (read(directory.join("net/tcp")), read(directory.join("status")));
    let waits = waits.collect::<Vec<_>>().join("\n");
    format!(
        "{command}\n{waits}\n{}\n{connections}\n{signals}",
        status.map_or_else(|error| error.to_string(), |status| text(&status))
    )
}

pub(crate) fn end(mut child: Child) -> Output {
    let until = Instant::now() + TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            let state = state_of(child.id());
            kill(child.id());
            panic!("it does not end: {}\n{state}", text(&child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn sockperf_ping_pong() {
    let server = ["sockperf", "server", "--tcp", "-i", "ADDRESS", "-p", "PORT"];
    let client = ["sockperf", "ping-pong", "--tcp", "-i", "ADDRESS", "-p", "PORT", "-t", "1"];
    Pair {
        server: &server,
        client: &client,
        says: &["Summary: Latency is", "# dropped messages = 0"],
        is_adopted: true,
    }
    .run();
}

#[test]
fn sockperf_throughput() {
    let server = ["sockperf", "server", "--tcp", "-i", "ADDRESS", "-p", "PORT"];
    let client = ["sockperf", "throughput", "--tcp", "-i", "ADDRESS", "-p", "PORT", "-t", "1", "-m", "256"];
    Pair { server: &server, client: &client, says: &["Summary: Message Rate"], is_adopted: true }.run();
}

#[test]
fn iperf3_transfers() {
    let server = ["iperf3", "-s", "-1", "-B", "ADDRESS", "-p", "PORT"];
    let client = ["iperf3", "-c", "ADDRESS", "-p", "PORT", "-n", "50M"];
    Pair { server: &server, client: &client, says: &["iperf Done", "receiver"], is_adopted: false }.run();
    let reverse = ["iperf3", "-c", "ADDRESS", "-p", "PORT", "-n", "50M", "-R", "-P", "3"];
    Pair { server: &server, client: &reverse, says: &["iperf Done", "receiver"], is_adopted: false }.run();
}

/// A server and a client in one language, which check each byte: many connections, small messages and large ones.
fn languages(name: &str, server: &str, client: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (server, client) = (file("server", server), file("client", client));
    Pair {
        server: &[name, &server, "ADDRESS", "PORT"],
        client: &[name, &client, "ADDRESS", "PORT"],
        says: &["all 20 of 20"],
        is_adopted: true,
    }
    .run();
}

#[test]
fn python_asyncio_with_many_connections() {
    languages(
        "python3",
        "
import asyncio, sys
async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data); await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, sys.argv[1], int(sys.argv[2]))
    await server.serve_forever()
try: asyncio.run(main())
except KeyboardInterrupt: pass
",
        "
import asyncio, sys
async def one(number):
    reader, writer = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    for turn in range(60):
        size = (1, 100, 5000, 70000)[(turn + number) % 4]
        data = bytes((number + turn + at) % 251 for at in range(size))
        writer.write(data); await writer.drain()
        assert await reader.readexactly(size) == data
    writer.write_eof()
    assert await reader.read() == b''
    writer.close(); await writer.wait_closed()
    return 1
async def main():
    done = await asyncio.gather(*(one(number) for number in range(20)))
    print('all', sum(done), 'of 20')
asyncio.run(main())
",
    );
}

#[test]
fn node_with_many_connections() {
    languages(
        "node",
        "
const net = require('net');
net.createServer({allowHalfOpen: true}, socket => socket.pipe(socket)).listen(Number(process.argv[3]), process.argv[2]);
process.on('SIGINT', () => process.exit(0));
",
        "
const net = require('net');
let done = 0;
for (let number = 0; number < 20; number++) {
    const socket = net.connect(Number(process.argv[3]), process.argv[2]);
    let turn = 0, wanted = null, got = 0;
    const next = () => {
        if (turn == 60) return socket.end();
        wanted = Buffer.alloc([1, 100, 5000, 70000][(turn + number) % 4]);
        for (let at = 0; at < wanted.length; at++) wanted[at] = (number + turn + at) % 251;
        got = 0, turn++;
        socket.write(wanted);
    };
    socket.on('connect', next);
    socket.on('data', data => {
        if (Buffer.compare(data, wanted.subarray(got, got + data.length))) throw new Error('wrong byte');
        got += data.length;
        if (got == wanted.length) next();
    });
    socket.on('close', () => { if (++done == 20) console.log('all', done, 'of 20'); });
}
",
    );
}

const ANSWERS: &str = "
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
connection, _ = listener.accept()
while data := connection.recv(1000):
    if data == b'clamp': connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP)
    connection.sendall(data)
";

#[test]
fn status_tells_who_has_a_connection_and_since_when() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let words = ["python3", "-c", ANSWERS, &near.ipv4.to_string(), "7390"].map(str::to_owned);
    let mut server = start(&bed, near, &words, Some("auto"));
    await_listener(near, "7390", &mut server);
    let connect = || TcpStream::connect((near.ipv4, 7390));
    let stream = far.namespace.enter(connect).unwrap().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    ask_until_adopted(&stream, server.id());
    let bytes_of = |socket: &Value| socket["counters"]["received_bytes"].as_u64().unwrap();
    let before_bytes = bytes_of(&told_within(server.id(), is_adopted));
    (0..20).for_each(|_| ask(&stream, &[7; 100]));
    // The round trip is told by a thread that looks now and then.
    let adopted = told_within(server.id(), |socket| socket["connection"]["round_trip_ns"].is_u64());
    assert_eq!((&adopted["transport"], &adopted["accelerated"]), (&"tcp".into(), &true.into()), "{adopted:#}");
    let connection = &adopted["connection"];
    assert_eq!((&connection["adopted"], &connection["released"]), (&1.into(), &0.into()), "{adopted:#}");
    assert_eq!(adopted["remote"], stream.local_addr().unwrap().to_string(), "{adopted:#}");
    assert_eq!(bytes_of(&adopted) - before_bytes, 2000, "{adopted:#}");

    ask(&stream, b"clamp");
    let released = told_within(server.id(), |socket| socket["accelerated"] == false);
    assert_eq!(released["reason"], "KernelCall", "{released:#}");
    let connection = &released["connection"];
    assert_eq!((&connection["adopted"], &connection["released"]), (&1.into(), &1.into()), "{released:#}");
    let page = text(&nearwire(&["status", &server.id().to_string()]));
    assert!(
        page.contains("TCP, adopted once, the kernel's for 0s: the program did what only the kernel does"),
        "{page}"
    );
    drop(stream);
    end(server);
}

#[test]
fn connection_sends_segments_as_long_as_the_path_takes() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let words = ["python3", "-c", ANSWERS, &near.ipv4.to_string(), "7393"].map(str::to_owned);
    let mut server = start(&bed, near, &words, Some("auto"));
    await_listener(near, "7393", &mut server);
    let connect = || TcpStream::connect((near.ipv4, 7393));
    let stream = far.namespace.enter(connect).unwrap().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    ask_until_adopted(&stream, server.id());
    let sent = || status_of(&server.id().to_string())["counters"]["frames_sent"].as_u64().unwrap();
    let before_frames = sent();
    (0..100).for_each(|_| ask(&stream, &[7; 1000]));
    let frames = sent() - before_frames;
    assert!((100..150).contains(&frames), "{frames}");
    drop(stream);
    end(server);
}

/// Sends it and gets the same back.
pub(crate) fn ask(mut stream: &TcpStream, question: &[u8]) {
    let mut answer = vec![0; question.len()];
    stream.write_all(question).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, question);
}

/// Asks until the only connection of a process is adopted: its port is opened beside what the process does.
pub(crate) fn ask_until_adopted(stream: &TcpStream, pid: u32) {
    wait_until("it is adopted", || {
        (0..20).for_each(|_| ask(stream, &[7; 100]));
        is_adopted(&status_of(&pid.to_string())["sockets"][0])
    });
}

pub(crate) fn is_adopted(socket: &Value) -> bool {
    socket["accelerated"] == true && socket["transport"] == "tcp"
}

/// The only socket of a process, as soon as what `nearwire status` says of it is so.
pub(crate) fn told_within(pid: u32, is_so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + TIMEOUT;
    loop {
        let socket = &status_of(&pid.to_string())["sockets"][0];
        if is_so(socket) {
            return socket.clone();
        }
        assert!(Instant::now() < until, "{socket:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
