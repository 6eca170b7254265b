//! VLAN tags that the device took out of frames: a program in the driver asks for them, and the frame is the kernel's then, which drops it
//! where no VLAN interface wants it. For ports of sockets only: a port of frames takes what its filters say.
//!
//! Only a program that was loaded for the device may ask, and only in the driver (Linux 6.8, and a driver that tells): in generic mode the
//! tag cannot be seen.
//!
//! Source: `Documentation/networking/xdp-rx-metadata.rst`, `net/core/xdp.c` (`bpf_xdp_metadata_rx_vlan_tag`),
//! `drivers/net/veth.c` (`veth_xdp_rx_vlan_tag`).

use std::sync::OnceLock;

use nearwire_sys::ethtool::Interface;
use nearwire_sys::netdev::{XdpReceiveMetadata, xdp_receive_metadata};

use super::assembler::Register::{R0, R1, R2, R3, R6, R10};
use super::assembler::Width::Double;
use super::assembler::{Assembler, Label};
use crate::interface::InterfaceFacts;

/// The kernel's function that asks the driver.
const DEVICE_TAG: &str = "bpf_xdp_metadata_rx_vlan_tag";
/// Where the answer is, below R10: the tag's kind, and what it says.
const KIND: i16 = -8;
const TAG: i16 = -4;

/// How a program asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagQuestion {
    /// Number of [`DEVICE_TAG`] in this kernel.
    function: u32,
    /// The interface that the program is loaded for.
    pub ifindex: u32,
}

impl TagQuestion {
    /// Of an interface that takes tags out and whose driver tells them. In the network namespace of the calling thread.
    pub(crate) fn of(facts: &InterfaceFacts) -> Option<TagQuestion> {
        // With veth it is the far end that leaves the tag beside the frame.
        let strips = || Interface::open(&facts.name).is_ok_and(|driver| driver.strips_vlan_tags().unwrap_or(false));
        if !(facts.is_veth() || strips()) || !tells_hidden_tags(facts.ifindex) {
            return None;
        }
        Some(TagQuestion { function: function()?, ifindex: facts.ifindex })
    }
}

/// Whether the driver of an interface of the calling thread's network namespace tells programs in it which tag it took out of a frame.
/// Ports of sockets in native and zero-copy mode then give such frames to the kernel.
#[must_use]
pub fn tells_hidden_tags(ifindex: u32) -> bool {
    xdp_receive_metadata(ifindex).is_ok_and(|tells| tells.contains(XdpReceiveMetadata::VLAN_TAG))
}

/// The number of the function, looked for once: 5 MiB are read for it.
fn function() -> Option<u32> {
    static FUNCTION: OnceLock<Option<u32>> = OnceLock::new();
    *FUNCTION.get_or_init(|| nearwire_sys::btf::kernel_function(DEVICE_TAG).ok().flatten())
}

/// Goes to `pass` with a frame whose tag the device took out. Expects the context in `R6`; keeps `R6` to `R9`.
pub(crate) fn append_question(program: &mut Assembler, question: TagQuestion, pass: Label) {
    program
        .set(R1, 0)
        .store(Double, R10, KIND, R1) // a pointer given to the kernel is to something
        .copy(R1, R6) // the context
        .copy(R2, R10)
        .add(R2, i32::from(KIND))
        .copy(R3, R10)
        .add(R3, i32::from(TAG))
        .call_kernel(question.function)
        .jump_if_equal(R0, 0, pass); // there was one
}
