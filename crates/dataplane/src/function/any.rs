//! One of all functions, for callers that choose at run time.

use std::fmt;
use std::str::FromStr;

use super::{Bridge, Function, Io, Loop, MacSwap, Router, Verdict};

/// Which function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// [`Io`].
    Io,
    /// [`MacSwap`].
    MacSwap,
    /// [`Bridge`].
    L2,
    /// [`Router`].
    L3,
}

/// A word that names no function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no function is called {word:?}; wanted one of {}", FunctionKind::ALL.map(FunctionKind::name).join(", "))]
pub struct UnknownFunction {
    /// The word.
    pub word: String,
}

impl FunctionKind {
    /// All of them, the cheapest first.
    pub const ALL: [FunctionKind; 4] = [FunctionKind::Io, FunctionKind::MacSwap, FunctionKind::L2, FunctionKind::L3];

    /// Its word on the command line and in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FunctionKind::Io => "io",
            FunctionKind::MacSwap => "mac-swap",
            FunctionKind::L2 => "l2",
            FunctionKind::L3 => "l3",
        }
    }
}

impl fmt::Display for FunctionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FunctionKind {
    type Err = UnknownFunction;

    fn from_str(word: &str) -> Result<FunctionKind, UnknownFunction> {
        let found = FunctionKind::ALL.into_iter().find(|kind| kind.name() == word);
        found.ok_or_else(|| UnknownFunction { word: word.to_owned() })
    }
}

/// One of all functions. Each frame costs one branch more than with the function itself.
#[derive(Debug)]
pub enum AnyFunction {
    /// Frames as they are.
    Io(Io),
    /// Frames with swapped addresses.
    MacSwap(MacSwap),
    /// A learning bridge.
    L2(Bridge),
    /// A router.
    L3(Router),
}

impl AnyFunction {
    /// Which it is.
    #[must_use]
    pub const fn kind(&self) -> FunctionKind {
        match self {
            AnyFunction::Io(_) => FunctionKind::Io,
            AnyFunction::MacSwap(_) => FunctionKind::MacSwap,
            AnyFunction::L2(_) => FunctionKind::L2,
            AnyFunction::L3(_) => FunctionKind::L3,
        }
    }

    /// Its word on the command line and in records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }
}

impl Function for AnyFunction {
    #[inline]
    fn judge(&mut self, now_ns: u64, ingress: usize, frame: &[u8]) -> Verdict {
        match self {
            AnyFunction::Io(function) => function.judge(now_ns, ingress, frame),
            AnyFunction::MacSwap(function) => function.judge(now_ns, ingress, frame),
            AnyFunction::L2(function) => function.judge(now_ns, ingress, frame),
            AnyFunction::L3(function) => function.judge(now_ns, ingress, frame),
        }
    }

    fn loop_seen(&self) -> Option<Loop> {
        match self {
            AnyFunction::L2(function) => function.loop_seen(),
            AnyFunction::Io(_) | AnyFunction::MacSwap(_) | AnyFunction::L3(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_are_the_functions_they_name() {
        for kind in FunctionKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(AnyFunction::MacSwap(MacSwap).name(), "mac-swap");
        let error = "l4".parse::<FunctionKind>().unwrap_err();
        assert_eq!(error.to_string(), "no function is called \"l4\"; wanted one of io, mac-swap, l2, l3");
    }
}
