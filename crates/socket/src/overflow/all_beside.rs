//! Has the kernel tell all that it can beside a datagram, for as long as datagrams are taken over: the program may ask for it between
//! then and its receive, and the kernel would answer from the datagram's header.

use libc::{
    IP_PKTINFO, IP_RECVTOS, IP_RECVTTL, IPV6_RECVHOPLIMIT, IPV6_RECVPKTINFO, IPV6_RECVTCLASS, SOL_IP, SOL_IPV6, c_int,
};
use nearwire_stack::Family;
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::{int_option, set_int_option};

/// An IPv6 socket has those of IPv4 too, for what comes to it from there. Times are left out: a socket that has asked for them once
/// has the kernel stamp every frame of the host until it is closed (`sock_enable_timestamp` of net/core/sock.c).
const OPTIONS: [(c_int, c_int); 6] = [
    (SOL_IP, IP_PKTINFO),
    (SOL_IP, IP_RECVTTL),
    (SOL_IP, IP_RECVTOS),
    (SOL_IPV6, IPV6_RECVPKTINFO),
    (SOL_IPV6, IPV6_RECVHOPLIMIT),
    (SOL_IPV6, IPV6_RECVTCLASS),
];
const OPTIONS_V4: usize = 3;

/// The options that the program had not set are set until this is dropped.
pub(super) struct AllBeside {
    shadow: Descriptor,
    is_set_here: [bool; OPTIONS.len()],
}

impl AllBeside {
    pub(super) fn of(shadow: Descriptor, family: Family) -> AllBeside {
        let count = if matches!(family, Family::V4) { OPTIONS_V4 } else { OPTIONS.len() };
        let mut is_set_here = [false; OPTIONS.len()];
        for (is_set_here, (level, option)) in is_set_here.iter_mut().zip(&OPTIONS[..count]) {
            let was_unset = int_option(shadow, *level, *option).is_ok_and(|value| value == 0);
            *is_set_here = was_unset && set_int_option(shadow, *level, *option, 1).is_ok();
        }
        AllBeside { shadow, is_set_here }
    }
}

impl Drop for AllBeside {
    fn drop(&mut self) {
        for (_, (level, option)) in self.is_set_here.iter().zip(OPTIONS).filter(|(is_set_here, _)| **is_set_here) {
            // It was set a moment ago, so to unset it is not refused.
            let _ = set_int_option(self.shadow, level, option, 0);
        }
    }
}
