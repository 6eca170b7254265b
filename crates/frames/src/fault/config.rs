//! Which faults, written `loss=10%,reorder=5%,duplicate=1%,corrupt=0.1%,delay=20us,on=receive`.

use std::fmt;
use std::str::FromStr;

/// A probability, exact to a millionth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0);
    /// Always.
    pub const ALWAYS: Probability = Probability(1_000_000);

    /// From parts per million; `None` above a million.
    #[must_use]
    pub fn from_ppm(ppm: u32) -> Option<Probability> {
        (ppm <= 1_000_000).then_some(Probability(ppm))
    }

    /// Parts per million.
    #[must_use]
    pub fn ppm(self) -> u32 {
        self.0
    }

    /// Reads `10%` or `0.1%`: up to four digits behind the point, as that is what a millionth needs.
    fn parse(text: &str) -> Option<Probability> {
        let number = text.strip_suffix('%')?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 3 || fraction.len() > 4 || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        Probability::from_ppm(format!("{whole}{fraction:0<4}").parse().ok()?)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000, self.0 % 10_000);
        if fraction == 0 {
            return write!(f, "{whole}%");
        }
        write!(f, "{whole}.{}%", format!("{fraction:04}").trim_end_matches('0'))
    }
}

/// Which frames have faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FaultDirection {
    /// Those received.
    #[default]
    Receive,
    /// Those sent.
    Send,
    /// Both, each direction with its own dice.
    Both,
}

impl FaultDirection {
    pub(super) fn receives(self) -> bool {
        self != FaultDirection::Send
    }

    pub(super) fn sends(self) -> bool {
        self != FaultDirection::Receive
    }

    fn name(self) -> &'static str {
        match self {
            FaultDirection::Receive => "receive",
            FaultDirection::Send => "send",
            FaultDirection::Both => "both",
        }
    }
}

/// Which faults, how often. The default is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FaultConfig {
    /// A frame never arrives.
    pub loss: Probability,
    /// A frame arrives twice.
    pub duplicate: Probability,
    /// A frame is overtaken by the next one, or waits 100 us for one.
    pub reorder: Probability,
    /// One bit of a frame is flipped.
    pub corrupt: Probability,
    /// Every frame arrives this much later.
    pub delay_ns: u64,
    /// Which frames.
    pub direction: FaultDirection,
}

/// Why a text is no [`FaultConfig`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultConfigError {
    /// A part without `=`.
    #[error("fault {part:?}: wanted NAME=VALUE, as in loss=10%,delay=20us")]
    NoValue {
        /// The part.
        part: String,
    },
    /// A name that is no fault.
    #[error("fault {name:?} is not known; there are loss, duplicate, reorder, corrupt, delay and on")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A fault given twice.
    #[error("fault {name} is given twice; give it once")]
    Twice {
        /// The name.
        name: &'static str,
    },
    /// A probability that is none.
    #[error("fault {name}={value}: wanted 0% to 100% with up to four digits behind the point, as in {name}=0.1%")]
    Probability {
        /// The fault.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// A delay that is none.
    #[error("fault delay={value}: wanted a whole number of ns, us, ms or s up to 10s, as in delay=20us")]
    Delay {
        /// What was given.
        value: String,
    },
    /// A direction that is none.
    #[error("fault on={value}: wanted receive, send or both")]
    Direction {
        /// What was given.
        value: String,
    },
}

const NAMES: [&str; 6] = ["loss", "duplicate", "reorder", "corrupt", "delay", "on"];
const DELAY_MOST_NS: u64 = 10_000_000_000;

impl FromStr for FaultConfig {
    type Err = FaultConfigError;

    fn from_str(text: &str) -> Result<FaultConfig, FaultConfigError> {
        let mut config = FaultConfig::default();
        let mut given = [false; NAMES.len()];
        for part in text.split(',').map(str::trim) {
            let no_value = || FaultConfigError::NoValue { part: part.to_owned() };
            let (name, value) = part.split_once('=').ok_or_else(no_value)?;
            let unknown = || FaultConfigError::Unknown { name: name.to_owned() };
            let at = NAMES.iter().position(|known| *known == name).ok_or_else(unknown)?;
            if std::mem::replace(&mut given[at], true) {
                return Err(FaultConfigError::Twice { name: NAMES[at] });
            }
            config.set(NAMES[at], value)?;
        }
        Ok(config)
    }
}

