//! `nearwire report FILE… -o FILE.html`.

use nearwire_report::{read_record, render_html, write_text};

use crate::args::ReportArgs;
use crate::exit::{FAILED, OrExit, Outcome, USAGE};

pub fn run(args: &ReportArgs) -> Outcome {
    let records = args.records.iter().map(read_record).collect::<Result<Vec<_>, _>>().or_exit(USAGE)?;
    let page = render_html(&records).or_exit(FAILED)?;
    write_text(&args.output, &page).or_exit(FAILED)
}
