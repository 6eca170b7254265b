//! Memory of maps that this process shares with the program: what belongs together is one word, changed by one store.
//!
//! A child of fork(2) has the memory too, and may change it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nearwire_sys::bpf::{Map, MapKind};
use nearwire_sys::shared_words::SharedWords;

use super::group::{GROUP_SHIFT, GROUPS_MOST};
use super::ports::{PORT_WORD_SHIFT, PORT_WORDS};

/// Length of the word of classes.
const CLASSES_WORD_BYTES: u32 = 8;

/// The maps, of one value each, so that the program reaches it without a look-up.
#[derive(Debug)]
pub(super) struct WordMaps {
    /// One word: a bit for each class of filters in use, and the verdict by the filter that matches every frame.
    pub classes: Map,
    /// A word for each destination port and family (`ports`).
    pub ports: Map,
    /// Slot tables (`groups`).
    pub groups: Map,
}

impl WordMaps {
    pub(super) fn create() -> io::Result<WordMaps> {
        let map = |name, bytes| Map::create(MapKind::SharedArray, name, 4, bytes, 1);
        Ok(WordMaps {
            classes: map("nw_classes", CLASSES_WORD_BYTES)?,
            ports: map("nw_ports", (PORT_WORDS << PORT_WORD_SHIFT) as u32)?,
            groups: map("nw_groups", GROUPS_MOST << GROUP_SHIFT)?,
        })
    }

    pub(super) fn map(&self) -> io::Result<Words> {
        let [classes, ports, groups] = [&self.classes, &self.ports, &self.groups].map(SharedWords::of_array);
        Ok(Words { classes: classes?, ports: ports?, groups: groups? })
    }
}

/// Their values.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) classes: SharedWords,
    pub(super) ports: SharedWords,
    pub(super) groups: SharedWords,
}

/// Stores what is not there yet: a store takes the cache line from the CPU that reads it for each frame.
pub(super) fn show(word: &AtomicU64, wanted: u64) {
    if word.load(Ordering::Relaxed) != wanted {
        word.store(wanted, Ordering::Release);
    }
}
