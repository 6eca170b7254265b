//! What is known of the built-in profiles, in words: for the command and for the document that is
//! made of them.

use std::fmt::Write as _;

use super::document::Document;
use super::{BUILT_IN, Condition, CpuGroup, LeftOut, Verdict, Wish};
use crate::guide::escaped;

/// One built-in profile in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a few words.
    pub purpose: String,
}

/// The built-in profiles, each with what it is for: what `--profile` can be given.
#[must_use]
pub fn lines() -> Vec<Line> {
    documents().map(|(name, document)| Line { name, purpose: document.purpose }).collect()
}

/// The built-in profiles as they are written, not joined with what they extend. A test holds that
/// each can be read, so none is left out.
fn documents() -> impl Iterator<Item = (&'static str, Document)> {
    BUILT_IN.iter().filter_map(|(name, text)| Some((*name, Document::parse(name, text).ok()?)))
}

/// The document of all built-in profiles and of how to write one, in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    // Writing to a string cannot fail.
    for line in lines() {
        let _ = writeln!(text, "| [`{0}`](#{1}) | {2} |", line.name, anchor(line.name), escaped(&line.purpose));
    }
    let _ = write!(text, "{WRITING}\n```toml\n{EXAMPLE}```\n{KEYS}");
    for (word, group) in CpuGroup::NAMES {
        let _ = writeln!(text, "| `{word}` | {group} |");
    }
    for (name, document) in documents() {
        section(&mut text, name, &document);
    }
    text
}

/// A small profile that is complete.
const EXAMPLE: &str = include_str!("../../profiles/example.toml");

const HEAD: &str = "# Profiles

A profile says which values of [settings](settings.md) a host should have for one purpose, each with the reason and the
source. This file is generated from the tables in `crates/host/profiles`; after a change there,
`NEARWIRE_WRITE_DOCS=1 cargo test -p nearwire-host guide` writes it again.

Limits are one-sided: a value that is better than the limit is right and is never lowered. No profile wants a setting
that lowers security. Advice that depends on the host, or that Nearwire does not follow, stands below *left out* with the
reason. The `as-printed` profiles hold what five papers print, to the letter, and what a current kernel makes of it; they
are for comparison and not the best advice.

| profile | purpose |
|---|---|
";

const WRITING: &str = "
## How to write one

A profile is a TOML file whose name ends in `.toml`. This one is complete:
";

const KEYS: &str = "
A mistake is shown with file, line and what was expected there. Two wishes for one setting need conditions that cannot hold
together. What is left out is inherited too, as long as the profile says nothing itself about the setting.

`extends` takes a name or a list: `extends = [\"busy-poll\", \"site.toml\"]`; paths start from the file that names them. A
wish that several of them have counts once. Where two of them want different things of a setting, none of them wins: the
file must say what is wanted by a wish of its own, or leave the setting out by `without`, and is refused otherwise. Profiles
that extend one another in a circle are refused with the way round.

| key of a wish | meaning |
|---|---|
| `setting` | the id of the setting, without an interface |
| one of the operators below | what is wanted |
| `on` | of a setting that each CPU has: only these CPUs are judged |
| `or` | another setting that meets the wish too, with the same value as a text, or as `{ setting = ID, OPERATOR = VALUE }` |
| `reason`, `source` | why, in one sentence, and who says so |
| `weight` | `high` for microseconds or tails that nothing else explains, `medium` (also without the key), `low` |
| `when`, `unless` | conditions: the wish counts if all of `when` and none of `unless` hold |
| `printed` | the value as the source prints it, where that says more than what is wanted |
| `fix` | what to do, where the setting's own commands are not the best advice |
| `verdict`, `today` | what a current kernel makes of a printed value: `holds`, `no-effect`, `rejected`, `below-default` or `harmful`, and the same in a sentence |

| operator | what is wanted |
|---|---|
| `equal`, `one-of` | this value, one of these |
| `at-least`, `at-most` | a limit; of CPU lists the number of CPUs, of texts the numbers in them |
| `contains`, `lacks` | this word among the words of the value, none of these words |
| `absent = true` | nothing: not set, not installed, an empty list |
| `same-as` | the value of another setting |
| `at-least-of`, `at-most-of` | a limit that is the value of another setting |
| `cpus-equal`, `cpus-within`, `cpus-cover`, `cpus-apart-from` | CPUs in a relation to a list or group of CPUs |

| condition | holds if |
|---|---|
| `host = \"bare-metal\"`, `host = \"guest\"` | the host is no guest, is one |
| `kernel-at-least = \"6.13\"` | the kernel's version is this or later |
| `has = ID` | the host has this setting, whatever its value |
| `driver = [\"ice\", \"i40e\"]` | the interface has one of these drivers; for a setting of the host, some interface has |
| `cpu = \"AMD\"` | the name of the processor has this word |
| `nodes-at-least`, `packages-at-least`, `cpus-at-least` | there are as many memory nodes, processors, online CPUs |
| `isolated = true` | some CPU is isolated, now or by the plan |
| `plan = true` | a plan of CPUs was given |

| group of CPUs | meaning |
|---|---|
";

