//! When an interface raises its interrupts. Drivers answer 0 for what they do not have.

use crate::catalogue::base;
use crate::setting::Stage;
use crate::setting::WordValues;
use crate::{EthtoolFact, NicFact, ReadFrom, Reading, Setting};

const ROW: Setting = base::ethtool().stage(Stage::Coalesce);
const TUNED: Setting = ROW.tuned("coalesce");
const RATE: &str = "Thresholds make the delay jump when the load crosses them.";

macro_rules! number {
    ($field:ident) => {
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::value(found.$field))))
    };
}

macro_rules! switch {
    ($field:ident) => {
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::switch(found.$field))))
    };
}

pub(super) const SETTINGS: &[Setting] = &[
    TUNED.row(
        "nic.coalesce.rx-usecs",
        "Microseconds a receive interrupt may be held back, or between two.",
        "A blocking reader waits that long for each packet, while a spinning one is disturbed by each interrupt.",
        number!(rx_usecs),
    )
    .number("us")
    .today("Some drivers delay the first packet, others only keep interrupts apart, and Intel's small values are modes of their own.")
    .in_record()
    .ethtool("-C", &["rx-usecs"])
    .link(&["RxCoalesceSec=#us"])
    .moved_by_reset(),
    TUNED.row(
        "nic.coalesce.rx-frames",
        "Frames a receive interrupt may wait for.",
        "A single packet waits for others that may not come.",
        number!(rx_frames),
    )
    .number("frames")
    .in_record()
    .ethtool("-C", &["rx-frames"])
    .link(&["RxMaxCoalescedFrames"]),
    TUNED.row(
        "nic.coalesce.rx-irq",
        "Microseconds and frames a receive event may wait while interrupts are off.",
        "It delays what a running poll gets to see.",
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| {
            Reading::Value(format!("{} us, {} frames", found.rx_usecs_irq, found.rx_frames_irq))
        }))),
    )
    .today("Few drivers take it: sfc, bnxt and tg3 among those of Linux 6.12.")
    .ethtool_of("-C", &["rx-usecs-irq", "rx-frames-irq"], WordValues::Between(&["", " us, ", " frames"]))
    .link(&["RxCoalesceIrqSec=#us", "RxMaxCoalescedIrqFrames"]),
    TUNED.row(
        "nic.coalesce.tx-usecs",
        "Microseconds a transmit interrupt may be held back.",
        "It delays the reuse of send buffers and seldom the message itself.",
        number!(tx_usecs),
    )
    .number("us")
    .today("Drivers whose transmit queues share a vector with receive queues refuse it.")
    .in_record()
    .ethtool("-C", &["tx-usecs"])
    .link(&["TxCoalesceSec=#us"])
    .moved_by_reset(),
    TUNED.row(
        "nic.coalesce.tx-frames",
        "Frames a transmit interrupt may wait for.",
        "It delays the reuse of send buffers and seldom the message itself.",
        number!(tx_frames),
    )
    .number("frames")
    .today("On virtio 0 switches the polling of transmit completions off instead.")
    .in_record()
    .ethtool("-C", &["tx-frames"])
    .link(&["TxMaxCoalescedFrames"]),
    TUNED.row(
        "nic.coalesce.tx-frames-irq",
        "Frames a transmit event may wait for while interrupts are off.",
        "On mlx4 it limits the work of one round instead.",
        number!(tx_frames_irq),
    )
    .number("frames")
    .ethtool("-C", &["tx-frames-irq"])
    .link(&["TxMaxCoalescedIrqFrames"]),
    TUNED.row(
        "nic.coalesce.adaptive-rx",
        "Whether the receive interrupt delay follows the load.",
        "The delay of a packet then depends on the packets before it.",
        switch!(adaptive_rx),
    )
    .switch()
    .in_record()
    .ethtool("-C", &["adaptive-rx"])
    .link(&["UseAdaptiveRxCoalesce"])
    .moved_by_reset(),
    TUNED.row(
        "nic.coalesce.adaptive-tx",
        "Whether the transmit interrupt delay follows the load.",
        "The delay of a completion then depends on the frames before it.",
        switch!(adaptive_tx),
    )
    .switch()
    .in_record()
    .ethtool("-C", &["adaptive-tx"])
    .link(&["UseAdaptiveTxCoalesce"])
    .moved_by_reset(),
    TUNED.row(
        "nic.coalesce.packet-rates",
        "Packet rates below and above which other delays count, and how often the rate is looked at.",
        RATE,
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| {
            Reading::Value(format!(
                "{} to {} packets/s, every {} s, statistics every {} us",
                found.pkt_rate_low, found.pkt_rate_high, found.sample_interval_s, found.stats_block_usecs
            ))
        }))),
    )
    .today("Only mlx4 has the rates.")
    .ethtool_of("-C", &["pkt-rate-low", "pkt-rate-high", "sample-interval", "stats-block-usecs"], WordValues::Between(&["", " to ", " packets/s, every ", " s, statistics every ", " us"])),
    TUNED.row(
        "nic.coalesce.rx-usecs-low",
        "Microseconds a receive interrupt may be held back at low rates.",
        RATE,
        number!(rx_usecs_low),
    )
    .number("us")
    .ethtool("-C", &["rx-usecs-low"])
    .link(&["RxCoalesceLowSec=#us"]),
    TUNED.row(
        "nic.coalesce.rx-usecs-high",
        "Microseconds a receive interrupt may be held back at high rates.",
        RATE,
        number!(rx_usecs_high),
    )
    .number("us")
    .today("On i40e and ice it limits the rate of interrupts instead.")
    .ethtool("-C", &["rx-usecs-high"])
    .link(&["RxCoalesceHighSec=#us"]),
];
