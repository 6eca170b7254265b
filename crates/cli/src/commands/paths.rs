//! `nearwire paths`: tries every path once on a virtual cable.

use nearwire_bench::cells::try_path;
use nearwire_bench::paths::ALL;
use nearwire_sys::tsc::Clock;

use super::bench::{lay, take_privileges};
use crate::args::{CableArg, PathsArgs};
use crate::exit::Outcome;

pub fn run(args: &PathsArgs) -> Outcome {
    take_privileges(&CableArg::Virtual)?;
    let mut bed = lay(&CableArg::Virtual, None, 1, None)?;
    let clock = Clock::calibrate();
    let mut rows = Vec::new();
    for (name, path, what) in ALL {
        let problem = try_path(&mut bed, clock, path).err();
        if args.json {
            rows.push(serde_json::json!({"path": name, "runs": problem.is_none(), "what": what, "why_not": problem}));
        } else if let Some(why) = problem {
            println!("{name:<20} no   {why}");
        } else {
            println!("{name:<20} yes  {what}");
        }
    }
    if args.json {
        println!("{:#}", serde_json::Value::from(rows));
    }
    Ok(())
}
