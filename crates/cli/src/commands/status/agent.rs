//! The agent of this network namespace, and the programs that it reports.

use comfy_table::Table;
use nearwire_agent::client::{Client, ClientError};
use nearwire_agent::message::ProgramStatus;
use serde_json::{Value, json};

use super::text::{lines, plain_table};

/// What the agent answered.
pub enum Told {
    /// No agent runs.
    Nobody,
    /// Its process, and those of its programs that this user may see.
    Agent { pid: u32, uid: u32, programs: Vec<ProgramStatus> },
    /// It refused to answer, for this reason.
    Nothing(String),
}

/// Asks the agent.
pub fn ask() -> Told {
    let mut client = match Client::connect("nearwire status") {
        Ok(client) => client,
        Err(ClientError::NoAgent) => return Told::Nobody,
        Err(error) => return Told::Nothing(error.to_string()),
    };
    match client.status() {
        Ok(mut programs) => {
            // This command itself.
            programs.retain(|program| program.pid != std::process::id());
            Told::Agent { pid: client.agent().pid, uid: client.agent().uid, programs }
        }
        Err(error) => Told::Nothing(error.to_string()),
    }
}

impl Told {
    /// As text; empty where there is no agent.
    pub fn text(&self) -> String {
        match self {
            Told::Nobody => String::new(),
            Told::Nothing(why) => format!("\nThe agent does not report its programs: {why}.\n"),
            Told::Agent { pid, programs, .. } if programs.is_empty() => {
                format!("\nThe agent, process {pid}, has no programs.\n")
            }
            Told::Agent { pid, programs, .. } => {
                format!("\nThe agent, process {pid}, has these programs:\n{}", lines(&table(programs)))
            }
        }
    }

    /// As JSON; `null` where there is no agent.
    pub fn json(&self) -> Value {
        match self {
            Told::Nobody => Value::Null,
            Told::Nothing(why) => json!({"refused": why}),
            Told::Agent { pid, uid, programs } => {
                json!({"pid": pid, "uid": uid, "programs": programs.iter().map(program).collect::<Vec<_>>()})
            }
        }
    }
}

fn program(program: &ProgramStatus) -> Value {
    let shares = program
        .shares
        .iter()
        .map(|share| json!({"share": share.share, "interface": share.interface.as_str(), "flows": share.flows}));
    json!({
        "pid": program.pid,
        "uid": program.uid,
        "program": program.name.as_str(),
        "memory_bytes": program.memory_bytes,
        "shares": shares.collect::<Vec<_>>(),
    })
}

fn table(programs: &[ProgramStatus]) -> Table {
    let mut table = plain_table(["pid", "user", "program", "flows", "shares"], 3..4);
    for program in programs {
        let shares = program.shares.iter().map(|share| format!("{} of {}", share.share, share.interface));
        table.add_row([
            program.pid.to_string(),
            program.uid.to_string(),
            program.name.to_string(),
            program.shares.iter().map(|share| share.flows).sum::<u32>().to_string(),
            shares.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}
