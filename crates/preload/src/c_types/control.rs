//! Control messages: what a program gives with a send ([`parse`]) and gets with a receive ([`ReceiveControl`]).

use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

use libc::{
    IP_PKTINFO, IP_TOS, IP_TTL, IPV6_HOPLIMIT, IPV6_PKTINFO, IPV6_TCLASS, SO_RXQ_OVFL, SO_TIMESTAMP, SO_TIMESTAMPING,
    SO_TIMESTAMPNS, SOL_IP, SOL_IPV6, SOL_SOCKET, c_int, c_void, cmsghdr,
};

use super::address::Encoded;

const HEADER_BYTES: usize = size_of::<cmsghdr>();
/// `IP_ORIGDSTADDR` and `IPV6_ORIGDSTADDR`, linux/in.h and linux/in6.h.
const IP_ORIGDSTADDR: c_int = 20;
const IPV6_ORIGDSTADDR: c_int = 74;

/// `CMSG_ALIGN`.
fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(size_of::<usize>())
}

/// What the control messages of a send ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendControl {
    /// IP_PKTINFO: interface (0: any) and source address (0.0.0.0: any; `ipi_spec_dst`).
    pub ipv4: Option<(u32, Ipv4Addr)>,
    /// IPV6_PKTINFO: interface (0: any) and source address (`::`: any).
    pub ipv6: Option<(u32, Ipv6Addr)>,
    /// IP_TTL, 1 to 255.
    pub ttl: Option<u8>,
    /// IP_TOS.
    pub tos: Option<u8>,
    /// IPV6_HOPLIMIT.
    pub hop_limit: Option<u8>,
    /// IPV6_TCLASS.
    pub traffic_class: Option<u8>,
}

fn int(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.first_chunk().copied()?))
}

/// A byte given as an `int` of exactly this size; -1 asks for the default.
fn byte_or_default(data: &[u8]) -> Option<Option<u8>> {
    match int(data)? {
        _ if data.len() != size_of::<c_int>() => None,
        -1 => Some(None),
        value => u8::try_from(value).ok().map(Some),
    }
}

/// Reads the control messages of a send. None: something else is among them, or something the kernel refuses, and it
/// is the one to say so (`ip_cmsg_send`, `ip6_datagram_send_ctl`).
#[must_use]
pub fn parse(control: &[u8]) -> Option<SendControl> {
    let mut parsed = SendControl::default();
    let mut rest = control;
    while rest.len() >= HEADER_BYTES {
        let length = usize::from_ne_bytes(rest.first_chunk().copied()?);
        let (level, kind) = (int(&rest[size_of::<usize>()..])?, int(&rest[size_of::<usize>() + 4..])?);
        let data = rest.get(HEADER_BYTES..length)?;
        take(&mut parsed, level, kind, data)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Some(parsed)
}

fn take(parsed: &mut SendControl, level: c_int, kind: c_int, data: &[u8]) -> Option<()> {
    match (level, kind) {
        (SOL_IP, IP_PKTINFO) if data.len() == size_of::<libc::in_pktinfo>() => {
            let source: [u8; 4] = data[4..].first_chunk().copied()?;
            parsed.ipv4 = Some((int(data)?.cast_unsigned(), source.into()));
        }
        (SOL_IPV6, IPV6_PKTINFO) => {
            let source: [u8; 16] = data.first_chunk().copied()?;
            parsed.ipv6 = Some((int(&data[16..])?.cast_unsigned(), source.into()));
        }
        (SOL_IP, IP_TTL) => parsed.ttl = Some(byte_or_default(data)?.filter(|ttl| *ttl > 0)?),
        (SOL_IP, IP_TOS) if data.len() == 1 => parsed.tos = Some(data[0]),
        (SOL_IP, IP_TOS) => parsed.tos = Some(byte_or_default(data)??),
        (SOL_IPV6, IPV6_HOPLIMIT) => parsed.hop_limit = byte_or_default(data)?,
        (SOL_IPV6, IPV6_TCLASS) => parsed.traffic_class = byte_or_default(data)?,
        _ => return None,
    }
    Some(())
}

/// Writes control messages into a program's buffer as the kernel does (`put_cmsg`, net/core/scm.c): one that does not
/// fit is cut and its length says so, one without room for its header is left out; both set MSG_CTRUNC.
#[derive(Debug, Clone)]
pub struct ControlWriter<'a> {
    buffer: *mut u8,
    room_bytes: usize,
    used_bytes: usize,
    truncated: bool,
    /// Nothing can be written, and nothing is said of it.
    is_nowhere: bool,
    of: PhantomData<&'a mut [u8]>,
}

