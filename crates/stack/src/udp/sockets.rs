//! The life of an endpoint: open, bind, connect, join, close. The kernel's shadow socket did the same before, so what
//! fails here failed there, or the two were fed differently.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use crate::Stack;
use crate::address::{Address, Family};
use crate::reasons::NeedsKernel;
use crate::tables::Query;

use super::membership::{Membership, SourceFilter};
use super::{Endpoint, EndpointId, UdpOptions};

/// Why an endpoint could not be bound.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BindError {
    /// The endpoint was closed.
    #[error("bind to {address}: the endpoint is closed")]
    NoEndpoint {
        /// The address wanted.
        address: SocketAddr,
    },
    /// It is bound already.
    #[error("bind to {address}: the endpoint is bound to port {port}; close it and open another")]
    AlreadyBound {
        /// The address wanted.
        address: SocketAddr,
        /// The port it has.
        port: u16,
    },
    /// Port 0: the kernel chooses ports.
    #[error("bind to {address}: port 0; bind the shadow socket first and give the port the kernel chose")]
    PortZero {
        /// The address wanted.
        address: SocketAddr,
    },
    /// An address of the other family.
    #[error("bind to {address}: the endpoint is {family:?} (v6 only: {v6_only}); give an address of its family")]
    FamilyMismatch {
        /// The address wanted.
        address: SocketAddr,
        /// The endpoint's family.
        family: Family,
        /// Whether it is IPv6 alone.
        v6_only: bool,
    },
    /// Another endpoint has it and does not share.
    #[error(
        "bind to {address}: another endpoint has the port there; set SO_REUSEPORT or SO_REUSEADDR on both, or take \
         another port"
    )]
    AddressInUse {
        /// The address wanted.
        address: SocketAddr,
    },
}

/// Why an endpoint could not be connected.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ConnectError {
    /// The endpoint was closed.
    #[error("connect to {remote}: the endpoint is closed")]
    NoEndpoint {
        /// The far end wanted.
        remote: SocketAddr,
    },
    /// It has no local port.
    #[error("connect to {remote}: the endpoint is not bound; connect the shadow socket and bind to the port it got")]
    NotBound {
        /// The far end wanted.
        remote: SocketAddr,
    },
    /// An address that cannot be a far end.
    #[error("connect to {remote}: {reason}; the kernel has to serve this socket")]
    Refused {
        /// The far end wanted.
        remote: SocketAddr,
        /// Why.
        reason: NeedsKernel,
    },
}

/// Why a group could not be joined or left.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MembershipError {
    /// The endpoint was closed.
    #[error("group {group}: the endpoint is closed")]
    NoEndpoint {
        /// The group.
        group: IpAddr,
    },
    /// Not a group.
    #[error("group {group}: this is no multicast address")]
    NotAGroup {
        /// The address given.
        group: IpAddr,
    },
    /// To be left, but not joined.
    #[error("group {group} on interface {ifindex}: not joined by this endpoint")]
    NotJoined {
        /// The group.
        group: IpAddr,
        /// Interface index.
        ifindex: u32,
    },
}

impl Stack {
    /// Opens an endpoint: what socket() does.
    pub fn udp_open(&mut self, family: Family, options: UdpOptions) -> EndpointId {
        let identification = self.next_identification();
        self.attach(|version| Endpoint::new(family, version, options, identification))
    }

    /// Makes an endpoint known, but to the lookup tables.
    pub(super) fn attach(&mut self, make: impl FnOnce(u32) -> Endpoint) -> EndpointId {
        let id = self.udp.endpoints.insert(make);
        // Room for every endpoint to be in these once: nothing is allocated when datagrams arrive.
        let endpoints = self.udp.endpoints.len();
        self.udp.readable.reserve(endpoints.saturating_sub(self.udp.readable.len()));
        self.udp.receivers.reserve(endpoints);
        id
    }

    /// Closes an endpoint; what waits to be read is dropped.
    pub fn udp_close(&mut self, id: EndpointId) {
        let Some(mut endpoint) = self.detach(id) else { return };
        self.udp.pool.clear(&mut endpoint);
        for membership in &endpoint.memberships {
            self.tables.endpoint_left(membership.ifindex, membership.group);
        }
    }

    /// Takes an endpoint out of all tables but those of groups; what waits stays in the pool.
    pub(super) fn detach(&mut self, id: EndpointId) -> Option<Endpoint> {
        self.unindex(id);
        let endpoint = self.udp.endpoints.remove(id)?;
        self.udp.demux.groups.leave(id.index, endpoint.group);
        self.udp.readable.retain(|index| *index != id.index);
        Some(endpoint)
    }

