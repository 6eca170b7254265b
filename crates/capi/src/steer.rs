//! Steering.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{EINVAL, ENOTSUP, c_int};
use nearwire_frames::RawPort;
use nearwire_frames::steering::{Filter, FlowFilter, FrameFilter, Transport, VlanMatch};
use nearwire_sys::ethtool::{EthtoolError, Interface};

use crate::abi::{self, Flow};
use crate::fault::Fault;
use crate::handle::{self, Port, State, with_port};

const IP_ANY: u32 = 0;
const IPV4: u32 = 4;
const IPV6: u32 = 6;
const MATCH_MAC: u32 = 1;
const MATCH_ETHER_TYPE: u32 = 2;
const MATCH_VLAN: u32 = 4;
const VLAN_UNTAGGED: u16 = 0xffff;

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_filter_add_flow(port: *mut Port, flow: *const Flow) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, |state| add(state, &flows(&abi::read(flow)?)?)) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_filter_remove_flow(port: *mut Port, flow: *const Flow) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, |state| remove(state, &flows(&abi::read(flow)?)?)) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_filter_add_frame(port: *mut Port, filter: *const abi::FrameFilter) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, |state| add(state, &[frame(&abi::read(filter)?)?])) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_filter_remove_frame(port: *mut Port, filter: *const abi::FrameFilter) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, |state| remove(state, &[frame(&abi::read(filter)?)?])) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_flow_hash(port: *mut Port) -> c_int {
    let hash = |state: &mut State| {
        let found = Interface::open(&state.interface).and_then(|interface| interface.hash_function());
        match found {
            Ok(0) => Err(Fault::new(ENOTSUP, format!("{}: the driver names no flow hash", state.interface))),
            Ok(function) => Ok(c_int::from(function)),
            Err(error @ EthtoolError::Unsupported { .. }) => Err(Fault::new(ENOTSUP, error.to_string())),
            Err(error @ EthtoolError::NoInterface { .. }) => Err(Fault::new(libc::ENODEV, error.to_string())),
            Err(error) => Err(Fault::new(ENOTSUP, error.to_string())),
        }
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, hash) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_set_flow_hash(port: *mut Port, _function: u32) -> c_int {
    let refuse = |state: &mut State| {
        let why = format!(
            "choose what {0} hashes: an AF_XDP socket gets its own queue's frames only, and a change of the device would \
             outlive this process; use `ethtool -N {0} rx-flow-hash` and `ethtool -X {0}`",
            state.interface
        );
        Err(Fault::new(ENOTSUP, why))
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, refuse) }
}

/// Adds all or none.
fn add(state: &mut State, filters: &[Filter]) -> Result<c_int, Fault> {
    for (at, &filter) in filters.iter().enumerate() {
        if let Err(error) = with_port!(&mut state.port, port => port.add_filter(filter)) {
            for &added in &filters[..at] {
                with_port!(&mut state.port, port => port.remove_filter(added))?;
            }
            return Err(error.into());
        }
    }
    state.set_filters(state.filters + filters.len());
    Ok(0)
}

/// Removes all or none.
fn remove(state: &mut State, filters: &[Filter]) -> Result<c_int, Fault> {
    for (at, &filter) in filters.iter().enumerate() {
        if let Err(error) = with_port!(&mut state.port, port => port.remove_filter(filter)) {
            for &removed in &filters[..at] {
                with_port!(&mut state.port, port => port.add_filter(removed))?;
            }
            return Err(error.into());
        }
    }
    state.set_filters(state.filters.saturating_sub(filters.len()));
    Ok(0)
}

fn invalid<T>(member: &str, found: impl std::fmt::Display, wanted: &str) -> Result<T, Fault> {
    Err(Fault::new(EINVAL, format!("a filter whose {member} is {found}; wanted: {wanted}")))
}

/// One filter, or for both families two.
fn flows(flow: &Flow) -> Result<Vec<Filter>, Fault> {
    let protocol = u8::try_from(flow.protocol).ok().and_then(Transport::from_number);
    let Some(transport) = protocol else { return invalid("protocol", flow.protocol, "17 (UDP) or 6 (TCP)") };
    if flow.reserved != 0 {
        return invalid("reserved", flow.reserved, "0");
    }
    let [a, b, c, d, rest @ ..] = flow.address;
    let any = flow.address == [0; 16];
    let addresses: Vec<IpAddr> = match flow.family {
        IP_ANY if any => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
        IPV4 if rest == [0; 12] => vec![Ipv4Addr::new(a, b, c, d).into()],
        IPV6 => vec![Ipv6Addr::from(flow.address).into()],
        IP_ANY => return invalid("family", "both with an address", "NEARWIRE_IPV4 or NEARWIRE_IPV6"),
        IPV4 => return invalid("address", "longer than an IPv4 address", "zeroes behind its first four bytes"),
        other => return invalid("family", other, "enum nearwire_family"),
    };
    let port = flow.port;
    Ok(addresses.into_iter().map(|address| Filter::Flow(FlowFilter { transport, address, port })).collect())
}

fn frame(filter: &abi::FrameFilter) -> Result<Filter, Fault> {
    if filter.r#match & !(MATCH_MAC | MATCH_ETHER_TYPE | MATCH_VLAN) != 0 {
        return invalid("match", filter.r#match, "enum nearwire_match");
    }
    if filter.reserved != 0 {
        return invalid("reserved", filter.reserved, "0");
    }
    let has = |part: u32| filter.r#match & part != 0;
    let vlan = if filter.vlan == VLAN_UNTAGGED { VlanMatch::Untagged } else { VlanMatch::Id(filter.vlan) };
    Ok(Filter::Frame(FrameFilter {
        mac: has(MATCH_MAC).then_some(filter.mac),
        ether_type: has(MATCH_ETHER_TYPE).then_some(filter.ether_type),
        vlan: has(MATCH_VLAN).then_some(vlan),
    }))
}
