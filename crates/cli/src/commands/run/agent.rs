//! The agent that is to serve the program: one that runs, or one that is started for it.

use std::process::Command;

use nearwire_agent::client::{Client, ClientError};
use nearwire_agent::life::{AgentError, connect_or_start};
use nearwire_socket::config::{Agent, Config};
use nearwire_sys::socket::netns_cookie;

const NAME: &str = "nearwire run";

/// What is known of it before anything is done.
pub enum Found {
    /// The configuration wants none.
    Off,
    /// Nobody listens.
    None,
    /// It serves this user.
    Serving(Client),
    /// It does not, and why.
    Refusing(String),
}

impl Found {
    /// Looks for one in this network namespace.
    pub fn look(config: &Config) -> Found {
        if config.agent == Agent::Off {
            return Found::Off;
        }
        match Client::connect(NAME) {
            Ok(client) => Found::Serving(client),
            Err(ClientError::NoAgent) => Found::None,
            Err(error) => Found::Refusing(error.to_string()),
        }
    }

    pub const fn is_serving(&self) -> bool {
        matches!(self, Found::Serving(_))
    }

    /// In words, of one that nobody starts.
    pub fn words(&self, would_start: bool) -> String {
        match self {
            Found::Off => "not used: agent = \"off\"".to_owned(),
            Found::None if would_start => "none runs; one would be started".to_owned(),
            Found::None => "none runs, and this user cannot start one".to_owned(),
            Found::Serving(_) => "serves the program".to_owned(),
            Found::Refusing(why) => format!("does not serve the program: {why}"),
        }
    }

    /// Has the agent that was found stay as long as the program lives that this process becomes, or one that is started for it. The cookie
    /// of its network namespace; `None` where the program is to have none.
    ///
    /// # Errors
    /// Why there is none.
    pub fn have(self, starts: bool) -> Result<Option<u64>, AgentError> {
        let mut client = match self {
            Found::Serving(client) => client,
            Found::None if starts => connect_or_start(NAME, command)?,
            Found::Off | Found::None | Found::Refusing(_) => return Ok(None),
        };
        client.attend()?;
        // Without it the program opens its ports itself should this agent end before it has one.
        Ok(netns_cookie(&client).ok())
    }
}

fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["agent", "--background"]);
    command
}
