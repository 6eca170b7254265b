//! Questions before something of the host is written.

use std::io::{IsTerminal, Write};

use crate::exit::{self, Failure, OrExit, Outcome};

/// Asks a question on the terminal; without a terminal the answer must be given on the command line.
pub fn ask(question: &str, is_answered: bool) -> Outcome {
    if is_answered {
        return Ok(());
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        let error = anyhow::anyhow!("{question} There is no terminal to answer on; give --yes");
        return Err(Failure { code: exit::USAGE, error: Some(error) });
    }
    let mut out = std::io::stderr();
    let mut answer = String::new();
    let asked = write!(out, "{question} [y/N] ").and_then(|()| out.flush()).and_then(|()| input.read_line(&mut answer));
    asked.or_exit(exit::FAILED)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure { code: exit::INTERRUPTED, error: Some(anyhow::anyhow!("nothing was changed")) }),
    }
}
