//! Makes a status page with a few sockets, says so, and waits until its standard input ends.
//!
//! What `nearwire status` shows can be looked at without an accelerated program:
//! `cargo run -p nearwire-socket --example status_page`, then `nearwire status`.

use std::io::{self, Read};

use nearwire_socket::config::Config;
use nearwire_socket::reason::{Handed, Reason};
use nearwire_socket::status::{Counter, Engine, EngineState, Identity, InterfaceAbout, Writer};
use nearwire_stack::NeedsKernel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let page = Writer::create(Identity::of_self()?, &Config::default(), 2)?;
    page.set_engine(&Engine { state: EngineState::Running, reason: None, text: "" });
    let eth4 =
        InterfaceAbout { name: "eth4", ifindex: 4, reason: None, queues: 2, mode: "generic", text: "queues 0, 1" };
    page.set_interface(0, &eth4);
    let down = Some(Reason::InterfaceDown);
    page.set_interface(1, &InterfaceAbout { name: "eth5", ifindex: 5, reason: down, queues: 0, mode: "", text: "" });
    page.count(Counter::FramesReceived, 12);
    page.count_handed(Handed::ByStack(NeedsKernel::NeighbourUnresolved));
    if let Some(socket) = page.socket(0) {
        socket.open(3);
        socket.set_local(Some("10.0.0.1:7000".parse()?));
        socket.set_remote(Some("10.0.0.2:7001".parse()?));
        socket.set_interface(4);
        socket.set_accelerated();
        socket.count_received(64);
    }
    if let Some(socket) = page.socket(1) {
        socket.open(4);
        socket.set_kernel(Reason::RuleSaysKernel, 1);
    }
    println!("{}", std::process::id());
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
