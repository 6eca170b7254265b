//! IPsec policies. Source: `include/uapi/linux/xfrm.h` (`struct xfrm_userpolicy_info`), `net/xfrm/xfrm_user.c`.

use std::io;

use nearwire_sys::netlink::is_module_absent;

use super::PacketFilter;
use super::netlink::dump;

const XFRM_MSG_GETPOLICY: u16 = 0x15;
/// `struct xfrm_userpolicy_id`: a selector, an index and a direction.
const HEADER_BYTES: usize = 64;
/// Behind a selector (56 bytes), limits (64), what was used of them (32), priority and index.
const DIRECTION_AT: usize = 160;
/// `XFRM_POLICY_IN` and `XFRM_POLICY_OUT`: not of packets that are passed on, nor of single sockets.
const DIRECTIONS: [u8; 2] = [0, 1];

pub(super) fn read() -> io::Result<Vec<PacketFilter>> {
    if is_module_absent("xfrm_user") {
        return Ok(Vec::new());
    }
    let mut count = 0;
    dump(Some(rustix::net::netlink::XFRM), XFRM_MSG_GETPOLICY, &[0; HEADER_BYTES], |message| {
        let direction = message.payload.get(DIRECTION_AT);
        count += u32::from(direction.is_some_and(|direction| DIRECTIONS.contains(direction)));
    })?;
    Ok(if count > 0 { vec![PacketFilter::Policies { count }] } else { Vec::new() })
}
