//! `udp/busy-poll`, `tcp/busy-poll`: a blocking receive that polls the device queue before it sleeps (the Intel Busy
//! Poll paper's subject), set on this socket only; no global sysctl is touched.

use std::os::fd::BorrowedFd;

use nearwire_report::record::Warning;
use nearwire_sys::socket::{incoming_napi_id, set_busy_poll_budget_packets, set_busy_poll_us, set_prefer_busy_poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::block::Block;
use super::socket::Waiting;
use super::{PathError, Setup};
use crate::endpoint::{Deadline, Remark};

/// Sleeps in recv(2), after polling.
pub struct BusyPoll {
    sleep: Block,
}

impl Waiting for BusyPoll {
    fn prepare(socket: BorrowedFd<'_>, setup: &Setup) -> Result<BusyPoll, PathError> {
        set_busy_poll_us(socket, setup.busy_poll_us)
            .map_err(PathError::io("set SO_BUSY_POLL (needs CAP_NET_ADMIN)"))?;
        set_prefer_busy_poll(socket, true)
            .map_err(PathError::io("set SO_PREFER_BUSY_POLL (needs CAP_NET_ADMIN, Linux 5.11)"))?;
        set_busy_poll_budget_packets(socket, setup.busy_poll_budget_packets)
            .map_err(PathError::io("set SO_BUSY_POLL_BUDGET (needs CAP_NET_ADMIN, Linux 5.11)"))?;
        Ok(BusyPoll { sleep: Block::prepare(socket, setup)? })
    }

    #[inline]
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Errno> {
        self.sleep.receive(socket, buffer, flags, deadline)
    }

    fn remarks(&self, socket: BorrowedFd<'_>) -> Vec<Remark> {
        napi_remark(socket)
    }
}

/// Busy polling silently does nothing when packets carry no NAPI id: then the row is a blocking row, and must say so.
pub(super) fn napi_remark(socket: BorrowedFd<'_>) -> Vec<Remark> {
    match incoming_napi_id(socket) {
        Ok(0) => vec![Remark::Doubt(Warning {
            code: "no-busy-poll".to_owned(),
            text: "the kernel could not busy poll: SO_INCOMING_NAPI_ID is 0, the driver's packets carry no NAPI id"
                .to_owned(),
            advice: "read this row as a blocking one; use a driver with NAPI".to_owned(),
        })],
        _ => Vec::new(),
    }
}
