//! `nearwire report FILE… -o FILE.html`.

use std::path::PathBuf;

use nearwire_report::{ReadError, read_dataplane_record, read_record, render_dataplane_html, render_html, write_text};

use crate::args::ReportArgs;
use crate::exit::{FAILED, Failure, OrExit, Outcome, USAGE};

pub fn run(args: &ReportArgs) -> Outcome {
    let page = if is_dataplane(&args.records)? {
        render_dataplane_html(&all(&args.records, |file| read_dataplane_record(file))?)
    } else {
        render_html(&all(&args.records, |file| read_record(file))?)
    };
    write_text(&args.output, &page.or_exit(FAILED)?).or_exit(FAILED)
}

/// Whether the first record is of a dataplane experiment: all must be of one kind.
fn is_dataplane(files: &[PathBuf]) -> Result<bool, Failure> {
    match files.first().map(read_dataplane_record) {
        Some(Ok(_)) => Ok(true),
        Some(Err(ReadError::Foreign { .. })) | None => Ok(false),
        Some(Err(error)) => Err(error).or_exit(USAGE),
    }
}

fn all<R>(files: &[PathBuf], read: impl Fn(&PathBuf) -> Result<R, ReadError>) -> Result<Vec<R>, Failure> {
    files.iter().map(read).collect::<Result<_, _>>().or_exit(USAGE)
}