    /// Binds to an address (`0.0.0.0` and `::` mean any) and a port, which is not 0: the kernel chooses ports.
    ///
    /// # Errors
    /// The address belongs to another family, or is in use.
    pub fn udp_bind(&mut self, id: EndpointId, address: SocketAddr) -> Result<(), BindError> {
        let endpoint = self.udp.endpoints.get_mut(id).ok_or(BindError::NoEndpoint { address })?;
        if endpoint.key.local_port != 0 {
            return Err(BindError::AlreadyBound { address, port: endpoint.key.local_port });
        }
        if address.port() == 0 {
            return Err(BindError::PortZero { address });
        }
        let local = Address::from(address.ip());
        let fits = match endpoint.key.family {
            Family::V4 => address.is_ipv4(),
            // An IPv4 address is written in its mapped form there, `::ffff:10.0.0.1`.
            Family::V6 => address.is_ipv6() && !(local.is_v4() && endpoint.key.v6_only),
        };
        if !fits {
            let (family, v6_only) = (endpoint.key.family, endpoint.key.v6_only);
            return Err(BindError::FamilyMismatch { address, family, v6_only });
        }
        endpoint.key.local = if local.is_any() { endpoint.any() } else { local };
        endpoint.key.local_port = address.port();
        endpoint.is_address_locked = !local.is_any();
        let (key, reuse_port) = (endpoint.key, endpoint.options.reuse_port);
        let conflicts =
            self.udp.endpoints.get(id).is_some_and(|endpoint| self.udp.demux.conflicts(endpoint, &self.udp.endpoints));
        let group = match (conflicts, reuse_port) {
            (false, true) => self.udp.demux.groups.join(id.index, &key, &self.udp.endpoints),
            _ => 0,
        };
        if let Some(endpoint) = self.udp.endpoints.get_mut(id) {
            if conflicts {
                (endpoint.key.local, endpoint.key.local_port) = (endpoint.any(), 0);
                return Err(BindError::AddressInUse { address });
            }
            endpoint.group = group;
        }
        self.index(id);
        Ok(())
    }

    /// Connects: datagrams of others are no longer taken, and sends need no destination. `source` is what getsockname()
    /// of the shadow socket says; without it the tables decide.
    ///
    /// # Errors
    /// The endpoint is not bound, or the tables know no source address for `remote`.
    pub fn udp_connect(
        &mut self,
        id: EndpointId,
        remote: SocketAddr,
        source: Option<IpAddr>,
    ) -> Result<(), ConnectError> {
        let refused = |reason| ConnectError::Refused { remote, reason };
        let endpoint = self.udp.endpoints.get(id).ok_or(ConnectError::NoEndpoint { remote })?;
        if endpoint.key.local_port == 0 {
            return Err(ConnectError::NotBound { remote });
        }
        let destination = Address::from(remote.ip());
        let family = destination.family();
        let may_carry = match endpoint.key.family {
            Family::V4 => family == Family::V4,
            Family::V6 => family == Family::V6 || !endpoint.key.v6_only,
        };
        // The address it is bound to stays, whatever `source` says.
        let is_of_family = !endpoint.is_address_locked || endpoint.key.local.family() == family;
        if !may_carry || !is_of_family || destination.is_any() {
            return Err(refused(NeedsKernel::FamilyMismatch));
        }
        let bound = Some(endpoint.key.local).filter(|local| endpoint.is_address_locked && !local.is_multicast());
        let source = source.map(Address::from).or(bound);
        let scope = scope_of(&remote);
        let ifindex = endpoint.options.device.or(scope);
        let local = match source {
            Some(source) => source,
            None => self.tables.way(Query { destination, source, ifindex }).map_err(refused)?.source,
        };
        if local.family() != family {
            return Err(refused(NeedsKernel::FamilyMismatch));
        }
        self.unindex(id);
        if let Some(endpoint) = self.udp.endpoints.get_mut(id) {
            if endpoint.is_address_locked {
                self.udp.demux.groups.note_connected(endpoint.group);
            } else {
                // A new local address takes it out of its group (`udp_lib_rehash`).
                self.udp.demux.groups.leave(id.index, endpoint.group);
                endpoint.group = 0;
                endpoint.key.local = local;
            }
            endpoint.key.remote = destination;
            endpoint.key.remote_port = remote.port();
            endpoint.flow.forget();
            endpoint.flow.set_connection(scope);
        }
        self.index(id);
        Ok(())
    }

