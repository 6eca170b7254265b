//! The configuration of a run, from all its layers.

use std::path::PathBuf;

use anyhow::Context;
use nearwire_socket::config::{Config, Layered, Profile};

use super::absolute;
use crate::args::run::RunArgs;
use crate::exit::{self, Failure, OrExit};

/// The effective configuration, and the file that the library in the program reads again.
pub struct Configuration {
    pub layered: Layered,
    pub file: Option<PathBuf>,
}

impl Configuration {
    /// Reads profile, file, variables and options, in this order.
    pub fn read(args: &RunArgs) -> Result<Self, Failure> {
        let mut layered = Layered::default();
        if let Some(profile) = args.profile.as_deref().and_then(Profile::named) {
            layered.profile(profile).or_exit(exit::USAGE)?;
        }
        let named = std::env::var_os(Config::FILE_VARIABLE).filter(|name| !name.is_empty());
        let file = args.config.clone().or_else(|| named.map(PathBuf::from)).map(|file| absolute(&file)).transpose()?;
        if let Some(file) = &file {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(file).with_context(|| format!("read the configuration {name}"));
            layered.file(&name, &text.or_exit(exit::USAGE)?).or_exit(exit::USAGE)?;
        }
        let variables: Vec<(String, String)> = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .collect();
        let variables = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        layered.variables(variables).or_exit(exit::USAGE)?;
        for (is_given, option, key) in [
            (args.strict, "--strict", "strict"),
            (args.stats, "--stats", "stats"),
            (args.past_filters, "--past-filters", "past_filters"),
        ] {
            if is_given {
                layered.option(option, key, "true").or_exit(exit::USAGE)?;
            }
        }
        if args.no_agent {
            layered.option("--no-agent", "agent", "off").or_exit(exit::USAGE)?;
        }
        Ok(Self { layered, file })
    }
}
