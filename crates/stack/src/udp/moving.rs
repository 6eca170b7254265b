//! An endpoint that leaves a stack and enters another one: a process has several, one an engine.

use crate::Stack;
use crate::address::{Address, Family};

use super::queue::Meta;
use super::{Endpoint, EndpointId, Udp};

/// An endpoint between two stacks, with the datagrams that wait. Dropped, it is closed.
#[derive(Debug)]
#[must_use = "dropped, the endpoint is closed and what waits is lost"]
pub struct MovedEndpoint {
    /// Without queue, group and cached path: these belong to a stack.
    endpoint: Endpoint,
    reuseport: Option<Reuseport>,
    waiting: Vec<Waiting>,
    /// Payloads of those that wait, one behind the other.
    bytes: Vec<u8>,
}

/// The SO_REUSEPORT group it belonged to.
#[derive(Clone, Copy, Debug)]
struct Reuseport {
    has_connected: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    meta: Meta,
    len_bytes: usize,
}

impl MovedEndpoint {
    /// How many datagrams wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Stack {
    /// Takes an endpoint out of this stack, for [`Stack::udp_put`] of another one: with its options, address, connection,
    /// counters and all that waits. Here it is closed.
    ///
    /// `None`: it is closed already, or joined groups; the latter stays as it is.
    pub fn udp_take(&mut self, id: EndpointId) -> Option<MovedEndpoint> {
        let group = self.udp.endpoints.get(id).filter(|endpoint| endpoint.memberships.is_empty())?.group;
        let has_connected = self.udp.demux.groups.has_connected(group);
        let reuseport = (group != 0).then_some(Reuseport { has_connected });
        let mut endpoint = self.detach(id)?;
        let (mut waiting, mut bytes) = (Vec::with_capacity(endpoint.queue.len_datagrams() as usize), Vec::new());
        while let Some(datagram) = self.udp.pool.front(&endpoint.queue) {
            waiting.push(Waiting { meta: Meta::of(&datagram), len_bytes: datagram.payload.len() });
            bytes.extend_from_slice(datagram.payload);
            self.udp.pool.pop(&mut endpoint.queue);
        }
        endpoint.is_announced = false;
        endpoint.group = 0;
        endpoint.flow.forget();
        Some(MovedEndpoint { endpoint, reuseport, waiting, bytes })
    }

    /// Puts an endpoint of another stack into this one. Every call does what it would have done there, under the new name,
    /// as far as the two stacks know the same of the host.
    ///
    /// Nobody is asked whether its address is free: it was, and the two stacks are of one process. Among endpoints with the
    /// same address it is the newest. What waits is [announced](Stack::take_readable), also what the first stack announced
    /// before. Where this stack has no room for all that waits, the rest is dropped and counted, as of datagrams
    /// that arrive (`mem_errors`, [`Stack::udp_dropped`]).
    pub fn udp_put(&mut self, moved: MovedEndpoint) -> EndpointId {
        let MovedEndpoint { endpoint, reuseport, waiting, bytes } = moved;
        let key = endpoint.key;
        let id = self.attach(|version| Endpoint { version, ..endpoint });
        if let Some(Reuseport { has_connected }) = reuseport {
            let group = self.udp.demux.groups.join(id.index, &key, &self.udp.endpoints);
            if has_connected {
                self.udp.demux.groups.note_connected(group);
            }
            if let Some(endpoint) = self.udp.endpoints.get_mut(id) {
                endpoint.group = group;
            }
        }
        self.index(id);
        self.queue_again(id, &waiting, &bytes);
        id
    }

    fn queue_again(&mut self, id: EndpointId, waiting: &[Waiting], mut bytes: &[u8]) {
        let Udp { endpoints, pool, readable, .. } = &mut self.udp;
        let Some(endpoint) = endpoints.get_mut(id) else { return };
        let mut dropped_here = 0_u32;
        for Waiting { mut meta, len_bytes } in waiting.iter().copied() {
            let (payload, rest) = bytes.split_at(len_bytes);
            bytes = rest;
            meta.dropped_before = meta.dropped_before.wrapping_add(dropped_here);
            // SO_RCVBUF let it in when it came, whatever it is now.
            if pool.push(&mut endpoint.queue, u32::MAX, &meta.lend(payload)).is_err() {
                let counters = self.statistics.udp_mut(family_of(&meta));
                counters.in_errors += 1;
                counters.mem_errors += 1;
                dropped_here = dropped_here.wrapping_add(1);
            }
        }
        endpoint.dropped = endpoint.dropped.wrapping_add(dropped_here);
        if !endpoint.queue.is_empty() {
            endpoint.is_announced = true;
            readable.push(id.index);
        }
    }
}

fn family_of(meta: &Meta) -> Family {
    Address::from(meta.destination).family()
}
