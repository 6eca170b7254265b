//! A socket's hold on its place in the page.

use super::{SocketCounter, SocketWriter, Writer};

/// The slot of a socket; sockets beyond [`super::SLOTS`] have none, and what is told of them goes nowhere.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    page: Writer,
    number: usize,
}

impl Slot {
    pub(crate) const fn new(page: Writer, number: usize) -> Slot {
        Slot { page, number }
    }

    #[inline]
    pub(crate) fn writer(&self) -> Option<SocketWriter<'_>> {
        self.page.socket(self.number)
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
