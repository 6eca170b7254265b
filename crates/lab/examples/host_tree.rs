//! Writes a described host into a directory: `host_tree opennfp DIR`, for trying commands with
//! `--sysroot DIR`.

use std::path::Path;
use std::process::ExitCode;

use nearwire_lab::host_tree::HostTree;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, directory] = &args[..] else {
        eprintln!("usage: host_tree NAME DIR");
        return ExitCode::from(2);
    };
    match HostTree::named(name).and_then(|tree| tree.write(Path::new(directory))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("host_tree: {error}");
            ExitCode::FAILURE
        }
    }
}
