//! The kernel's command line, by a file that `grub-mkconfig` sources behind `/etc/default/grub`.

use super::command_line::Word;
use super::form::Form;
use super::plan::{Entry, Plan};
use super::unit::After;
use super::{File, consistent, text};

pub(super) const PATH: &str = "/etc/default/grub.d/90-nearwire.cfg";

/// Takes words out of a line by the names of their options. `set -f`: a word may have a `*`.
const WITHOUT: &str = "\
nearwire_without() {
    nearwire_kept=
    case $- in *f*) nearwire_noglob=yes ;; *) nearwire_noglob=no ;; esac
    set -f
    for nearwire_word in $1; do
        case \" $nearwire_options \" in
        *\" ${nearwire_word%%=*} \"*) ;;
        *) nearwire_kept=\"$nearwire_kept$nearwire_word \" ;;
        esac
    done
    if [ \"$nearwire_noglob\" = no ]; then set +f; fi
}
";

pub(super) fn files(plan: &Plan<'_>) -> (Vec<File>, Vec<After>) {
    if plan.entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut file = text::header(
        plan.profile,
        "words for the kernel's command line, read by update-grub",
        &format!("rm {PATH}, then update-grub and reboot"),
    );
    file += &other_loaders(plan);
    file +=
        "\n# Words said here take the place of those with the same name, so that reading this twice changes nothing.\n";
    file += &format!("nearwire_options=\"{}\"\n{WITHOUT}nearwire_words=\n", options(plan).join(" "));
    file += &text::block(sorted(plan), |entry| match word(entry).and_then(|word| word.text.as_deref()) {
        Some(words) => format!("nearwire_words=\"$nearwire_words {words}\"\n"),
        None => "#   The option is taken out.\n".to_owned(),
    });
    file += "\
nearwire_without \"${GRUB_CMDLINE_LINUX_DEFAULT:-}\"
GRUB_CMDLINE_LINUX_DEFAULT=\"${nearwire_kept% }\"
nearwire_without \"${GRUB_CMDLINE_LINUX:-}\"
GRUB_CMDLINE_LINUX=\"$nearwire_kept${nearwire_words# }\"
";
    (vec![File::new(PATH, file)], vec![After::Run("update-grub"), After::Reboot])
}

fn word<'p>(entry: &'p Entry<'_>) -> Option<&'p Word> {
    match &entry.form {
        Form::Word(word) => Some(word),
        _ => None,
    }
}

/// A count of huge pages without a size is of the size that was said last, so the default size
/// comes first, its count next, and pools of other sizes last.
fn sorted<'p, 'a>(plan: &'p Plan<'a>) -> Vec<&'p Entry<'a>> {
    let mut entries: Vec<_> = plan.entries.iter().collect();
    entries.sort_by_key(|entry| match word(entry) {
        Some(Word { option: "default_hugepagesz", .. }) => 1,
        Some(Word { option: "hugepages", .. }) => 2,
        _ => 0,
    });
    entries
}

/// The words to be said, in order.
pub(super) fn said(plan: &Plan<'_>) -> Vec<String> {
    let entries = sorted(plan).into_iter().filter(|entry| entry.same_as.is_none());
    entries.filter_map(|entry| word(entry)?.text.clone()).collect()
}

/// The options that are to be gone.
pub(super) fn removed(plan: &Plan<'_>) -> Vec<&'static str> {
    let words = sorted(plan).into_iter().filter(|entry| entry.same_as.is_none()).filter_map(word);
    words.filter(|word| word.text.is_none()).map(|word| word.option).collect()
}

/// The names of all options that are said or are to be gone.
fn options(plan: &Plan<'_>) -> Vec<&'static str> {
    let mut options: Vec<_> = sorted(plan).into_iter().filter_map(word).map(|word| word.option).collect();
    if options.contains(&"hugepages") {
        options.push("hugepagesz");
    }
    options.sort_unstable();
    options.dedup();
    options
}

/// The same for boot loaders that do not read this file.
fn other_loaders(plan: &Plan<'_>) -> String {
    let (said, removed) = (said(plan).join(" "), removed(plan).join(" "));
    let grubby = format!(
        "grubby --update-kernel=ALL{}{}",
        if removed.is_empty() { String::new() } else { format!(" --remove-args='{removed}'") },
        if said.is_empty() { String::new() } else { format!(" --args='{said}'") },
    );
    let mut text = format!("#\n# Without GRUB's own files, instead of this one:\n#   Fedora, RHEL:  {grubby}\n");
    text += &format!("#   rpm-ostree:    {}\n", rpm_ostree(plan));
    if plan.command_line().is_none() {
        text += "#                  (the running command line is not known: take out other values of these options before)\n";
    }
    text += &format!(
        "#   systemd-boot:  in /etc/kernel/cmdline {}, then kernel-install or reinstall-kernels\n",
        cmdline(&said, &removed)
    );
    text
}

/// An option that is there with another value is deleted with that value, and then appended: `rpm-ostree kargs` skips
/// `--append-if-missing` where the option is there, and `--replace` wants it there exactly once.
fn rpm_ostree(plan: &Plan<'_>) -> String {
    let said = said(plan);
    let words: Vec<&str> = said.iter().flat_map(|text| text.split(' ')).filter(|word| !word.is_empty()).collect();
    let mut command = "rpm-ostree kargs".to_owned();
    let Some(running) = plan.command_line() else {
        for option in removed(plan) {
            command += &format!(" --delete-if-present={option}");
        }
        for word in words {
            command += &format!(" --append-if-missing={word}");
        }
        return command;
    };
    for option in options(plan) {
        for value in consistent::values(running, option) {
            let word = if value.is_empty() { option.to_owned() } else { format!("{option}={value}") };
            let is_plain = value.is_empty() || super::words::word(value).is_ok();
            if is_plain && !words.contains(&word.as_str()) {
                command += &format!(" --delete={word}");
            }
        }
    }
    let is_running =
        |word: &str| running.split_whitespace().take_while(|found| *found != "--").any(|found| found == word);
    for word in words.into_iter().filter(|word| !is_running(word)) {
        command += &format!(" --append={word}");
    }
    if command.ends_with("kargs") { "nothing, the running kernel has all of it".to_owned() } else { command }
}

fn cmdline(said: &str, removed: &str) -> String {
    match (said, removed) {
        (said, "") => format!("write {said}"),
        ("", removed) => format!("take out {removed}"),
        (said, removed) => format!("take out {removed} and write {said}"),
    }
}
