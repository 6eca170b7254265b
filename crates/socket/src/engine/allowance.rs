//! How much of something that others can cause is done: so often at once, and so often over time.

/// See the module. Times are in any unit, and never go back.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u32,
    most: u32,
    /// Another one after so long.
    every: u64,
    /// What is left was counted at this time.
    counted: u64,
}

impl Allowance {
    /// `most` at once, and after that one in each span of `every`.
    pub(super) const fn new(most: u32, every: u64) -> Allowance {
        Allowance { left: most, most, every, counted: 0 }
    }

    /// Whether one is left.
    pub(super) fn is_left(&mut self, now: u64) -> bool {
        let gained = now.saturating_sub(self.counted) / self.every;
        self.counted += gained * self.every;
        self.left = self.most.min(self.left.saturating_add(u32::try_from(gained).unwrap_or(u32::MAX)));
        self.left > 0
    }

    /// Takes one, if one is left.
    pub(super) fn take(&mut self, now: u64) -> bool {
        let is_left = self.is_left(now);
        self.left -= u32::from(is_left);
        is_left
    }

    /// The one that was taken was not of the kind that is counted.
    pub(super) fn give_back(&mut self) {
        self.left = self.most.min(self.left + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_then_one_in_each_span() {
        let mut allowance = Allowance::new(3, 100);
        let taken = |allowance: &mut Allowance, now| (0..10).filter(|_| allowance.take(now)).count();
        assert_eq!([1000, 1050, 1100, 1199, 1350].map(|now| taken(&mut allowance, now)), [3, 0, 1, 0, 2]);
        assert_eq!(taken(&mut allowance, u64::MAX), 3);
        allowance.give_back();
        assert_eq!(taken(&mut allowance, u64::MAX), 1);
    }
}
