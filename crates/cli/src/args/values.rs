//! Types of option values.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use nearwire_bench::cells::Rates;
use nearwire_bench::workloads::load::RATE_PER_SECOND_MAX;
use nearwire_host::profile::Weight;

/// `A,B`: CPU of the initiator, CPU of the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuPair {
    pub initiator: u32,
    pub responder: u32,
}

impl FromStr for CpuPair {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuPair, String> {
        let wrong = || format!("'{text}' is not two CPU numbers like 0,1 (initiator, responder)");
        let (a, b) = text.split_once(',').ok_or_else(wrong)?;
        let cpu = |word: &str| word.trim().parse::<u32>().map_err(|_| wrong());
        Ok(CpuPair { initiator: cpu(a)?, responder: cpu(b)? })
    }
}

/// A duration of whole microseconds, less than 2^31 of them: `2us`, `0us`, `1ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MicrosecondsArg(pub u32);

impl FromStr for MicrosecondsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<MicrosecondsArg, String> {
        let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
        let whole = duration.subsec_nanos() % 1000 == 0;
        match i32::try_from(duration.as_micros()) {
            Ok(latency_us) if whole => Ok(MicrosecondsArg(latency_us.unsigned_abs())),
            _ => Err(format!("'{text}' is not a whole number of microseconds below 2147s, such as 2us")),
        }
    }
}

/// `high`, `medium` or `low`.
pub fn weight(text: &str) -> Result<Weight, String> {
    let known = Weight::NAMES.iter().find(|(name, _)| *name == text);
    known.map(|(_, weight)| *weight).ok_or_else(|| format!("'{text}' is not high, medium or low"))
}

/// The cable of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CableArg {
    /// A veth pair between two anonymous namespaces.
    Virtual,
    /// Two interfaces of this host, joined by a cable.
    Loopback(String, String),
    /// A responder on another host.
    Host(String),
}

impl FromStr for CableArg {
    type Err = String;

    /// `virtual`, `HOST:PORT` when what follows the last colon is a number, `IF0:IF1` otherwise. So an interface whose name
    /// consists of digits cannot be the second one; the kernel allows such names, and they are not used in practice.
    fn from_str(text: &str) -> Result<CableArg, String> {
        if text == "virtual" {
            return Ok(CableArg::Virtual);
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(CableArg::Host(text.to_owned()))
            }
            Some((one, other)) if !one.is_empty() && !other.is_empty() && !one.contains(':') => {
                Ok(CableArg::Loopback(one.to_owned(), other.to_owned()))
            }
            _ => Err(format!(
                "'{text}' is not a cable: give 'virtual', two interfaces IF0:IF1, or a responder's HOST:PORT"
            )),
        }
    }
}

/// Where a responder listens, as bind(2) wants it: `192.0.2.1:7700`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenArg(pub String);

impl FromStr for ListenArg {
    type Err = String;

    /// An address of either family or a host name, with a port or without.
    fn from_str(text: &str) -> Result<ListenArg, String> {
        const PORT: u16 = 7700;
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(ListenArg(SocketAddr::new(address, PORT).to_string()));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(ListenArg(text.to_owned())),
            None if !text.is_empty() => Ok(ListenArg(format!("{text}:{PORT}"))),
            _ => Err(format!(
                "'{text}' is not an address; give ADDR or ADDR:PORT, as in 192.0.2.1:{PORT} or [2001:db8::1]:{PORT}"
            )),
        }
    }
}

/// The exit code of a difference of this weight: `medium=10`.
pub(super) fn exit_code(text: &str) -> Result<(Weight, u8), String> {
    let wrong = || format!("'{text}' is not a weight and an exit code, as in medium=10");
    let (name, code) = text.split_once('=').ok_or_else(wrong)?;
    match code.parse() {
        Ok(code @ (0 | 1 | 5..=125)) => Ok((weight(name)?, code)),
        Ok(code) => {
            Err(format!("{code} would not tell a difference from a command that failed; give 0, 1 or 5 to 125"))
        }
        Err(_) => Err(wrong()),
    }
}

