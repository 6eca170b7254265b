//! Servers whose master binds the sockets and forks the workers that use them, under `nearwire run`.

use std::time::Duration;

use serde_json::Value;

use crate::by_agent::{kill, status_of, wait_until};
use crate::common::accelerated::Bed;
use crate::shared_port::{Clients, Round, Server, has_program};

/// The master binds SOCKETS, and never uses one. It forks a worker for each line that it reads, which gives everything back that comes to
/// the socket of that number, with its own number behind. Workers end with the test, which has the other end of their standard input.
const MASTER: &str = "
import signal
def alone(*at):
    made = udp(); made.bind(at); return made
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sockets = [SOCKETS]
def worker(at):
    one = sockets[at]
    waits = select.poll()
    waits.register(one, select.POLLIN)
    waits.register(0, 0)
    os.write(1, b'worker %d\\n' % os.getpid())
    while True:
        if any(fd == 0 for fd, _ in waits.poll()): os._exit(0)
        # Another worker at the socket may have been faster.
        try: data, source = one.recvfrom(2000, socket.MSG_DONTWAIT)
        except BlockingIOError: continue
        one.sendto(b'%s %d' % (data, os.getpid()), source)
step()
for line in sys.stdin:
    if os.fork() == 0: worker(int(line))
";

fn group(bed: &Bed) -> Server {
    Server::start_script(bed, &MASTER.replace("SOCKETS", "shared(near, 7000) for _ in range(4)"))
}

fn single(bed: &Bed) -> Server {
    Server::start_script(bed, &MASTER.replace("SOCKETS", "alone(near, 7000)"))
}

impl Server {
    /// Has a worker begin that uses the socket of this number.
    fn fork(&mut self, at: usize) -> u32 {
        self.program.say(&at.to_string());
        self.await_worker()
    }

    /// What the worker of this number tells of its socket.
    fn told_by(&self, at: usize, socket: usize) -> Value {
        status_of(&self.workers[at].to_string())["sockets"][socket].clone()
    }

    fn told_by_master(&self, socket: usize) -> Value {
        status_of(&self.program.pid())["sockets"][socket].clone()
    }
}

#[track_caller]
fn assert_nothing_lost(round: &Round) {
    assert!(round.lost.is_empty(), "{round:?}");
}

#[track_caller]
fn assert_accelerated(told: &Value) {
    assert_eq!(told["accelerated"], true, "{told:#}");
}

/// Asks so often, and nothing is lost.
fn ask(clients: &mut Clients, rounds: u32) {
    (0..rounds).for_each(|_| assert_nothing_lost(&clients.ask()));
}

#[test]
fn workers_that_use_a_socket_each_that_their_master_bound_are_all_accelerated() {
    let Some(bed) = Bed::lay() else { return };
    let mut server = group(&bed);
    // What comes before the workers waits for them.
    let mut clients = Clients::new(&bed, 64);
    clients.send();
    (0..4).for_each(|at| _ = server.fork(at));
    assert_nothing_lost(&clients.take(None));
    ask(&mut clients, 50);
    for at in 0..4 {
        assert_accelerated(&server.told_by(at, at));
        assert_eq!(server.told_by_master(at)["reason"], "NotUsed");
    }
    let counts = clients.by_worker();
    assert!(counts.len() == 4 && counts.values().all(|count| (4..=40).contains(count)), "{counts:?}");
    // All by the ports now.
    let by_kernel = |server: &Server| {
        (0..4).map(|at| server.told_by(at, at)["counters"]["received_by_shadow"].as_u64().unwrap()).sum::<u64>()
    };
    let before = by_kernel(&server);
    ask(&mut clients, 20);
    assert_eq!(by_kernel(&server), before);
}

#[test]
fn worker_killed_leaves_its_clients_to_the_others_and_the_next_one_at_its_socket_joins_them() {
    let Some(bed) = Bed::lay() else { return };
    let mut server = group(&bed);
    (0..4).for_each(|at| _ = server.fork(at));
    let mut clients = Clients::new(&bed, 64);
    ask(&mut clients, 20);
    for at in [1, 3] {
        let killed = server.workers[at];
        kill(killed);
        wait_until("the agent knows", || !has_program(&bed, killed));
        ask(&mut clients, 5);
        // Longer than a socket without a flow has time to get one.
        std::thread::sleep(Duration::from_millis(4500));
        ask(&mut clients, 5);
        assert_accelerated(&server.told_by(0, 0));
        let begun = server.fork(at);
        server.workers.swap_remove(at);
        wait_until("the new one has clients", || {
            ask(&mut clients, 1);
            clients.by_worker().contains_key(&begun)
        });
        (0..4).for_each(|at| assert_accelerated(&server.told_by(at, at)));
    }
}

