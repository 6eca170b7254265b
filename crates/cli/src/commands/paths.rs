//! `nearwire paths`: tries every path once on a virtual cable.

use nearwire_bench::cells::try_path;
use nearwire_bench::paths::ALL;
use nearwire_lab::VirtualCableOptions;
use nearwire_sys::tsc::Clock;

use super::bench::{lay, take_privileges};
use crate::args::{CableArg, PathsArgs};
use crate::exit::Outcome;
use crate::output;

pub fn run(args: &PathsArgs) -> Outcome {
    take_privileges(&CableArg::Virtual)?;
    let mut bed = lay(&CableArg::Virtual, None, VirtualCableOptions::default(), None)?;
    let clock = Clock::calibrate();
    let tried = ALL.map(|(name, path, what)| (name, what, try_path(&mut bed, clock, path, None).err()));
    let text = if args.json {
        let rows = tried.map(|(name, what, problem)| {
            serde_json::json!({"path": name, "runs": problem.is_none(), "what": what, "why_not": problem})
        });
        format!("{:#}\n", serde_json::Value::from(rows.to_vec()))
    } else {
        let line = |(name, what, problem): &(&str, &str, Option<String>)| match problem {
            Some(why) => format!("{name:<20} no   {why}\n"),
            None => format!("{name:<20} yes  {what}\n"),
        };
        tried.iter().map(line).collect()
    };
    output::print(&text)
}
