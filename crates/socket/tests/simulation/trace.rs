//! What happens in a simulation, in order: with the same seed it is the same. `NEARWIRE_SIMULATION_TRACE=1` prints it.

use std::cell::RefCell;
use std::env::var_os;

/// What becomes of what happens.
#[derive(Debug)]
pub enum Trace {
    Dropped,
    Printed,
    Kept(RefCell<Vec<String>>),
}

impl Trace {
    /// As the environment wants it.
    pub fn new() -> Trace {
        if var_os("NEARWIRE_SIMULATION_TRACE").is_some() { Trace::Printed } else { Trace::Dropped }
    }

    pub fn kept() -> Trace {
        Trace::Kept(RefCell::default())
    }

    pub fn note(&self, what: impl FnOnce() -> String) {
        match self {
            Trace::Dropped => {}
            Trace::Printed => println!("{}", what()),
            Trace::Kept(events) => events.borrow_mut().push(what()),
        }
    }

    /// What was kept.
    pub fn take(&self) -> Vec<String> {
        if let Trace::Kept(events) = self { events.take() } else { Vec::new() }
    }
}
