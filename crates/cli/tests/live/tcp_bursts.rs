//! Connections of which more comes at once than rings hold, and segments longer than the interface's MTU.

use std::io::BufRead;
use std::time::{Duration, Instant};

use nearwire_lab::Cable;
use rustix::process::{Pid, Signal, kill_process};

use crate::by_agent::status_of;
use crate::common::accelerated::{Bed, Running};
use crate::jumbo::has_multi_buffer;

const ECHO: &str = "
import selectors
listener = socket.create_server((near, PORT), backlog=2000)
chosen = selectors.DefaultSelector()
chosen.register(listener, selectors.EVENT_READ)
print('ready', flush=True)
while True:
    for key, _ in chosen.select():
        if key.fileobj is listener:
            connection, _ = listener.accept()
            chosen.register(connection, selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(100)
        if data:
            key.fileobj.send(data)
        else:
            chosen.unregister(key.fileobj)
            key.fileobj.close()
";

/// `socket.create_connection` needs modules that hosts in emulation do not have.
const CONNECTED: &str = "
def connected(port):
    connection = socket.socket()
    connection.settimeout(30)
    connection.connect((near, port))
    return connection
";

/// More than the rings have room for.
const CLIENTS: &str = "
connections = [connected(PORT) for _ in range(900)]
def ask(word):
    for at, connection in enumerate(connections): connection.send(b'%s %d' % (word, at))
def hear(word): return sum(connection.recv(100) == b'%s %d' % (word, at) for at, connection in enumerate(connections))
for turn in range(4):
    for at, connection in enumerate(connections):
        connection.send(b'one %d' % at); assert connection.recv(100) == b'one %d' % at
step()
ask(b'burst'); step()
print('same', hear(b'burst'), flush=True); step()
";

fn line(program: &mut Running) -> String {
    let mut line = String::new();
    program.lines.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn counter(program: &Running, name: &str) -> u64 {
    status_of(&program.pid())["counters"][name].as_u64().unwrap_or(0)
}

#[test]
fn burst_that_rings_have_no_room_for_is_answered_and_no_connection_is_released() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let script = |text: &str| text.replace("PORT", "7500");
    let variables = [("NEARWIRE_ADOPT", "eager"), ("NEARWIRE_SPIN", "50us")];
    let mut server = bed.run_as_with(near, 0, &script(ECHO), &variables);
    assert_eq!(line(&mut server), "ready");
    let mut clients = bed.start_plain_at(far, &script(&[CONNECTED, CLIENTS].concat()));
    clients.step();
    assert_eq!((counter(&server, "connections_adopted"), counter(&server, "connections_released")), (900, 0));
    let pid = Pid::from_child(&server.child);
    kill_process(pid, Signal::STOP).unwrap();
    clients.say("");
    clients.step();
    kill_process(pid, Signal::CONT).unwrap();
    clients.say("");
    assert_eq!(line(&mut clients), "same 900");
    // Counters of ports are told now and then.
    let until = Instant::now() + Duration::from_secs(5);
    while counter(&server, "frames_dropped") == 0 {
        assert!(Instant::now() < until, "there was room for all");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(counter(&server, "connections_released"), 0);
}

const RECEIVER: &str = "
def digest(data): return b'%020d' % (int.from_bytes(data, 'big') % ((1 << 61) - 1))
listener = socket.create_server((near, PORT))
print('ready', flush=True)
connection, _ = listener.accept()
for _ in range(20):
    assert connection.recv(10, socket.MSG_WAITALL) == b'0123456789'
    got = connection.recv(60000, socket.MSG_WAITALL)
    connection.send(digest(got))
step()
";

const SENDER: &str = "
def digest(data): return b'%020d' % (int.from_bytes(data, 'big') % ((1 << 61) - 1))
connection = connected(PORT)
same = 0
for turn in range(20):
    data = bytes((turn + at * at) % 251 for at in range(60000))
    connection.send(b'0123456789' + data)
    same += connection.recv(20, socket.MSG_WAITALL) == digest(data)
print('same', same, flush=True); step()
";

#[test]
fn segment_that_its_sender_left_to_a_device_to_cut_reaches_its_connection() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let script = |text: &str| text.replace("PORT", "7501");
    let variables = [("NEARWIRE_ADOPT", "eager"), ("NEARWIRE_SPIN", "50us")];
    let mut server = bed.run_as_with(near, 0, &script(RECEIVER), &variables);
    assert_eq!(line(&mut server), "ready");
    let mut sender = bed.start_plain_at(far, &script(&[CONNECTED, SENDER].concat()));
    assert_eq!(line(&mut sender), "same 20");
    server.step();
    let [adopted, released] = ["connections_adopted", "connections_released"].map(|name| counter(&server, name));
    assert!(adopted > 0);
    if !has_multi_buffer() {
        assert!(released > 0, "no ring can hold such segments, so the kernel has their connection");
        return;
    }
    assert_eq!((adopted, released), (1, 0));
    assert!(counter(&server, "frames_received") < 20 * 60_000 / 1448, "the sender has cut them");
}

const STREAMS: &str = "
listener = socket.create_server((near, PORT))
print('ready', flush=True)
def ping_pong(connection, count):
    for _ in range(count): connection.send(connection.recv(100))
small, _ = listener.accept()
ping_pong(small, 400)
small.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
step()
small.sendall(bytes(32 << 20))
step()
ping_pong(small, 1000)
step()
large, _ = listener.accept()
for _ in range(100): large.sendall(bytes(128 << 10))
step()
";

const READER: &str = "
def read(connection, count):
    while count: count -= len(connection.recv(min(count, 1 << 20)))
def ping_pong(connection, count):
    for _ in range(count): connection.send(b'x'); assert connection.recv(100) == b'x'
small = connected(PORT)
small.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
# The port is opened meanwhile.
for _ in range(400): ping_pong(small, 1); time.sleep(0.001)
read(small, 32 << 20)
ping_pong(small, 1000)
large = connected(PORT)
read(large, 100 * (128 << 10))
step()
";

/// What the rows of connections say, and how many were adopted.
fn rows(program: &Running) -> (Vec<Option<String>>, u64) {
    let status = status_of(&program.pid());
    let sockets = status["sockets"].as_array().unwrap().iter();
    let reasons = sockets.map(|socket| socket["reason"].as_str().map(str::to_owned)).collect();
    (reasons, status["counters"]["connections_adopted"].as_u64().unwrap_or(0))
}

#[test]
fn connection_that_sends_bulk_is_the_kernels_as_long_as_it_does_and_from_the_beginning() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let script = |text: &str| text.replace("PORT", "7502");
    let variables = [("NEARWIRE_ADOPT", "auto"), ("NEARWIRE_SPIN", "50us")];
    let mut server = bed.run_as_with(near, 0, &script(STREAMS), &variables);
    assert_eq!(line(&mut server), "ready");
    let mut reader = bed.start_plain_at(far, &script(&[CONNECTED, READER].concat()));
    let bulk = || Some("Bulk".to_owned());
    server.step();
    assert_eq!(rows(&server), (vec![None], 1));
    server.say("");
    server.step();
    assert_eq!(rows(&server), (vec![bulk()], 1), "it sends");
    server.say("");
    server.step();
    assert_eq!(rows(&server), (vec![None], 2), "it answers");
    server.say("");
    server.step();
    assert_eq!(rows(&server), (vec![None, bulk()], 2), "one that sends from the beginning");
    reader.step();
}