impl ControlWriter<'_> {
    /// A writer at the start of a buffer; null has no room.
    ///
    /// # Safety
    /// A pointer that is not null points to `length_bytes` writable bytes, which nobody else uses for `'a`.
    #[must_use]
    pub unsafe fn new(buffer: *mut c_void, length_bytes: usize) -> Self {
        let room_bytes = if buffer.is_null() { 0 } else { length_bytes };
        ControlWriter {
            buffer: buffer.cast(),
            room_bytes,
            used_bytes: 0,
            truncated: false,
            is_nowhere: false,
            of: PhantomData,
        }
    }

    /// A writer for a buffer that points nowhere: the kernel leaves each message out and does not say so.
    #[must_use]
    pub fn nowhere() -> Self {
        // SAFETY: null has no room.
        ControlWriter { is_nowhere: true, ..unsafe { ControlWriter::new(ptr::null_mut(), 0) } }
    }

    /// Adds one message.
    pub fn put(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        if self.is_nowhere {
            return;
        }
        let left = self.room_bytes - self.used_bytes;
        if left < HEADER_BYTES {
            self.truncated = true;
            return;
        }
        let length = HEADER_BYTES + data.len();
        self.truncated |= left < length;
        let length = length.min(left);
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&length.to_ne_bytes());
        header[8..12].copy_from_slice(&level.to_ne_bytes());
        header[12..].copy_from_slice(&kind.to_ne_bytes());
        // SAFETY: `length` bytes are left, by the contract of `new`, and a header is the least of it.
        unsafe {
            let start = self.buffer.add(self.used_bytes);
            ptr::copy_nonoverlapping(header.as_ptr(), start, HEADER_BYTES);
            ptr::copy_nonoverlapping(data.as_ptr(), start.add(HEADER_BYTES), length - HEADER_BYTES);
        }
        self.used_bytes += (HEADER_BYTES + aligned(data.len())).min(left);
    }

    /// Bytes written, gaps for alignment included: the new `msg_controllen`.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Whether MSG_CTRUNC belongs into `msg_flags`.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
}

/// How a program wants the time of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeForm {
    /// SO_TIMESTAMP: seconds and microseconds.
    Microseconds,
    /// SO_TIMESTAMPNS: seconds and nanoseconds.
    Nanoseconds,
}

/// What a receive tells in control messages; what is None the program did not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveControl {
    /// SO_TIMESTAMP, SO_TIMESTAMPNS: time of arrival in ns since 1970.
    pub time_ns: Option<(TimeForm, u64)>,
    /// SO_TIMESTAMPING: by software and by the NIC, in ns; 0 is none.
    pub timestamping_ns: Option<(u64, u64)>,
    /// SO_RXQ_OVFL: datagrams dropped so far. The kernel leaves the message out while it is 0.
    pub overflow_frames: Option<u32>,
    /// IPV6_PKTINFO: interface and destination.
    pub ipv6: Option<(u32, Ipv6Addr)>,
    /// IP_PKTINFO: interface, local address, destination in the header.
    pub ipv4: Option<(u32, Ipv4Addr, Ipv4Addr)>,
    /// IP_TTL (option IP_RECVTTL).
    pub ttl: Option<u8>,
    /// IP_TOS (option IP_RECVTOS).
    pub tos: Option<u8>,
    /// IPV6_HOPLIMIT (option IPV6_RECVHOPLIMIT).
    pub hop_limit: Option<u8>,
    /// IPV6_TCLASS (option IPV6_RECVTCLASS).
    pub traffic_class: Option<u8>,
    /// IP_ORIGDSTADDR, IPV6_ORIGDSTADDR: destination address and port in the headers.
    pub original_destination: Option<SocketAddr>,
}

