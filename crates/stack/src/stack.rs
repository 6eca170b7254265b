//! The stack as a whole: tables, endpoints, counters, and the calls that are neither receiving nor sending.

use std::net::{IpAddr, SocketAddr};

use crate::hash::KeyedHash;
use crate::reasons::NeedsKernel;
use crate::statistics::Statistics;
use crate::tables::{Offers, Path, PortId, Query, Tables, Update};
use crate::tcp::Tcp;
use crate::udp::{Datagram, EndpointId, Udp, scope_of};

/// What a stack is made with.
#[derive(Clone, Copy, Debug)]
pub struct StackConfig {
    /// A random number: keys the hash tables and starts the IPv4 identifications. A peer that knows it can choose flows that
    /// are slow to look up.
    pub secret: u64,
    /// How many datagrams may wait to be read, over all endpoints. SO_RCVBUF bounds each of them; this bounds what a program
    /// with very many that it never reads can cost.
    pub queue_slots: u32,
    /// The longest datagram that waits without memory of its own being allocated, bytes: at least the largest MTU in use.
    pub queue_slot_bytes: usize,
    /// The caller answers [`Stack::take_path_question`]. Without that, packets are as long as the MTU of interface and route
    /// allows, unless an [`Update::Path`] gave a smaller one.
    pub asks_paths: bool,
    /// `net.ipv4.ip_default_ttl` and `net.ipv6.conf.*.hop_limit`.
    pub default_ttl: u8,
}

impl StackConfig {
    /// 131 072 datagrams of up to 2048 bytes: 256 MiB at most. Memory is taken as more datagrams wait than ever before.
    #[must_use]
    pub const fn new(secret: u64) -> StackConfig {
        StackConfig { secret, queue_slots: 131_072, queue_slot_bytes: 2048, asks_paths: false, default_ttl: 64 }
    }
}

/// IPv4, IPv6, UDP and TCP without I/O: see the [crate](crate) for how frames travel through it.
#[derive(Debug)]
pub struct Stack {
    pub(crate) tables: Tables,
    pub(crate) udp: Udp,
    pub(crate) tcp: Tcp,
    pub(crate) statistics: Statistics,
    pub(crate) config: StackConfig,
    hash: KeyedHash,
    identifications: u64,
}

impl Stack {
    /// A stack that knows nothing of the host yet.
    #[must_use]
    pub fn new(config: StackConfig) -> Stack {
        let hash = KeyedHash::new(config.secret);
        Stack {
            tables: Tables::new(hash, config.asks_paths),
            udp: Udp::new(hash, config.queue_slots, config.queue_slot_bytes),
            tcp: Tcp::new(hash),
            statistics: Statistics::default(),
            config,
            hash,
            identifications: config.secret,
        }
    }

    /// All counters.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Adds a port on an interface, with the checksum work that it does in hardware.
    pub fn attach_port(&mut self, ifindex: u32, offers: Offers) -> PortId {
        self.tables.attach_port(ifindex, offers)
    }

    /// The interface a port is on; `None`: detached.
    #[must_use]
    pub fn interface_of(&self, port: PortId) -> Option<u32> {
        self.tables.interface_of(port)
    }

    /// The port is gone: nothing is sent through it, and what comes in by it is refused.
    pub fn detach_port(&mut self, port: PortId) {
        self.tables.detach_port(port);
    }

    /// Takes in one event from the kernel.
    pub fn update(&mut self, update: Update) {
        self.tables.update(update);
    }

    /// The interface by which `destination` is reached, through `device` where that is given.
    ///
    /// # Errors
    /// There is no interface that this stack could send by: the reason.
    pub fn interface_for(&self, destination: IpAddr, device: Option<u32>) -> Result<u32, NeedsKernel> {
        let query = Query { destination: destination.into(), source: None, ifindex: device };
        self.tables.way(query).map(|way| way.ifindex)
    }

    /// The interface by which this stack could send from one address to another, the second with its scope if it is link-local.
    ///
    /// # Errors
    /// There is none: the reason.
    pub fn interface_between(&self, source: SocketAddr, destination: SocketAddr) -> Result<u32, NeedsKernel> {
        let ifindex = scope_of(&destination);
        let [source, destination] = [source, destination].map(|address| address.ip().to_canonical().into());
        self.tables.way(Query { destination, source: Some(source), ifindex }).map(|way| way.ifindex)
    }

