//! Datagrams that the kernel queued at the shadow of an endpoint, because frames found no room here, and that are taken over in
//! their order.

use crate::Stack;
use crate::udp::queue::QueueError;

use super::{Datagram, EndpointId, Udp};

impl Stack {
    /// Lets each endpoint have so much beyond its SO_RCVBUF, bytes, as long as a quarter of all slots is enough for what waits. It is
    /// for frames that would stay in a ring, uncharged, if they did not have to be sorted by endpoint.
    pub fn udp_allow_beyond_buffer(&mut self, allowance_bytes: u64) {
        self.udp.pool.allow(allowance_bytes);
    }

    /// Whether one more datagram may wait, as SO_RCVBUF and [`Stack::udp_allow_beyond_buffer`] have it.
    #[must_use]
    pub fn udp_has_room(&self, id: EndpointId) -> bool {
        let Udp { endpoints, pool, .. } = &self.udp;
        endpoints.get(id).is_some_and(|endpoint| pool.may_take(&endpoint.queue, endpoint.options.receive_buffer_bytes))
    }

    /// Queues a datagram that the kernel had, of any length, and announces it as one that arrives. `false`: there is no room, or no
    /// such endpoint.
    pub fn udp_queue(&mut self, id: EndpointId, datagram: &Datagram<'_>) -> bool {
        let Udp { endpoints, pool, readable, .. } = &mut self.udp;
        let Some(endpoint) = endpoints.get_mut(id) else { return false };
        let datagram = Datagram { dropped_before: endpoint.dropped, ..*datagram };
        let limit_bytes = endpoint.options.receive_buffer_bytes;
        let queued: Result<(), QueueError> = pool.push(&mut endpoint.queue, limit_bytes, &datagram);
        if queued.is_ok() && !endpoint.is_announced {
            endpoint.is_announced = true;
            readable.push(id.index);
        }
        queued.is_ok()
    }

    /// The kernel has datagrams that are older than what arrives, and [`Stack::udp_has_room`] is `false` for them; or it has no more. What
    /// arrives meanwhile is dropped and counted, as the kernel would: older ones fill the receive buffer.
    pub fn udp_set_behind_kernel(&mut self, id: EndpointId, is_behind: bool) {
        if let Some(endpoint) = self.udp.endpoints.get_mut(id) {
            endpoint.is_behind_kernel = is_behind;
        }
    }

    /// The kernel dropped so many datagrams of an endpoint for want of room (`sk_drops` of the shadow): they are reported with those of this stack.
    pub fn udp_add_dropped(&mut self, id: EndpointId, datagrams: u32) {
        if let Some(endpoint) = self.udp.endpoints.get_mut(id) {
            endpoint.dropped = endpoint.dropped.wrapping_add(datagrams);
        }
    }
}
