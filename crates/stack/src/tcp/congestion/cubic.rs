//! CUBIC (RFC 9438): between two congestions the window follows a cubic function of time, around the window of the last one.

use super::Progress;

/// How fast the function grows (RFC 9438 section 5).
const C: f64 = 0.4;
/// What is left of the window after congestion (section 4.6).
const BETA: f64 = 0.7;
/// What Reno's window grows by in a round trip, to be on average as large as one that is multiplied by [`BETA`] (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
const NS_PER_SECOND: f64 = 1e9;

/// Windows are counted in segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cubic {
    /// W_max.
    last_most: f64,
    /// cwnd_prior: the window before the last congestion.
    before: f64,
    epoch: Option<Epoch>,
}

/// Congestion avoidance since the last congestion.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start_ns: u64,
    /// K: seconds until the window is as it was.
    until_most: f64,
    /// W_est.
    reno: f64,
}

impl Cubic {
    /// The window after new data was acknowledged in congestion avoidance, bytes.
    pub(crate) fn grown_bytes(&mut self, window_bytes: u32, segment_bytes: u32, progress: Progress) -> u32 {
        let segment = f64::from(segment_bytes.max(1));
        let window = f64::from(window_bytes) / segment;
        let acknowledged = f64::from(progress.bytes) / segment;
        if self.last_most < window && self.epoch.is_none() {
            self.last_most = window;
        }
        let last_most = self.last_most;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start_ns: progress.now_ns,
            until_most: ((last_most - window).max(0.0) / C).cbrt(),
            reno: window,
        });
        let alpha = if epoch.reno >= self.before { 1.0 } else { ALPHA };
        epoch.reno += alpha * acknowledged / window.max(1.0);
        let elapsed = progress.now_ns.saturating_sub(epoch.start_ns) as f64 / NS_PER_SECOND;
        let at = |seconds: f64| C * (seconds - epoch.until_most).powi(3) + last_most;
        let grown = if at(elapsed) < epoch.reno {
            //= RFC 9438 4.3 MUST: where Reno's window would be larger, that is the window
            epoch.reno.max(window)
        } else {
            //= RFC 9438 4.4 MUST: the target is the function a round trip from now, between the window and half as much more
            let ahead = elapsed + progress.smoothed_ns as f64 / NS_PER_SECOND;
            let target = at(ahead).clamp(window, 1.5 * window);
            window + (target - window) / window.max(1.0) * acknowledged
        };
        (grown * segment).min(f64::from(u32::MAX / 4)) as u32
    }

    /// The threshold after congestion, bytes.
    pub(crate) fn reduced_bytes(&mut self, window_bytes: u32, segment_bytes: u32) -> u32 {
        let window = f64::from(window_bytes) / f64::from(segment_bytes.max(1));
        // Fast convergence (section 4.7): a flow whose window shrinks leaves room to others.
        self.last_most = if window < self.last_most { window * (1.0 + BETA) / 2.0 } else { window };
        self.before = window;
        self.epoch = None;
        //= RFC 9438 4.6 MUST: congestion leaves seven tenths of the window
        (f64::from(window_bytes) * BETA) as u32
    }

    /// The time without data is not counted (section 5.8: the function must not have grown meanwhile).
    pub(crate) const fn restart(&mut self) {
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1000;
    const MS: u64 = 1_000_000;

    fn round(cubic: &mut Cubic, window_bytes: u32, now_ns: u64, smoothed_ns: u64) -> u32 {
        let progress = Progress { bytes: window_bytes, in_flight_bytes: window_bytes, now_ns, smoothed_ns };
        cubic.grown_bytes(window_bytes, SEGMENT, progress)
    }

    //= test RFC 9438 4.4
    //= test RFC 9438 4.6
    #[test]
    fn window_reaches_the_last_one_after_the_time_of_the_function_and_then_grows_faster() {
        let mut cubic = Cubic::default();
        let threshold_bytes = cubic.reduced_bytes(1_000_000, SEGMENT);
        assert_eq!(threshold_bytes, 700_000);
        // K = cbrt(300 / 0.4) = 9.1 s.
        let (mut window_bytes, mut now_ns) = (threshold_bytes, 0);
        let mut at_second = Vec::new();
        for n in 0..200 {
            if n % 10 == 0 {
                at_second.push(window_bytes / SEGMENT);
            }
            window_bytes = round(&mut cubic, window_bytes, now_ns, 100 * MS);
            now_ns += 100 * MS;
        }
        assert!(at_second[1] > 770, "steep first: {at_second:?}");
        assert!((990..=1001).contains(&at_second[9]), "as before after 9 s: {at_second:?}");
        assert!(at_second[18] > 1250, "beyond it after 18 s: {at_second:?}");
        assert!(at_second.is_sorted());
    }

    //= test RFC 9438 4.3
    #[test]
    fn window_on_a_short_path_grows_as_renos() {
        let mut cubic = Cubic::default();
        let mut window_bytes = cubic.reduced_bytes(20_000, SEGMENT);
        for n in 0..100 {
            window_bytes = round(&mut cubic, window_bytes, n * MS / 10, MS / 10);
        }
        // 100 rounds: more than half a segment each until 20, then one.
        assert!((90_000..110_000).contains(&window_bytes), "{window_bytes}");
    }
}
