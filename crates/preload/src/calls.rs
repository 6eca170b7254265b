//! What each intercepted call does, beside the original. A function here answers `None` where the original call is to be
//! made, and nothing has been done then.

pub mod adoption;
pub mod direct;
pub mod epoll;
pub mod names;
pub mod options;
pub mod poll;
pub mod process;
pub mod receive;
pub mod send;
pub mod stream;
pub mod stream_options;
mod stream_options_known;
pub mod table;
pub mod tcp;
