//! A configuration as text that can be read again.

use std::fmt;
use std::time::Duration;

use super::value::KEYS;
use super::{Adopt, Agent, Config, Mode, Prefix, Role, Rule, Spin, Use};

impl fmt::Display for Spin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::For(time) = self else {
            return f.write_str(if *self == Self::Auto { "auto" } else { "forever" });
        };
        f.write_str(&in_units(*time))
    }
}

fn in_units(time: Duration) -> String {
    match time.as_nanos() {
        0 => "0".to_owned(),
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Auto { "auto" } else { "off" })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl fmt::Display for Adopt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "never",
            Self::Auto => "auto",
            Self::Eager => "eager",
        })
    }
}

/// On one line, as a TOML table.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = if self.to == Use::Kernel { "kernel" } else { "nearwire" };
        write!(f, "use = \"{to}\"")?;
        if let Some(program) = &self.program {
            write!(f, ", program = {}", quoted(program))?;
        }
        if let Some(role) = self.role {
            write!(f, ", role = \"{}\"", if role == Role::Client { "client" } else { "server" })?;
        }
        for (key, prefix) in [("local", self.local), ("remote", self.remote)] {
            if let Some(prefix) = prefix {
                write!(f, ", {key} = \"{prefix}\"")?;
            }
        }
        let range =
            |(first, last): &(u16, u16)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
        match self.ports.iter().map(range).collect::<Vec<_>>().join(",") {
            ports if ports.is_empty() => Ok(()),
            ports => write!(f, ", port = \"{ports}\""),
        }
    }
}

impl Config {
    /// The value of a key at the top in the form that a variable has.
    pub(super) fn value(&self, key: &str) -> String {
        match key {
            "spin" => self.spin.to_string(),
            "mode" => self.mode.to_string(),
            "agent" => self.agent.to_string(),
            "adopt" => self.adopt.to_string(),
            "strict" => self.strict.to_string(),
            "stats" => self.stats.to_string(),
            "past_filters" => self.past_filters.to_string(),
            "send_coalescing" => in_units(self.send_coalescing),
            "kernel_first" => self.kernel_first.to_string(),
            "engines" => self.engines.map_or_else(|| "auto".to_owned(), |most| most.to_string()),
            _ => self.interfaces.join(","),
        }
    }

    /// The same in the form that a file has.
    pub(super) fn toml_value(&self, key: &str) -> String {
        match key {
            "strict" | "stats" | "past_filters" | "kernel_first" => self.value(key),
            "interfaces" => {
                format!("[{}]", self.interfaces.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "))
            }
            _ => format!("\"{}\"", self.value(key)),
        }
    }

    /// The text of a file that says the same, without the rules that always stand.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for key in KEYS.iter().filter(|key| **key != "interfaces" || !self.interfaces.is_empty()) {
            text += &format!("{key} = {}\n", self.toml_value(key));
        }
        for rule in Rule::of_user(&self.rules) {
            text += &format!("[[rule]]\n{}\n", rule.to_string().replace(", ", "\n"));
        }
        text
    }
}

/// A TOML string. What it may not hold as it is, is escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // A comma would look like the next key where a rule is put on several lines.
            c if c.is_control() || c == ',' => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
