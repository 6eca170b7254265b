//! What the engines' state ([`crate::state`]) calls in files that themselves use it.

use crate::calls::process;
use crate::own_process::is_borrowed;
use crate::state::{self, Above};
use crate::{engines, start, timer};

/// Connects them. To be called before the state is entered for the first time: before that, all calls are the kernel's.
pub fn connect() {
    const ABOVE: Above = Above {
        begin_process: process::begin,
        first_sockets: start::first_sockets,
        grant: engines::grant,
        watch: timer::watch,
    };
    state::connect(&ABOVE);
}

/// The root directory is about to be another one: what is read of files, the configuration above all, is read before.
pub fn before_new_root() {
    if !is_borrowed() {
        connect();
        state::with(|_| ());
    }
}
