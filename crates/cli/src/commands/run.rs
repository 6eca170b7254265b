//! `nearwire run`: runs a program whose UDP sockets bypass the kernel.

mod agent;
mod configuration;
mod dry_run;
mod library;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, anyhow};
use nearwire_socket::config::{Config, Spin};
use nearwire_socket::preconditions::Preconditions;
use nearwire_socket::program::{self, Caller, FindError, Judgement, Program};
use nearwire_socket::reason::Reason;
use nearwire_socket::wait::online_cpus;

use self::agent::Found;
use self::configuration::Configuration;
use self::library::Library;
use crate::args::run::RunArgs;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

const PRELOAD: &str = "LD_PRELOAD";

/// How to learn of packet filters that the caller cannot read.
const READ_AS_ROOT: &str = "nearwire run --dry-run, run as root in this network namespace, lists them";
/// What a program on this kernel lacks that is otherwise as fast as on others.
const WITHOUT_TIMES: &str = "datagrams have the time at which they are read, because this kernel refuses the XDP program that takes the time at which they come";

/// Everything that was determined before anything is done.
struct Prepared<'a> {
    args: &'a RunArgs,
    program: Program,
    library: Library,
    configuration: Configuration,
    caller: Caller,
    judgement: Judgement,
    agent: Found,
    preconditions: Preconditions,
    /// Variables that are set for the program.
    variables: Vec<(String, OsString)>,
}

pub fn run(args: &RunArgs) -> Outcome {
    let mut prepared = Prepared::find_out(args)?;
    if args.dry_run {
        let (config, starts_agent) = (prepared.configuration.layered.config(), prepared.would_start_agent());
        prepared.preconditions.try_interfaces(config, starts_agent);
        output::print_of_host(&dry_run::text(&prepared))?;
        return if prepared.is_refused() { Err(Failure::silent(exit::CANNOT)) } else { Ok(()) };
    }
    prepared.say()?;
    prepared.execute()
}

impl<'a> Prepared<'a> {
    fn find_out(args: &'a RunArgs) -> Result<Self, Failure> {
        let configuration = Configuration::read(args)?;
        let name = args.program.first().map_or(OsStr::new(""), OsString::as_os_str);
        let path = program::find(name, std::env::var_os("PATH").as_deref()).map_err(not_started)?;
        let program = Program::look(&path).map_err(not_started)?;
        let library = Library::find(args.library.as_deref())?;
        let caller = Caller::of_self().context("read /proc/self/status").or_exit(exit::CANNOT)?;
        let judgement = program::judge(&program, &library.facts, &caller);
        let agent = Found::look(configuration.layered.config());
        let preconditions = Preconditions::check(configuration.layered.config(), &caller, agent.is_serving());
        let mut variables = vec![(PRELOAD.to_owned(), library.before(std::env::var_os(PRELOAD).as_deref()))];
        if let Some(file) = &configuration.file {
            variables.push((Config::FILE_VARIABLE.to_owned(), file.clone().into()));
        }
        let beside = configuration.layered.beside_the_file();
        variables.extend(beside.into_iter().map(|(name, value)| (name, value.into())));
        Ok(Self { args, program, library, configuration, caller, judgement, agent, preconditions, variables })
    }

    fn config(&self) -> &Config {
        self.configuration.layered.config()
    }

    /// Whether an agent is to be started: there is none, and the program could open ports itself. If it could not, neither could an agent
    /// that this process starts.
    fn would_start_agent(&self) -> bool {
        matches!(self.agent, Found::None) && self.may_start_agent()
    }

    fn may_start_agent(&self) -> bool {
        self.preconditions.unmet.is_empty()
    }

    fn is_refused(&self) -> bool {
        self.refusal().is_some()
    }

    /// Why the program is not run, as text.
    fn refusal(&self) -> Option<String> {
        match &self.judgement {
            Judgement::Refused(why) => return Some(why.clone()),
            Judgement::Doubtful(why) if self.config().strict => {
                return Some(format!("strict refuses a program whose sockets may not be reached: {why}"));
            }
            Judgement::Doubtful(_) | Judgement::Fine => {}
        }
        let listed = |all: Vec<String>| all.join("\n  ");
        let unmet = &self.preconditions.unmet;
        if self.config().strict && !unmet.is_empty() {
            let all = listed(unmet.iter().map(ToString::to_string).collect());
            return Some(format!("sockets cannot be accelerated, and strict refuses to run without:\n  {all}"));
        }
        if !self.config().strict || self.config().past_filters {
            return None;
        }
        let filters = &self.preconditions.filters;
        if !filters.found.is_empty() {
            let all = listed(filters.found.iter().map(ToString::to_string).collect());
            return Some(format!(
                "accelerated traffic bypasses packet filters, which strict refuses without --past-filters:\n  {all}"
            ));
        }
        if !filters.unknown.is_empty() {
            let all = listed(filters.unknown.clone());
            return Some(format!(
                "accelerated traffic bypasses packet filters, and whether there are any could not be found out, so strict refuses without \
                 --past-filters:\n  {all}\n{READ_AS_ROOT}"
            ));
        }
        None
    }

