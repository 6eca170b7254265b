//! Numbers and units as tools print them.

use crate::subject::Figure;

/// What a number of an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// A figure of the run.
    Figure(Figure),
    /// How many messages, requests or transactions there were.
    Messages,
    /// How long the run took.
    Elapsed,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// This word of the table of units.
    Is(&'static str),
    /// The word that stands beside the number: the group `unit` of the expression.
    Beside,
    /// The word in the column with this title. The number counts if that is a unit of its quantity.
    At(&'static str),
}

/// Why a number was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// It is not written as a number.
    #[error("'{text}' is not a number with a point and without separators of thousands; run the command with LC_ALL=C")]
    NotANumber {
        /// What stands there.
        text: String,
    },
    /// No known unit.
    #[error("'{number}' has the unit '{unit}', which is not known here")]
    Unit {
        /// The number.
        number: String,
        /// Its unit.
        unit: String,
    },
    /// More than any measurement gives, or less than nothing.
    #[error("'{text}' is no result of a measurement")]
    OutOfRange {
        /// What stands there.
        text: String,
    },
}

/// Units of time, ns.
const TIME: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("nsec", 1.0),
    ("us", 1e3),
    ("usec", 1e3),
    ("ms", 1e6),
    ("msec", 1e6),
    ("s", 1e9),
    ("sec", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
];

/// Numbers of things, and things a second.
const COUNT: &[(&str, f64)] = &[("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("Trans/s", 1.0), ("Tran/s", 1.0)];

/// Units of a bit rate, bits a second. iperf3 and netperf count bits by 1000 and bytes by 1024 (`src/units.c` of iperf,
/// `format_units` of netperf's `src/netlib.c`); fio says which; what sockperf calls Mbps is 2^20 bits.
const BITS: &[(&str, f64)] = &[
    ("bits/sec", 1.0),
    ("Kbits/sec", 1e3),
    ("Mbits/sec", 1e6),
    ("Gbits/sec", 1e9),
    ("Tbits/sec", 1e12),
    ("Bytes/sec", 8.0),
    ("KBytes/sec", 8.0 * KIB),
    ("MBytes/sec", 8.0 * KIB * KIB),
    ("GBytes/sec", 8.0 * KIB * KIB * KIB),
    ("TBytes/sec", 8.0 * KIB * KIB * KIB * KIB),
    ("10^0bits/s", 1.0),
    ("10^3bits/s", 1e3),
    ("10^6bits/s", 1e6),
    ("10^9bits/s", 1e9),
    ("10^0bits/sec", 1.0),
    ("10^3bits/sec", 1e3),
    ("10^6bits/sec", 1e6),
    ("10^9bits/sec", 1e9),
    ("Bytes/s", 8.0),
    ("KBytes/s", 8.0 * KIB),
    ("MBytes/s", 8.0 * KIB * KIB),
    ("GBytes/s", 8.0 * KIB * KIB * KIB),
    ("B/s", 8.0),
    ("kB/s", 8e3),
    ("MB/s", 8e6),
    ("GB/s", 8e9),
    ("KiB/s", 8.0 * KIB),
    ("sockperf Mbps", KIB * KIB),
    ("sockperf Gbps", KIB * KIB * 1e3),
];

const KIB: f64 = 1024.0;

/// A number in the unit of its quantity: ns, a second, bits a second; without unit for a user's own.
///
/// # Errors
/// [`NumberError`] with what stands there.
pub fn convert(quantity: Quantity, number: &str, unit: &str) -> Result<f64, NumberError> {
    let Some(factor) = factor(quantity, unit) else {
        return Err(NumberError::Unit { number: number.to_owned(), unit: unit.to_owned() });
    };
    Ok(parse(number)? * factor)
}

/// Whether a word is a unit of a quantity.
pub fn is_unit_of(quantity: Quantity, unit: &str) -> bool {
    factor(quantity, unit).is_some()
}

fn factor(quantity: Quantity, unit: &str) -> Option<f64> {
    let units = match quantity {
        Quantity::Figure(Figure::P50Ns | Figure::P99Ns | Figure::P999Ns | Figure::CpuPerMessageNs)
        | Quantity::Elapsed => TIME,
        Quantity::Figure(Figure::BitsPerSecond) => BITS,
        Quantity::Figure(Figure::RatePerSecond | Figure::Less | Figure::More) | Quantity::Messages => COUNT,
    };
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// A number as `printf` writes it in the C locale, zero or more.
///
/// # Errors
/// [`NumberError`] with what stands there.
pub fn parse(text: &str) -> Result<f64, NumberError> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-' | b'e' | b'E');
    let number = text.bytes().all(is_plain).then(|| text.parse::<f64>().ok()).flatten();
    match number {
        None => Err(NumberError::NotANumber { text: text.to_owned() }),
        Some(number) if number.is_finite() && number >= 0.0 => Ok(number),
        Some(_) => Err(NumberError::OutOfRange { text: text.to_owned() }),
    }
}
