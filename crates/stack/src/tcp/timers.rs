//! The deadlines of a connection.

use super::connection::{Connection, TcpError};
use super::options::Keepalive;
use super::sender::NEVER;

/// When a far end that does not answer is given up: what 15 retransmissions take at the least timeout (`net.ipv4.tcp_retries2`,
/// `retransmits_timed_out`).
//= RFC 9293 3.8.3 MUST: a connection is given up no sooner than after 100 seconds
const GIVE_UP_NS: u64 = 924_600_000_000;
/// Probes of an idle far end come no faster than this, whatever the program says; the kernel takes whole seconds.
const KEEPALIVE_INTERVAL_LEAST_NS: u64 = 1_000_000;
/// Probes of a closed window without any answer (the same setting).
const PROBES_MOST: u32 = 15;

impl Connection {
    /// When something is to be done next; [`NEVER`]: only when a segment or a call comes.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> u64 {
        if self.error.is_some() {
            return NEVER;
        }
        let sender = &self.sender;
        let user_ns = match self.options.user_timeout_ns {
            Some(timeout_ns) => sender.stalled_since_ns.saturating_add(timeout_ns),
            None => NEVER,
        };
        let loss_ns = sender.retransmit_ns.min(sender.probe_ns).min(sender.reorder_ns);
        loss_ns.min(sender.persist_ns).min(self.receiver.deadline_ns()).min(user_ns).min(self.keepalive_ns())
    }

    /// When an idle far end is probed: never while something is out or waits (`tcp_keepalive_timer`).
    fn keepalive_ns(&self) -> u64 {
        let Some(keepalive) = self.options.keepalive else { return NEVER };
        if !self.sender.scoreboard.is_empty() || self.sender.unsent_bytes() > 0 {
            return NEVER;
        }
        let interval_ns = keepalive.interval_ns.max(KEEPALIVE_INTERVAL_LEAST_NS);
        let probing_ns = interval_ns.saturating_mul(self.sender.unanswered_probes.into());
        self.last_heard_ns.saturating_add(keepalive.idle_ns).saturating_add(probing_ns)
    }

    /// Does what is due. Returns whether the program is to hear of it: the connection was given up.
    pub(crate) fn expire(&mut self, now_ns: u64) -> bool {
        if self.error.is_some() {
            return false;
        }
        if self.receiver.deadline_ns() <= now_ns {
            self.receiver.delay_over(self.sender.round_trip.timeout_ns());
        }
        if self.sender.reorder_ns <= now_ns {
            self.sender.reorder_timeout(now_ns);
        }
        if self.keepalive_ns() <= now_ns {
            self.probe_idle(now_ns);
        }
        if self.sender.retransmit_ns <= now_ns {
            self.sender.time_out(now_ns);
        } else if self.sender.probe_ns <= now_ns {
            self.sender.probe_tail(now_ns);
        }
        if self.sender.persist_ns <= now_ns {
            self.sender.persist(now_ns);
        }
        if self.error.is_none() && self.is_given_up(now_ns) {
            self.end(TcpError::TimedOut);
        }
        self.error.is_some()
    }

    fn is_given_up(&self, now_ns: u64) -> bool {
        let sender = &self.sender;
        let stalled_ns = now_ns.saturating_sub(sender.stalled_since_ns);
        if let Some(timeout_ns) = self.options.user_timeout_ns {
            //= RFC 9293 3.8.3 MUST: a program can say when a connection is given up
            return sender.stalled_since_ns != NEVER && stalled_ns >= timeout_ns;
        }
        // A far end that says that its window is closed takes nothing and is there (`tcp_rtx_probe0_timed_out`).
        let is_closed = sender.window_bytes == 0 && now_ns.saturating_sub(self.last_heard_ns) < GIVE_UP_NS;
        let is_unanswered = sender.timeouts > 0 && stalled_ns >= GIVE_UP_NS && !is_closed;
        is_unanswered || (sender.persist_ns != NEVER && sender.unanswered_probes > PROBES_MOST)
    }

    fn probe_idle(&mut self, now_ns: u64) {
        let Keepalive { probes, .. } = self.options.keepalive.unwrap_or_default();
        let unanswered = self.sender.unanswered_probes;
        let idle_ns = now_ns.saturating_sub(self.last_heard_ns);
        let is_dead = match self.options.user_timeout_ns {
            Some(timeout_ns) => idle_ns >= timeout_ns && unanswered > 0,
            None => unanswered >= probes,
        };
        if is_dead {
            // Unlike after data that was not acknowledged, the far end is told (`tcp_keepalive_timer`).
            self.is_reset_due = true;
            self.end(TcpError::TimedOut);
        } else {
            //= RFC 9293 3.8.4 MUST: one probe without an answer does not end a connection
            self.sender.unanswered_probes += 1;
            self.sender.is_window_probe_due = true;
        }
    }

    /// After any event: deadlines that follow from what can be sent now.
    #[inline]
    pub(crate) fn settle(&mut self, now_ns: u64) {
        if self.error.is_none() {
            let waits = self.sender.unsent_bytes() > 0 || self.sender.fin == super::sender::Fin::Wanted;
            let is_blocked = waits && self.sender.scoreboard.is_empty() && self.new_data().is_none();
            self.sender.update_persist(is_blocked, now_ns);
        }
    }
}
