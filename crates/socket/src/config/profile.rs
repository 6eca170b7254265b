//! Named presets: texts in the form of a configuration file.

/// A preset that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// Its text, as a file would have it. No rules: a program gets a profile by variables, which have none.
    pub text: &'static str,
}

impl Profile {
    /// All of them.
    pub const ALL: &'static [Profile] = &[
        Profile { name: "latency", text: include_str!("../../profiles/latency.toml") },
        Profile { name: "shared", text: include_str!("../../profiles/shared.toml") },
        Profile { name: "throughput", text: include_str!("../../profiles/throughput.toml") },
        Profile { name: "sleep", text: include_str!("../../profiles/sleep.toml") },
    ];

    /// The profile of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Profile> {
        Self::ALL.iter().find(|profile| profile.name == name).copied()
    }
}
