//! A socket's hold on its place in the page.

use std::sync::Arc;

use nearwire_sys::shared_words::SharedWords;

use super::{SocketCounter, SocketWriter, Writer};

/// The slot of a socket; sockets beyond [`super::SLOTS`] have none, and what is reported about them goes nowhere.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    words: Arc<SharedWords>,
    number: usize,
}

impl Slot {
    pub(crate) fn new(page: &Writer, number: usize) -> Slot {
        Slot { words: Arc::clone(page.words()), number }
    }

    #[inline]
    pub(crate) fn writer(&self) -> Option<SocketWriter<'_>> {
        SocketWriter::of(&self.words, self.number)
    }

    #[inline]
    pub(crate) fn count(&self, counter: SocketCounter) {
        if let Some(writer) = self.writer() {
            writer.count(counter, 1);
        }
    }

    #[inline]
    pub(crate) fn count_received(&self, len_bytes: usize) {
        if let Some(writer) = self.writer() {
            writer.count_received(len_bytes);
        }
    }

    #[inline]
    pub(crate) fn count_sent(&self, len_bytes: usize) {
        if let Some(writer) = self.writer() {
            writer.count_sent(len_bytes);
        }
    }
}
