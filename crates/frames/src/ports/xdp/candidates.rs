//! Ways to open an interface that are worth trying: the caller measures each shortly and keeps the fastest.
//!
//! Which is fastest depends on the driver (on veth generic beats native by 0.3 us, on NICs it is the other way round),
//! so it is measured and not assumed.

use super::config::{Steer, XdpConfig, XdpMode};
use super::socket::SocketSpec;
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

/// The ways to open `facts`, the likely fastest first. Zero-copy is among them only where a bind succeeds now, so the
/// interface must not be in use by another AF_XDP socket.
#[must_use]
pub fn candidates(facts: &InterfaceFacts, side: Side, steer: Steer) -> Vec<Candidate> {
    let config = |mode| XdpConfig::new(&facts.name, mode, steer);
    let is_veth = facts.driver == "veth";
    let two_queues = facts.rx_queues >= 2 && facts.tx_queues >= 2;
    // Where a frame arrives follows from the queue it was sent on only in native veth; elsewhere frames without an IP
    // header arrive on queue 0.
    let (native_rx, native_tx) = if is_veth && side == Side::Far { (1, 0) } else { (0, 1) };
    let mut found = Vec::new();
    let mut offer = |label, config| found.push(Candidate { label, config });
    let zero_copy = binds_zero_copy(facts);
    if zero_copy && two_queues {
        offer("zero-copy, separate TX socket", config(XdpMode::ZeroCopy).with_separate_tx(native_rx, native_tx));
    }
    if zero_copy {
        offer("zero-copy, one socket", config(XdpMode::ZeroCopy));
    }
    if two_queues {
        offer("generic, separate TX socket", config(XdpMode::Generic).with_separate_tx(0, 1));
        offer("native copy, separate TX socket", config(XdpMode::NativeCopy).with_separate_tx(native_rx, native_tx));
    }
    offer("generic, one socket", config(XdpMode::Generic));
    offer("native copy, one socket", config(XdpMode::NativeCopy));
    found
}

/// Binds a socket in zero-copy mode and closes it again. Drivers known not to have it are not touched: on a real one the
/// bind resets the queue.
fn binds_zero_copy(facts: &InterfaceFacts) -> bool {
    const WITHOUT: [&str; 5] = ["veth", "dummy", "bridge", "tun", "loopback"];
    if WITHOUT.contains(&facts.driver.as_str()) || facts.program.is_some() {
        return false;
    }
    let spec = SocketSpec {
        facts,
        queue: 0,
        mode: XdpMode::ZeroCopy,
        frame_size_bytes: 2048,
        fill_frames: 16,
        rx_ring_slots: 16,
        tx_frames: 16,
        prepared_frames: 0,
        huge_pages: false,
    };
    spec.open().is_ok_and(|halves| halves.zero_copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn veth(queues: u32) -> InterfaceFacts {
        InterfaceFacts {
            name: "nw0".into(),
            ifindex: 1,
            mac: [0; 6],
            mtu_bytes: 1500,
            up: true,
            carrier: true,
            receive_dropped_frames: 0,
            driver: "veth".into(),
            rx_queues: queues,
            tx_queues: queues,
            program: None,
        }
    }

    #[test]
    fn veth_of_one_queue_asked_offers_one_socket_only() {
        let labels: Vec<_> = candidates(&veth(1), Side::Near, Steer::All).iter().map(|c| c.label).collect();
        assert_eq!(labels, ["generic, one socket", "native copy, one socket"]);
    }

    #[test]
    fn veth_of_two_queues_asked_both_sides_offer_the_same_labels_and_native_crosses() {
        let (near, far) = (candidates(&veth(2), Side::Near, Steer::All), candidates(&veth(2), Side::Far, Steer::All));
        assert_eq!(near.len(), 4);
        for (near, far) in near.iter().zip(&far) {
            assert_eq!(near.label, far.label);
            let crosses = near.label == "native copy, separate TX socket";
            assert_eq!(near.config.rx_queues == vec![far.config.tx_queue], crosses || !near.config.separate_tx_socket);
        }
    }
}
