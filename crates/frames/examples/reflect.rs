//! Sends every frame back to where it came from, from one AF_XDP port: the shortest program that does something.
//!
//! `cargo run --release -p nearwire-frames --example reflect -- INTERFACE [ETHERTYPE]`, as root. Takes frames of that
//! EtherType (88b5 unless given) on queue 0 and leaves all others to the kernel. Ctrl-C ends it and prints counters.
//!
//! From here to the ring: `receive` and `send` of `ports/xdp.rs`, then `Receiver::receive` in `ports/xdp/receive.rs` and
//! `Sender::queue` and `flush` in `ports/xdp/send.rs`, then `push` and `pop` in `ports/xdp/rings.rs`.

use nearwire_frames::Port;
use nearwire_frames::ports::xdp::{Steer, XdpConfig, XdpMode, XdpPort};
use nearwire_sys::usage::{catch_interrupts, interrupted};

/// Longest frame that is sent back.
const FRAME_BYTES: usize = 2048;
/// The EtherType for local experiments (IEEE 802).
const LOCAL_EXPERIMENTAL: u16 = 0x88b5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let interface = arguments.next().ok_or("usage: reflect INTERFACE [ETHERTYPE]")?;
    let ether_type = match arguments.next() {
        Some(text) => u16::from_str_radix(&text, 16)?,
        None => LOCAL_EXPERIMENTAL,
    };

    let config = XdpConfig::new(&interface, XdpMode::Generic, Steer::EtherType(ether_type));
    let mut port = XdpPort::open(&config)?;
    println!("reflecting EtherType {ether_type:04x}: {}", port.describe());

    catch_interrupts()?;
    let mut frame = [0; FRAME_BYTES];
    while !interrupted() {
        let Some(len_bytes) = port.receive_copy(&mut frame)? else { continue };
        if len_bytes <= FRAME_BYTES {
            swap_addresses(&mut frame);
            port.send(&frame[..len_bytes])?;
        }
    }
    println!("{:#?}", port.statistics());
    Ok(())
}

/// Destination and source are the first two groups of six bytes.
fn swap_addresses(frame: &mut [u8]) {
    let (destination, rest) = frame.split_at_mut(6);
    destination.swap_with_slice(&mut rest[..6]);
}
