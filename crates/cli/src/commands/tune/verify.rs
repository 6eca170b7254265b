//! `nearwire tune verify`: what came of exported files after the boot.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use nearwire_host::export::{Exported, State, Verified, installed, verify};
use serde_json::{Value, json};

use crate::args::tune::VerifyArgs;
use crate::commands::host_root;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

pub fn run(args: &VerifyArgs) -> Outcome {
    let root = host_root::open(&args.root)?;
    let files = match &args.directory {
        Some(directory) => below(directory).or_exit(exit::USAGE)?,
        None => installed(&root),
    };
    let verified = verify(&root, &files);
    if verified.is_empty() {
        let place =
            args.directory.as_ref().map_or_else(|| "/etc".to_owned(), |directory| directory.display().to_string());
        let error = anyhow::anyhow!(
            "no file in {place} has values that nearwire tune export wrote: name the directory that was its --output"
        );
        return Err(Failure { code: exit::CANNOT, error: Some(error) });
    }
    if args.json {
        output::print(&format!("{:#}\n", in_json(&verified)))?;
    } else {
        output::print_of_host(&text(&verified))?;
    }
    match verified.iter().any(|one| matches!(one.state, State::NotInForce { .. } | State::NotKept { .. })) {
        true => Err(Failure::silent(exit::DIFFERENCE)),
        false => Ok(()),
    }
}

/// All files below a directory that stands for `/`, in the order of their paths. What is no text is no exported file.
fn below(directory: &Path) -> anyhow::Result<Vec<Exported>> {
    let read = |path: &Path| format!("read {}", path.display());
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in std::fs::read_dir(&next).with_context(|| read(&next))? {
            let entry = entry.with_context(|| read(&next))?;
            let (path, kind) = (entry.path(), entry.file_type().with_context(|| read(&next))?);
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file()
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let inside = path.strip_prefix(directory).unwrap_or(&path);
                files.push(Exported { path: format!("/{}", inside.display()), text });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// The values that are not as exported, each with its cause, below how many are.
fn text(verified: &[Verified]) -> String {
    let in_force = verified.iter().filter(|one| matches!(one.state, State::InForce | State::NotKept { .. })).count();
    let mut text = format!("{in_force} of {} exported values are in force.\n", verified.len());
    for one in verified {
        let (id, wanted, file) = (&one.id, &one.wanted, &one.file);
        // Writing to a string cannot fail.
        let _ = match &one.state {
            State::InForce => Ok(()),
            State::NotKept { cause } => writeln!(text, "\n{id}: {wanted}, in force now\n    {cause}"),
            State::NotInForce { found, cause } => {
                writeln!(text, "\n{id}: {wanted} in {file}, and {found} on this host\n    {cause}")
            }
            State::Unknown { why } => {
                writeln!(text, "\n{id}: {wanted} in {file}; what the host has is not known\n    {why}")
            }
        };
    }
    text
}

fn in_json(verified: &[Verified]) -> Value {
    let one = |one: &Verified| {
        let (state, found, cause) = match &one.state {
            State::InForce => ("in-force", None, None),
            State::NotKept { cause } => ("not-kept", None, Some(cause)),
            State::NotInForce { found, cause } => ("not-in-force", Some(found), Some(cause)),
            State::Unknown { why } => ("unknown", None, Some(why)),
        };
        json!({"id": one.id, "wanted": one.wanted, "file": one.file, "state": state, "found": found, "cause": cause})
    };
    json!({"values": verified.iter().map(one).collect::<Vec<_>>()})
}
