//! Takes out of a command line what identifies a machine or its place in a network.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Options whose names contain one of these have secret values.
const SECRETS: [&str; 4] = ["password", "credential", "secret", "token"];

/// Replaces, in a command line of words with single spaces, MAC and IP addresses, UUIDs, other long
/// identifiers and secrets by a word for what was there. What follows `--` is for the first process
/// and says nothing about the kernel: it goes as a whole.
pub(crate) fn redact(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split(' ') {
        if word == "--" {
            words.push("-- <arguments of init>".to_owned());
            break;
        }
        words.push(match word.split_once('=') {
            Some((option, _)) if is_secret(option) => format!("{option}=<secret>"),
            _ => without_identifiers(word),
        });
    }
    words.join(" ")
}

fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    SECRETS.iter().any(|secret| option.contains(secret))
}

fn without_identifiers(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let start = rest.find(is_part_of_identifier).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(start);
        let end = after.find(|c| !is_part_of_identifier(c));
        let (run, after) = after.split_at(end.unwrap_or(after.len()));
        out.push_str(plain);
        let is_uuid = out.ends_with("UUID=");
        let replaced = identifier(run).or(is_uuid.then_some("<uuid>"));
        out.push_str(replaced.unwrap_or(run));
        rest = after;
    }
    out
}

fn is_part_of_identifier(c: char) -> bool {
    c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '-')
}

/// What a run of hexadecimal digits and separators identifies, if anything. What is around an
/// identifier in the run goes with it: `eth0:` before a MAC address leaves a `0:` there.
fn identifier(run: &str) -> Option<&'static str> {
    let has_groups = |separator: char, wanted: &[usize]| {
        let lengths: Vec<_> = run.split(separator).map(str::len).collect();
        lengths.windows(wanted.len()).any(|found| found == wanted)
    };
    if has_groups(':', &[2; 6]) || has_groups('-', &[2; 6]) {
        return Some("<mac>");
    }
    if has_groups('-', &[8, 4, 4, 4, 12]) {
        return Some("<uuid>");
    }
    let is_v4 = |part: &str| part.parse::<Ipv4Addr>().is_ok();
    let run = run.trim_end_matches(['.', '-']);
    if run.split([':', '-']).any(is_v4) || run.parse::<Ipv6Addr>().is_ok() {
        return Some("<address>");
    }
    let is_long = run.split([':', '.', '-']).any(|part| part.len() >= 20);
    is_long.then_some("<id>")
}

#[cfg(test)]
mod tests {
    use super::redact;
    use proptest::prelude::*;

    #[test]
    fn command_line_with_identifiers_redacted_has_none() {
        for (given, wanted) in [
            ("root=UUID=0b7dd5a5-9cf1-4e2d-a1b8-0d8f4b7c1a2e ro", "root=UUID=<uuid> ro"),
            ("root=UUID=ABCD-1234", "root=UUID=<uuid>"),
            ("BOOTIF=01-00-1b-21-aa-bb-cc quiet", "BOOTIF=<mac> quiet"),
            ("ifname=e0:00:1b:21:aa:bb:cc", "ifname=<mac>"),
            ("ifname=eth0:00:1b:21:aa:bb:cc quiet", "ifname=eth<mac> quiet"),
            ("a.password=hunter2 ro", "a.password=<secret> ro"),
            ("ro -- --addr 10.0.0.1 x", "ro -- <arguments of init>"),
            ("ip=[2001:db8::1]", "ip=[<address>]"),
            ("ip=10.0.0.1::10.0.0.254:255.255.255.0:host", "ip=<address>host"),
            ("addr=0.0.0.0:2024", "addr=<address>"),
            ("ip=[fe80::1]:x", "ip=[<address>]:x"),
            ("systemd.machine_id=0123456789abcdef0123456789abcdef", "systemd.machine_id=<id>"),
        ] {
            assert_eq!(redact(given), wanted);
        }
    }

    #[test]
    fn command_line_with_settings_redacted_is_unchanged() {
        for text in [
            "isolcpus=managed_irq,domain,2-3,10-47:1/2,1000-1023 nohz_full=2-3",
            "BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64 pci=0000:00:03.0 hugepagesz=1G",
            "memmap=4G!0xffff000000000000 console=ttyS0,115200n8 é",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_redacted_never_panics(text: String) {
            let _ = redact(&text);
        }

        // A snapshot's files are redacted before they are read, and their readings again.
        #[test]
        fn text_redacted_twice_is_as_redacted_once(
            text in "((UUID=|ip=|password=|-- |[ :.=-]|[0-9a-f]{2}:){0,8}[0-9a-fxyz:.-]{0,24} ?){0,4}",
        ) {
            let once = redact(&text);
            prop_assert_eq!(redact(&once), once);
        }
    }
}
