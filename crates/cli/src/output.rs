//! Standard output.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::Context;
use nearwire_report::TableOptions;
use rustix::termios::tcgetwinsize;

use crate::exit::{FAILED, OrExit, Outcome};

/// Prints a whole text. A reader that has seen enough and left, as `head` does, is no failure.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("write to standard output").or_exit(FAILED),
    }
}

/// Prints what has texts of a host in it. A copy may come from a stranger, and a terminal obeys control characters.
pub fn print_of_host(text: &str) -> Outcome {
    let is_harmless = |c: char| c == '\n' || !c.is_control();
    if text.chars().all(is_harmless) {
        return print(text);
    }
    print(&text.chars().map(|c| if is_harmless(c) { c } else { '\u{fffd}' }).collect::<String>())
}

/// Colours on a terminal only, and as wide as it is.
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
