//! The agent that serves the program: one that runs already, or one that is started for it.

use std::process::Command;

use nearwire_agent::client::{Client, ClientError};
use nearwire_agent::life::{AgentError, connect_or_start};
use nearwire_socket::config::{Agent, Config};
use nearwire_socket::host::AgentAtStart;
use nearwire_sys::socket::netns_cookie;

const NAME: &str = "nearwire run";
/// So many agents in a row may end in the moment in which they are asked.
const ATTEMPTS: u32 = 3;

/// What was found before anything is done.
pub enum Found {
    /// The configuration says that none is used.
    Off,
    /// No agent runs.
    None,
    /// An agent serves this user.
    Serving(Client),
    /// An agent runs and refuses this user, for this reason.
    Refusing(String),
}

impl Found {
    /// Looks for an agent in this network namespace.
    pub fn look(config: &Config) -> Found {
        if config.agent == Agent::Off {
            return Found::Off;
        }
        match Client::connect(NAME) {
            Ok(client) => Found::Serving(client),
            // One that ends in this moment is none.
            Err(ClientError::NoAgent | ClientError::Connection(_)) => Found::None,
            Err(error) => Found::Refusing(error.to_string()),
        }
    }

    pub const fn is_serving(&self) -> bool {
        matches!(self, Found::Serving(_))
    }

    /// The state as text; no agent is started.
    pub fn words(&self, would_start: bool) -> String {
        match self {
            Found::Off => "not used: agent = \"off\"".to_owned(),
            Found::None if would_start => "none runs; one would be started".to_owned(),
            Found::None => "none runs, and this user cannot start one".to_owned(),
            Found::Serving(_) => "serves the program".to_owned(),
            Found::Refusing(why) => format!("does not serve the program: {why}"),
        }
    }

    /// Makes the agent stay as long as this process, which becomes the program; starts one if there is none and `starts` is set.
    /// Returns what the program is to know of it; `None`: it is to have no agent.
    ///
    /// # Errors
    /// No agent could be started, or the connection to it failed.
    pub fn have(self, starts: bool) -> Result<Option<AgentAtStart>, AgentError> {
        let mut client = match self {
            Found::Serving(client) => client,
            Found::None if starts => connect_or_start(NAME, command)?,
            Found::Off | Found::None | Found::Refusing(_) => return Ok(None),
        };
        let mut attempts_left = ATTEMPTS;
        loop {
            attempts_left -= 1;
            match client.attend() {
                // It ended in this moment: the next one serves the program.
                Err(ClientError::Connection(_)) if starts && attempts_left > 0 => {
                    client = connect_or_start(NAME, command)?;
                }
                attended => return attended.map(|()| at_start(&mut client)).map_err(AgentError::from),
            }
        }
    }
}

/// Without the cookie the program opens its ports itself should this agent end before the program has a share.
fn at_start(client: &mut Client) -> Option<AgentAtStart> {
    // Users who are refused one start programs that stay what they are.
    Some(AgentAtStart { namespace: netns_cookie(&*client).ok()?, pass: client.want_pass().ok() })
}

fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["agent", "--background"]);
    command
}