fn section(text: &mut String, name: &str, document: &Document) {
    let _ = writeln!(text, "\n## {name}\n\n{}.", escaped(&document.purpose));
    if !document.extends.is_empty() {
        let bases = document.extends.iter().map(|base| format!("[{0}](#{1})", base.name, anchor(&base.name)));
        let _ = write!(text, "\nIt has the wishes of {} too", bases.collect::<Vec<_>>().join(" and "));
        let without: Vec<_> = document.without.iter().map(|without| format!("`{}`", without.id)).collect();
        let without = if without.is_empty() { String::new() } else { format!(", without {}", without.join(", ")) };
        let _ = writeln!(text, "{without}.");
    }
    let is_printed = document.wishes.iter().any(|wish| wish.verdict != Verdict::Holds);
    let (title, line) = if is_printed { (" today |", "---|") } else { ("", "") };
    let _ = writeln!(text, "\n| setting | wanted | when | weight | why | source |{title}");
    let _ = writeln!(text, "|---|---|---|---|---|---|{line}");
    for wish in &document.wishes {
        row(text, wish, is_printed);
    }
    left_out(text, &document.left_out);
}

fn row(text: &mut String, wish: &Wish, is_printed: bool) {
    let fix = wish.fix.as_ref().map_or_else(String::new, |fix| format!(" {fix}"));
    let _ = write!(
        text,
        "| {} | {} | {} | {} | {} | {} |",
        link(wish.setting.id),
        wanted(wish),
        escaped(&conditions(&wish.when)),
        wish.weight.name(),
        escaped(&format!("{}{fix}", wish.reason)),
        escaped(&wish.source)
    );
    if is_printed {
        let today = wish.today.as_ref().map_or_else(String::new, |today| format!(": {today}"));
        let _ = write!(text, " {}{} |", wish.verdict.name(), escaped(&today));
    }
    text.push('\n');
}

fn wanted(wish: &Wish) -> String {
    let mut words = escaped(&wish.wanted.to_string());
    if let Some(group) = &wish.on {
        let _ = write!(words, ", judged on {group}");
    }
    match wish.alternative() {
        Some((other, _)) if wish.or_wanted.is_none() => {
            let _ = write!(words, "; or the same of {}", link(other.id));
        }
        Some((other, wanted)) => {
            let _ = write!(words, "; or {}: {}", link(other.id), escaped(&wanted.to_string()));
        }
        None => {}
    }
    words
}

/// Conditions in words, or `always`.
fn conditions(when: &[Condition]) -> String {
    if when.is_empty() {
        return "always".to_owned();
    }
    when.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn left_out(text: &mut String, left_out: &[LeftOut]) {
    if left_out.is_empty() {
        return;
    }
    text.push_str("\nLeft out:\n\n| setting | printed or heard | why not |\n|---|---|---|\n");
    for advice in left_out {
        let (printed, reason) = (escaped(&advice.printed), escaped(&advice.reason));
        let _ = writeln!(text, "| {} | {printed} | {reason} |", link(advice.setting.id));
    }
}

/// A setting and its place in the document of settings.
fn link(id: &str) -> String {
    format!("[`{id}`](settings.md#{})", id.replace('.', ""))
}

/// The anchor that Markdown viewers give to the heading of a profile.
fn anchor(name: &str) -> String {
    name.replace('/', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::tests::assert_document;
    use crate::profile::{Profile, names};

    #[test]
    fn guide_to_profiles_in_the_tree_is_that_of_the_tables() {
        assert_document("profiles.md", &markdown());
    }

    #[test]
    fn guide_has_every_built_in_profile_with_its_purpose() {
        let lines = lines();
        assert_eq!(lines.iter().map(|line| line.name).collect::<Vec<_>>(), names().collect::<Vec<_>>());
        assert!(lines.iter().all(|line| line.purpose.len() > 20 && !line.purpose.ends_with('.')), "{lines:?}");
    }

    #[test]
    fn example_in_the_guide_loads_and_replaces_what_it_inherits() {
        let example = Profile::parse("example.toml", EXAMPLE).unwrap();
        let of = |id: &str| example.wishes.iter().filter(|wish| wish.setting.id == id).collect::<Vec<_>>();
        let busy_poll = of("app.busy-poll");
        assert_eq!(busy_poll.len(), 1);
        assert_eq!(busy_poll[0].wanted.to_string(), "at least 100");
        assert_eq!(of("service.irqbalance").len(), 1);
        assert!(of("cpu.smt").is_empty());
        assert!(!of("cpu.governor").is_empty());
        assert_eq!(example.left_out.last().unwrap().setting.id, "vm.overcommit_memory");
        assert!(example.left_out.iter().any(|advice| advice.setting.id == "nic.ring.tx"));
    }

    #[test]
    fn alternative_with_a_value_of_its_own_is_told_apart_from_the_same_value() {
        let profile = Profile::load("latency").unwrap();
        let of = |id: &str| profile.wishes.iter().find(|wish| wish.setting.id == id).unwrap();
        assert!(
            wanted(of("cpu.isolated"))
                .ends_with("or the same of [`cpu.isolated.cgroup`](settings.md#cpuisolatedcgroup)")
        );
        assert!(wanted(of("cpu.dma-latency-us")).ends_with(": at most cpu.idle.c1-exit-us"));
    }
}
