//! What `nearwire run` tells a program of the agent that serves it.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// See the module. As text, `NAMESPACE` or `NAMESPACE:PASS`, decimal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentAtStart {
    /// Cookie of the network namespace in which the agent runs (`SO_NETNS_COOKIE`).
    pub namespace: u64,
    /// By which the program's processes may use this agent as other users (`nearwire_agent::client::Client::want_pass`).
    pub pass: Option<u64>,
}

impl fmt::Display for AgentAtStart {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.namespace)?;
        self.pass.map_or(Ok(()), |pass| write!(to, ":{pass}"))
    }
}

impl FromStr for AgentAtStart {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<AgentAtStart, ParseIntError> {
        Ok(match text.split_once(':') {
            Some((namespace, pass)) => AgentAtStart { namespace: namespace.parse()?, pass: Some(pass.parse()?) },
            None => AgentAtStart { namespace: text.parse()?, pass: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_read_and_written_is_the_same() {
        for pass in [None, Some(0), Some(u64::MAX)] {
            let told = AgentAtStart { namespace: 7, pass };
            assert_eq!(told.to_string().parse(), Ok(told));
        }
        assert!(["", "7:", ":7", "seven"].iter().all(|wrong| wrong.parse::<AgentAtStart>().is_err()));
    }
}
