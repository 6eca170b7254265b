//! What identifies this machine: its names, addresses and serial numbers, as far as they can be
//! found out, to be taken out wherever they turn up.

use std::net::Ipv6Addr;

use crate::Root;

/// Serial numbers that say nothing.
const NOT_A_SERIAL: [&str; 6] =
    ["0123456789", "123456789", "1234567890", "to be filled by o.e.m.", "system serial number", "0000000000"];
/// Host names that say nothing, or are words of every system.
const NOT_A_NAME: [&str; 9] =
    ["localhost", "localdomain", "linux", "debian", "ubuntu", "fedora", "none", "(none)", "root"];
const DMI: [&str; 8] = [
    "product_uuid",
    "product_serial",
    "board_serial",
    "chassis_serial",
    "board_asset_tag",
    "chassis_asset_tag",
    "product_asset_tag",
    "oem_strings",
];

/// One text to be found, in small letters unless it is a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identifier {
    text: String,
    /// A host's name: small and big letters differ, and other letters next to it make another word.
    is_name: bool,
}

/// The identifiers of one machine.
#[derive(Debug, Default)]
pub(super) struct Identifiers(Vec<Identifier>);

impl Identifiers {
    /// Those of a host.
    pub(super) fn of(root: &Root) -> Self {
        let mut found = Self::default();
        found.add_interfaces(root);
        found.add_addresses(root);
        found.add_names(root);
        for path in ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"] {
            found.add_serial(&root.read(path).unwrap_or_default());
        }
        for file in DMI {
            found.add_serial(&root.read(&format!("/sys/class/dmi/id/{file}")).unwrap_or_default());
        }
        for directory in ["by-uuid", "by-partuuid"] {
            for name in root.list(&format!("/dev/disk/{directory}")).unwrap_or_default() {
                found.add_serial(&name);
            }
        }
        for disk in root.list("/sys/block").unwrap_or_default() {
            for file in ["serial", "device/serial", "device/wwid", "wwid", "uuid"] {
                found.add_serial(&root.read(&format!("/sys/block/{disk}/{file}")).unwrap_or_default());
            }
        }
        // The longest first: a part of another is then not found in what is left of it.
        found.0.sort_by_key(|identifier| std::cmp::Reverse(identifier.text.len()));
        found.0.dedup();
        found
    }

    fn add_interfaces(&mut self, root: &Root) {
        for name in root.list("/sys/class/net").unwrap_or_default() {
            let read = |file| root.read(&format!("/sys/class/net/{name}/{file}")).unwrap_or_default();
            let address = read("address");
            if address.len() >= 17 && !address.chars().all(|c| c == '0' || c == ':') {
                self.add(&address);
                self.add(&address.replace(':', "-"));
                self.add(&address.replace(':', ""));
            }
            self.add_serial(&read("phys_port_id"));
            self.add_serial(&read("phys_switch_id"));
        }
    }

    fn add_addresses(&mut self, root: &Root) {
        let routes = root.read("/proc/net/fib_trie").unwrap_or_default();
        let lines: Vec<_> = routes.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[1].contains("host LOCAL")) {
            let address = pair[0].rsplit(' ').next().unwrap_or_default();
            if !address.starts_with("127.") {
                self.add(address);
            }
        }
        for line in root.read("/proc/net/if_inet6").unwrap_or_default().lines() {
            let digits = line.split(' ').next().unwrap_or_default();
            match u128::from_str_radix(digits, 16) {
                Ok(bits) if bits > 1 => {
                    self.add(digits);
                    self.add(&Ipv6Addr::from_bits(bits).to_string());
                }
                _ => {}
            }
        }
    }

    fn add_names(&mut self, root: &Root) {
        for path in ["/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/etc/hostname"] {
            let name = root.read(path).unwrap_or_default();
            let host = name.split('.').next().unwrap_or_default().to_owned();
            for name in [name, host] {
                let is_word = NOT_A_NAME.contains(&name.to_ascii_lowercase().as_str());
                if name.len() >= 3 && !is_word && !name.contains(char::is_whitespace) {
                    self.0.push(Identifier { text: name, is_name: true });
                }
            }
        }
    }

    /// A number that somebody gave this one machine or part; short ones are too common.
    fn add_serial(&mut self, text: &str) {
        let text = text.trim().to_ascii_lowercase();
        let is_one = text.len() >= 6 && text.bytes().any(|b| b.is_ascii_digit());
        if is_one && !NOT_A_SERIAL.contains(&text.as_str()) && !text.chars().all(|c| matches!(c, '0' | '-')) {
            self.add(&text);
        }
    }

    fn add(&mut self, text: &str) {
        let text = text.to_ascii_lowercase();
        if text.len() >= 6 {
            self.0.push(Identifier { text, is_name: false });
        }
    }

    /// Whether a text has one of them in it.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let small = text.to_ascii_lowercase();
        self.0.iter().any(|identifier| identifier.find(text, &small, 0).is_some())
    }

    /// The text with a mark in place of each.
    pub(super) fn scrub(&self, text: &str) -> String {
        const MARK: &str = "<removed>";
        let mut text = text.to_owned();
        for identifier in &self.0 {
            let mut from = 0;
            let mut small = text.to_ascii_lowercase();
            while let Some(at) = identifier.find(&text, &small, from) {
                text.replace_range(at..at + identifier.text.len(), MARK);
                small.replace_range(at..at + identifier.text.len(), MARK);
                from = at + MARK.len();
            }
        }
        text
    }
}

