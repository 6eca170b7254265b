//! The parameters of an interface that ethtool writes.

use nearwire_sys::ethtool::{Channels, Coalesce, EthtoolError, Interface, Rings};
use serde::{Deserialize, Serialize};

use super::form::switch;
use crate::setting::EthtoolCall;

/// One parameter of an interface, by the command that writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EthtoolParameter {
    /// `ethtool -C`.
    Coalesce(CoalesceField),
    /// `ethtool -G`.
    Ring(RingField),
    /// `ethtool -L`.
    Channels(ChannelField),
    /// `ethtool -A`: `off`, `rx`, `tx` or `rx tx`.
    Pause,
    /// `ethtool -A autoneg`.
    PauseAutoneg,
    /// `ethtool -K`, by the kernel's name. `off, requested` is a wish that another setting keeps
    /// without effect.
    Feature(String),
    /// `ethtool --set-eee`.
    EnergyEfficient,
    /// `ethtool -s wol`: letters of ethtool(8), or `off`.
    WakeOnLan,
}

/// Declares the fields of one ethtool structure: variant, field, word of ethtool(8).
macro_rules! fields {
    ($(#[$doc:meta])* $type:ident of $of:ident { $($variant:ident $field:ident $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $type {
            $(#[doc = concat!("`", $word, "`.")] $variant,)*
        }

        impl $type {
            /// The word of ethtool(8).
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            fn named(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            fn get(self, of: &$of) -> String {
                match self { $(Self::$variant => of.$field.to_word(),)* }
            }

            fn set(self, of: &mut $of, word: &str) {
                match self { $(Self::$variant => of.$field.take_word(word),)* }
            }
        }
    };
}

fields! {
    /// A field of interrupt coalescing.
    CoalesceField of Coalesce {
        AdaptiveRx adaptive_rx "adaptive-rx",
        AdaptiveTx adaptive_tx "adaptive-tx",
        RxUsecs rx_usecs "rx-usecs",
        RxFrames rx_frames "rx-frames",
        RxUsecsIrq rx_usecs_irq "rx-usecs-irq",
        RxFramesIrq rx_frames_irq "rx-frames-irq",
        TxUsecs tx_usecs "tx-usecs",
        TxFrames tx_frames "tx-frames",
        TxFramesIrq tx_frames_irq "tx-frames-irq",
        StatsBlockUsecs stats_block_usecs "stats-block-usecs",
        SampleInterval sample_interval_s "sample-interval",
        PktRateLow pkt_rate_low "pkt-rate-low",
        PktRateHigh pkt_rate_high "pkt-rate-high",
        RxUsecsLow rx_usecs_low "rx-usecs-low",
        RxUsecsHigh rx_usecs_high "rx-usecs-high",
    }
}

fields! {
    /// A ring.
    RingField of Rings { Rx rx "rx", Tx tx "tx" }
}

fields! {
    /// A kind of channel.
    ChannelField of Channels { Rx rx "rx", Tx tx "tx", Combined combined "combined" }
}

/// A field as a word. What is no number was refused before (`Target::normal`).
trait Word {
    fn to_word(&self) -> String;
    fn take_word(&mut self, word: &str);
}

impl Word for u32 {
    fn to_word(&self) -> String {
        self.to_string()
    }

    fn take_word(&mut self, word: &str) {
        if let Ok(number) = word.parse() {
            *self = number;
        }
    }
}

impl Word for bool {
    fn to_word(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }

    fn take_word(&mut self, word: &str) {
        *self = switch(word) == Some("on");
    }
}

/// `WAKE_*` of `include/uapi/linux/ethtool.h`, from bit 0.
const WAKE_LETTERS: [char; 8] = ['p', 'u', 'm', 'b', 'a', 'g', 's', 'f'];

impl EthtoolParameter {
    /// The parameters that a call writes; none where this form of ethtool does not know one of them.
    pub(super) fn of(call: &EthtoolCall) -> Vec<Self> {
        let named = |word: &&str| match (call.flag, *word) {
            ("-C", word) => CoalesceField::named(word).map(Self::Coalesce),
            ("-G", word) => RingField::named(word).map(Self::Ring),
            ("-L", word) => ChannelField::named(word).map(Self::Channels),
            ("-A", "autoneg") => Some(Self::PauseAutoneg),
            // One parameter for both directions.
            ("-A", "rx" | "tx") => Some(Self::Pause),
            ("--set-eee", _) => Some(Self::EnergyEfficient),
            ("-s", "wol") => Some(Self::WakeOnLan),
            _ => None,
        };
        let mut found: Vec<_> = call.words.iter().map(named).collect::<Option<_>>().unwrap_or_default();
        found.dedup();
        found
    }

    /// The option of ethtool(8) that writes it.
    pub(super) const fn flag(&self) -> &'static str {
        match self {
            Self::Coalesce(_) => "-C",
            Self::Ring(_) => "-G",
            Self::Channels(_) => "-L",
            Self::Pause | Self::PauseAutoneg => "-A",
            Self::Feature(_) => "-K",
            Self::EnergyEfficient => "--set-eee",
            Self::WakeOnLan => "-s",
        }
    }

    /// The word of ethtool(8) for it; of pause frames in both directions the option's name.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Coalesce(field) => field.word(),
            Self::Ring(field) => field.word(),
            Self::Channels(field) => field.word(),
            Self::Pause => "pause",
            Self::PauseAutoneg => "autoneg",
            Self::Feature(name) => name,
            Self::EnergyEfficient => "eee",
            Self::WakeOnLan => "wol",
        }
    }

    /// Whether its words are `on` and `off`.
    pub(super) const fn is_switch(&self) -> bool {
        use CoalesceField::{AdaptiveRx, AdaptiveTx};
        matches!(
            self,
            Self::Coalesce(AdaptiveRx | AdaptiveTx) | Self::PauseAutoneg | Self::Feature(_) | Self::EnergyEfficient
        )
    }

    /// Whether it is a number.
    pub(super) const fn is_number(&self) -> bool {
        matches!(self, Self::Coalesce(_) | Self::Ring(_) | Self::Channels(_)) && !self.is_switch()
    }

    pub(super) fn read(&self, interface: &Interface) -> Result<String, EthtoolError> {
        Ok(match self {
            Self::Coalesce(field) => field.get(&interface.coalesce()?),
            Self::Ring(field) => field.get(&interface.rings()?),
            Self::Channels(field) => field.get(&interface.channels()?),
            Self::Pause => {
                let pause = interface.pause()?;
                match (pause.rx, pause.tx) {
                    (true, true) => "rx tx",
                    (true, false) => "rx",
                    (false, true) => "tx",
                    (false, false) => "off",
                }
                .to_owned()
            }
            Self::PauseAutoneg => interface.pause()?.autoneg.to_word(),
            Self::Feature(name) => {
                let features = interface.features()?;
                let unknown =
                    || EthtoolError::Unsupported { interface: interface.name().to_owned(), command: "SFEATURES" };
                let feature = features.get(name).ok_or_else(unknown)?;
                match (feature.is_active, feature.is_requested) {
                    (true, true) => "on",
                    (false, false) => "off",
                    (false, true) => "off, requested",
                    (true, false) => "on, not requested",
                }
                .to_owned()
            }
            Self::EnergyEfficient => interface.energy_efficient()?.is_enabled.to_word(),
            Self::WakeOnLan => letters(interface.wake_on_lan()?),
        })
    }

    /// The largest number that the device can have.
    pub(super) fn limit(&self, interface: &Interface) -> Result<Option<u32>, EthtoolError> {
        Ok(match self {
            Self::Ring(RingField::Rx) => Some(interface.rings()?.rx_max),
            Self::Ring(RingField::Tx) => Some(interface.rings()?.tx_max),
            Self::Channels(ChannelField::Rx) => Some(interface.channels()?.rx_max),
            Self::Channels(ChannelField::Tx) => Some(interface.channels()?.tx_max),
            Self::Channels(ChannelField::Combined) => Some(interface.channels()?.combined_max),
            _ => None,
        })
    }

    pub(super) fn write(&self, interface: &Interface, word: &str) -> Result<(), EthtoolError> {
        match self {
            Self::Coalesce(field) => interface.set_coalesce(|of| field.set(of, word)),
            Self::Ring(field) => interface.set_rings(|of| field.set(of, word)),
            Self::Channels(field) => interface.set_channels(|of| field.set(of, word)),
            Self::Pause => interface.set_pause(|pause| {
                pause.rx = word.contains("rx");
                pause.tx = word.contains("tx");
            }),
            Self::PauseAutoneg => interface.set_pause(|pause| pause.autoneg.take_word(word)),
            // The wish is what is written: `off, requested` asks for it.
            Self::Feature(name) => interface.set_feature(name, matches!(word, "on" | "off, requested")),
            Self::EnergyEfficient => interface.set_energy_efficient(word == "on"),
            Self::WakeOnLan => interface.set_wake_on_lan(bits(word)),
        }
    }
}

fn letters(bits: u32) -> String {
    let letters: String =
        WAKE_LETTERS.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, letter)| *letter).collect();
    if letters.is_empty() { "off".to_owned() } else { letters }
}

fn bits(word: &str) -> u32 {
    match word {
        "off" => 0,
        letters => {
            letters.chars().filter_map(|c| WAKE_LETTERS.iter().position(|&l| l == c)).fold(0, |b, at| b | 1 << at)
        }
    }
}

/// Whether a word is one of wake-on-LAN.
pub(super) fn is_wake_word(word: &str) -> bool {
    word == "off" || (!word.is_empty() && word.chars().all(|c| WAKE_LETTERS.contains(&c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_events_as_letters_come_back_as_bits() {
        for (events, word) in [(0, "off"), (0x20, "g"), (0x2b, "pubg"), (0xff, "pumbagsf")] {
            assert_eq!(letters(events), word);
            assert_eq!(bits(word), events);
            assert!(is_wake_word(word));
        }
        assert!(!is_wake_word("x") && !is_wake_word(""));
    }
}