impl FaultConfig {
    fn set(&mut self, name: &'static str, value: &str) -> Result<(), FaultConfigError> {
        let probability = || {
            let error = || FaultConfigError::Probability { name, value: value.to_owned() };
            Probability::parse(value).ok_or_else(error)
        };
        match name {
            "loss" => self.loss = probability()?,
            "duplicate" => self.duplicate = probability()?,
            "reorder" => self.reorder = probability()?,
            "corrupt" => self.corrupt = probability()?,
            "delay" => {
                let error = || FaultConfigError::Delay { value: value.to_owned() };
                self.delay_ns = parse_delay_ns(value).ok_or_else(error)?;
            }
            _ => {
                let known = [FaultDirection::Receive, FaultDirection::Send, FaultDirection::Both];
                let error = || FaultConfigError::Direction { value: value.to_owned() };
                self.direction = known.into_iter().find(|known| known.name() == value).ok_or_else(error)?;
            }
        }
        Ok(())
    }
}

fn parse_delay_ns(text: &str) -> Option<u64> {
    // The two-letter units first: "us" ends in "s" too.
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit_ns) = units.into_iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)))?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit_ns).filter(|&delay_ns| delay_ns <= DELAY_MOST_NS)
}

impl fmt::Display for FaultConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let probabilities =
            [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder), ("corrupt", self.corrupt)];
        for (name, probability) in probabilities {
            if probability != Probability::NEVER {
                write!(f, "{name}={probability},")?;
            }
        }
        if self.delay_ns > 0 {
            let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
            let whole = units.into_iter().find(|(ns, _)| self.delay_ns.is_multiple_of(*ns));
            let (ns, unit) = whole.unwrap_or((1, "ns"));
            write!(f, "delay={}{unit},", self.delay_ns / ns)?;
        }
        write!(f, "on={}", self.direction.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn full_text_parsed_gives_every_fault() {
        let config: FaultConfig = "loss=10%,reorder=5%,duplicate=1%,corrupt=0.1%,delay=20us,on=both".parse().unwrap();
        let ppm = [config.loss, config.reorder, config.duplicate, config.corrupt].map(Probability::ppm);
        assert_eq!(ppm, [100_000, 50_000, 10_000, 1_000]);
        assert_eq!((config.delay_ns, config.direction), (20_000, FaultDirection::Both));
        assert_eq!(config.to_string(), "loss=10%,duplicate=1%,reorder=5%,corrupt=0.1%,delay=20us,on=both");
    }

    #[test]
    fn wrong_text_parsed_says_what_was_wanted() {
        let cases = [
            ("loss", "wanted NAME=VALUE"),
            ("", "wanted NAME=VALUE"),
            ("los=1%", "there are loss, duplicate"),
            ("loss=1%,loss=2%", "given twice"),
            ("loss=10", "as in loss=0.1%"),
            ("loss=101%", "0% to 100%"),
            ("loss=-1%", "0% to 100%"),
            ("loss=0.00001%", "four digits"),
            ("delay=20", "ns, us, ms or s"),
            ("delay=+5us", "ns, us, ms or s"),
            ("delay=11s", "up to 10s"),
            ("on=sideways", "receive, send or both"),
        ];
        for (text, wanted) in cases {
            let error = text.parse::<FaultConfig>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_config_displayed_parses_back(ppm in proptest::array::uniform4(0u32..=1_000_000), delay_ns in 0u64..=DELAY_MOST_NS, on in 0usize..3) {
            let [loss, duplicate, reorder, corrupt] = ppm.map(|ppm| Probability::from_ppm(ppm).unwrap());
            let direction = [FaultDirection::Receive, FaultDirection::Send, FaultDirection::Both][on];
            let config = FaultConfig { loss, duplicate, reorder, corrupt, delay_ns, direction };
            prop_assert_eq!(config.to_string().parse(), Ok(config));
        }

        #[test]
        fn any_text_parsed_never_panics(text in ".{0,60}") {
            let _ = text.parse::<FaultConfig>();
        }
    }
}
