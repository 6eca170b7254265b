//! A learning bridge (IEEE 802.1D-2004 clause 7), with a table for each VLAN (IEEE 802.1Q: independent learning).
//!
//! A frame belongs to the VLAN of its outer tag, one without a tag or with a tag of VLAN 0 to VLAN 0. All ports are members of all VLANs, and
//! tags stay as they are. There is no spanning tree: a loop is noticed ([`Function::loop_seen`]) and not broken.

mod table;

use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::UNTAGGED_HEADER_BYTES;

use super::{DropCause, Function, Rewrite, Verdict};
use table::{Key, Table};

/// The first five bytes of addresses that a bridge does not forward (IEEE 802.1D-2004 table 7-10); the sixth is 00 to 0F.
const RESERVED: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];
/// Tags: customer and service (IEEE 802.1Q clause 9.5).
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const RESERVED_VLAN: u16 = 0x0fff;

/// How a bridge learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeConfig {
    /// An address that was not heard for this long is forgotten (IEEE 802.1D-2004 table 7-5: 300 s).
    pub ageing_ns: u64,
    /// Addresses that the table is made for. There are four places of 32 bytes for each, in sets of eight: where a set is full, the address of the set
    /// that was not heard for longest makes room.
    pub addresses_most: usize,
    /// An address that moves between ports more often than this in a second is a sign of a loop.
    pub moves_per_second_most: u32,
}

impl Default for BridgeConfig {
    fn default() -> BridgeConfig {
        BridgeConfig { ageing_ns: 300_000_000_000, addresses_most: 8192, moves_per_second_most: 10 }
    }
}

/// A sign that frames come back to the bridge by another way: one station that seems to be at two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// The station's address.
    pub address: [u8; 6],
    /// Its VLAN; 0: no tag.
    pub vlan_id: u16,
    /// The port it was at, and the one it moved to.
    pub ports: [usize; 2],
}

/// A learning bridge.
#[derive(Debug)]
pub struct Bridge {
    config: BridgeConfig,
    table: Table,
    looped: Option<Loop>,
}

/// What a bridge reads of a frame.
struct Header {
    destination: [u8; 6],
    source: [u8; 6],
    vlan_id: u16,
}

impl Bridge {
    /// A bridge that knows nothing yet.
    #[must_use]
    pub fn new(config: BridgeConfig) -> Bridge {
        Bridge { config, table: Table::new(config.addresses_most), looped: None }
    }

    /// The port at which a station is, as far as the bridge knows. `vlan_id` 0: no tag.
    #[must_use]
    pub fn port_of(&self, now_ns: u64, address: [u8; 6], vlan_id: u16) -> Option<usize> {
        self.table.port_of(Key::new(address, vlan_id), now_ns, self.config.ageing_ns)
    }

    #[inline]
    fn learn(&mut self, now_ns: u64, ingress: usize, header: &Header) {
        // Section 7.8 a): the source is one station, not a group.
        if MacAddress(header.source).is_group() {
            return;
        }
        let key = Key::new(header.source, header.vlan_id);
        let moved = self.table.learn(key, ingress, now_ns, self.config.ageing_ns);
        if let Some(moved) = moved
            && moved.within_second > self.config.moves_per_second_most
        {
            let ports = [moved.from_port, ingress];
            self.looped = Some(Loop { address: header.source, vlan_id: header.vlan_id, ports });
        }
    }
}

impl Function for Bridge {
    #[inline]
    fn judge(&mut self, now_ns: u64, ingress: usize, frame: &[u8]) -> Verdict {
        let Some(header) = Header::of(frame) else {
            return Verdict::Drop(DropCause::Runt);
        };
        if header.vlan_id == RESERVED_VLAN {
            return Verdict::Drop(DropCause::ReservedVlan);
        }
        self.learn(now_ns, ingress, &header);
        if MacAddress(header.destination).is_group() {
            let is_reserved = header.destination[..5] == RESERVED && header.destination[5] < 0x10;
            return if is_reserved { Verdict::Drop(DropCause::ReservedGroup) } else { Verdict::Flood };
        }
        match self.port_of(now_ns, header.destination, header.vlan_id) {
            None => Verdict::Flood,
            Some(egress) if egress == ingress => Verdict::Drop(DropCause::SamePort),
            Some(egress) => Verdict::Forward { egress, rewrite: Rewrite::None },
        }
    }

    fn loop_seen(&self) -> Option<Loop> {
        self.looped
    }
}

impl Header {
    /// `None`: the frame ends inside its header or outer tag.
    #[inline]
    fn of(frame: &[u8]) -> Option<Header> {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, type_high, type_low] =
            *frame.first_chunk::<UNTAGGED_HEADER_BYTES>()?;
        let vlan_id = if TAGS.contains(&[type_high, type_low]) {
            // The tag's control word, and the EtherType behind it.
            let [high, low, _, _] = *frame.get(UNTAGGED_HEADER_BYTES..)?.first_chunk::<4>()?;
            u16::from_be_bytes([high, low]) & 0x0fff
        } else {
            0
        };
        Some(Header { destination: [d0, d1, d2, d3, d4, d5], source: [s0, s1, s2, s3, s4, s5], vlan_id })
    }
}

#[cfg(test)]
mod tests;
