//! Programs of this folder: an event loop, threads, processes.

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Side, compiled, found_or_skip, source_file};

const PORT: u16 = 7100;

#[test]
fn python_event_loop_echoes_every_datagram() {
    let Some([python]) = found_or_skip(["python3"]) else { return };
    let script = source_file("event_loop.py");
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        for (port, address) in [(PORT, bed.address(Side::Far)), (PORT + 1, bed.address_v6(Side::Far))] {
            let server = bed.start(Side::Far, &python, &format!("{} serve {address} {port}", script.display()));
            bed.wait_for_port(Side::Far, port);
            let told = bed.run(Side::Near, &python, &format!("{} ask {address} {port} 500", script.display()));
            assert_eq!(told, "500 right, 0 wrong, 0 missing\n");
            assert_eq!(server.stop(Signal::TERM), "");
        }
        bed.assert_paths(1000);
    }
}

#[test]
fn node_event_loop_echoes_every_datagram() {
    let Some([node]) = found_or_skip(["node"]) else { return };
    let script = source_file("datagrams.js");
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let server = bed.start(Side::Far, &node, &format!("{} serve {address} {PORT}", script.display()));
        bed.wait_for_port(Side::Far, PORT);
        let told = bed.run(Side::Near, &node, &format!("{} ask {address} {PORT} 400", script.display()));
        assert_eq!(told, "400 right of 400\n");
        assert_eq!(server.stop(Signal::TERM), "");
        bed.assert_paths(400);
    }
}

#[test]
fn threads_with_a_socket_each_serve_at_once() {
    let Some([compiler]) = found_or_skip(["g++"]) else { return };
    let program = compiled(&compiler, "threads.cpp");
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let server = bed.start(Side::Far, &program, &format!("serve {address} {PORT} 4"));
        (0..4).for_each(|thread| bed.wait_for_port(Side::Far, PORT + thread));
        let told = bed.run(Side::Near, &program, &format!("ask {address} {PORT} 4 800"));
        assert_eq!(told, "3200 right, 0 wrong, 0 missing, 0 late\n");
        assert_eq!(server.succeed(), "3200 served\n");
        bed.assert_paths(3200);
    }
}

#[test]
fn children_that_share_a_socket_answer_everyone_once() {
    let Some([python]) = found_or_skip(["python3"]) else { return };
    let script = source_file("processes.py");
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let server = bed.start(Side::Far, &python, &format!("{} serve {address} {PORT} 3", script.display()));
        bed.wait_for_port(Side::Far, PORT);
        let told = bed.run(Side::Near, &python, &format!("{} ask {address} {PORT} 60 3", script.display()));
        assert_eq!(told, "60 right, 0 wrong, 0 missing\n");
        assert_eq!(server.succeed(), "20 by the parent\n40 by 3 children\n");
    }
}
