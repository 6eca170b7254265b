//! How far the host's clocks are from those they follow, by the daemons that keep them.
//!
//! Sources: `candm.h` of chrony 4 (requests to `chronyd`, which anybody on the host may send), `pmc(8)` and `ptp4l(8)` of linuxptp
//! (a management message of IEEE 1588 to the daemon's socket), `chrony.conf(5)`. The live daemons are asked; a copy has a
//! recording, or what `sos report` kept of `chronyc`.

use std::io;
use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::HostFiles;
use super::condense::condense;
use crate::root::Lack;
use crate::{Reading, Root};

/// The recorded answers of a copy: `{"chrony": {"offset-ns": -1969}, "ptp4l": {"unsupported": true}}`.
pub(crate) const RECORDING: &str = "/nearwire/clocks.json";
/// Both daemons answer within a fraction of it, or not at all.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(20);
const CHRONYD: (&str, u16) = ("127.0.0.1", 323);
const CHRONYD_SOCKET: &str = "/run/chrony/chronyd.sock";
const CHRONYC_TRACKING: &str = "/sos_commands/chrony/chronyc_tracking";
/// The socket that anybody may use, since linuxptp 4, and the one for root.
const PTP4L_SOCKETS: [&str; 2] = ["/run/ptp4lro", "/run/ptp4l"];
const PTP4L_CONFIGS: [&str; 2] = ["/etc/ptp4l.conf", "/etc/linuxptp/ptp4l.conf"];
const CHRONY_CONFIGS: [&str; 2] = ["/etc/chrony.conf", "/etc/chrony/chrony.conf"];
const CHRONY_PARTS: [&str; 2] = ["/etc/chrony/conf.d", "/etc/chrony.d"];

/// A clock and the one that it follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Followed {
    /// How far it is ahead.
    offset_ns: i64,
    /// Nothing is followed, so the offset means nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_lost: bool,
}

/// How far the system's clock is from the one that chronyd follows.
pub(crate) fn system_offset_ns(files: &HostFiles<'_>) -> Reading {
    let root = files.root();
    let found = answer(root, "chrony", ask_chronyd).or_else(|lack| match root.read(CHRONYC_TRACKING) {
        Ok(text) if !root.is_live() => of_chronyc(&text).ok_or_else(|| odd(CHRONYC_TRACKING)),
        _ => Err(lack),
    });
    in_words(found, "chronyd follows no clock now; see chronyc sources")
}

/// How far the clock of a network device is from that of the network, by ptp4l.
pub(crate) fn device_offset_ns(files: &HostFiles<'_>) -> Reading {
    in_words(
        answer(files.root(), "ptp4l", ask_ptp4l),
        "ptp4l follows no clock now; see pmc -u -b 0 'GET PORT_DATA_SET'",
    )
}

/// Where the stamps are taken that each daemon works with: `hardware` or `software`.
pub(crate) fn stamps(files: &HostFiles<'_>) -> Reading {
    let root = files.root();
    let daemons = [("ptp4l", ptp4l_stamps(root)), ("chrony", chrony_stamps(root))];
    let is_lack =
        |wanted: fn(&Reading) -> bool| daemons.iter().map(|(_, reading)| reading).find(|reading| wanted(reading));
    let lack = is_lack(|reading| *reading == Reading::NeedsRoot)
        .or_else(|| is_lack(|reading| *reading != Reading::Unsupported));
    let lack = lack.cloned();
    let known = daemons.into_iter().filter(|(_, reading)| matches!(reading, Reading::Value(_)));
    match known.map(|(daemon, reading)| (daemon.to_owned(), reading)).collect::<Vec<_>>() {
        known if known.is_empty() => lack.unwrap_or(Reading::Unsupported),
        known => condense(known),
    }
}

/// Everything that the daemons answer, in the form of a recording.
pub(crate) fn answers(root: &Root) -> Map<String, Value> {
    let record =
        |found: Result<Followed, Reading>| found.map_or_else(|lack| json!(Lack::of(&lack)), |found| json!(found));
    let all = [("chrony", answer(root, "chrony", ask_chronyd)), ("ptp4l", answer(root, "ptp4l", ask_ptp4l))];
    all.into_iter().map(|(daemon, found)| (daemon.to_owned(), record(found))).collect()
}

fn in_words(found: Result<Followed, Reading>, why_lost: &str) -> Reading {
    match found {
        Ok(Followed { is_lost: true, .. }) => Reading::unknown(why_lost),
        Ok(found) => Reading::value(found.offset_ns.unsigned_abs()),
        Err(lack) => lack,
    }
}

fn odd(path: &str) -> Reading {
    Reading::unknown(format!("{path} is not understood"))
}

