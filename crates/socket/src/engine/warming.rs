//! When the stack is warmed ([`nearwire_stack::Stack::udp_warm`]): while the answer to what was sent last is waited for.

use nearwire_stack::EndpointId;

/// Polls that find nothing after a send, before the stack is warmed: a quarter of a microsecond. A program that looks once or
/// twice between its sends is not kept.
const EMPTY_POLLS: u32 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Warming {
    sent_last: Option<EndpointId>,
    /// 0: it was warmed since.
    empty_polls_left: u32,
}

impl Warming {
    /// An endpoint sends.
    #[inline]
    pub(super) fn sends(&mut self, endpoint: EndpointId) {
        *self = Warming { sent_last: Some(endpoint), empty_polls_left: EMPTY_POLLS };
    }

    /// A poll found nothing. The endpoint that is to be warmed now.
    #[inline]
    pub(super) fn nothing_came(&mut self) -> Option<EndpointId> {
        if self.empty_polls_left == 0 {
            return None;
        }
        self.empty_polls_left -= 1;
        self.sent_last.filter(|_| self.empty_polls_left == 0)
    }
}

#[cfg(test)]
mod tests {
    use nearwire_stack::{Family, Stack, StackConfig, UdpOptions};

    use super::*;

    #[test]
    fn endpoint_that_sent_is_warmed_once_when_nothing_comes() {
        let mut stack = Stack::new(StackConfig::new(1));
        let endpoint = stack.udp_open(Family::V4, UdpOptions::default());
        let mut warming = Warming::default();
        let warmed_in = |polls: u32, warming: &mut Warming| (0..polls).filter_map(|_| warming.nothing_came()).count();
        assert_eq!(warmed_in(100, &mut warming), 0, "nothing was sent");
        for _ in 0..3 {
            warming.sends(endpoint);
            assert_eq!(warmed_in(2, &mut warming), 0, "it looks twice between its sends");
        }
        assert_eq!(warmed_in(100, &mut warming), 1);
        warming.sends(endpoint);
        assert_eq!(warmed_in(100, &mut warming), 1);
    }
}
