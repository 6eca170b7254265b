//! Standard output and standard error.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use nearwire_report::TableOptions;
use rustix::termios::tcgetwinsize;

use crate::exit::{FAILED, Failure, OrExit, Outcome};

/// Prints a whole text. A reader that closes the pipe early, as `head` does, is not a failure.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("write to standard output").or_exit(FAILED),
    }
}

/// Prints a line on standard error. A closed standard error is not a failure.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints why a command failed, unless that was printed already, and returns the exit code.
pub fn end(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, error }) => {
            if let Some(error) = error {
                note(&format!("nearwire: {}", with_causes(&error)));
            }
            ExitCode::from(code)
        }
    }
}

/// The error and its causes. A cause that the message names already is not repeated.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    text
}

/// Prints text that contains strings read from a host. A copy of a host may come from somebody else, and a terminal executes control
/// characters, so these are replaced.
pub fn print_of_host(text: &str) -> Outcome {
    let is_harmless = |c: char| c == '\n' || !c.is_control();
    if text.chars().all(is_harmless) {
        return print(text);
    }
    print(&text.chars().map(|c| if is_harmless(c) { c } else { '\u{fffd}' }).collect::<String>())
}

/// The width of the terminal, columns; `None` where standard output is not a terminal, as programs want whole lines.
pub fn terminal_width() -> Option<usize> {
    let out = std::io::stdout();
    let columns = tcgetwinsize(&out).ok().filter(|_| out.is_terminal())?.ws_col;
    (columns > 0).then_some(usize::from(columns))
}

/// Breaks a line between words and indents the further lines to `column`. A word that is longer than a line is not broken.
pub fn wrapped(line: &str, column: usize, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width > column + 20 && line.chars().count() > *width) else {
        return line.to_owned();
    };
    let begin = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let (mut text, mut at) = (line[..begin].to_owned(), column);
    for word in line[begin..].split_whitespace() {
        let length = word.chars().count();
        if at > column && at + 1 + length > width {
            text += &format!("\n{:column$}", "");
            at = column;
        } else if at > column {
            text.push(' ');
            at += 1;
        }
        text += word;
        at += length;
    }
    text
}

/// Colours and width of the terminal; without a terminal no colours and the default width.
pub fn table_options() -> TableOptions {
    let out = std::io::stdout();
    let mut options = TableOptions { colour: out.is_terminal(), ..TableOptions::default() };
    if let Ok(size) = tcgetwinsize(&out)
        && size.ws_col > 0
    {
        options.width = usize::from(size.ws_col);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_on_a_terminal_goes_on_below_its_text() {
        let line = format!("  why  {}", "seven77 ".repeat(8).trim());
        let text = wrapped(&line, 7, Some(40));
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().all(|line| line.len() <= 40) && text.lines().nth(1).unwrap_or("").starts_with("       s"));
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), line.split_whitespace().collect::<Vec<_>>());
        for width in [None, Some(10), Some(200)] {
            assert_eq!(wrapped(&line, 7, width), line);
        }
    }
}
