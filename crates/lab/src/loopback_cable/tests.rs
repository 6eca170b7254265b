//! The loopback cable on a host of its own: a namespace in which veth pairs play network ports
//! that are cabled to each other. Nothing of the real host is touched.

mod host;
mod lending;
mod refusals;
