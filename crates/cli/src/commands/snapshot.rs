//! `nearwire snapshot`: puts all that settings are read from into one file.

use nearwire_host::{Root, Snapshot, SnapshotError};

use crate::args::SnapshotArgs;
use crate::exit::{self, OrExit, Outcome};
use crate::output;

pub fn run(args: &SnapshotArgs) -> Outcome {
    let root = match &args.sysroot {
        Some(directory) => Root::directory(directory),
        None => Root::live(),
    };
    let root = root.or_exit(if args.sysroot.is_some() { exit::USAGE } else { exit::CANNOT })?;
    let snapshot = Snapshot::take(&root, &args.nic).map_err(|error| match error {
        SnapshotError::NoInterface { .. } => (exit::USAGE, error),
        _ => (exit::FAILED, error),
    });
    let snapshot = snapshot.or_else(|(code, error)| Err(error).or_exit(code))?;
    snapshot.write(&args.output).or_exit(exit::FAILED)?;
    output::print_of_host(&summary(args, &snapshot))
}

fn summary(args: &SnapshotArgs, snapshot: &Snapshot) -> String {
    let interfaces = match snapshot.interfaces() {
        [] => "no interface".to_owned(),
        names => names.join(" "),
    };
    let mut text = format!(
        "{}: {} files, {interfaces}, {} KB\n",
        args.output.display(),
        snapshot.files(),
        snapshot.length_bytes().div_ceil(1000)
    );
    if !snapshot.needs_root().is_empty() {
        text += &format!("{} files are not in it because they need root\n", snapshot.needs_root().len());
    }
    text
}