    /// Takes in a whole picture, as after lost netlink messages: what is not in it is gone. Ports, endpoints and the
    /// groups they joined stay.
    pub fn resync(&mut self, updates: impl IntoIterator<Item = Update>) {
        self.tables.resync(self.hash, updates);
    }

    /// A neighbour (interface index, IP address) that is in use though stale; each is reported once. The kernel does not see
    /// our frames, so ask it to confirm: RTM_NEWNEIGH with NTF_USE.
    pub fn take_stale_neighbour(&mut self) -> Option<(u32, IpAddr)> {
        self.tables.take_stale_neighbour()
    }

    /// After [`NeedsKernel::PathUnknown`]: the path (interface index, destination) that the kernel must be asked about. With an
    /// [`Update::Path`] the same send goes on.
    pub fn take_path_question(&mut self) -> Option<(u32, IpAddr)> {
        self.tables.take_path_question()
    }

    /// Whether [`Stack::take_path_question`] has one.
    #[inline]
    #[must_use]
    pub const fn has_path_question(&self) -> bool {
        self.tables.has_path_question()
    }

    /// Cached path MTUs may be out of date: all are asked for again.
    pub fn forget_paths(&mut self) {
        self.tables.forget_paths();
    }

    /// The cached paths to a destination, of which a router may have sent an error, by interface index.
    pub fn paths_to(&self, destination: IpAddr) -> impl Iterator<Item = (u32, Path)> {
        self.tables.paths_to(destination)
    }

    /// An endpoint to which datagrams were queued since it was last named here. It may have been read empty meanwhile.
    pub fn take_readable(&mut self) -> Option<EndpointId> {
        let index = self.udp.readable.pop()?;
        let endpoint = self.udp.endpoints.at_mut(index)?;
        endpoint.is_announced = false;
        Some(EndpointId { index, version: endpoint.version })
    }

    /// Lends the oldest waiting datagram to `read` and drops it. `None`: nothing waits.
    #[inline]
    pub fn udp_read<R>(&mut self, id: EndpointId, read: impl FnOnce(&Datagram<'_>) -> R) -> Option<R> {
        let Udp { endpoints, pool, .. } = &mut self.udp;
        let endpoint = endpoints.get_mut(id)?;
        let datagram = pool.front(&endpoint.queue)?;
        let family = crate::address::Address::from(datagram.destination).family();
        let result = read(&datagram);
        pool.pop(&mut endpoint.queue);
        self.statistics.udp_mut(family).in_datagrams += 1;
        Some(result)
    }

    /// Lends the oldest waiting datagram to `read`; it stays (MSG_PEEK).
    pub fn udp_peek<R>(&self, id: EndpointId, read: impl FnOnce(&Datagram<'_>) -> R) -> Option<R> {
        let endpoint = self.udp.endpoints.get(id)?;
        self.udp.pool.front(&endpoint.queue).map(|datagram| read(&datagram))
    }

    /// Moves the oldest waiting datagram behind all others: done for each of them, they are in their order again.
    pub fn udp_put_last(&mut self, id: EndpointId) {
        let Udp { endpoints, pool, .. } = &mut self.udp;
        if let Some(endpoint) = endpoints.get_mut(id) {
            pool.put_last(&mut endpoint.queue);
        }
    }

    /// How many datagrams wait.
    #[must_use]
    pub fn udp_waiting(&self, id: EndpointId) -> u32 {
        self.udp.endpoints.get(id).map_or(0, |endpoint| endpoint.queue.len_datagrams())
    }

    /// How many datagrams were lost because they found no room.
    #[must_use]
    pub fn udp_dropped(&self, id: EndpointId) -> u32 {
        self.udp.endpoints.get(id).map_or(0, |endpoint| endpoint.dropped)
    }

    /// Memory charged for what waits, bytes, as SO_RCVBUF counts it (`sk_rmem_alloc`).
    #[must_use]
    pub fn udp_charged_bytes(&self, id: EndpointId) -> u64 {
        self.udp.endpoints.get(id).map_or(0, |endpoint| endpoint.queue.charged_bytes())
    }

    /// How many more datagrams can wait to be read, over all endpoints. Walks the free slots: for tests and reports.
    #[must_use]
    pub fn udp_free_slots(&self) -> usize {
        self.udp.pool.free_slots()
    }

    /// A start for an endpoint's IPv4 identifications (SplitMix64's step; not secret, only spread).
    pub(crate) fn next_identification(&mut self) -> u16 {
        self.identifications = self.identifications.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (self.identifications >> 48) as u16
    }
}