/// The live daemon's answer, or that of a recording.
fn answer(root: &Root, daemon: &str, ask: fn(&Root) -> Result<Followed, Reading>) -> Result<Followed, Reading> {
    if root.is_live() {
        return ask(root);
    }
    let text = root.read(RECORDING).map_err(|lack| match lack {
        Reading::Unknown { .. } | Reading::Unsupported => {
            Reading::unknown(format!(
                "only the live host can be asked, and no answers were recorded in {RECORDING}; see nearwire snapshot, which records them"
            ))
        }
        lack => lack,
    })?;
    let all: Map<String, Value> = serde_json::from_str(&text).map_err(|_| odd(RECORDING))?;
    let found = all.get(daemon).cloned().ok_or(Reading::Unsupported)?;
    let lack: Lack = serde_json::from_value(found.clone()).unwrap_or_default();
    match lack.reading() {
        Some(reading) => Err(reading),
        None => serde_json::from_value(found).map_err(|_| odd(RECORDING)),
    }
}

fn ask_chronyd(root: &Root) -> Result<Followed, Reading> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused if root.has(CHRONYD_SOCKET) => {
            Reading::unknown("chronyd answers at its own socket only; see chronyc -c tracking")
        }
        _ if root.is_thread_elsewhere() => Reading::unknown("chronyd is asked in the network namespace of the host"),
        io::ErrorKind::ConnectionRefused => Reading::Unsupported,
        _ => Reading::unknown(format!("ask chronyd at {}:{}: {error}", CHRONYD.0, CHRONYD.1)),
    };
    let ask = || -> io::Result<Vec<u8>> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.connect(CHRONYD)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        socket.send(&tracking_request())?;
        let mut answer = vec![0; TRACKING_BYTES];
        let length = socket.recv(&mut answer)?;
        answer.truncate(length);
        Ok(answer)
    };
    of_tracking(&ask().map_err(failed)?).ok_or_else(|| Reading::unknown("chronyd answered in another version's form"))
}

/// The length of the answer; the daemon takes no request that is shorter.
const TRACKING_BYTES: usize = 104;
const PROTOCOL: u8 = 6;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const REQ_TRACKING: u16 = 33;
const RPY_TRACKING: u16 = 5;
/// Where `leap_status` and `current_correction` of `RPY_Tracking` are.
const LEAP_AT: usize = 54;
const CORRECTION_AT: usize = 68;
const LEAP_UNSYNCHRONISED: u16 = 3;

fn tracking_request() -> [u8; TRACKING_BYTES] {
    let mut request = [0; TRACKING_BYTES];
    (request[0], request[1]) = (PROTOCOL, REQUEST);
    request[4..6].copy_from_slice(&REQ_TRACKING.to_be_bytes());
    request
}

fn of_tracking(answer: &[u8]) -> Option<Followed> {
    let word = |at: usize| Some(u16::from_be_bytes(*answer.get(at..)?.first_chunk()?));
    // Version, kind, the answer to what, what follows, and that it went well.
    let is_good =
        answer.get(..2)? == [PROTOCOL, REPLY] && word(4)? == REQ_TRACKING && word(6)? == RPY_TRACKING && word(8)? == 0;
    let correction = u32::from_be_bytes(*answer.get(CORRECTION_AT..)?.first_chunk()?);
    // The correction is what is still to be added, so the clock is ahead by its opposite.
    let offset_ns = (-seconds(correction) * 1e9).round() as i64;
    is_good.then_some(Followed { offset_ns, is_lost: word(LEAP_AT)? == LEAP_UNSYNCHRONISED })
}

/// chrony's `Float`: seven bits of exponent, 25 of coefficient, both signed.
fn seconds(float: u32) -> f64 {
    let exponent = float.cast_signed() >> 25;
    let coefficient = (float << 7).cast_signed() >> 7;
    f64::from(coefficient) * f64::from(exponent - 25).exp2()
}

/// `System time     : 0.000001969 seconds fast of NTP time`.
fn of_chronyc(text: &str) -> Option<Followed> {
    let field = |name: &str| super::host_files::field_of(text, name);
    let mut words = field("System time")?.split_whitespace();
    let seconds: f64 = words.next()?.parse().ok()?;
    let sign = if words.nth(1)? == "slow" { -1.0 } else { 1.0 };
    let is_lost = field("Leap status") == Some("Not synchronised");
    Some(Followed { offset_ns: (sign * seconds * 1e9).round() as i64, is_lost })
}

