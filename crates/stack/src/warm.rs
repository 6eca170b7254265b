//! Warming: while a program waits for an answer, what the answer and the next datagram need is brought into the cache.
//!
//! A send ends in the kernel, which leaves little of the program in the nearest caches. By the time the answer is there, what was
//! fetched again is there too: 19 ns less of 805 each way, 64 bytes, sockperf on a virtual cable. Others have the program ask for it (`MSG_ONLOAD_WARM` of Onload, "dummy packets" of libvma).

use std::hint::black_box;

use crate::Stack;
use crate::send::standing;
use crate::template::HEADERS_BYTES_MAX;
use crate::udp::EndpointId;
use crate::udp::demux::Incoming;

/// Of a short message; longer ones take longer anyway.
const PAYLOAD: [u8; 64] = [0; 64];

impl Stack {
    /// Builds a frame like the last that this endpoint sent, and looks up the endpoint of an answer to it. `true`: it is for this
    /// endpoint. A group does not answer, and a way that has to be resolved anew is left to the next send.
    #[cold]
    pub fn udp_warm(&self, id: EndpointId) -> bool {
        let Some(endpoint) = self.udp.endpoints.get(id) else { return false };
        let Some((ready, target)) = endpoint.flow.current(self.tables.generation()) else { return false };
        if ready.is_group {
            return false;
        }
        let family = ready.hop.source.family();
        let mut frame = [0; HEADERS_BYTES_MAX + PAYLOAD.len()];
        if let Some(frame) = frame.get_mut(..ready.template.frame_bytes(PAYLOAD.len())) {
            let per = standing(ready, &endpoint.options, self.config.default_ttl, family);
            black_box(ready.template.write(frame, &PAYLOAD, per));
        }
        // Counters are counted in, whatever comes.
        black_box((self.statistics.frames, *self.statistics.ip(family), *self.statistics.udp(family)));
        let Some((ifindex, _)) = self.tables.receiving(ready.hop.port) else { return false };
        let answer = Incoming {
            source: target.destination,
            destination: ready.hop.source,
            source_port: target.port,
            destination_port: endpoint.key.local_port,
            ifindex,
        };
        black_box(self.tables.class(ifindex, answer.destination));
        if target.destination.is_v4() {
            black_box(self.tables.is_martian_v4(ifindex, answer.source, answer.destination));
        }
        let receiver = self.udp.demux.unicast(&answer, &self.udp.endpoints);
        black_box(receiver.and_then(|index| self.udp.endpoints.at(index)).map(|receiver| receiver.queue.is_empty()));
        receiver == Some(id.index)
    }
}
