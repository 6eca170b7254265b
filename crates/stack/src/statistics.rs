//! Plain counters. Nothing resets them; for a rate, take differences.

use crate::address::Family;
use crate::reasons::{Dropped, NeedsKernel, NotOurs};
use crate::receive::Verdict;

/// Counters of one family's IP, named as in `/proc/net/snmp` (Ip) and `/proc/net/snmp6` (Ip6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpCounters {
    /// Packets that came, good or bad.
    pub in_receives: u64,
    /// Packets with a malformed header or a wrong header checksum.
    pub in_hdr_errors: u64,
    /// Packets cut on their way.
    pub in_truncated_pkts: u64,
    /// Packets to an address that no packet may have.
    pub in_addr_errors: u64,
    /// Packets from an address that no packet may have; in the kernel, `in_martian_src` of the routing cache.
    pub in_martian_source: u64,
    /// Packets handed to UDP, or to a connection of TCP.
    pub in_delivers: u64,
    /// Packets made here.
    pub out_requests: u64,
}

/// Counters of UDP over one family, named as in `/proc/net/snmp` (Udp) and `/proc/net/snmp6` (Udp6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams that a reader got.
    pub in_datagrams: u64,
    /// Datagrams that no endpoint takes.
    pub no_ports: u64,
    /// Datagrams lost for any other reason: the sum of bad lengths, bad checksums, full buffers and lack of memory.
    pub in_errors: u64,
    /// Datagrams made here.
    pub out_datagrams: u64,
    /// Copies lost because a receive buffer was full.
    pub rcvbuf_errors: u64,
    /// Datagrams with a wrong or missing checksum.
    pub in_csum_errors: u64,
    /// Group and broadcast datagrams that no endpoint takes.
    pub ignored_multi: u64,
    /// Copies lost for want of memory.
    pub mem_errors: u64,
}

/// All counters of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames taken in: the sum of the next three.
    pub frames: u64,
    /// Frames delivered to at least one endpoint, or taken in by a connection.
    pub delivered_frames: u64,
    ip: [IpCounters; 2],
    udp: [UdpCounters; 2],
    dropped: [u64; Dropped::ALL.len()],
    not_ours: [u64; NotOurs::ALL.len()],
    needs_kernel: [u64; NeedsKernel::ALL.len()],
}

impl Statistics {
    /// IP over one family.
    #[must_use]
    pub const fn ip(&self, family: Family) -> &IpCounters {
        &self.ip[family as usize]
    }

    /// UDP over one family.
    #[must_use]
    pub const fn udp(&self, family: Family) -> &UdpCounters {
        &self.udp[family as usize]
    }

    /// Frames dropped for one reason.
    #[must_use]
    pub const fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize]
    }

    /// Frames dropped.
    #[must_use]
    pub fn dropped_frames(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Frames that were the kernel's, for one reason.
    #[must_use]
    pub const fn not_ours(&self, reason: NotOurs) -> u64 {
        self.not_ours[reason as usize]
    }

    /// Frames that were the kernel's.
    #[must_use]
    pub fn not_ours_frames(&self) -> u64 {
        self.not_ours.iter().sum()
    }

    /// Datagrams that had to be sent through the kernel, for one reason.
    #[must_use]
    pub const fn needs_kernel(&self, reason: NeedsKernel) -> u64 {
        self.needs_kernel[reason as usize]
    }

    #[inline]
    pub(crate) fn ip_mut(&mut self, family: Family) -> &mut IpCounters {
        &mut self.ip[family as usize]
    }

    #[inline]
    pub(crate) fn udp_mut(&mut self, family: Family) -> &mut UdpCounters {
        &mut self.udp[family as usize]
    }

    #[inline]
    pub(crate) fn count_verdict(&mut self, verdict: Verdict) {
        self.frames += 1;
        match verdict {
            Verdict::Delivered { .. } | Verdict::Segment { .. } | Verdict::Ending { .. } => self.delivered_frames += 1,
            Verdict::Dropped(reason) => self.dropped[reason as usize] += 1,
            Verdict::NotOurs(reason) => self.not_ours[reason as usize] += 1,
        }
    }

    #[cold]
    pub(crate) fn count_needs_kernel(&mut self, reason: NeedsKernel) -> NeedsKernel {
        self.needs_kernel[reason as usize] += 1;
        reason
    }
}
