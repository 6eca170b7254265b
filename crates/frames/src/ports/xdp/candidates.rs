//! Ways to open an interface that are worth trying: the caller measures each shortly and keeps the fastest.
//!
//! Which is fastest depends on the driver (on veth generic beats native by 0.3 us, on NICs it is the other way round),
//! so it is measured and not assumed.
//!
//! A NIC spreads what it receives over its queues, so on one there is a socket on each of them. Only on veth, where a frame arrives on
//! the queue that it was sent on, one queue can be left to a socket that only sends.

use super::config::{Steer, XdpConfig, XdpMode};
use super::socket::SocketSpec;
use super::zero_copy;
use crate::interface::InterfaceFacts;

/// Which end of the cable an interface is. Native veth delivers on the queue that a frame was sent on, so the two ends'
/// queues cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that starts an exchange.
    Near,
    /// The end that answers.
    Far,
}

/// A way to open an interface. Both ends must use the candidate of the same label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// For people, records and the other end.
    pub label: &'static str,
    /// The configuration for this side.
    pub config: XdpConfig,
}

/// What one empty look may poll a device's queue for: longer than a round of a driver's.
const BUSY_POLL_US: u32 = 20;

/// The ways to open `facts`, the likely fastest first. Zero-copy is among them only where the driver has it ([`zero_copy`]).
#[must_use]
pub fn candidates(facts: &InterfaceFacts, side: Side, steer: Steer) -> Vec<Candidate> {
    if facts.is_veth() { on_veth(facts, side, steer) } else { on_device(facts, steer) }
}

/// For a port that has one socket on each queue, whatever the way: of each mode the first way. A second one of the same mode would be refused
/// for the same reason.
#[must_use]
pub fn first_of_each_mode(facts: &InterfaceFacts) -> Vec<XdpConfig> {
    let mut ways: Vec<XdpConfig> = Vec::new();
    for Candidate { config, .. } in candidates(facts, Side::Near, Steer::Filters) {
        if ways.iter().all(|way| way.mode != config.mode) {
            ways.push(config);
        }
    }
    ways
}

fn on_veth(facts: &InterfaceFacts, side: Side, steer: Steer) -> Vec<Candidate> {
    let config = |mode| XdpConfig::new(&facts.name, mode, steer).with_buffers_for(facts);
    let (native_rx, native_tx) = if side == Side::Far { (1, 0) } else { (0, 1) };
    let mut found = Vec::new();
    let mut offer = |label, config| found.push(Candidate { label, config });
    if facts.rx_queues >= 2 && facts.tx_queues >= 2 {
        offer("generic, separate TX socket", config(XdpMode::Generic).with_separate_tx(0, 1));
        offer("native copy, separate TX socket", config(XdpMode::NativeCopy).with_separate_tx(native_rx, native_tx));
    }
    offer("generic, one socket a queue", config(XdpMode::Generic).with_queues(facts.rx_queues));
    offer("native copy, one socket a queue", config(XdpMode::NativeCopy).with_queues(facts.rx_queues));
    if facts.is_jumbo() {
        // A program on socket buffers is shown what a sender on this host has yet to be cut (`UDP_SEGMENT`), and cannot tell it from a long
        // datagram up to the MTU. With one in the driver, veth has its peer cut it.
        found.sort_by_key(|way| way.config.mode == XdpMode::Generic);
    }
    found
}

fn on_device(facts: &InterfaceFacts, steer: Steer) -> Vec<Candidate> {
    let config = |mode| {
        let config = XdpConfig::new(&facts.name, mode, steer);
        config.with_queues(facts.rx_queues).with_buffers_for(facts).with_ring_of(facts)
    };
    let polling = |mode| XdpConfig { busy_poll_us: BUSY_POLL_US, ..config(mode) };
    let mut found = Vec::new();
    let mut offer = |label, config| found.push(Candidate { label, config });
    if zero_copy::may_have(facts, binds_zero_copy) {
        offer("zero-copy, one socket a queue, busy polling", polling(XdpMode::ZeroCopy));
        offer("zero-copy, one socket a queue", config(XdpMode::ZeroCopy));
    }
    offer("native copy, one socket a queue, busy polling", polling(XdpMode::NativeCopy));
    offer("native copy, one socket a queue", config(XdpMode::NativeCopy));
    offer("generic, one socket a queue", config(XdpMode::Generic));
    found
}

