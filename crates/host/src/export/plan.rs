//! Which goal takes which form in a format, and which are left out and why.

use super::command_line::Word;
use super::form::{Against, Form};
use super::interface::{is_plain, own_pci};
use super::{Format, LeftOut, Request, consistent, pick, words};
use crate::Goal;
use crate::change::rank;

/// A goal with the form it takes.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub goal: &'a Goal,
    /// The goal's id, with the interface in brackets.
    pub id: String,
    pub form: Form,
    /// An earlier entry that says the same thing.
    pub same_as: Option<String>,
}

impl Entry<'_> {
    /// The interface's name, which is a plain one; empty for a setting of the host.
    pub(super) fn interface(&self) -> &str {
        self.goal.interface.as_deref().unwrap_or_default()
    }
}

/// What a format will hold.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub profile: &'a str,
    pub entries: Vec<Entry<'a>>,
    pub left_out: Vec<LeftOut>,
    request: Request<'a>,
}

impl<'a> Plan<'a> {
    pub(super) fn make(format: Format, request: &Request<'a>) -> Self {
        let mut plan = Self { profile: request.profile, entries: Vec::new(), left_out: Vec::new(), request: *request };
        for goal in request.goals {
            match plan.entry(format, goal) {
                Ok(entry) => plan.entries.push(entry),
                Err(why) => plan.left_out.push(LeftOut { id: words::one_line(&goal.id()), why }),
            }
        }
        plan
    }

    /// The same request with the entries that a condition picks.
    pub(super) fn only(&self, is_picked: impl Fn(&Form) -> bool) -> Self {
        let entries = self.entries.iter().filter(|entry| is_picked(&entry.form)).cloned().collect();
        Self { entries, left_out: Vec::new(), ..*self }
    }

    /// The command line of the running kernel, where it is known.
    pub(super) fn command_line(&self) -> Option<&'a str> {
        self.request.command_line
    }

    /// The PCI address of an interface, where it tells it from all others.
    pub(super) fn own_pci(&self, interface: &str) -> Option<&'a str> {
        own_pci(self.request.interfaces, interface)
    }

    /// Where Nearwire's own program is, if a line of a unit can name it.
    pub(super) fn program(&self) -> Option<&'a str> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
        self.request.program.filter(|path| path.starts_with('/') && path.chars().all(is_plain))
    }

    /// The entries whose form gives something, with it.
    pub(super) fn having<'p, T>(
        &'p self,
        pick: impl Fn(&'p Form) -> Option<T>,
    ) -> impl Iterator<Item = (&'p Entry<'a>, T)> {
        self.entries.iter().filter_map(move |entry| Some((entry, pick(&entry.form)?)))
    }

    /// The entries of forms that a condition picks.
    pub(super) fn of(&self, is_picked: impl Fn(&Form) -> bool) -> Vec<&Entry<'a>> {
        self.entries.iter().filter(|entry| is_picked(&entry.form)).collect()
    }

    /// Those entries of an interface, in the order in which it is safe to write them: what resets the device comes
    /// before what a reset would undo.
    pub(super) fn in_order(&self, interface: &str, is_picked: impl Fn(&Form) -> bool) -> Vec<&Entry<'a>> {
        let mut entries = self.of(is_picked);
        entries.retain(|entry| entry.interface() == interface);
        entries.sort_by_key(|entry| rank(entry.goal.setting.id));
        entries
    }

    /// The interfaces of entries that a condition picks, each once, in order of their names.
    pub(super) fn interfaces(&self, is_picked: impl Fn(&Form) -> bool) -> Vec<&str> {
        let mut names: Vec<_> = self.of(is_picked).into_iter().map(Entry::interface).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn entry(&self, format: Format, goal: &'a Goal) -> Result<Entry<'a>, String> {
        check_interface(goal)?;
        let forms = pick::forms(goal)?;
        let has_pci = goal.interface.as_deref().is_some_and(|name| self.own_pci(name).is_some());
        let form = pick::pick(format, has_pci, &forms).ok_or_else(|| pick::elsewhere(format, &forms))?.clone();
        let form = match form {
            Form::Word(Word { option, text }) => {
                let text = text.map(|text| consistent::with_flags(option, &text, self.request.command_line));
                Form::Word(Word { option, text })
            }
            form => form,
        };
        let mut same_as = None;
        // What is said once for the whole host is said once for all interfaces.
        let is_of_host = matches!(form, Form::Word(_) | Form::Module(..));
        let beside = self.entries.iter().filter(|other| is_of_host || other.goal.interface == goal.interface);
        for other in beside {
            match other.form.against(&form) {
                Against::Other => {}
                Against::Same => same_as = Some(other.id.clone()),
                Against::Contradicts => {
                    return Err(format!("{} wants something else at the same place", other.id));
                }
            }
        }
        Ok(Entry { goal, id: goal.id(), form, same_as })
    }
}

fn check_interface(goal: &Goal) -> Result<(), String> {
    match (&goal.interface, goal.setting.is_of_interfaces() || goal.setting.id.starts_with("nic.")) {
        (None, true) => Err("it belongs to an interface, and none is named".to_owned()),
        (Some(_), false) => Err("it does not belong to an interface, but one is named".to_owned()),
        (Some(name), true) if !is_plain(name) => {
            Err("the name of the interface has characters that are not safe in a file that root runs".to_owned())
        }
        _ => Ok(()),
    }
}
