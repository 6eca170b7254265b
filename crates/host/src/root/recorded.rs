//! What a snapshot says about itself: what was looked at, and what a file cannot hold.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Reading;

/// The description of a snapshot, for people and programs.
pub(crate) const MANIFEST: &str = "/nearwire/snapshot.json";
/// What the files of a snapshot cannot say.
pub(crate) const LOOKED_AT: &str = "/nearwire/looked-at.json";
/// The version of both.
pub(crate) const FORMAT: u32 = 1;
/// Where a link in a snapshot points whose name alone was seen.
pub(crate) const NOT_COPIED: &str = "not-copied";

/// The part of the manifest that decides whether the rest is understood.
#[derive(Debug, Deserialize)]
pub(super) struct Format {
    pub format: u32,
}

/// What was looked at beyond the files, by paths as they were asked for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct LookedAt {
    /// The snapshot was not taken of a host, but of a copy that may lack things.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_a_copy: bool,
    /// That copy's maker chose among the files of a directory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_a_selection: bool,
    /// Paths at which there was nothing; and on a host, so nothing below.
    pub absent: BTreeSet<String>,
    /// Files that are there and could not be read.
    pub unread: BTreeMap<String, Lack>,
    /// Directories whose names are all here.
    pub listed: BTreeSet<String>,
    /// Directories that could not be listed.
    pub unlisted: BTreeMap<String, Lack>,
    /// Files of which only so many bytes were copied.
    pub first_bytes: BTreeMap<String, u64>,
    /// Bytes of devices, by offset, both in hexadecimal.
    pub devices: BTreeMap<String, BTreeMap<String, DeviceBytes>>,
    /// Resolution of the coarse clock, nanoseconds: the length of a tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coarse_clock_resolution_ns: Option<u64>,
}

/// Why there is no value: one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Lack {
    /// The host does not have it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// Only a privileged user may read it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_root: bool,
    /// It failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a device answered at one offset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct DeviceBytes {
    /// In hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<Lack>,
}

impl Lack {
    /// The reading that stands for the missing value, if this is one.
    pub(crate) fn reading(&self) -> Option<Reading> {
        match self {
            Self { needs_root: true, .. } => Some(Reading::NeedsRoot),
            Self { unsupported: true, .. } => Some(Reading::Unsupported),
            Self { error: Some(why), .. } => Some(Reading::unknown(why)),
            _ => None,
        }
    }

    /// What to write for a reading that is no value.
    pub(crate) fn of(reading: &Reading) -> Self {
        match reading {
            Reading::Value(_) => Self::default(),
            Reading::Unsupported => Self { unsupported: true, ..Self::default() },
            Reading::NeedsRoot => Self { needs_root: true, ..Self::default() },
            Reading::Unknown { why } => Self { error: Some(why.clone()), ..Self::default() },
        }
    }
}

impl LookedAt {
    /// Whether it is known that there is nothing at a path.
    pub(super) fn is_absent(&self, path: &str) -> bool {
        if self.of_a_copy {
            return self.absent.contains(path);
        }
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| end > 0 && self.absent.contains(&path[..end]))
    }

    /// The bytes of a device.
    pub(super) fn device(&self, path: &str, offset: u64) -> Option<Result<Vec<u8>, Reading>> {
        let found = self.devices.get(path)?.get(&format!("{offset:#x}"))?;
        let bytes = found.bytes.as_deref().and_then(from_hex);
        let lack = || found.lack.as_ref().and_then(Lack::reading);
        let odd = || Reading::unknown(format!("{LOOKED_AT}: odd bytes of {path}"));
        Some(bytes.ok_or_else(|| lack().unwrap_or_else(odd)))
    }
}

/// Two digits a byte.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    if text.is_ascii() && text.len().is_multiple_of(2) { (0..text.len()).step_by(2).map(pair).collect() } else { None }
}
