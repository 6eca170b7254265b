//! TCP connections of programs that fork, and of those with threads: who has them, as `nearwire status` says.

use std::net::TcpStream;
use std::process::Child;

use nearwire_lab::Cable;

use crate::by_agent::{kill, status_of};
use crate::common::accelerated::Bed;
use crate::tcp_programs::{TIMEOUT, ask, ask_until_adopted, await_listener, end, is_adopted, start, told_within};

/// Answers; at `fork` it makes a child that sleeps, at `use` one that sends to the far end once.
const FORKS: &str = "
import os, socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
connection, _ = listener.accept()
while data := connection.recv(1000):
    if data in (b'fork', b'use') and os.fork() == 0:
        if data == b'use': connection.sendall(data)
        time.sleep(2 if data == b'fork' else 0)
        os._exit(0)
    if data == b'fork': print(flush=True)
    if data == b'use': os.wait()
    else: connection.sendall(data)
";

/// A child for each connection, which writes its process number first.
const ONE_CHILD_EACH: &str = "
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        listener.close()
        connection.sendall(b'%10d' % os.getpid())
        while data := connection.recv(1000): connection.sendall(data)
        os._exit(0)
    connection.close()
";

/// A thread for each connection.
const ONE_THREAD_EACH: &str = "
import socket, sys, threading
def serve(connection):
    while data := connection.recv(1000): connection.sendall(data)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True: threading.Thread(target=serve, args=(listener.accept()[0],)).start()
";

/// The server, and connections to it.
fn serve(bed: &Bed, program: &str, port: &str, connections: usize) -> (Child, Vec<TcpStream>) {
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let words = ["python3", "-c", program, &near.ipv4.to_string(), port].map(str::to_owned);
    let mut server = start(bed, near, &words, Some("auto"));
    await_listener(near, port, &mut server);
    let connect = || TcpStream::connect((near.ipv4, port.parse::<u16>().unwrap()));
    let streams = std::iter::repeat_with(|| {
        let stream = far.namespace.enter(connect).unwrap().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    });
    (server, streams.take(connections).collect())
}

#[test]
fn connection_stays_adopted_while_a_child_has_it_and_is_the_kernels_when_that_uses_it() {
    let Some(bed) = Bed::lay() else { return };
    let (server, streams) = serve(&bed, FORKS, "7391", 1);
    let stream = &streams[0];
    ask_until_adopted(stream, server.id());
    (0..3).for_each(|_| ask(stream, b"fork"));
    (0..20).for_each(|_| ask(stream, &[7; 100]));
    let forked = told_within(server.id(), is_adopted);
    assert_eq!(forked["connection"]["adopted"], 1, "{forked:#}");
    assert_eq!(forked["connection"]["released"], 0, "{forked:#}");
    ask(stream, b"use");
    let used = told_within(server.id(), |socket| socket["accelerated"] == false);
    assert_eq!(used["reason"], "ReadByChild", "{used:#}");
    (0..20).for_each(|_| ask(stream, &[7; 100]));
    kill(server.id());
    end(server);
}

#[test]
fn child_for_each_connection_adopts_it_when_the_parent_has_closed_its_copy() {
    let Some(bed) = Bed::lay() else { return };
    let (server, mut streams) = serve(&bed, ONE_CHILD_EACH, "7392", 3);
    for stream in &mut streams {
        let mut pid = [0; 10];
        std::io::Read::read_exact(stream, &mut pid).unwrap();
        let pid: u32 = std::str::from_utf8(&pid).unwrap().trim().parse().unwrap();
        ask_until_adopted(stream, pid);
        let adopted = told_within(pid, is_adopted);
        assert_eq!(adopted["connection"]["adopted"], 1, "{adopted:#}");
    }
    drop(streams);
    kill(server.id());
    end(server);
}

#[test]
fn thread_beside_one_with_adopted_connections_has_its_own_by_the_kernel_until_that_one_rests() {
    let Some(bed) = Bed::lay() else { return };
    let (server, streams) = serve(&bed, ONE_THREAD_EACH, "7393", 2);
    ask_until_adopted(&streams[0], server.id());
    for _ in 0..20 {
        streams.iter().for_each(|stream| ask(stream, &[7; 100]));
    }
    let sockets = status_of(&server.id().to_string())["sockets"].clone();
    let kept = sockets.as_array().unwrap().iter().find(|socket| socket["accelerated"] == false).unwrap();
    assert_eq!(kept["reason"], "OtherThread", "{sockets:#}");
    // Two attempts, with nothing of the other thread in between.
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(200));
        (0..600).for_each(|_| ask(&streams[1], &[7; 100]));
    }
    let sockets = status_of(&server.id().to_string())["sockets"].clone();
    assert!(sockets.as_array().unwrap().iter().all(is_adopted), "{sockets:#}");
    kill(server.id());
    drop(streams);
    end(server);
}
