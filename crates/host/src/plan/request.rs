//! What is wanted of a plan.

use std::str::FromStr;

use thiserror::Error;

/// What is wanted. `None` is a default that depends on the rest: see each field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Interfaces whose traffic matters; the first decides the memory node. With none the node with the most free
    /// cores is taken.
    pub nics: Vec<String>,
    /// CPUs of the application, each alone on its core. Default: 1, or 0 with pollers or guests.
    pub app_cpus: Option<u32>,
    /// CPUs for interrupts on each node that has a NIC, each alone on its core. Default: 1 where the
    /// node has a core to spare, 0 with pollers or guests. With 0 the OS takes the interrupts.
    pub irq_cpus: Option<u32>,
    /// CPUs of pollers, both siblings of a core. Default: 0.
    pub poller_cpus: u32,
    /// CPUs of the OS in whole cores, one of each package in turn, CPU 0's first; the rest is spare.
    /// Default: all that nobody asks for.
    pub os_cpus: Option<u32>,
    /// The node for everything, where the host is wrong or silent about the NIC's.
    pub node: Option<u32>,
    /// Guests with their virtual CPUs and memory.
    pub guests: Vec<GuestRequest>,
    /// Whether SMT is to be off (`cpu.smt`, `nosmt`): then only one CPU of each core is planned.
    pub is_smt_off: bool,
}

/// A guest that is wanted: `NAME:VCPUS:MEM` or `NAME:VCPUS:MEM@NODE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRequest {
    /// Its name, as in libvirt.
    pub name: String,
    /// How many virtual CPUs, at least 1.
    pub vcpus: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Its node; that of the first NIC without it.
    pub node: Option<u32>,
}

/// Why a text is no guest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GuestRequestError {
    /// Not three parts.
    #[error("'{text}' is not NAME:VCPUS:MEM, as in VM00:4:4G, or VM00:4:4G@1 for node 1")]
    Form {
        /// The text.
        text: String,
    },
    /// A name that would have to be quoted in shells and XML.
    #[error("'{name}' is no name for a guest: letters, digits, '.', '_' and '-' are allowed, not '-' first")]
    Name {
        /// The name.
        name: String,
    },
    /// No virtual CPU, or no number.
    #[error("'{text}' is not a number of virtual CPUs from 1 to 4096")]
    Vcpus {
        /// The text.
        text: String,
    },
    /// No amount of memory.
    #[error("'{text}' is no amount of memory: give a whole number of M or G, as in 512M or 4G")]
    Memory {
        /// The text.
        text: String,
    },
    /// No node.
    #[error("'{text}' is not the number of a memory node")]
    Node {
        /// The text.
        text: String,
    },
}

impl FromStr for GuestRequest {
    type Err = GuestRequestError;

    fn from_str(text: &str) -> Result<Self, GuestRequestError> {
        let (body, node) = match text.rsplit_once('@') {
            Some((body, node)) => {
                let number = node.parse().map_err(|_| GuestRequestError::Node { text: node.to_owned() })?;
                (body, Some(number))
            }
            None => (text, None),
        };
        let parts: Vec<&str> = body.split(':').collect();
        let [name, vcpus, memory] = parts[..] else {
            return Err(GuestRequestError::Form { text: text.to_owned() });
        };
        if !is_name(name) {
            return Err(GuestRequestError::Name { name: name.to_owned() });
        }
        let count = vcpus.parse().ok().filter(|count| (1..=4096).contains(count));
        let vcpus = count.ok_or_else(|| GuestRequestError::Vcpus { text: vcpus.to_owned() })?;
        let memory_bytes = bytes(memory).ok_or_else(|| GuestRequestError::Memory { text: memory.to_owned() })?;
        Ok(Self { name: name.to_owned(), vcpus, memory_bytes, node })
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 64 && !name.starts_with('-') && name.chars().all(fits)
}

/// `512M`, `4G`, `4GiB`; binary units, as libvirt takes them.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return None,
    };
    let number: u64 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_parsed_has_its_parts() {
        let guest = |name: &str, vcpus, memory_bytes, node| {
            Ok(GuestRequest { name: name.to_owned(), vcpus, memory_bytes, node })
        };
        assert_eq!("VM00:4:4G".parse(), guest("VM00", 4, 4 << 30, None));
        assert_eq!("a.b-c:1:512MiB@1".parse(), guest("a.b-c", 1, 512 << 20, Some(1)));
    }

    #[test]
    fn guest_with_nonsense_is_refused() {
        let wrong = [
            "",
            "VM",
            "VM:4",
            "VM:4:4",
            "VM:4:4K",
            "VM:0:4G",
            "VM:x:4G",
            "VM:4:0G",
            ":4:4G",
            "-VM:4:4G",
            "V$M:4:4G",
            "VM:4:4G@x",
            "VM:4:4G:1",
            "VM:4:+4G",
            "VM:4:99999999999999G",
            "VM:5000:4G",
            "V<M:4:4G",
        ];
        for text in wrong {
            assert!(text.parse::<GuestRequest>().is_err(), "{text}");
        }
    }
}
