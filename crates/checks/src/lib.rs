//! What must hold for any bytes: one function each, which unit tests, property tests and fuzzing call.
//!
//! Each function of [`TARGETS`] takes the bytes of one fuzz input and panics where something is wrong. The fuzzer (`fuzz/`
//! at the root of the repository) finds inputs; those worth keeping lie in `fuzz/corpus`, and a test here puts them all
//! through the same functions.
//!
//! Unit tests of the crates below call these functions too. There they meet the crate as others see it, not the one
//! under test with its private parts, so what is handed over is bytes and text.
//!
//! * [`agent`]: messages between programs and the agent;
//! * [`wire`]: parsers of packet formats, against etherparse and against what they write;
//! * [`receive`]: frames into a stack with endpoints of every kind;
//! * [`calls`]: calls of a stack in any order, against a model without tables;
//! * [`segments`]: segments into a connection of TCP;
//! * [`steering`]: filters, against a model that looks at each of them;
//! * [`config`]: the configuration of accelerated sockets;
//! * [`capture`]: capture files, read back.

#![forbid(unsafe_code)]

pub mod agent;
mod bytes;
pub mod calls;
pub mod capture;
pub mod config;
#[path = "../../stack/tests/common/mod.rs"]
mod host;
pub mod receive;
pub mod segments;
pub mod steering;
pub mod wire;

/// Takes the bytes of one input, and panics where something is wrong.
pub type Check = fn(&[u8]);

/// The name of each target and its function. The names are those of the fuzzer's programs and of the folders in
/// `fuzz/corpus`.
pub const TARGETS: &[(&str, Check)] = &[
    ("agent", agent::check),
    ("wire", wire::check),
    ("receive", receive::check),
    ("calls", calls::check),
    ("segments", segments::check),
    ("steering", steering::check),
    ("config", config::check),
    ("capture", capture::check),
];