/// `10k,50k,0.2M`, or `sweep`.
pub(super) fn rates(text: &str) -> Result<Rates, String> {
    if text == "sweep" {
        return Ok(Rates::Sweep);
    }
    text.split(',').map(rate_per_second).collect::<Result<_, _>>().map(Rates::Given)
}

/// `10k`, `1.5M`, or `max` for as many as it goes.
pub(super) fn frame_rate(text: &str) -> Result<f64, String> {
    if text == "max" {
        return Ok(f64::INFINITY);
    }
    rate_per_second(text).map(|rate| rate as f64).map_err(|why| why.replace("'sweep'", "'max'"))
}

/// Messages a second: a number, with k for thousands or M for millions.
fn rate_per_second(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.trim().strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.trim().strip_suffix('M').map_or((text.trim(), 1.0), |number| (number, 1e6)),
    };
    let rate = number.parse::<f64>().ok().map(|number| (number * factor).round());
    rate.filter(|rate| (1.0..=RATE_PER_SECOND_MAX as f64).contains(rate)).map(|rate| rate as u64).ok_or_else(|| {
        format!(
            "'{text}' is no rate; give messages a second, 1 to {RATE_PER_SECOND_MAX}, as in 10k or 0.2M, or 'sweep'"
        )
    })
}

/// A duration greater than zero, `200ms`.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration.is_zero() => Err("the time is zero; give 1s, 200ms or the like".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(format!("{error}; give 1s, 200ms or the like")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cables_are_told_apart() {
        assert_eq!("virtual".parse(), Ok(CableArg::Virtual));
        assert_eq!("eth2:eth3".parse(), Ok(CableArg::Loopback("eth2".into(), "eth3".into())));
        assert_eq!("192.0.2.1:7700".parse(), Ok(CableArg::Host("192.0.2.1:7700".into())));
        assert_eq!("[2001:db8::1]:7700".parse(), Ok(CableArg::Host("[2001:db8::1]:7700".into())));
        assert_eq!("far.example:7700".parse(), Ok(CableArg::Host("far.example:7700".into())));
        for wrong in ["", "eth0", ":eth0", "eth0:", "a:b:c"] {
            assert!(wrong.parse::<CableArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn listening_needs_no_port() {
        for (text, wanted) in [
            ("192.0.2.1", "192.0.2.1:7700"),
            ("192.0.2.1:0", "192.0.2.1:0"),
            ("2001:db8::1", "[2001:db8::1]:7700"),
            ("[2001:db8::1]:9", "[2001:db8::1]:9"),
            ("far.example", "far.example:7700"),
        ] {
            assert_eq!(text.parse(), Ok(ListenArg(wanted.to_owned())));
        }
        for wrong in ["", ":7700", "host:", "host:http"] {
            assert!(wrong.parse::<ListenArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_numbers_with_units_or_a_sweep() {
        assert_eq!(rates("10k,50K,0.2M,7"), Ok(Rates::Given(vec![10_000, 50_000, 200_000, 7])));
        assert_eq!(rates("sweep"), Ok(Rates::Sweep));
        for wrong in ["", "0", "-5", "10k,", "10 k,x", "1e12", "nan", "inf", "fast", "0.2"] {
            let error = rates(wrong).unwrap_err();
            assert!(error.contains("10k"), "{wrong}: {error}");
        }
    }

    #[test]
    fn cpu_pairs_need_two_numbers() {
        assert_eq!("0,1".parse(), Ok(CpuPair { initiator: 0, responder: 1 }));
        assert_eq!("3, 3".parse(), Ok(CpuPair { initiator: 3, responder: 3 }));
        for wrong in ["", "0", "0,", "a,b", "0,-1", "0,1,2"] {
            assert!(wrong.parse::<CpuPair>().is_err(), "{wrong}");
        }
    }
}