    /// Refuses the program, or prints warnings and what was chosen.
    fn say(&self) -> Outcome {
        if let Some(why) = self.refusal() {
            return Err(Failure { code: exit::CANNOT, error: Some(anyhow!(why)) });
        }
        let unmet = &self.preconditions.unmet;
        // Printed also with --quiet, as what follows.
        if let Some(why) = &self.preconditions.no_times {
            output::note(&format!("nearwire: {WITHOUT_TIMES}: {why}"));
        }
        if self.args.quiet {
            // With a kernel that refuses our programs nothing is ever accelerated: print that also with --quiet.
            for unmet in unmet.iter().filter(|unmet| unmet.reason == Reason::XdpRefused) {
                output::note(&format!("nearwire: sockets stay with the kernel, because {unmet}"));
            }
            return Ok(());
        }
        if let Judgement::Doubtful(why) = &self.judgement {
            output::note(&format!("nearwire: {why}"));
        }
        if let Found::Refusing(why) = &self.agent {
            output::note(&format!("nearwire: the agent does not serve the program: {why}"));
        }
        for unmet in unmet {
            output::note(&format!("nearwire: sockets stay with the kernel, because {unmet}"));
        }
        // Without acceleration no traffic bypasses them.
        for filter in self.preconditions.filters.found.iter().filter(|_| unmet.is_empty()) {
            output::note(&format!("nearwire: accelerated traffic bypasses {filter}"));
        }
        let unknown = &self.preconditions.filters.unknown;
        if unmet.is_empty() && !unknown.is_empty() {
            let all = unknown.join("; ");
            output::note(&format!(
                "nearwire: accelerated traffic bypasses packet filters, and not all could be read: {all}; {READ_AS_ROOT}"
            ));
        }
        output::note(&format!("nearwire: {}", self.waiting()));
        Ok(())
    }

    /// How calls will wait, as text.
    fn waiting(&self) -> String {
        let cpus = online_cpus();
        let chosen = self.config().spin;
        let words = match chosen.on(cpus) {
            Spin::For(time) if time.is_zero() => "calls that wait sleep at once".to_owned(),
            Spin::Forever => "calls that wait spin".to_owned(),
            Spin::Auto => "calls that wait spin while messages come soon and nothing else needs the CPU".to_owned(),
            some => format!("calls that wait spin for {some}, then sleep"),
        };
        match chosen {
            Spin::Auto => format!("{words} (spin = \"auto\", and this machine has {cpus} CPUs)"),
            _ => words,
        }
    }

    /// Executes the program in this process. Returns only when that fails.
    fn execute(self) -> Outcome {
        let may_start_agent = self.may_start_agent();
        let Self { args, program, variables, configuration, agent, .. } = self;
        // Without an agent the program opens its ports itself, if it may.
        let agent_in = agent.have(may_start_agent).unwrap_or_else(|error| {
            if !args.quiet {
                output::note(&format!("nearwire: no agent serves the program: {error}"));
            }
            None
        });
        let (name, arguments) =
            args.program.split_first().map_or((OsStr::new(""), &[][..]), |(name, rest)| (name, rest));
        let mut command = Command::new(&program.path);
        command.arg0(name).args(arguments);
        if configuration.file.is_none() {
            // An empty variable names no file here, so the program must not see another value.
            command.env_remove(Config::FILE_VARIABLE);
        }
        command.env_remove(Config::AGENT_IN_VARIABLE);
        command.envs(agent_in.map(|agent| (Config::AGENT_IN_VARIABLE, agent.to_string())));
        let error = command.envs(variables).exec();
        let code = if error.kind() == std::io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE };
        let error = anyhow!(error).context(format!("run {}", program.path.display()));
        Err(Failure { code, error: Some(error) })
    }
}

fn not_started(error: FindError) -> Failure {
    let code = match error {
        FindError::NotFound { .. } => exit::NOT_FOUND,
        FindError::NotExecutable { .. } => exit::NOT_EXECUTABLE,
    };
    Failure { code, error: Some(error.into()) }
}

/// The absolute path: the program may change its directory.
fn absolute(path: &std::path::Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).with_context(|| format!("find {}", path.display())).or_exit(exit::USAGE)
}
