//! Linux calls that rustix lacks, each behind a safe function.
//!
//! One module a kernel interface. Layouts of kernel structures are checked by tests.

pub mod affinity;
pub mod bpf;
pub mod btf;
pub mod dcb;
pub mod descriptor;
pub mod ethtool;
pub mod fork;
pub mod generic_netlink;
pub mod held_signals;
pub mod icmp;
pub mod kernel_files;
pub mod netdev;
pub mod netlink;
pub mod netns;
pub mod own_stack;
pub mod receive;
pub mod reuseport;
pub mod shared_words;
pub mod socket;
pub mod tcp_repair;
pub mod tcp_traffic;
pub mod tsc;
pub mod tun;
pub mod usage;
