//! A user's own command as the subject of a measurement.

mod process;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use self::process::{Finished, ProcessError};
use super::readers::{self, Expression, Printed, READERS, Reader, Reading};
use super::{Figure, Figures, Subject, SubjectError};

/// Lines of a command's output that a message shows.
const LINES_SHOWN: usize = 5;

/// Where the figures of a command are.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// In the output of a tool that is recognised by it.
    Recognised,
    /// In the output of this tool.
    Of(&'static Reader),
    /// Where an expression says.
    Expression {
        /// With one group, the figure.
        expression: Expression,
        /// Whether a greater figure is the better one.
        more_is_better: bool,
    },
}

/// A command that is run once per value and round. Its figures are taken as it prints them: its latency is half of a
/// round trip, a round trip or the time of a request, as [`UserCommand::latency`] says.
///
/// It is run without a shell, with standard input empty and `LC_ALL=C`, in a process group of its own. All of the group
/// ends with the command: what it leaves running in the background is killed, and so is everything when the time is
/// over, when the user interrupts, and when this is dropped while it runs. A process that makes itself a session of its
/// own is out of reach.
///
/// Where the number of messages is known from the output, [`Figure::CpuPerMessageNs`] is the CPU time of the command
/// and of the processes that it waited for, divided by it. A server that the command does not start is not in it.
#[derive(Debug)]
pub struct UserCommand {
    argv: Vec<OsString>,
    time_limit: Duration,
    wanted: Wanted,
    latency: Option<&'static str>,
    /// The figures of the first run, which all others have too.
    figures: Option<Vec<Figure>>,
}

impl UserCommand {
    /// A command, of which the first word is the program, and how long one run of it may take. Nothing is run yet.
    #[must_use]
    pub fn new(argv: Vec<OsString>, time_limit: Duration, wanted: Wanted) -> UserCommand {
        UserCommand { argv, time_limit, wanted, latency: None, figures: None }
    }

    /// What its latency is, in words for tables, once it has run; none where it prints no latency.
    #[must_use]
    pub fn latency(&self) -> Option<&'static str> {
        self.latency
    }

    fn figures_of(&mut self, finished: &Finished) -> Result<Figures, SubjectError> {
        let printed = Printed::new(&finished.stdout, &finished.stderr);
        let no_figure =
            |error: readers::ReadersError| SubjectError::NoFigure { what: self.name(), why: error.to_string() };
        let readers: &[_] = match &self.wanted {
            Wanted::Expression { expression, more_is_better } => {
                let figure = if *more_is_better { Figure::More } else { Figure::Less };
                let number = readers::read_expression(&printed, expression).map_err(no_figure)?;
                return Ok(Figures::from([(figure, number)]));
            }
            Wanted::Of(reader) => &[*reader],
            Wanted::Recognised => &READERS,
        };
        let recognised = readers::read(&printed, readers).map_err(no_figure)?;
        // What was recognised once is what is looked for from then on.
        self.wanted = Wanted::Of(recognised.reader);
        self.latency = recognised.latency;
        Ok(with_cpu(&recognised.reading, finished.cpu_ns))
    }

    /// All runs have the figures of the first one.
    fn same_figures(&mut self, mut figures: Figures) -> Result<Figures, SubjectError> {
        let first = self.figures.get_or_insert_with(|| figures.keys().copied().collect());
        figures.retain(|figure, _| first.contains(figure));
        if figures.len() < first.len() {
            let found: Vec<_> = figures.keys().collect();
            let why = format!(
                "the first run had {first:?} and this one has {found:?}; let the command print the same each time"
            );
            return Err(SubjectError::NoFigure { what: self.name(), why });
        }
        Ok(figures)
    }

    fn failure(&self, error: &ProcessError) -> SubjectError {
        let what = self.name();
        match error {
            ProcessError::Start(why) => SubjectError::Start { what, why: why.to_string() },
            _ => SubjectError::Failed { what, why: error.to_string() },
        }
    }
}

impl Subject for UserCommand {
    fn name(&self) -> String {
        self.argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn run(&mut self) -> Result<Figures, SubjectError> {
        let finished = process::run(&self.argv, self.time_limit).map_err(|error| self.failure(&error))?;
        if !finished.status.success() {
            let why = format!("{}{}", ended(finished.status), last_lines(&finished));
            return Err(SubjectError::Failed { what: self.name(), why });
        }
        let figures = self.figures_of(&finished)?;
        self.same_figures(figures)
    }
}

/// The figures, with the CPU time of a message where their number is known.
fn with_cpu(reading: &Reading, cpu_ns: u64) -> Figures {
    let mut figures = reading.figures();
    if let Some(messages) = reading.messages() {
        figures.insert(Figure::CpuPerMessageNs, cpu_ns as f64 / messages);
    }
    figures
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it did not end as programs do".to_owned(),
    }
}

/// The last lines of standard error, or of standard output where that is empty.
fn last_lines(finished: &Finished) -> String {
    let printed = Printed::new(&finished.stdout, &finished.stderr);
    let text = if printed.stderr.trim().is_empty() { printed.stdout } else { printed.stderr };
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let last = lines.iter().skip(lines.len().saturating_sub(LINES_SHOWN)).map(|line| format!("\n  {line}"));
    format!("; its last lines:{}", last.collect::<String>())
}
