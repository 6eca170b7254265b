//! `nearwire compare A.json B.json`.

use nearwire_report::{CompareOptions, compare, read_record, render_comparison};

use crate::args::CompareArgs;
use crate::exit::{CANNOT, DIFFERENCE, Failure, OrExit, Outcome, USAGE};
use crate::output;

pub fn run(args: &CompareArgs) -> Outcome {
    let a = read_record(&args.a).or_exit(USAGE)?;
    let b = read_record(&args.b).or_exit(USAGE)?;
    let options = CompareOptions {
        confidence: args.confidence,
        threshold_percent: args.threshold,
        loss_threshold_percent: args.loss_threshold,
        cpu_threshold_percent: args.cpu_threshold,
        ..CompareOptions::default()
    };
    let comparison = compare(&a, &b, options);
    output::print(&render_comparison(&comparison))?;
    match () {
        () if comparison.has_difference() => Err(Failure::silent(DIFFERENCE)),
        () if args.conclusive && comparison.has_undecided() => Err(Failure::silent(CANNOT)),
        () => Ok(()),
    }
}