#[test]
fn master_killed_leaves_its_workers_as_they_are() {
    let Some(bed) = Bed::lay() else { return };
    let mut server = group(&bed);
    (0..4).for_each(|at| _ = server.fork(at));
    let mut clients = Clients::new(&bed, 64);
    ask(&mut clients, 20);
    let master = server.program.child.id();
    kill(master);
    wait_until("the agent knows", || !has_program(&bed, master));
    for _ in 0..50 {
        ask(&mut clients, 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    (0..4).for_each(|at| assert_accelerated(&server.told_by(at, at)));
}

#[test]
fn socket_of_a_master_that_one_worker_uses_is_accelerated_there() {
    let Some(bed) = Bed::lay() else { return };
    let mut server = single(&bed);
    let mut clients = Clients::new(&bed, 8);
    clients.send();
    let first = server.fork(0);
    assert_nothing_lost(&clients.take(None));
    ask(&mut clients, 100);
    let told = server.told_by(0, 0);
    assert_accelerated(&told);
    assert!(told["counters"]["received_by_shadow"].as_u64().unwrap() <= 16, "{told:#}");
    assert_eq!(server.told_by_master(0)["reason"], "NotUsed");
    // The next one has it after that.
    kill(first);
    wait_until("the agent knows", || !has_program(&bed, first));
    clients.send();
    server.fork(0);
    assert_nothing_lost(&clients.take(None));
    ask(&mut clients, 100);
    assert_accelerated(&server.told_by(1, 0));
}

#[test]
fn socket_that_two_workers_use_is_the_kernels_and_both_say_why() {
    let Some(bed) = Bed::lay() else { return };
    let mut server = single(&bed);
    server.fork(0);
    let mut clients = Clients::new(&bed, 8);
    ask(&mut clients, 50);
    assert_accelerated(&server.told_by(0, 0));
    clients.send();
    server.fork(0);
    assert_nothing_lost(&clients.take(None));
    wait_until("the first worker has heard", || {
        ask(&mut clients, 5);
        server.told_by(0, 0)["accelerated"] == false
    });
    ask(&mut clients, 50);
    for at in 0..2 {
        assert_eq!(server.told_by(at, 0)["reason"], "SharedSocket", "{:#}", server.told_by(at, 0));
    }
}

#[test]
fn socket_that_several_workers_use_is_accelerated_again_when_one_of_them_is_left() {
    let Some(bed) = Bed::lay() else { return };
    let mut server = single(&bed);
    let mut clients = Clients::new(&bed, 16);
    let begun = server.fork(0);
    ask(&mut clients, 10);
    assert_accelerated(&server.told_by(0, 0));
    for at in 1..3 {
        assert_ne!(server.fork(0), begun);
        ask(&mut clients, 10);
        for worker in 0..=at {
            wait_until("the kernel serves all", || server.told_by(worker, 0)["reason"] == "SharedSocket");
        }
    }
    let [first, second] = [server.workers.remove(0), server.workers.remove(1)];
    kill(first);
    wait_until("the agent knows", || !has_program(&bed, first));
    ask(&mut clients, 20);
    assert_eq!(server.told_by(0, 0)["reason"], "SharedSocket", "there is another one still");
    kill(second);
    wait_until("the last one has it again", || {
        ask(&mut clients, 1);
        server.told_by(0, 0)["accelerated"] == true
    });
    let by_kernel = |server: &Server| server.told_by(0, 0)["counters"]["received_by_shadow"].as_u64().unwrap();
    ask(&mut clients, 5);
    let before = by_kernel(&server);
    ask(&mut clients, 50);
    assert_eq!(by_kernel(&server), before);
    // The next one shares it with the last.
    server.fork(0);
    ask(&mut clients, 10);
    assert_eq!(server.told_by(0, 0)["reason"], "SharedSocket");
}
