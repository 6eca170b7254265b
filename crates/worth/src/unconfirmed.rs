//! Values that stay for a run. In the journal they are a plan that nobody has confirmed: after `kill -9` neither `tune watch` nor the next
//! measurement takes it for something that is to stay, and `nearwire tune revert` puts it back.

use std::time::Duration;

use nearwire_host::change::ApplyOptions;
use nearwire_host::journal::unix_s;

/// Longer than any value stays without being put back.
const UNCONFIRMED: Duration = Duration::from_secs(3600);

/// How such a plan is applied; `name`: in place of a profile in the journal.
pub(crate) fn options(name: &str) -> ApplyOptions<'static> {
    let now = unix_s();
    let confirm_by_unix_s = Some(now + UNCONFIRMED.as_secs());
    ApplyOptions { confirm_by_unix_s, ..ApplyOptions::strict(now, Some(name.to_owned())) }
}