/// Binds a socket in zero-copy mode and closes it again.
fn binds_zero_copy(facts: &InterfaceFacts) -> bool {
    let frames = facts.rx_ring_frames.max(64);
    let spec = SocketSpec { tx_frames: 16, ..SocketSpec::of_trial(facts, XdpMode::ZeroCopy, frames, 64) };
    spec.open().is_ok_and(|halves| halves.zero_copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(driver: &str, queues: u32) -> InterfaceFacts {
        InterfaceFacts {
            name: "nw0".into(),
            ifindex: 0x7fff_fff1,
            mac: [0; 6],
            mtu_bytes: 1500,
            up: true,
            carrier: true,
            receive_dropped_frames: 0,
            driver: driver.into(),
            rx_queues: queues,
            tx_queues: queues,
            rx_ring_frames: 0,
            program: None,
        }
    }

    fn veth(queues: u32) -> InterfaceFacts {
        facts("veth", queues)
    }

    #[test]
    fn veth_of_one_queue_asked_offers_one_socket_only() {
        let labels: Vec<_> = candidates(&veth(1), Side::Near, Steer::All).iter().map(|c| c.label).collect();
        assert_eq!(labels, ["generic, one socket a queue", "native copy, one socket a queue"]);
    }

    #[test]
    fn veth_of_two_queues_asked_both_sides_offer_the_same_labels_and_native_crosses() {
        let (near, far) = (candidates(&veth(2), Side::Near, Steer::All), candidates(&veth(2), Side::Far, Steer::All));
        assert_eq!(near.len(), 4);
        for (near, far) in near.iter().zip(&far) {
            assert_eq!(near.label, far.label);
            let crosses = near.label == "native copy, separate TX socket";
            assert_eq!(near.config.rx_queues == vec![far.config.tx_queue], crosses);
        }
    }

    #[test]
    fn device_of_several_queues_asked_offers_all_of_them_and_no_socket_that_only_sends() {
        let found = candidates(&facts("mlx5_core", 4), Side::Near, Steer::All);
        assert!(found.len() >= 3);
        for Candidate { label, config } in found {
            assert_eq!((config.rx_queues.len(), config.separate_tx_socket), (4, false), "{label}");
            assert_eq!(label.ends_with("busy polling"), config.busy_poll_us > 0);
        }
    }

    #[test]
    fn jumbo_frames_have_the_largest_buffers_there_are() {
        let jumbo = |driver| InterfaceFacts { mtu_bytes: 9000, ..facts(driver, 2) };
        for facts in [jumbo("veth"), jumbo("ice")] {
            let found = candidates(&facts, Side::Near, Steer::All);
            assert!(found.iter().all(|way| way.config.frame_size_bytes == 4096));
        }
    }

    #[test]
    fn jumbo_veth_is_opened_in_the_driver_before_others() {
        let found = candidates(&InterfaceFacts { mtu_bytes: 9000, ..veth(2) }, Side::Near, Steer::Filters);
        assert_eq!((found[0].config.mode, found.len()), (XdpMode::NativeCopy, 4));
    }

    #[test]
    fn devices_of_different_numbers_of_queues_have_their_labels_in_common() {
        let labels =
            |queues| candidates(&facts("ice", queues), Side::Near, Steer::All).into_iter().map(|way| way.label);
        assert!(labels(1).eq(labels(8)));
    }

    #[test]
    fn port_on_a_device_has_as_many_buffers_as_its_ring_takes() {
        let ring = |rx_ring_frames| InterfaceFacts { rx_ring_frames, ..facts("ice", 2) };
        let frames = |facts: &InterfaceFacts| {
            candidates(facts, Side::Near, Steer::All).iter().map(|way| way.config.fill_frames).min()
        };
        assert_eq!(frames(&ring(0)), Some(128));
        assert_eq!(frames(&ring(1024)), Some(1024));
    }
}
