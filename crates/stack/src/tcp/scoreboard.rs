//! What was sent and is not acknowledged, segment by segment (RFC 6675 section 3 calls this the scoreboard).

use std::collections::VecDeque;

use super::sequence::Sequence;

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is on its way, as far as is known.
    InFlight,
    /// The far end has it, beyond a hole.
    Delivered,
    /// It is taken for lost, and not sent again yet.
    Lost,
}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) start: Sequence,
    /// The FIN is counted.
    pub(crate) end: Sequence,
    /// When it was sent last.
    pub(crate) sent_ns: u64,
    pub(crate) fate: Fate,
    /// It was sent more than once, or when is not known: its round trip cannot be measured (Karn).
    pub(crate) is_retransmitted: bool,
}

impl Sent {
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.end - self.start
    }
}

/// All that was sent and is not acknowledged, in the order of sequence numbers.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    in_flight_bytes: u32,
    delivered_bytes: u32,
    lost_bytes: u32,
    /// No lost segment begins before this one, while there are any.
    lost_from: Sequence,
}

impl Scoreboard {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Bytes that are on their way: the pipe of RFC 6675 section 4, SetPipe().
    #[inline]
    pub(crate) const fn in_flight_bytes(&self) -> u32 {
        self.in_flight_bytes
    }

    #[inline]
    pub(crate) const fn delivered_bytes(&self) -> u32 {
        self.delivered_bytes
    }

    #[inline]
    pub(crate) const fn lost_bytes(&self) -> u32 {
        self.lost_bytes
    }

    pub(crate) fn first(&self) -> Option<&Sent> {
        self.sent.front()
    }

    pub(crate) fn last(&self) -> Option<&Sent> {
        self.sent.back()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter()
    }

