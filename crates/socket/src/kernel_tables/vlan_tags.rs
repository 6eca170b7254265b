//! Interfaces that take VLAN tags out of the frames they receive. The kernel keeps the tag beside the frame, where a program on socket
//! buffers does not see it.
//!
//! With VLAN interfaces above such an interface its sockets are the kernel's. Without any, the kernel drops tagged frames; an
//! accelerated socket receives those that are addressed to it, unless the device itself drops VLANs that nobody has, or the program is in a
//! driver that tells the tag.
//!
//! Asked of the network namespace of the calling thread, by netlink and ethtool. For commands, not for what a program waits for.

use std::io;

use nearwire_frames::xdp::tells_hidden_tags;
use nearwire_stack::{Link, LinkKind};
use nearwire_sys::ethtool::Interface;
use nearwire_sys::netlink::dump;
use nearwire_sys::netlink::message::u32_of;

use super::link;

/// `IFLA_PROMISCUITY`: how many want all frames (tcpdump, a bridge).
const IFLA_PROMISCUITY: u16 = 30;
/// Tags of 802.1Q: frames of VLANs that nobody has are dropped by the device.
const FILTER: &str = "rx-vlan-filter";
/// Drivers that have the filter and pass such frames all the same.
const FILTERS_IN_VAIN: [&str; 1] = ["e1000e"];

/// An interface that takes tags out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenTags {
    /// Its name.
    pub interface: String,
    /// The far end decides.
    pub is_veth: bool,
    /// The VLAN interfaces above it.
    pub vlans: Vec<String>,
    /// The device drops frames of VLANs that nobody has.
    pub is_filtered: bool,
    /// In native and zero-copy mode the driver reports the tag, and tagged frames are the kernel's.
    pub is_told_in_driver: bool,
}

impl HiddenTags {
    /// All such interfaces.
    ///
    /// # Errors
    /// As netlink.
    pub fn read() -> io::Result<Vec<HiddenTags>> {
        let links = links()?;
        let hiding = links.iter().filter(|known| known.link.kind == LinkKind::Ethernet).filter_map(|known| {
            let driver = Interface::open(&known.name).ok()?.driver_info().map(|info| info.driver).unwrap_or_default();
            let is_veth = driver == "veth";
            if !hides_tags(&known.name, is_veth) {
                return None;
            }
            let above = links.iter().filter(|other| carrier_of(&links, other) == Some(known.link.ifindex));
            Some(HiddenTags {
                is_veth,
                vlans: above.map(|vlan| vlan.name.clone()).collect(),
                is_told_in_driver: tells_hidden_tags(known.link.ifindex),
                is_filtered: !known.is_promiscuous && filters(&known.name, &driver),
                interface: known.name.clone(),
            })
        });
        Ok(hiding.collect())
    }

    /// What to know, and what to do, where an accelerated socket may receive what the kernel would drop.
    #[must_use]
    pub fn caution(&self) -> Option<String> {
        if self.is_filtered || !self.vlans.is_empty() {
            return None;
        }
        let name = &self.interface;
        let advice = if self.is_veth {
            format!("`ethtool -K PEER txvlan off` at the far end of {name} leaves tags in")
        } else {
            format!("`ethtool -K {name} rxvlan off` leaves tags in")
        };
        Some(format!(
            "{name} takes VLAN tags out of frames: sockets also receive tagged frames that are addressed to them, which the kernel drops; {advice}"
        ))
    }

    /// Why no socket is accelerated there, and what to do, where VLANs cannot be distinguished.
    #[must_use]
    pub fn obstacle(&self) -> Option<(String, String)> {
        if self.vlans.is_empty() {
            return None;
        }
        let name = &self.interface;
        let found = format!("{name} carries VLANs ({}) and takes their tags out of frames", self.vlans.join(", "));
        let advice = if self.is_veth {
            "a veth with VLAN interfaces is always the kernel's: name an interface without any".to_owned()
        } else {
            format!("`ethtool -K {name} rxvlan off` leaves tags in")
        };
        Some((found, advice))
    }
}

/// Whether frames that come by an interface may have lost their tag.
#[must_use]
pub fn hides_tags(name: &str, is_veth: bool) -> bool {
    // With veth it is the far end that leaves it out, whatever this end is told.
    let strips = || Interface::open(name)?.strips_vlan_tags();
    is_veth || strips().unwrap_or(true)
}

fn filters(name: &str, driver: &str) -> bool {
    let features = || Interface::open(name).ok()?.features().ok();
    let is_on = features().is_some_and(|features| features.get(FILTER).is_some_and(|filter| filter.is_active));
    is_on && !FILTERS_IN_VAIN.contains(&driver)
}

/// A link with what the stack does not need.
struct Known {
    link: Link,
    name: String,
    is_promiscuous: bool,
}

fn links() -> io::Result<Vec<Known>> {
    let mut found = Vec::new();
    dump(None, libc::RTM_GETLINK, &[0; link::HEADER_BYTES], |message| {
        let value = |wanted| message.attributes(link::HEADER_BYTES).value(wanted);
        let name = value(libc::IFLA_IFNAME).and_then(|name| std::str::from_utf8(name).ok());
        if let (Ok(link), Some(name)) = (link::link(message), name) {
            let is_promiscuous = value(IFLA_PROMISCUITY).and_then(u32_of).is_some_and(|count| count > 0);
            found.push(Known { link, name: name.trim_end_matches('\0').to_owned(), is_promiscuous });
        }
    })?;
    Ok(found)
}

/// The interface below a VLAN interface; a VLAN may be above another one.
fn carrier_of(links: &[Known], vlan: &Known) -> Option<u32> {
    let mut at = vlan;
    // More would be a circle.
    for _ in 0..links.len() {
        let LinkKind::Vlan { parent, .. } = at.link.kind else { break };
        at = links.iter().find(|known| known.link.ifindex == parent)?;
    }
    (at.link.ifindex != vlan.link.ifindex).then_some(at.link.ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hiding(is_veth: bool, vlans: &[&str], is_filtered: bool) -> HiddenTags {
        let vlans = vlans.iter().map(ToString::to_string).collect();
        HiddenTags { interface: "eth4".to_owned(), is_veth, vlans, is_filtered, is_told_in_driver: false }
    }

    #[test]
    fn interface_that_hides_tags_says_what_to_do_where_it_matters() {
        let caution = |is_veth, vlans, is_filtered| hiding(is_veth, vlans, is_filtered).caution();
        assert!(caution(false, &[], false).unwrap().contains("`ethtool -K eth4 rxvlan off`"));
        assert!(caution(true, &[], false).unwrap().contains("`ethtool -K PEER txvlan off`"));
        assert_eq!(caution(false, &[], true), None, "the device drops them");
        assert_eq!(caution(false, &["v5"], false), None, "the sockets are the kernel's");
        let (found, advice) = hiding(false, &["v5", "v6"], true).obstacle().unwrap();
        assert!(found.contains("v5, v6") && advice.contains("`ethtool -K eth4 rxvlan off`"), "{found}; {advice}");
        assert!(hiding(true, &["v5"], false).obstacle().unwrap().1.contains("always the kernel's"));
        assert_eq!(hiding(false, &[], false).obstacle(), None);
    }
}
