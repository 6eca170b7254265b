//! What a run would do, as text.

use nearwire_socket::preconditions::Candidate;
use nearwire_socket::program::{Judgement, Kind};
use nearwire_socket::reason::Reason;
use nearwire_sys::netdev::XdpFeatures;

use super::Prepared;

/// Of a program that starts as root.
const OTHER_USERS: &str = "processes of the program that change their user have shares as that user; if the agent is another one by then, its \
                           file of rights (/etc/nearwire/agent.toml) has to name them";

pub fn text(prepared: &Prepared<'_>) -> String {
    let mut text = String::new();
    let mut line = |label: &str, words: &str| text += &format!("{label:<14} {words}\n");
    for (number, words) in program(prepared).iter().enumerate() {
        line(if number == 0 { "program" } else { "" }, words);
    }
    line("library", &prepared.library.path.display().to_string());
    for (number, (words, origin)) in prepared.configuration.layered.lines().iter().enumerate() {
        line(if number == 0 { "configuration" } else { "" }, &format!("{words}  ({origin})"));
    }
    line("waiting", &prepared.waiting());
    for (number, candidate) in prepared.preconditions.interfaces.iter().enumerate() {
        line(if number == 0 { "interfaces" } else { "" }, &interface(candidate));
        if let Some(caution) = candidate.caution.as_ref().filter(|_| candidate.unmet.is_none()) {
            line("", &format!("CAREFUL: {caution}"));
        }
    }
    line("agent", &prepared.agent.words(prepared.would_start_agent()));
    if prepared.caller.effective_uid == 0 && (prepared.agent.is_serving() || prepared.would_start_agent()) {
        line("", OTHER_USERS);
    }
    match &prepared.preconditions.unmet[..] {
        [] => line("preconditions", "all met"),
        unmet => {
            for (number, unmet) in unmet.iter().enumerate() {
                line(if number == 0 { "preconditions" } else { "" }, &format!("NOT MET: {unmet}"));
            }
        }
    }
    if let Some(why) = &prepared.preconditions.no_times {
        line("", &format!("{}: {why}", super::WITHOUT_TIMES));
    }
    let filters = &prepared.preconditions.filters;
    let found = filters.found.iter().map(|filter| format!("bypassed: {filter}"));
    let words = found.chain(filters.unknown.iter().map(|unknown| format!("not known: {unknown}")));
    for (number, words) in words.enumerate() {
        line(if number == 0 { "packet filters" } else { "" }, &words);
    }
    line("would execute", &executed(prepared));
    text
}

fn program(prepared: &Prepared<'_>) -> Vec<String> {
    let program = &prepared.program;
    let mut lines = vec![program.path.display().to_string()];
    lines.extend(program.interpreters.iter().map(|interpreter| format!("interpreted by {}", interpreter.display())));
    lines.push(match &program.kind {
        Kind::Elf(facts) => {
            let linked = match &facts.interpreter {
                Some(loader) => format!("dynamically linked, loaded by {loader}"),
                None => "statically linked".to_owned(),
            };
            format!("{}, {linked}{}", facts.machine_words(), if facts.is_go { ", built by Go" } else { "" })
        }
        Kind::BrokenElf(error) => error.to_string(),
        Kind::Unreadable(error) => format!("cannot be read: {error}"),
    });
    if let Some((_, words)) = program.privileges.secure_mode(&prepared.caller) {
        lines.push(words);
    }
    match &prepared.judgement {
        Judgement::Fine => lines.push("can be preloaded".to_owned()),
        Judgement::Doubtful(why) if prepared.config().strict => lines.push(format!("REFUSED, as strict is set: {why}")),
        Judgement::Doubtful(why) => lines.push(format!("CAREFUL: {why}")),
        Judgement::Refused(why) => lines.push(format!("REFUSED: {why}")),
    }
    lines
}

fn interface(candidate: &Candidate) -> String {
    let name = &candidate.name;
    if let Some(unmet) = &candidate.unmet {
        let advice = if unmet.reason == Reason::HiddenVlanTags { format!("; {}", unmet.advice) } else { String::new() };
        return format!("{name}: no: {}{advice}", unmet.found);
    }
    let Some(facts) = &candidate.facts else { return format!("{name}: no") };
    let native = match candidate.features {
        Some(features) if features.contains(XdpFeatures::XSK_ZEROCOPY) => "native XDP with zero copy",
        Some(features) if features.contains(XdpFeatures::BASIC) => "native XDP",
        Some(_) => "generic XDP only",
        None => "generic XDP; the kernel does not report native XDP",
    };
    let link = if facts.carrier { "" } else { ", no link" };
    let tried = candidate.tried.as_ref().map_or_else(String::new, |words| format!("; tried: {words}"));
    format!("{name}: usable, {}, {} queues, {native}{link}{tried}", facts.driver, facts.rx_queues)
}

/// The command as a shell would take it.
fn executed(prepared: &Prepared<'_>) -> String {
    if matches!(prepared.judgement, Judgement::Refused(_)) {
        return "nothing: the program is refused".to_owned();
    }
    if let Some(why) = prepared.refusal() {
        return format!("nothing: {}", why.lines().next().unwrap_or_default().trim_end_matches(':'));
    }
    let variables =
        prepared.variables.iter().map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy())));
    let words = std::iter::once(prepared.program.path.to_string_lossy());
    let words = words.chain(prepared.args.program.iter().skip(1).map(|word| word.to_string_lossy()));
    variables.chain(words.map(|word| quoted(&word))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
