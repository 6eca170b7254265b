//! Mean and standard deviation in one pass (Welford 1962): no cancellation, whatever the number of samples.

#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Sample standard deviation; needs two samples.
    pub(super) fn standard_deviation(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}
