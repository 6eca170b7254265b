//! `nearwire bench --vary`: where the values may be written, and the user's word for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nearwire_bench::bed::TestBed;
use nearwire_bench::engine::Settings;
use nearwire_host::Root;
use nearwire_host::journal::DEFAULT_DIRECTORY;
use nearwire_worth::cable_host::CableHost;
use nearwire_worth::vary::{Bed, Planned, Variations, VaryError};

use crate::args::bench::BenchArgs;
use crate::commands::ask::ask;
use crate::commands::tune::in_use;
use crate::exit::{CANNOT, FAILED, Failure, OrExit, USAGE};

/// The settings and values of each variation, as records have them.
type Values = Vec<BTreeMap<String, String>>;

/// The variations that were asked for, if any, with their values. Nothing is written yet.
pub fn variations(args: &BenchArgs, bed: &TestBed) -> Result<Option<(Variations, Values)>, Failure> {
    if args.vary.is_empty() {
        return Ok(None);
    }
    let journal = args.journal.journal.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY));
    // Those of a virtual cable have names of their own and nothing else to do.
    let in_use = match bed.kind == "virtual" {
        true => BTreeMap::new(),
        false => in_use::interfaces(&Root::live().or_exit(CANNOT)?),
    };
    let interfaces = bed.ends_here().into_iter().map(|(interface, _)| interface).collect();
    let host = CableHost::new(bed).or_exit(CANNOT)?;
    let planned = Planned::new(host, args.vary.clone(), &Bed { interfaces, journal, in_use }).map_err(failure)?;
    let on_the_host = planned.on_the_host();
    if !on_the_host.is_empty() {
        let what = on_the_host.join(", ");
        ask(&format!("Write {what} of this host while measuring, and put it back?"), args.yes)?;
    }
    let values = planned.values();
    Ok(Some((planned.begin().map_err(failure)?, values)))
}

/// Writes the values of a variation.
pub struct Writer<'a>(pub &'a mut Variations);

impl Settings for Writer<'_> {
    fn set(&mut self, variation: usize) -> Result<Vec<String>, String> {
        self.0.set(variation).map_err(|error| error.to_string())
    }
}

fn failure(error: VaryError) -> Failure {
    let code = match &error {
        VaryError::Journal(_)
        | VaryError::Request(_)
        | VaryError::NotWritten { .. }
        | VaryError::NoInterface { .. }
        | VaryError::NoPlace { .. } => CANNOT,
        VaryError::Cable(_) | VaryError::Switch(_) | VaryError::Changed { .. } => FAILED,
        _ => USAGE,
    };
    Failure { code, error: Some(error.into()) }
}