fn ask_ptp4l(root: &Root) -> Result<Followed, Reading> {
    let mut lack = Reading::Unsupported;
    for path in PTP4L_SOCKETS.into_iter().filter(|path| root.has(path)) {
        match exchange(path, &time_status_request(domain(root))) {
            Ok(answer) => {
                return of_time_status(&answer)
                    .ok_or_else(|| Reading::unknown(format!("{path}: ptp4l refused the question")));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => lack = Reading::NeedsRoot,
            // The socket of a daemon that is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => lack = Reading::unknown(format!("ask ptp4l at {path}: {error}")),
        }
    }
    Err(lack)
}

fn exchange(path: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    // The daemon answers to an address, and one without a file leaves nothing behind.
    let own = format!("nearwire-{}-{path}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(own)?)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.send_to(request, path)?;
    let mut answer = vec![0; 1500];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

const MANAGEMENT: u8 = 0x0d;
const MANAGEMENT_TLV: u16 = 1;
const TIME_STATUS: u16 = 0xc000;
/// The header, and the part of a management message before its TLV.
const HEADER_BYTES: usize = 34;
const TLV_AT: usize = HEADER_BYTES + 14;
const OFFSET_AT: usize = TLV_AT + 6;
const PRESENT_AT: usize = OFFSET_AT + 38;

/// `GET TIME_STATUS_NP` to any port.
fn time_status_request(domain: u8) -> Vec<u8> {
    let mut request = vec![0; OFFSET_AT];
    let length = u8::try_from(OFFSET_AT).unwrap_or(0);
    (request[0], request[1], request[3], request[4]) = (MANAGEMENT, 2, length, domain);
    // The control field of management, and an interval that stands for none.
    (request[32], request[33]) = (4, 0x7f);
    request[HEADER_BYTES..HEADER_BYTES + 10].fill(0xff);
    request[TLV_AT..].copy_from_slice(&[0, 1, 0, 2, 0xc0, 0]);
    request
}

fn of_time_status(answer: &[u8]) -> Option<Followed> {
    let word = |at: usize| Some(u16::from_be_bytes(*answer.get(at..)?.first_chunk()?));
    let is_good =
        answer.first()? & 0x0f == MANAGEMENT && word(TLV_AT)? == MANAGEMENT_TLV && word(TLV_AT + 4)? == TIME_STATUS;
    let offset_ns = i64::from_be_bytes(*answer.get(OFFSET_AT..)?.first_chunk()?);
    let is_present = i32::from_be_bytes(*answer.get(PRESENT_AT..)?.first_chunk()?) != 0;
    is_good.then_some(Followed { offset_ns, is_lost: !is_present })
}

/// The first of several files that is there.
fn first_of(root: &Root, paths: &[&str]) -> Result<String, Reading> {
    let mut lack = Reading::Unsupported;
    for path in paths {
        match root.read(path) {
            Ok(text) => return Ok(text),
            // That root could read one says more than that another one was not copied.
            Err(other) if other != Reading::Unsupported && lack != Reading::NeedsRoot => lack = other,
            Err(_) => {}
        }
    }
    Err(lack)
}

/// The value of a key in the first configuration of ptp4l that there is.
fn ptp4l_option(root: &Root, key: &str) -> Result<Option<String>, Reading> {
    let text = first_of(root, &PTP4L_CONFIGS)?;
    let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.split_whitespace().next());
    Ok(values.next_back().map(str::to_owned))
}

fn domain(root: &Root) -> u8 {
    ptp4l_option(root, "domainNumber").ok().flatten().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// By the options of the daemon that runs, else by its configuration. Without a word it takes stamps in hardware.
fn ptp4l_stamps(root: &Root) -> Reading {
    // Looking at all processes takes long, and a daemon that runs has a socket.
    let runs = PTP4L_SOCKETS.iter().any(|path| root.has(path));
    let option = if runs { ptp4l_arguments(root) } else { None };
    if let Some(stamps) = option.iter().flatten().find_map(|argument| match argument.as_str() {
        "-S" => Some("software"),
        "-H" => Some("hardware"),
        _ => None,
    }) {
        return Reading::value(stamps);
    }
    match ptp4l_option(root, "time_stamping") {
        // A file that came with the package says nothing of a host that is known not to run the daemon.
        Ok(_) if !runs && root.is_whole() => Reading::Unsupported,
        Ok(Some(stamps)) if stamps.starts_with("software") => Reading::value("software"),
        Ok(_) => Reading::value("hardware"),
        Err(Reading::Unsupported) if runs => Reading::value("hardware"),
        Err(lack) => lack,
    }
}

fn ptp4l_arguments(root: &Root) -> Option<Vec<String>> {
    let processes = root.list("/proc").ok()?;
    let is_ptp4l = |id: &&String| root.read(&format!("/proc/{id}/comm")).is_ok_and(|name| name == "ptp4l");
    let process = processes.iter().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())).find(is_ptp4l)?;
    let line = root.read(&format!("/proc/{process}/cmdline")).ok()?;
    Some(line.split('\0').map(str::to_owned).collect())
}

/// chronyd takes stamps in the kernel unless it is told otherwise, or follows the clock of a device.
fn chrony_stamps(root: &Root) -> Reading {
    let text = match first_of(root, &CHRONY_CONFIGS) {
        Ok(text) => text,
        Err(lack) => return lack,
    };
    let parts = CHRONY_PARTS.iter().flat_map(|directory| {
        let names = root.list(directory).unwrap_or_default();
        names.into_iter().filter(|name| name.ends_with(".conf")).map(move |name| format!("{directory}/{name}"))
    });
    let texts: Vec<String> = parts.filter_map(|path| root.read(&path).ok()).chain([text]).collect();
    let lines = || texts.iter().flat_map(|text| text.lines()).map(str::trim);
    let is_hardware = |line: &str| {
        let mut words = line.split_whitespace();
        matches!((words.next(), words.next()), (Some("hwtimestamp"), Some(_)) | (Some("refclock"), Some("PHC")))
    };
    Reading::value(if lines().any(is_hardware) { "hardware" } else { "software" })
}

#[cfg(test)]
mod tests;
