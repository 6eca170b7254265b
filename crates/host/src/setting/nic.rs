//! How a setting of an interface is written and kept: what its row says for ethtool(8), `.link` files, tuned, the
//! order of writes and the way back.

use super::Stage;

/// The part of a row that only settings of interfaces have.
#[derive(Clone, Copy, Debug)]
pub struct NicWrite {
    /// The call of ethtool(8) that writes it.
    pub ethtool: Option<EthtoolCall>,
    /// Options of a `.link` file, `systemd.link(5)`: a name, or behind `=` how it words the value, which stands for
    /// `#`: `RxCoalesceSec=#us`.
    pub link: &'static [&'static str],
    /// The option of tuned's plug-in `net` (tuned 2.20) that has it.
    pub tuned: Option<&'static str>,
    /// When it is written, among other settings.
    pub stage: Stage,
    /// Whether the reset of a device may move it although nobody asked for it.
    pub is_moved_by_reset: bool,
    /// Why it is not written while the host runs.
    pub not_at_run_time: Option<&'static str>,
    /// Why no file keeps it.
    pub no_file: Option<&'static str>,
}

/// `ethtool FLAG IF WORD VALUE...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthtoolCall {
    /// What is written: `-C`.
    pub flag: &'static str,
    /// The words behind the interface that each have a value.
    pub words: &'static [&'static str],
    /// The value behind each word.
    pub values: WordValues,
}

/// What stands behind each word of a call when the setting shall have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordValues {
    /// The value itself: `on` or `off` for a switch, a number, a word.
    Same,
    /// The numbers between these pieces of the value.
    Between(&'static [&'static str]),
    /// `on` where the value has the word: `rx tx`.
    IfNamed,
    /// `on` where the value is this word.
    If(&'static str),
    /// Only `off` can be said, by this word.
    Off(&'static str),
}

impl NicWrite {
    /// Nothing but a file that is written when queues are the final ones.
    pub(crate) const NONE: Self = Self {
        ethtool: None,
        link: &[],
        tuned: None,
        stage: Stage::Queues,
        is_moved_by_reset: false,
        not_at_run_time: None,
        no_file: None,
    };

    /// The names of its options in a `.link` file.
    pub(crate) fn link_names(&self) -> impl Iterator<Item = &'static str> {
        self.link.iter().map(|option| option.split('=').next().unwrap_or(option))
    }
}

impl super::Setting {
    /// Written by `ethtool FLAG IF WORD VALUE`, the same value behind each word.
    pub(crate) const fn ethtool(self, flag: &'static str, words: &'static [&'static str]) -> Self {
        self.ethtool_of(flag, words, WordValues::Same)
    }

    /// Written by a call of ethtool with other values behind its words than the setting's.
    pub(crate) const fn ethtool_of(
        self,
        flag: &'static str,
        words: &'static [&'static str],
        values: WordValues,
    ) -> Self {
        Self { nic: NicWrite { ethtool: Some(EthtoolCall { flag, words, values }), ..self.nic }, ..self }
    }

    pub(crate) const fn link(self, link: &'static [&'static str]) -> Self {
        Self { nic: NicWrite { link, ..self.nic }, ..self }
    }

    pub(crate) const fn tuned(self, option: &'static str) -> Self {
        Self { nic: NicWrite { tuned: Some(option), ..self.nic }, ..self }
    }

    pub(crate) const fn stage(self, stage: Stage) -> Self {
        Self { nic: NicWrite { stage, ..self.nic }, ..self }
    }

    pub(crate) const fn moved_by_reset(self) -> Self {
        Self { nic: NicWrite { is_moved_by_reset: true, ..self.nic }, ..self }
    }

    pub(crate) const fn not_at_run_time(self, why: &'static str) -> Self {
        Self { nic: NicWrite { not_at_run_time: Some(why), ..self.nic }, ..self }
    }

    pub(crate) const fn no_file(self, why: &'static str) -> Self {
        Self { nic: NicWrite { no_file: Some(why), ..self.nic }, ..self }
    }
}
