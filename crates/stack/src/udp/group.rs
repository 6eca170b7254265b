//! Groups of endpoints that share a port by SO_REUSEPORT (`net/core/sock_reuseport.c`).

use super::endpoint::Key;
use super::slab::Slab;

#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Group {
    /// In the order in which they joined, but the last takes the place of one that leaves.
    members: Vec<u32>,
    /// A member was connected once.
    has_connected: bool,
}

/// Whether two endpoints with SO_REUSEPORT belong to one group (`udp_reuseport_add_sock`).
fn shares(a: &Key, b: &Key) -> bool {
    (a.family, a.v6_only, a.local_port, a.device, a.local) == (b.family, b.v6_only, b.local_port, b.device, b.local)
}

impl Groups {
    /// Puts the endpoint `index`, just bound, into a group with those bound alike. Returns the group's number plus 1.
    pub(crate) fn join(&mut self, index: u32, key: &Key, endpoints: &Slab) -> u32 {
        let alike = endpoints.on_port(key.local_port).filter_map(|other| endpoints.at(other));
        let mut alike = alike.filter(|other| other.group != 0 && shares(&other.key, key));
        let number = alike.next().map_or_else(|| self.new_group(), |other| other.group);
        self.groups[number as usize - 1].members.push(index);
        number
    }

    fn new_group(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() as u32
        })
    }

    pub(crate) fn leave(&mut self, index: u32, number: u32) {
        let Some(group) = self.groups.get_mut((number as usize).wrapping_sub(1)) else { return };
        if let Some(at) = group.members.iter().position(|member| *member == index) {
            group.members.swap_remove(at);
        }
        if group.members.is_empty() {
            group.has_connected = false;
            self.free.push(number);
        }
    }

    pub(crate) fn note_connected(&mut self, number: u32) {
        if let Some(group) = self.groups.get_mut((number as usize).wrapping_sub(1)) {
            group.has_connected = true;
        }
    }

    pub(crate) fn has_connected(&self, number: u32) -> bool {
        self.groups.get((number as usize).wrapping_sub(1)).is_some_and(|group| group.has_connected)
    }

    /// The member for a flow: the place by the hash, from there the next that is not connected
    /// (`reuseport_select_sock_by_hash`).
    pub(crate) fn choose(&self, number: u32, flow_hash: u32, endpoints: &Slab) -> Option<u32> {
        let members = &self.groups.get((number as usize).wrapping_sub(1))?.members;
        let start = ((u64::from(flow_hash) * members.len() as u64) >> 32) as usize;
        let from_start = members[start..].iter().chain(&members[..start]).copied();
        let mut free = from_start.filter(|member| endpoints.key(*member).is_some_and(|key| !key.is_connected()));
        free.next()
    }
}
