//! `nearwire report FILE… -o FILE.html`.

use nearwire_report::{ReadError, read_dataplane_record, read_record, render_dataplane_html, render_html, write_text};

use crate::args::ReportArgs;
use crate::exit::{FAILED, Failure, OrExit, Outcome, USAGE};

/// All records are of the first one's kind.
pub fn run(args: &ReportArgs) -> Outcome {
    let (first, rest) = args.records.split_at(args.records.len().min(1));
    let page = match first.first().map(read_dataplane_record) {
        None | Some(Err(ReadError::Foreign { .. })) => render_html(&all(args.records.iter().map(read_record))?),
        Some(first) => {
            render_dataplane_html(&all(std::iter::once(first).chain(rest.iter().map(read_dataplane_record)))?)
        }
    };
    write_text(&args.output, &page.or_exit(FAILED)?).or_exit(FAILED)
}

fn all<R>(records: impl Iterator<Item = Result<R, ReadError>>) -> Result<Vec<R>, Failure> {
    records.collect::<Result<_, _>>().or_exit(USAGE)
}
