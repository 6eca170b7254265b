//! The counters that a driver keeps under names of its own.

use super::layout::{GetStatisticNames, GetStatistics, GetStringSetInfo, STATISTICS_MAX, STRING_SET_STATISTICS, text};
use super::{EthtoolError, Interface};

impl Interface {
    /// The driver's counters with their names (`ETHTOOL_GSTATS`, with names by `ETHTOOL_GSTRINGS`); none where there are
    /// more than [`STATISTICS_MAX`]. A device with many queues has thousands, so this takes long.
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn statistics(&self) -> Result<Vec<(String, u64)>, EthtoolError> {
        let info: GetStringSetInfo = self.ask(|request: &mut GetStringSetInfo| {
            request.sset_mask = 1 << STRING_SET_STATISTICS;
        })?;
        let count = if info.sset_mask == 0 { 0 } else { info.data[0] };
        let fits = usize::try_from(count).is_ok_and(|count| (1..=STATISTICS_MAX).contains(&count));
        if !fits {
            return Ok(Vec::new());
        }
        let names: GetStatisticNames = self.ask(|request: &mut GetStatisticNames| {
            (request.string_set, request.len) = (STRING_SET_STATISTICS, count);
        })?;
        let found: GetStatistics = self.ask(|request: &mut GetStatistics| request.n_stats = count)?;
        let named = names.data.iter().map(|name| text(name)).zip(found.data);
        Ok(named.take(count.min(found.n_stats) as usize).collect())
    }
}