    #[inline]
    fn count(&mut self, fate: Fate) -> &mut u32 {
        match fate {
            Fate::InFlight => &mut self.in_flight_bytes,
            Fate::Delivered => &mut self.delivered_bytes,
            Fate::Lost => &mut self.lost_bytes,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, sent: Sent) {
        *self.count(sent.fate) += sent.len();
        self.sent.push_back(sent);
    }

    fn set_fate(&mut self, index: usize, fate: Fate) {
        let Some(sent) = self.sent.get_mut(index) else { return };
        let (old, len) = (sent.fate, sent.len());
        sent.fate = fate;
        *self.count(old) -= len;
        *self.count(fate) += len;
    }

    /// The far end has everything before `number`. `visit` is shown each segment, or part of one, with what was known of it before.
    #[inline]
    pub(crate) fn acknowledge(&mut self, number: Sequence, mut visit: impl FnMut(&Sent)) {
        while let Some(first) = self.sent.front_mut() {
            if !number.is_after(first.start) {
                break;
            }
            let part = Sent { end: number.earlier_of(first.end), ..*first };
            let is_whole = part.end == first.end;
            first.start = part.end;
            *self.count(part.fate) -= part.len();
            visit(&part);
            if is_whole {
                self.sent.pop_front();
            }
        }
    }

    /// The far end has these, beyond a hole. Segments that lie in the range as a whole count; `visit` is shown each that is new.
    pub(crate) fn deliver(&mut self, start: Sequence, end: Sequence, mut visit: impl FnMut(&Sent)) {
        let from = self.sent.partition_point(|sent| sent.start.is_before(start));
        for index in from..self.sent.len() {
            let sent = self.sent[index];
            if sent.end.is_after(end) {
                break;
            }
            if sent.fate != Fate::Delivered {
                self.set_fate(index, Fate::Delivered);
                visit(&sent);
            }
        }
    }

    pub(crate) fn mark_lost(&mut self, index: usize) {
        let Some(sent) = self.sent.get(index).copied().filter(|sent| sent.fate == Fate::InFlight) else { return };
        if self.lost_bytes == 0 || sent.start.is_before(self.lost_from) {
            self.lost_from = sent.start;
        }
        self.set_fate(index, Fate::Lost);
    }

    /// Marks each segment lost for which `is_lost` says so, until it says `None`.
    pub(crate) fn mark_lost_where(&mut self, mut is_lost: impl FnMut(&Sent) -> Option<bool>) -> u32 {
        let before = self.lost_bytes;
        for index in 0..self.sent.len() {
            match is_lost(&self.sent[index]) {
                Some(true) => self.mark_lost(index),
                Some(false) => {}
                None => break,
            }
        }
        self.lost_bytes.saturating_sub(before)
    }

    /// The far end dropped what it had said that it has (RFC 2018 section 8): nothing of it counts.
    pub(crate) fn forget_deliveries(&mut self) {
        for index in 0..self.sent.len() {
            if self.sent[index].fate == Fate::Delivered {
                self.set_fate(index, Fate::InFlight);
            }
        }
    }

    /// The first lost segment.
    #[inline]
    pub(crate) fn first_lost(&self) -> Option<(usize, &Sent)> {
        if self.lost_bytes == 0 {
            return None;
        }
        let from = self.sent.partition_point(|sent| sent.start.is_before(self.lost_from));
        let lost = self.sent.range(from..).position(|sent| sent.fate == Fate::Lost)?;
        Some((from + lost, &self.sent[from + lost]))
    }

    /// The first `len` of a segment were sent again; the rest of it is a segment of its own from now on.
    pub(crate) fn retransmitted(&mut self, index: usize, len: u32, now_ns: u64) {
        let Some(sent) = self.sent.get(index).copied() else { return };
        let is_first_lost = self.first_lost().is_some_and(|(first, _)| first == index);
        if len < sent.len() {
            self.sent[index].end = sent.start + len;
            self.sent.insert(index + 1, Sent { start: sent.start + len, ..sent });
        }
        self.set_fate(index, Fate::InFlight);
        let first = &mut self.sent[index];
        (first.sent_ns, first.is_retransmitted) = (now_ns, true);
        if is_first_lost {
            self.lost_from = first.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scoreboard(segments: u32) -> Scoreboard {
        let mut scoreboard = Scoreboard::default();
        for n in 0..segments {
            let (start, end) = (Sequence(n * 100), Sequence(n * 100 + 100));
            scoreboard.push(Sent { start, end, sent_ns: n.into(), fate: Fate::InFlight, is_retransmitted: false });
        }
        scoreboard
    }

    fn counts(scoreboard: &Scoreboard) -> (u32, u32, u32) {
        (scoreboard.in_flight_bytes, scoreboard.delivered_bytes, scoreboard.lost_bytes)
    }

    #[test]
    fn block_delivers_whole_segments_once() {
        let mut scoreboard = scoreboard(10);
        let mut seen = Vec::new();
        scoreboard.deliver(Sequence(150), Sequence(450), |sent| seen.push(sent.start.0));
        scoreboard.deliver(Sequence(100), Sequence(400), |sent| seen.push(sent.start.0));
        assert_eq!(seen, [200, 300, 100]);
        assert_eq!(counts(&scoreboard), (700, 300, 0));
        let mut fates = Vec::new();
        scoreboard.acknowledge(Sequence(250), |sent| fates.push((sent.len(), sent.fate)));
        assert_eq!(fates, [(100, Fate::InFlight), (100, Fate::Delivered), (50, Fate::Delivered)]);
        assert_eq!(counts(&scoreboard), (600, 150, 0));
    }

    #[test]
    fn lost_segments_are_found_in_order_and_sent_again_in_parts() {
        let mut scoreboard = scoreboard(5);
        scoreboard.mark_lost(3);
        scoreboard.mark_lost(1);
        assert_eq!(scoreboard.first_lost().map(|(index, _)| index), Some(1));
        scoreboard.retransmitted(1, 60, 9);
        let (index, rest) = scoreboard.first_lost().expect("the rest");
        assert_eq!((index, rest.start, rest.len()), (2, Sequence(160), 40));
        scoreboard.retransmitted(2, 40, 9);
        assert_eq!(scoreboard.first_lost().map(|(_, sent)| sent.start), Some(Sequence(300)));
        assert_eq!(counts(&scoreboard), (400, 0, 100));
        scoreboard.mark_lost(0);
        assert_eq!(scoreboard.first_lost().map(|(index, _)| index), Some(0));
    }
}
