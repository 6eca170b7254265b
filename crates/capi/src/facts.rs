//! Facts of interfaces, counters of ports.

use libc::{c_char, c_int};
use nearwire_frames::Port as _;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_sys::ethtool::{Interface, SoTimestamping};
use nearwire_sys::netdev::{XdpFeatures, XdpReceiveMetadata, xdp_features, xdp_receive_metadata};

use crate::abi::{self, Facts, Statistics};
use crate::handle::{self, Port, State, with_port};
use crate::open::name;

const UP: u32 = 1;
const LINK: u32 = 2;
const XDP_KNOWN: u32 = 4;
const XDP_NATIVE: u32 = 8;
const ZERO_COPY: u32 = 16;
const XDP_RX_TIME: u32 = 512;
const TIMES: [(SoTimestamping, u32); 4] = [
    (SoTimestamping::RX_HARDWARE, 32),
    (SoTimestamping::TX_HARDWARE, 64),
    (SoTimestamping::RX_SOFTWARE, 128),
    (SoTimestamping::TX_SOFTWARE, 256),
];

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `statistics` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_statistics(port: *mut Port, statistics: *mut Statistics) -> c_int {
    let count = |state: &mut State| {
        let found = with_port!(&state.port, port => port.statistics());
        let ours = Statistics {
            received_frames: found.received_frames,
            sent_frames: found.sent_frames,
            receive_dropped_frames: found.receive_dropped_frames,
            send_refused_frames: found.send_refused_frames,
            kicks: found.kicks,
            ..abi::empty()
        };
        // SAFETY: as the caller promises.
        unsafe { abi::write(statistics, &ours) }.map(|()| 0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, count) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `facts` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_facts(interface: *const c_char, facts: *mut Facts) -> c_int {
    handle::call_without_port(|| {
        // SAFETY: as the caller promises.
        let interface = unsafe { name(interface) }?;
        let found = read(&InterfaceFacts::read(interface)?);
        // SAFETY: as the caller promises.
        unsafe { abi::write(facts, &found) }.map(|()| 0)
    })
}

fn read(found: &InterfaceFacts) -> Facts {
    let mut facts = Facts {
        flags: flags(found),
        ifindex: found.ifindex,
        mtu_bytes: found.mtu_bytes,
        rx_queues: found.rx_queues,
        tx_queues: found.tx_queues,
        xdp_program_id: found.program.map_or(0, |program| program.program_id),
        receive_dropped_frames: found.receive_dropped_frames,
        mac: found.mac,
        ..abi::empty()
    };
    // The last byte stays NUL.
    let room = facts.driver.len() - 1;
    for (to, from) in facts.driver[..room].iter_mut().zip(found.driver.bytes()) {
        *to = from;
    }
    if let Ok(interface) = Interface::open(&found.name) {
        facts.speed_mbps = interface.link_settings().ok().and_then(|link| link.speed_mbps).unwrap_or(0);
        if let Ok(times) = interface.timestamping() {
            for (ability, flag) in TIMES {
                facts.flags |= if times.so_timestamping.contains(ability) { flag } else { 0 };
            }
        }
    }
    facts
}

fn flags(found: &InterfaceFacts) -> u32 {
    let features = xdp_features(found.ifindex);
    let has = |feature| features.as_ref().is_ok_and(|features| features.contains(feature));
    let tells_time =
        xdp_receive_metadata(found.ifindex).is_ok_and(|tells| tells.contains(XdpReceiveMetadata::TIMESTAMP));
    let flags = [
        (found.up, UP),
        (found.carrier, LINK),
        (features.is_ok(), XDP_KNOWN),
        (has(XdpFeatures::BASIC), XDP_NATIVE),
        (has(XdpFeatures::XSK_ZEROCOPY), ZERO_COPY),
        (tells_time, XDP_RX_TIME),
    ];
    flags.into_iter().map(|(is_so, flag)| if is_so { flag } else { 0 }).sum()
}
