//! What a connection sends for what comes, segment by segment, in the notation of `script.rs`.

#[path = "../common/mod.rs"]
mod common;

mod acceptance;
mod acknowledging;
mod congestion;
mod ending;
mod prepared;
mod recovery;
mod script;
mod sending;
mod timestamps;
mod ways;
mod windows;

use nearwire_stack::TcpInfo;
use script::World;

fn info(world: &World) -> TcpInfo {
    world.host.stack.tcp_info(world.id).expect("is here")
}

/// Marks the IPv4 packet in a frame: CE (RFC 3168 section 5).
fn mark(frame: &mut [u8]) {
    frame[15] |= 3;
    frame[24..26].fill(0);
    let checksum = nearwire_wire::checksum::Sum::default().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum);
}