    /// Undoes a connect: what connect() to AF_UNSPEC does. The port stays.
    pub fn udp_disconnect(&mut self, id: EndpointId) {
        self.unindex(id);
        if let Some(endpoint) = self.udp.endpoints.get_mut(id) {
            endpoint.key.remote = endpoint.any();
            endpoint.key.remote_port = 0;
            if !endpoint.is_address_locked {
                endpoint.key.local = endpoint.any();
            }
            endpoint.flow.forget();
        }
        self.index(id);
    }

    /// The options of an endpoint.
    #[must_use]
    pub fn udp_options(&self, id: EndpointId) -> Option<&UdpOptions> {
        self.udp.endpoints.get(id).map(|endpoint| &endpoint.options)
    }

    /// Changes options. SO_REUSEPORT takes effect at bind only, as in the kernel.
    pub fn udp_configure(&mut self, id: EndpointId, change: impl FnOnce(&mut UdpOptions)) {
        let Some(endpoint) = self.udp.endpoints.get_mut(id) else { return };
        change(&mut endpoint.options);
        endpoint.flow.forget();
        let (device, v6_only) = (endpoint.options.device.unwrap_or(0), endpoint.options.v6_only);
        if (device, v6_only) != (endpoint.key.device, endpoint.key.v6_only) {
            self.unindex(id);
            if let Some(endpoint) = self.udp.endpoints.get_mut(id) {
                (endpoint.key.device, endpoint.key.v6_only) = (device, v6_only);
            }
            self.index(id);
        }
    }

    /// Joins a group on an interface, or changes which sources are wanted. The shadow socket joins on the wire.
    ///
    /// # Errors
    /// `group` is no group.
    pub fn udp_join(
        &mut self,
        id: EndpointId,
        ifindex: u32,
        group: IpAddr,
        filter: &SourceFilter,
    ) -> Result<(), MembershipError> {
        if !group.is_multicast() {
            return Err(MembershipError::NotAGroup { group });
        }
        let endpoint = self.udp.endpoints.get_mut(id).ok_or(MembershipError::NoEndpoint { group })?;
        let membership = Membership::new(ifindex, group.into(), filter);
        let same = |other: &Membership| (other.ifindex, other.group) == (membership.ifindex, membership.group);
        match endpoint.memberships.iter().position(same) {
            Some(at) => endpoint.memberships[at] = membership,
            None => {
                self.tables.endpoint_joined(ifindex, membership.group);
                endpoint.memberships.push(membership);
            }
        }
        Ok(())
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// The endpoint did not join it.
    pub fn udp_leave(&mut self, id: EndpointId, ifindex: u32, group: IpAddr) -> Result<(), MembershipError> {
        let endpoint = self.udp.endpoints.get_mut(id).ok_or(MembershipError::NoEndpoint { group })?;
        let address = Address::from(group);
        let same = |other: &Membership| (other.ifindex, other.group) == (ifindex, address);
        let at = endpoint.memberships.iter().position(same);
        let at = at.ok_or(MembershipError::NotJoined { group, ifindex })?;
        endpoint.memberships.remove(at);
        self.tables.endpoint_left(ifindex, address);
        Ok(())
    }

    /// Where an endpoint is bound: address (any: not bound to one) and port.
    #[must_use]
    pub fn udp_local(&self, id: EndpointId) -> Option<SocketAddr> {
        let key = self.udp.endpoints.get(id)?.key;
        Some(SocketAddr::new(key.local.to_ip(), key.local_port))
    }

    /// The far end of a connected endpoint.
    #[must_use]
    pub fn udp_remote(&self, id: EndpointId) -> Option<SocketAddr> {
        let key = self.udp.endpoints.get(id)?.key;
        key.is_connected().then(|| SocketAddr::new(key.remote.to_ip(), key.remote_port))
    }

    /// Puts a bound endpoint into the lookup tables.
    pub(super) fn index(&mut self, id: EndpointId) {
        let Some(port) = self.udp.endpoints.get(id).map(|endpoint| endpoint.key.local_port) else { return };
        if port != 0 {
            self.udp.endpoints.moved_to_port(id.index, 0, port);
            if let Some(endpoint) = self.udp.endpoints.get(id) {
                self.udp.demux.insert(id.index, endpoint);
            }
        }
    }

    /// Takes it out again.
    fn unindex(&mut self, id: EndpointId) {
        let Some(key) = self.udp.endpoints.get(id).map(|endpoint| endpoint.key) else { return };
        if key.local_port != 0 {
            self.udp.demux.remove(id.index, &key, &self.udp.endpoints);
            self.udp.endpoints.moved_to_port(id.index, key.local_port, 0);
        }
    }
}

/// The interface that an address names: the scope of a link-local one.
pub(crate) fn scope_of(address: &SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(address) => Some(address.scope_id()).filter(|scope| *scope != 0),
        SocketAddr::V4(_) => None,
    }
}
