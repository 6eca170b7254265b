//! The ways in which a script runs.

use nearwire_frames::xdp::AttachMode;

const NATIVE: &str = "native";
const GENERIC: &str = "generic";

/// Sockets are used as soon as they have an address; see `script.h`.
pub const USES_FIRST: (&str, &str) = ("SCRIPT_USES_FIRST", "yes");

/// The port is open when a script begins; see `script.c`.
const OPENS_PORT: (&str, &str) = ("SCRIPT_OPENS_PORT", "yes");

/// Sockets of clients may be accelerated from the beginning, or in the midst of what a script does with them.
const AT_ONCE: (&str, &str) = ("NEARWIRE_KERNEL_FIRST", "0");
const SOON: (&str, &str) = ("NEARWIRE_KERNEL_FIRST", "2");

/// How a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// On the kernel alone.
    Kernel,
    /// On the kernel alone, to be compared with the above.
    KernelAgain,
    /// On the kernel alone, where the interface has an XDP program, which passes all frames.
    KernelBehindProgram(AttachMode),
    /// With the library, whose calls sleep at once.
    Sleeping,
    /// With the library, whose calls spin before they sleep.
    Spinning,
    /// With the library, whose calls spin as long as they wait.
    Forever,
    /// With the library, whose calls spin where that is worth it.
    Auto,
    /// As [`Run::Spinning`], by shares of an agent's port. TCP connections are adopted at once.
    ByAgent,
    /// The same, where calls spin as long as they wait, and connections are adopted after some calls.
    ByAgentForever,
    /// As [`Run::ByAgent`], where calls sleep at once.
    ByAgentSleeping,
}

impl Run {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KernelAgain => "kernel-again",
            Self::KernelBehindProgram(AttachMode::Native) => "kernel-behind-native-program",
            Self::KernelBehindProgram(AttachMode::Generic) => "kernel-behind-generic-program",
            Self::Sleeping => "sleeping",
            Self::Spinning => "spinning",
            Self::Forever => "forever",
            Self::Auto => "auto",
            Self::ByAgent => "by-agent",
            Self::ByAgentForever => "by-agent-forever",
            Self::ByAgentSleeping => "by-agent-sleeping",
        }
    }

    pub fn is_of_library(self) -> bool {
        !self.variables().is_empty()
    }

    /// Its variables, of a run of the library.
    pub fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kernel | Self::KernelAgain | Self::KernelBehindProgram(_) => &[],
            Self::Sleeping => &[("NEARWIRE_SPIN", "0"), AT_ONCE],
            Self::Spinning => &[("NEARWIRE_SPIN", "50us"), AT_ONCE, USES_FIRST],
            Self::ByAgent => &[("NEARWIRE_SPIN", "50us"), ("NEARWIRE_ADOPT", "eager"), AT_ONCE, USES_FIRST],
            Self::ByAgentForever => {
                &[("NEARWIRE_SPIN", "forever"), ("NEARWIRE_ADOPT", "auto"), AT_ONCE, USES_FIRST, OPENS_PORT]
            }
            Self::ByAgentSleeping => &[("NEARWIRE_SPIN", "0"), ("NEARWIRE_ADOPT", "eager"), AT_ONCE, USES_FIRST],
            Self::Forever => &[("NEARWIRE_SPIN", "forever"), AT_ONCE],
            Self::Auto => &[("NEARWIRE_SPIN", "auto"), SOON, USES_FIRST],
        }
    }

    /// Where frames leave the kernel: in the driver, or behind it. It is given, as a measurement that finds the better one would take longer
    /// than a script. Runs of one script have both, and each way has either for half of the scripts. Beside an agent it is the one that the
    /// agent has found: with another one the program opens a port of its own.
    pub fn mode(self, number: u32) -> Option<&'static str> {
        let is_swapped = number % 2 == 1;
        match self {
            Self::Sleeping => Some(if is_swapped { NATIVE } else { GENERIC }),
            Self::Spinning | Self::Forever | Self::Auto => Some(if is_swapped { GENERIC } else { NATIVE }),
            _ => None,
        }
    }
}

/// A script's own number, by which it gets one of two things.
pub fn number_of(script: &str) -> u32 {
    script.bytes().fold(0, |number: u32, byte| number.wrapping_mul(31).wrapping_add(byte.into()))
}