/// Seconds and the rest, as two 64-bit integers: `struct timeval`, `struct timespec`.
fn time_bytes(time_ns: u64, ticks_per_second: u64) -> [u8; 16] {
    const SECOND_NS: u64 = 1_000_000_000;
    let ticks = time_ns % SECOND_NS / (SECOND_NS / ticks_per_second);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(time_ns / SECOND_NS).to_ne_bytes());
    bytes[8..].copy_from_slice(&ticks.to_ne_bytes());
    bytes
}

impl ReceiveControl {
    /// Writes the messages in the kernel's order (`__sock_recv_cmsgs`, `ip6_datagram_recv_common_ctl`,
    /// `ip_cmsg_recv_offset`, `ip6_datagram_recv_specific_ctl`).
    pub fn write(&self, writer: &mut ControlWriter<'_>) {
        match self.time_ns {
            Some((TimeForm::Microseconds, ns)) => writer.put(SOL_SOCKET, SO_TIMESTAMP, &time_bytes(ns, 1_000_000)),
            Some((TimeForm::Nanoseconds, ns)) => writer.put(SOL_SOCKET, SO_TIMESTAMPNS, &time_bytes(ns, 1_000_000_000)),
            None => {}
        }
        if let Some((software_ns, hardware_ns)) = self.timestamping_ns {
            // scm_timestamping; the middle one is always empty.
            let times = [software_ns, 0, hardware_ns].map(|ns| time_bytes(ns, 1_000_000_000));
            writer.put(SOL_SOCKET, SO_TIMESTAMPING, times.as_flattened());
        }
        if let Some(dropped) = self.overflow_frames {
            writer.put(SOL_SOCKET, SO_RXQ_OVFL, &dropped.to_ne_bytes());
        }
        self.write_ip(writer);
    }

    fn write_ip(&self, writer: &mut ControlWriter<'_>) {
        let as_int = |byte: u8| c_int::from(byte).to_ne_bytes();
        if let Some((interface, destination)) = self.ipv6 {
            let mut info = [0; 20];
            info[..16].copy_from_slice(&destination.octets());
            info[16..].copy_from_slice(&interface.to_ne_bytes());
            writer.put(SOL_IPV6, IPV6_PKTINFO, &info);
        }
        if let Some((interface, local, destination)) = self.ipv4 {
            let info = [interface.to_ne_bytes(), local.octets(), destination.octets()];
            writer.put(SOL_IP, IP_PKTINFO, info.as_flattened());
        }
        if let Some(ttl) = self.ttl {
            writer.put(SOL_IP, IP_TTL, &as_int(ttl));
        }
        if let Some(tos) = self.tos {
            writer.put(SOL_IP, IP_TOS, &[tos]);
        }
        if let Some(hop_limit) = self.hop_limit {
            writer.put(SOL_IPV6, IPV6_HOPLIMIT, &as_int(hop_limit));
        }
        if let Some(class) = self.traffic_class {
            writer.put(SOL_IPV6, IPV6_TCLASS, &as_int(class));
        }
        match self.original_destination {
            Some(address @ SocketAddr::V4(_)) => writer.put(SOL_IP, IP_ORIGDSTADDR, Encoded::new(&address).bytes()),
            Some(address) => writer.put(SOL_IPV6, IPV6_ORIGDSTADDR, Encoded::new(&address).bytes()),
            None => {}
        }
    }
}
