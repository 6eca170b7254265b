//! What the user chose, from a TOML file and from `NEARWIRE_*` variables.
//!
//! ```toml
//! spin = "auto"                   # "forever", or a time: "0", "50us", "10ms"
//! interfaces = ["eth4"]           # those that may be used; all without this
//! mode = "auto"                   # auto, native or generic
//! strict = false                  # a socket that cannot be accelerated is an error
//! stats = false                   # counters on standard error when the program ends
//! send_coalescing = "0"           # so long may datagrams that are sent in a row wait for one another: "100us"
//! kernel_first = 8                # a client's socket is the kernel's until it has sent and received so many datagrams
//! engines = "auto"                # engines that threads may have: one each, or "1" to "8" at most
//! past_filters = false            # strict programs may bypass the packet filters that there are
//! agent = "auto"                  # shares of the agent's ports, where there is an agent; "off": own ports only
//! adopt = "auto"                  # TCP: connections are adopted with the third call that receives or sends; "eager": with the first; "never"
//!
//! [[rule]]                        # the first rule that fits decides
//! use = "kernel"                  # or "nearwire"
//! program = "dns*"                # name of the executable, with *
//! role = "client"                 # client: connects; server: binds; any without this
//! local = "10.0.0.0/8"            # address the socket is bound to
//! remote = "192.0.2.7"            # address it is connected or sends to
//! port = "53,5000-5010"           # the server's port: of a client the remote one, else the local one
//! ```
//!
//! Each key at the top is also a variable (`NEARWIRE_SPIN`, `NEARWIRE_INTERFACES` with commas …)
//! that counts more than the file, whose name is in `NEARWIRE_CONFIG`. A key or variable that is
//! not known is an error. Rules are in files only. Behind all rules stand two: DNS (port 53) of a
//! client stays with the kernel, everything else is accelerated.

mod error;
mod file;
mod layered;
mod mistaken;
mod profile;
mod rule;
mod text;
mod value;

use std::time::Duration;

pub use error::{ConfigError, Place, Problem};
pub use layered::{Layered, Origin};
pub use profile::Profile;
pub use rule::{Prefix, Role, Rule, Socket, Use};
pub use value::variables;

/// How long a call that waits spins before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// While messages come soon and nobody else wants the CPU; else as measuring shows. See [`crate::wait::auto`].
    Auto,
    /// As long as it waits.
    Forever,
    /// This long; zero sleeps at once.
    For(Duration),
}

impl Spin {
    /// What is left of [`Spin::Auto`] on a machine of this many CPUs: a spinner on the only one would keep whoever has to run
    /// before the call can return from running.
    #[must_use]
    pub const fn on(self, online_cpus: u32) -> Self {
        match self {
            Self::Auto if online_cpus < 2 => Self::For(Duration::ZERO),
            chosen => chosen,
        }
    }
}

/// How the AF_XDP sockets are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The way that is fastest with the interface's driver, as measured once: generic on veth, zero-copy or native
    /// elsewhere.
    Auto,
    /// In the driver; an error where the driver cannot.
    Native,
    /// In the kernel's receive path behind the driver.
    Generic,
}

/// Whether ports are shares of the agent's (`nearwire agent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Where there is an agent. `nearwire run` starts one if it may.
    Auto,
    /// Never: the program opens its ports itself.
    Off,
}

/// When TCP connections are adopted from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopt {
    /// Never.
    Never,
    /// With the third call that receives or sends.
    Auto,
    /// With the first.
    Eager,
}

/// The whole configuration with defaults in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How calls wait.
    pub spin: Spin,
    /// The interfaces that may be used; empty for all.
    pub interfaces: Vec<String>,
    /// How sockets are attached.
    pub mode: Mode,
    /// Whether a socket that the rules want accelerated and that cannot be is an error of the call.
    pub strict: bool,
    /// Whether counters are printed at the end.
    pub stats: bool,
    /// How long datagrams that are sent in a row may be held back, so that one kick sends many; zero: not at all.
    pub send_coalescing: Duration,
    /// How many datagrams a client's socket sends and receives by the kernel before it may be accelerated: to open and close a flow for a
    /// single request takes longer than the kernel does. See [`Config::datagrams_by_kernel_first`].
    pub kernel_first: u16,
    /// The most engines that threads may have; `None`: as many as the interfaces have queues, up to [`crate::ENGINES_MOST`].
    pub engines: Option<u32>,
    /// A strict program runs although its traffic bypasses packet filters.
    pub past_filters: bool,
    /// Whether ports are shares of the agent's.
    pub agent: Agent,
    /// When TCP connections are adopted from the kernel.
    pub adopt: Adopt,
    /// The rules in order, those that always stand behind included.
    pub rules: Vec<Rule>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            spin: Spin::Auto,
            interfaces: Vec::new(),
            mode: Mode::Auto,
            strict: false,
            stats: false,
            send_coalescing: Duration::ZERO,
            kernel_first: 8,
            engines: None,
            past_filters: false,
            agent: Agent::Auto,
            adopt: Adopt::Auto,
            rules: Rule::always().into(),
        }
    }
}

impl Config {
    /// The variable that names the file.
    pub const FILE_VARIABLE: &'static str = "NEARWIRE_CONFIG";
    /// The variable by which `nearwire run` says which agent served the program ([`crate::host::AgentAtStart`]).
    pub const AGENT_IN_VARIABLE: &'static str = "NEARWIRE_AGENT_IN";
    /// Variables that begin with `NEARWIRE_` and are no keys: the file's name, where there was an agent, the token of
    /// `nearwire responder`, and what tests are told.
    pub const OTHER_VARIABLES: &'static [&'static str] = &[
        Self::FILE_VARIABLE,
        Self::AGENT_IN_VARIABLE,
        "NEARWIRE_TOKEN",
        "NEARWIRE_REQUIRE",
        "NEARWIRE_KERNELS",
        "NEARWIRE_KERNEL_TESTS",
        "NEARWIRE_TEST_MODE",
    ];

    /// Reads the text of a file, called `name` in messages, and variables over it. Of the variables
    /// those that do not begin with `NEARWIRE_` are left alone, and so are [`Self::OTHER_VARIABLES`].
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn read<'a>(
        file: Option<(&str, &str)>,
        variables: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let mut layered = Layered::default();
        if let Some((name, text)) = file {
            layered.file(name, text)?;
        }
        layered.variables(variables)?;
        Ok(layered.into_config())
    }

    /// [`Config::kernel_first`] as it counts. A program that is `strict` is told at once what cannot be accelerated.
    #[must_use]
    pub const fn datagrams_by_kernel_first(&self) -> u16 {
        if self.strict { 0 } else { self.kernel_first }
    }

    /// What the rules say of a socket, and the number of the rule that decided, from 1; 0: none of the user's.
    #[must_use]
    pub fn decide(&self, socket: &Socket<'_>) -> (Use, usize) {
        let fits = self.rules.iter().position(|rule| rule.fits(socket));
        let is_users = |at| at < Rule::of_user(&self.rules).len();
        fits.map_or((Use::Kernel, 0), |at| (self.rules[at].to, if is_users(at) { at + 1 } else { 0 }))
    }
}

#[cfg(test)]
mod tests;
