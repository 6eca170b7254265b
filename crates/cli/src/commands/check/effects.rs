//! What settings were worth on this kind of host: the results of `nearwire tune measure`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use nearwire_host::check::Finding;
use nearwire_host::{catalogue, read_settings};
use nearwire_worth::Figure;
use nearwire_worth::result::Worth;
use nearwire_worth::store::{DEFAULT_DIRECTORY, Known, Store, device};
use nearwire_worth::verdict::Effect;
use nearwire_worth::words::effect_in_words;
use serde_json::{Value, json};

use crate::args::check::CheckArgs;
use crate::commands::selection::Selection;

/// Results for this host.
#[derive(Default)]
pub(super) struct Effects {
    store: Store,
    /// Driver and device of each interface.
    devices: BTreeMap<String, (String, String)>,
}

impl Effects {
    /// Those of this host; a copy of another one has none.
    pub(super) fn open(selection: &Selection, args: &CheckArgs) -> Self {
        let directory = args.results.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY));
        if !args.selection.root.is_live() || !directory.exists() {
            return Self::default();
        }
        let store = Store::open(&directory, &selection.root);
        let devices = catalogue::setting("nic.driver").map(|driver| {
            let readings = read_settings(&selection.root, &[driver], &selection.interfaces);
            let of = |(id, reading): (String, nearwire_host::Reading)| {
                let interface = id.split_once('[')?.1.trim_end_matches(']').to_owned();
                let nic = device(&selection.root, &interface);
                Some((interface, (reading.as_value()?.to_owned(), nic)))
            };
            readings.into_iter().filter_map(of).collect()
        });
        Self { store, devices: devices.unwrap_or_default() }
    }

    fn of(&self, finding: &Finding) -> Option<&Known> {
        let device = match &finding.interface {
            Some(interface) => Some(self.devices.get(interface)?),
            None => None,
        };
        let device = device.map(|(driver, nic)| (driver.as_str(), nic.as_str()));
        self.store.of(finding.wish.setting.id, device).map(|(_, known)| known)
    }

    /// Differences by what they gain: measured gains first, then what was not measured by weight, then what has no effect or a
    /// bad one.
    pub(super) fn sort(&self, findings: &mut [Finding]) {
        let differing = findings.iter().take_while(|finding| finding.outcome.is_difference()).count();
        let key = |finding: &Finding| match self.of(finding).map(|known| known.worth("").median_gain_ns()) {
            None => (1, 0.0),
            Some(Some(gain_ns)) if gain_ns > 0.0 => (0, -gain_ns),
            Some(None) => (2, 0.0),
            Some(Some(loss_ns)) => (3, -loss_ns),
        };
        findings[..differing].sort_by(|one, other| {
            let (one, other) = (key(one), key(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
    }

    /// What was measured of a finding's setting, in words.
    pub(super) fn in_words(&self, finding: &Finding) -> Option<String> {
        let known = self.of(finding)?;
        let worth = known.worth(finding.wish.setting.id);
        let when = day(known.unix_s);
        let told = sure(&worth);
        if told.is_empty() {
            let subjects: Vec<&str> = known.on.iter().map(|on| on.subject.as_str()).collect();
            let what = if worth.is_noise() { "no effect was larger than the noise" } else { "no effect measured" };
            return Some(format!(
                "{what} on this host ({} -> {}; {}; {when})",
                known.from,
                known.to,
                subjects.join(", ")
            ));
        }
        let each = |(subject, effect): &(&str, &Effect)| {
            format!("{subject} {} {}", effect.figure.name(), effect_in_words(effect))
        };
        let told: Vec<String> = told.iter().map(each).collect();
        Some(format!("{} ({} -> {}; {when})", told.join("; "), known.from, known.to))
    }

    pub(super) fn json(&self, finding: &Finding) -> Option<Value> {
        let known = self.of(finding)?;
        let gain_ns = known.worth("").median_gain_ns();
        Some(
            json!({"unix_s": known.unix_s, "from": known.from, "to": known.to, "p50_gain_ns": gain_ns, "on": known.on}),
        )
    }
}

/// Effects of the latencies that are sure.
fn sure(worth: &Worth) -> Vec<(&str, &Effect)> {
    let of = worth.on.iter().flat_map(|on| on.effects.iter().map(|effect| (on.subject.as_str(), effect)));
    of.filter(|(_, effect)| effect.verdict.is_effect() && effect.figure != Figure::CpuPerMessageNs).collect()
}

fn day(unix_s: u64) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix_s)).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}
