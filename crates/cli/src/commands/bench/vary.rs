//! `nearwire bench --vary`: where the values may be written, and the user's word for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nearwire_bench::bed::TestBed;
use nearwire_bench::engine::Settings;
use nearwire_host::Root;
use nearwire_host::journal::DEFAULT_DIRECTORY;
use nearwire_worth::vary::{Bed, End, Variations, VaryError};

use crate::args::bench::BenchArgs;
use crate::commands::tune::{ask, in_use};
use crate::exit::{CANNOT, FAILED, Failure, OrExit, USAGE};

/// The variations that were asked for, if any. Nothing is written yet.
pub fn variations(args: &BenchArgs, bed: &TestBed) -> Result<Option<Variations>, Failure> {
    if args.vary.is_empty() {
        return Ok(None);
    }
    let root = Root::live().or_exit(CANNOT)?;
    let is_virtual = bed.kind == "virtual";
    let ends = bed.ends_here().into_iter().map(|(interface, namespace)| End { interface, namespace }).collect();
    let journal = args.journal.journal.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY));
    // Those of a virtual cable have names of their own and nothing else to do.
    let in_use = if is_virtual { BTreeMap::new() } else { in_use::interfaces(&root) };
    let bed = Bed { ends, is_virtual, journal, in_use };
    let variations = Variations::prepare(&root, args.vary.clone(), &bed).map_err(failure)?;
    let on_the_host = variations.on_the_host();
    if !on_the_host.is_empty() {
        let what = on_the_host.join(", ");
        ask(&format!("Write {what} of this host while measuring, and put it back?"), args.yes)?;
    }
    Ok(Some(variations))
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
        | VaryError::NotWritten { .. }
        | VaryError::NoInterface { .. }
        | VaryError::NoPlace { .. } => CANNOT,
        VaryError::Lab(_) | VaryError::Apply { .. } | VaryError::NotBack { .. } => FAILED,
        _ => USAGE,
    };
    Failure { code, error: Some(error.into()) }
}