impl Identifier {
    /// The byte at which it is in a text, at or behind a byte. Small letters of ASCII are as long
    /// as big ones, so places in both texts are the same.
    fn find(&self, text: &str, small: &str, from: usize) -> Option<usize> {
        let text = if self.is_name { text } else { small };
        let places = text.get(from..)?.match_indices(&self.text).map(|(at, _)| from + at);
        let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let is_alone = |at: &usize| {
            let (before, after) = (&text[..*at], &text[at + self.text.len()..]);
            let dotted = self.text.contains('.') && (before.ends_with('.') || after.starts_with('.'));
            !is_letter(before.chars().next_back()) && !is_letter(after.chars().next()) && !dotted
        };
        // A number in hexadecimal is found in any surroundings: `enx0123456789ab`.
        let is_number = !self.is_name && self.text.len() >= 12 && !self.text.contains('.');
        places.into_iter().find(|at| is_number || is_alone(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifiers(texts: &[&str], names: &[&str]) -> Identifiers {
        let mut found = Identifiers::default();
        for text in texts {
            found.add(text);
        }
        found.0.extend(names.iter().map(|name| Identifier { text: (*name).to_owned(), is_name: true }));
        found
    }

    #[test]
    fn identifiers_in_a_text_scrubbed_are_gone() {
        let found = identifiers(&["10.0.0.17", "00:1B:21:aa:bb:cc", "001b21aabbcc"], &["kestrel"]);
        for (text, wanted) in [
            ("a 00:1b:21:AA:BB:CC b", "a <removed> b"),
            ("enx001b21aabbcc", "enx<removed>"),
            ("ip=10.0.0.17:x kestrel.local", "ip=<removed>:x <removed>.local"),
            ("kestrel kestrel", "<removed> <removed>"),
            (
                "kestrels Kestrel 110.0.0.17 10.0.0.171 10.0.0.17.2",
                "kestrels Kestrel 110.0.0.17 10.0.0.171 10.0.0.17.2",
            ),
        ] {
            assert_eq!(found.scrub(text), wanted);
            assert_eq!(found.is_in(text), text != wanted, "{text}");
        }
    }

    #[test]
    fn serial_that_says_nothing_is_no_identifier() {
        let mut found = Identifiers::default();
        for text in ["", "None", "Not Specified", "0123456789", "000000-0000", "abcdefgh", "To Be Filled By O.E.M."] {
            found.add_serial(text);
        }
        assert!(found.0.is_empty(), "{found:?}");
        found.add_serial("CZ1234XYZ");
        assert!(found.is_in("board cz1234xyz"));
    }
}
