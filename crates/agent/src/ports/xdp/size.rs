//! How the agent's ports are opened: the ways of an interface, and the sizes.

use nearwire_frames::engine_port::locks_generic_rings;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{Overflow, XdpConfig, XdpMode, fill_frames as ring_frames, first_of_each_mode};

/// Shares of a port, the agent's among them: 64 programs, and some that have several engines. Each has send buffers in packet memory,
/// 10 MiB for all of them.
const SHARES: u32 = 80;
const TX_FRAMES: u32 = 64;
/// Receive buffers of all queues where the program does not say how much memory it wants.
const MEMORY_BYTES: u64 = 16 << 20;
/// All packet memory of a port as most are: that of both, in buffers of 2 KiB, and what the shares keep account by.
pub(super) const PREPARED_BYTES: usize = MEMORY_BYTES as usize + (SHARES * TX_FRAMES * 2048 + (64 << 10)) as usize;
const FILL_FRAMES_LEAST: u32 = 256;
const FILL_FRAMES_MOST: u32 = 8192;
/// A program that does not read keeps its ring's buffers from the others. Shorter rings would give bursts to the kernel; how much of its ring a share
/// may fill, so that all together leave some, the port decides when it is handed over.
const RINGS_FILL: u32 = 8;

/// The ways to open an interface, the likely fastest first, but last those by which only one share could get frames.
pub(super) fn ways(facts: &InterfaceFacts) -> Vec<XdpConfig> {
    let mut ways = first_of_each_mode(facts);
    if !locks_generic_rings() {
        ways.sort_by_key(|config| config.mode == XdpMode::Generic);
    }
    ways
}

pub(super) fn sized(config: XdpConfig, facts: &InterfaceFacts, memory_bytes: u64) -> XdpConfig {
    let memory_bytes = if memory_bytes == 0 { MEMORY_BYTES } else { memory_bytes };
    let frames = memory_bytes / u64::from(facts.rx_queues.max(1)) / u64::from(config.frame_size_bytes);
    let frames = u32::try_from(frames).unwrap_or(u32::MAX).clamp(FILL_FRAMES_LEAST, FILL_FRAMES_MOST);
    let fill_frames = 1 << frames.ilog2();
    let fill_frames = match config.mode {
        // The device receives into them: never fewer than its ring takes.
        XdpMode::ZeroCopy => ring_frames(facts, config.mode, fill_frames),
        XdpMode::NativeCopy | XdpMode::Generic => fill_frames,
    };
    let queues = facts.rx_queues.max(1);
    XdpConfig {
        rx_queues: (0..queues).collect(),
        tx_queue: config.tx_queue.min(queues - 1),
        separate_tx_socket: false,
        shares: SHARES,
        hands_over: true,
        overflow: Overflow::Kernel,
        fill_frames,
        // The agent's own share has no flows.
        rx_ring_slots: 16,
        share_ring_slots: (fill_frames / RINGS_FILL).max(16),
        tx_frames: TX_FRAMES,
        prepared_frames: 0,
        // To collapse small pages takes the kernel 6 to 30 ms a queue, which the first program's first call waits for.
        huge_pages: false,
        // The program that wants the share waits itself: it has no capability to need, and blocks nobody.
        awaits_carrier: false,
        ..config
    }
}
