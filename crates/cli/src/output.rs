//! Standard output.

use std::io::{ErrorKind, Write};

use anyhow::Context;

use crate::exit::{FAILED, OrExit, Outcome};

/// Prints a whole text. A reader that has seen enough and left, as `head` does, is no failure.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("write to standard output").or_exit(FAILED),
    }
}
