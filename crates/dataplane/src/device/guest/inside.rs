//! What runs inside a guest: its kernel, set up by commands, or our forwarder.

use std::time::Duration;

use nearwire_lab::emulated_host::HostOutput;
use nearwire_lab::{CableEnd, EmulatedHost};

use super::super::{Place, kernel};
use super::GuestError;
use crate::function::{DropCause, Drops, FunctionKind};

/// For a command inside: many times what it takes.
const LIMIT: Duration = Duration::from_secs(60);
/// What the console says when the forwarder ended.
const ENDED: &str = "the forwarder ended: ";
/// Where the forwarder writes its figures, and what it has to say.
const FIGURES: &str = "/run/forward.figures";
const WORDS: &str = "/run/forward.words";

/// What forwards inside a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// The kernel.
    Kernel,
    /// Our forwarder over AF_XDP.
    Xdp,
    /// Our forwarder over AF_PACKET.
    Packet,
}

impl Inside {
    /// Whether our program forwards.
    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Inside::Xdp | Inside::Packet)
    }
}

/// Has a guest forward: what does it, in words.
pub(super) fn set_up(
    host: &mut EmulatedHost,
    function: FunctionKind,
    inside: Inside,
    place: Place,
) -> Result<String, GuestError> {
    let mut script = String::from("set -e\n");
    for port in place.ports {
        script += &format!("ip link set {} mtu {}\n", nic(port), port.mtu_bytes);
    }
    if function == FunctionKind::L3 {
        script += &addresses_and_routes(place);
    }
    let nics = place.ports.map(nic);
    match (inside, function) {
        (Inside::Kernel, FunctionKind::L3) => {}
        (Inside::Kernel, _) => script += &bridge(&nics),
        (Inside::Xdp | Inside::Packet, _) => {}
    }
    succeeded(host.run_within(&script, &[], LIMIT)?)?;
    match inside {
        Inside::Kernel if function == FunctionKind::L3 => Ok("the kernel's routing".to_owned()),
        Inside::Kernel => Ok("the kernel's bridge".to_owned()),
        Inside::Xdp => start_forwarder(host, function, &nics, "xdp"),
        Inside::Packet => start_forwarder(host, function, &nics, "packet"),
    }
}

/// The name that an interface has inside: of its address ([`nearwire_lab::emulated_host::HostNic::mac`]).
fn nic(port: &CableEnd) -> String {
    format!("nic{}", port.mac[5])
}

fn bridge(nics: &[String; 2]) -> String {
    let [one, two] = nics;
    // 3: the port forwards (`BR_STATE_FORWARDING`).
    format!(
        "modprobe -q bridge || true\nbrctl addbr br0\nbrctl addif br0 {one}\nbrctl addif br0 {two}\nip link set br0 up\n\
         for nic in {one} {two}; do until [ \"$(cat /sys/class/net/$nic/brport/state)\" = 3 ]; do usleep 20000; done; done\n"
    )
}

/// The addresses of the ports, routes of test traffic, and neighbours, which answer: so their link addresses are known.
fn addresses_and_routes(place: Place) -> String {
    let mut script =
        String::from("echo 1 >/proc/sys/net/ipv4/ip_forward\necho 1 >/proc/sys/net/ipv6/conf/all/forwarding\n");
    for port in place.ports {
        let nic = nic(port);
        // An address that is still probed cannot be used.
        script += &format!("echo 0 >/proc/sys/net/ipv6/conf/{nic}/accept_dad\n");
        for (address, prefix_bits) in port.addresses() {
            script += &format!("ip addr add {address}/{prefix_bits} dev {nic}\n");
        }
    }
    for (at, route) in kernel::test_routes(place) {
        let (prefix, bits, gateway) = (route.prefix, route.prefix_bits, route.gateway);
        let version = if prefix.is_ipv4() { 4 } else { 6 };
        script += &format!("ip -{version} route add {prefix}/{bits} via {gateway} dev {}\n", nic(place.ports[at]));
        script += &format!("ping -{version} -q -c 1 -w 20 {gateway} >/run/ping || {{ cat /run/ping >&2; false; }}\n");
    }
    script
}

fn succeeded(output: HostOutput) -> Result<(), GuestError> {
    if output.status == 0 { Ok(()) } else { Err(GuestError::SetUp { said: output.errors() }) }
}

/// Starts our program, and waits until it forwards. What it says when it ends goes to the console, which is seen from outside at no cost.
fn start_forwarder(
    host: &mut EmulatedHost,
    function: FunctionKind,
    nics: &[String; 2],
    port: &str,
) -> Result<String, GuestError> {
    let [one, two] = nics;
    let script = format!(
        "(nearwire forward {one} {two} --function {function} --port {port} >{FIGURES} 2>{WORDS}; \
         echo \"{ENDED}$(tail -n 3 {WORDS})\" >/dev/console) </dev/null >/dev/null 2>&1 &\n\
         until grep -qE '^(forwarding|nearwire:|error:)' {WORDS} 2>/dev/null; do usleep 50000; done\ncat {WORDS}"
    );
    let said = host.run_within(&script, &[], LIMIT)?.text();
    match said.lines().find_map(|line| line.strip_prefix("forwarding between ")) {
        Some(ports) => Ok(format!("our forwarder between {}", ports.trim_end_matches("; Ctrl-C ends it"))),
        None => Err(GuestError::Forwarder { said }),
    }
}

/// Ends our program: what it dropped.
pub(super) fn end_forwarder(host: &mut EmulatedHost) -> Drops {
    let script = format!("killall nearwire; while pidof nearwire >/dev/null; do usleep 20000; done; cat {FIGURES}");
    host.run_within(&script, &[], LIMIT).map(|output| drops_in(&output.text())).unwrap_or_default()
}

/// Lines of `nearwire forward`, as in `dropped ttl-expired: 3 frames`.
fn drops_in(figures: &str) -> Drops {
    let line = |line: &str| {
        let (cause, frames) = line.strip_prefix("dropped ")?.strip_suffix(" frames")?.split_once(": ")?;
        Some((DropCause::named(cause)?, frames.parse().ok()?))
    };
    let mut drops = Drops::default();
    figures.lines().filter_map(line).for_each(|(cause, frames)| drops.add(cause, frames));
    drops
}

/// What the forwarder said when it ended, if it did.
pub(super) fn last_words(console: &str) -> Option<String> {
    console.contains(ENDED).then(|| console.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_forwarder_are_read_from_its_figures() {
        let drops = drops_in(
            "nic1: 9 frames received, 0 sent\ndropped runt: 2 frames\ndropped no-route: 7 frames\ndropped x: y frames\n",
        );
        assert_eq!(drops.iter().collect::<Vec<_>>(), [(DropCause::Runt, 2), (DropCause::NoRoute, 7)]);
    }

    #[test]
    fn console_of_a_forwarder_that_runs_has_no_last_words() {
        assert_eq!(last_words("init: something\n"), None);
        let words = last_words("the forwarder ended: nearwire: use nic1: ENETDOWN\n");
        assert_eq!(words.as_deref(), Some("the forwarder ended: nearwire: use nic1: ENETDOWN"));
    }
}
