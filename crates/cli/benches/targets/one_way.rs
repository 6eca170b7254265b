//! How many small messages a second one end can send and the other receive, as fast as it goes.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::{Side, Steer, XdpPort, candidates};
use nearwire_lab::CableEnd;
use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::Clock;
use nearwire_wire::ethernet::EtherType;

use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU, SIZE_BYTES};

const ROUND: Duration = Duration::from_millis(250);
/// Messages between two looks at the clock.
const BATCH: usize = 64;

#[derive(Clone, Copy)]
pub enum Kind {
    Udp,
    /// Length of the frame without FCS.
    Xdp(u32),
}

/// The longer frames are those of UDP datagrams of 64 and 1400 bytes.
pub const KINDS: [Kind; 4] = [Kind::Udp, Kind::Xdp(SIZE_BYTES), Kind::Xdp(64 + 42), Kind::Xdp(1400 + 42)];

impl Kind {
    pub fn name(self) -> String {
        match self {
            Kind::Udp => "udp".to_owned(),
            Kind::Xdp(SIZE_BYTES) => "frame/xdp".to_owned(),
            Kind::Xdp(bytes) => format!("frame/xdp {bytes} B"),
        }
    }
}

pub struct Rate {
    pub sent_mpps: f64,
    pub received_mpps: f64,
}

/// An end that sends, and one that counts.
trait Sender {
    fn send_batch(&mut self) -> Result<u64, String>;
}
trait Counter {
    fn count(&mut self) -> Result<u64, String>;
}

pub fn rate(kind: Kind, near: &CableEnd, far: &CableEnd, clock: Clock) -> Result<Rate, AnyError> {
    match kind {
        Kind::Udp => {
            let at_far = far.namespace.enter(|| UdpSocket::bind((far.ipv4, 0)))??;
            at_far.set_nonblocking(true)?;
            let to = at_far.local_addr()?;
            let at_near = near.namespace.enter(|| connected(near, to))??;
            run(at_near, at_far, clock)
        }
        Kind::Xdp(bytes) => {
            let at_far = far.namespace.enter(|| open(far, Side::Far, EtherType::MEASURING))??;
            let at_near = near.namespace.enter(|| open(near, Side::Near, EtherType::MEASURING))??;
            run(Frames { port: at_near, frame: frame(near, far, bytes) }, at_far, clock)
        }
    }
}

/// Does something while the far end counts frames of a type, as [`Kind::Xdp`] does; or, when not `counted`, leaves them to
/// be dropped at a full ring, and the CPU to others.
pub fn counting<R>(
    far: &CableEnd,
    ether_type: EtherType,
    counted: bool,
    work: impl FnOnce() -> Result<R, AnyError>,
) -> Result<R, AnyError> {
    let mut port = far.namespace.enter(|| open(far, Side::Far, ether_type).map_err(|error| error.to_string()))??;
    if !counted {
        return work();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            pin_current_thread(RESPONDER_CPU).map_err(|errno| format!("pin to CPU {RESPONDER_CPU}: {errno}"))?;
            while !done.load(Ordering::Relaxed) {
                port.count()?;
            }
            Ok::<_, String>(())
        });
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        counting.join().map_err(|_| "the counting thread failed")??;
        outcome
    })
}

fn run(mut sender: impl Sender, mut counter: impl Counter + Send, clock: Clock) -> Result<Rate, AnyError> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            pin_current_thread(RESPONDER_CPU).map_err(|errno| format!("pin to CPU {RESPONDER_CPU}: {errno}"))?;
            let mut counted = 0;
            while !done.load(Ordering::Relaxed) {
                counted += counter.count()?;
            }
            Ok::<_, String>(counted)
        });
        pin_current_thread(INITIATOR_CPU)?;
        // Time for the counter to get going.
        std::thread::sleep(Duration::from_millis(10));
        let (began, mut sent) = (clock.now_ticks(), 0);
        let end = Instant::now() + ROUND;
        let outcome = loop {
            match sender.send_batch() {
                Ok(batch) => sent += batch,
                Err(error) => break Err(error),
            }
            if Instant::now() >= end {
                break Ok(());
            }
        };
        let elapsed_us = clock.ns(clock.now_ticks() - began) as f64 / 1e3;
        // What is still on its way is counted too.
        std::thread::sleep(Duration::from_millis(5));
        done.store(true, Ordering::Relaxed);
        let counted = counting.join().map_err(|_| "the counting thread failed")??;
        outcome?;
        Ok(Rate { sent_mpps: sent as f64 / elapsed_us, received_mpps: counted as f64 / elapsed_us })
    })
}

fn connected(near: &CableEnd, to: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((near.ipv4, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

impl Sender for UdpSocket {
    fn send_batch(&mut self) -> Result<u64, String> {
        let message = [0x5a; SIZE_BYTES as usize];
        for _ in 0..BATCH {
            self.send(&message).map_err(|error| format!("send a datagram: {error}"))?;
        }
        Ok(BATCH as u64)
    }
}

impl Counter for UdpSocket {
    fn count(&mut self) -> Result<u64, String> {
        let mut message = [0; SIZE_BYTES as usize];
        Ok(u64::from(self.recv(&mut message).is_ok()))
    }
}

fn open(end: &CableEnd, side: Side, ether_type: EtherType) -> Result<XdpPort, AnyError> {
    let facts = InterfaceFacts::read(&end.interface)?;
    let steer = Steer::EtherType(ether_type.0);
    let way = candidates(&facts, side, steer).into_iter().find(|way| way.label == "generic, separate TX socket");
    Ok(XdpPort::open(&way.ok_or("the cable has one queue only")?.config)?)
}

fn frame(near: &CableEnd, far: &CableEnd, bytes: u32) -> Vec<u8> {
    let mut frame = [far.mac, near.mac].concat();
    frame.extend(EtherType::MEASURING.0.to_be_bytes());
    frame.resize(bytes as usize, 0x5a);
    frame
}

struct Frames {
    port: XdpPort,
    frame: Vec<u8>,
}

impl Sender for Frames {
    fn send_batch(&mut self) -> Result<u64, String> {
        let mut queued = 0;
        while queued < BATCH as u64 && self.port.queue(&self.frame).map_err(|error| error.to_string())? {
            queued += 1;
        }
        self.port.flush().map_err(|error| error.to_string())?;
        Ok(queued)
    }
}

impl Counter for XdpPort {
    fn count(&mut self) -> Result<u64, String> {
        Ok(u64::from(self.receive(|_| ()).map_err(|error| error.to_string())?.is_some()))
    }
}
