//! A playbook that lays down the files of the other formats. It needs no collection, changes
//! nothing the second time, and can be run with `--check`.

use std::fmt::Write;

use super::form::{Form, UnitState};
use super::pick::in_systemd;
use super::plan::Plan;
use super::unit::After;
use super::{File, grub, sysctl, systemd, text};

const PATH: &str = "/etc/ansible/nearwire.yml";

/// Commands that only one family of distributions has.
const FAMILIES: [(&str, &str); 3] =
    [("update-grub", "Debian"), ("update-initramfs -u", "Debian"), ("dracut --force", "RedHat")];

const REBOOT: &str = "Say that a reboot is needed";

pub(super) fn files(plan: &Plan<'_>) -> (Vec<File>, Vec<After>) {
    if plan.entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let parts = [
        systemd::files(&plan.only(|form| in_systemd(form, true))),
        sysctl::files(&plan.only(|form| matches!(form, Form::Sysctl(..)))),
        grub::files(&plan.only(|form| matches!(form, Form::Word(_)))),
    ];
    let mut playbook = text::header(plan.profile, "a playbook", "each file it lays down says in its first lines how");
    playbook += "# Look first: ansible-playbook --check --diff -i HOSTS nearwire.yml\n";
    playbook += "# Nothing is booted again by it; it says where that is needed.\n";
    playbook += "---\n- name: Settings of nearwire\n  hosts: all\n  become: true\n  tasks:\n";
    playbook += &directories(parts.iter().flat_map(|(files, _)| files));
    let mut notified: Vec<String> = Vec::new();
    for file in parts.iter().flat_map(|(files, _)| files) {
        let handlers = handlers_of(&file.path);
        playbook += &copy(file, &handlers);
        notified.extend(handlers);
    }
    playbook += &units(parts.iter().flat_map(|(_, after)| after));
    playbook += &grubby(&plan.only(|form| matches!(form, Form::Word(_))));
    playbook += &handlers(notified);
    (
        vec![File::new(PATH, playbook)],
        vec![After::Run("ansible-playbook --check --diff -i HOSTS /etc/ansible/nearwire.yml")],
    )
}

/// Directories that not each host has. With `--check` they may be missing when a file is looked at,
/// so files wait for them.
fn directories<'f>(files: impl Iterator<Item = &'f File>) -> String {
    let mut directories: Vec<_> = files.filter_map(|file| Some(file.path.rsplit_once('/')?.0)).collect();
    directories.sort_unstable();
    directories.dedup();
    let mut task = "    - name: Directories\n      ansible.builtin.file:\n        path: \"{{ item }}\"\n        state: directory\n".to_owned();
    task += "        owner: root\n        group: root\n        mode: \"0755\"\n      loop:\n";
    for directory in directories {
        let _ = writeln!(task, "        - {directory}");
    }
    task + "      register: nearwire_directories\n"
}

/// `!unsafe` keeps what looks like a template in the text from being one.
fn copy(file: &File, handlers: &[String]) -> String {
    let mut task = format!("    - name: {}\n      ansible.builtin.copy:\n        dest: {}\n", file.path, file.path);
    let _ = write!(
        task,
        "        owner: root\n        group: root\n        mode: \"{:04o}\"\n        content: !unsafe |\n",
        file.mode
    );
    for line in file.text.lines() {
        let _ = writeln!(task, "{}", format!("          {line}").trim_end());
    }
    let wait = "not (ansible_check_mode and nearwire_directories is changed)";
    if file.path == grub::PATH {
        let _ = write!(task, "      when:\n        - ansible_facts.os_family == 'Debian'\n        - {wait}\n");
    } else {
        let _ = writeln!(task, "      when: {wait}");
    }
    if !handlers.is_empty() {
        task += "      notify:\n";
        for handler in handlers {
            let _ = writeln!(task, "        - {handler}");
        }
    }
    task
}

/// What is to be run when a file has changed, by where it is.
fn handlers_of(path: &str) -> Vec<String> {
    let (directory, name) = path.rsplit_once('/').unwrap_or_default();
    let commands: &[&str] = match directory {
        "/etc/tmpfiles.d" => &["systemctl restart nearwire-tune.service"],
        "/etc/systemd/network" => &["udevadm control --reload", REBOOT],
        "/etc/systemd/system.conf.d" => &["systemctl daemon-reexec"],
        "/etc/modprobe.d" => &["update-initramfs -u", "dracut --force", REBOOT],
        "/etc/sysctl.d" => &["sysctl -p /etc/sysctl.d/90-nearwire.conf"],
        "/etc/default/grub.d" => &["update-grub", REBOOT],
        "/etc/systemd/system" if name.ends_with(".service") => return vec![format!("systemctl restart {name}")],
        "/etc/nearwire" => {
            return vec![format!(
                "systemctl restart {}",
                name.replacen("link-", "nearwire-link@", 1).replace(".conf", ".service")
            )];
        }
        _ => &[],
    };
    commands.iter().map(|&command| command.to_owned()).collect()
}

/// Handlers run in the order they are written in: what reads files anew comes before the units.
fn handlers(mut commands: Vec<String>) -> String {
    commands.sort_by_key(|command| (*command == REBOOT, command.starts_with("systemctl restart")));
    let mut text = String::new();
    for (at, command) in commands.iter().enumerate() {
        if commands[..at].contains(command) {
            continue;
        }
        let _ = writeln!(text, "    - name: {command}");
        if command == REBOOT {
            text += "      ansible.builtin.debug:\n        msg: Some settings count from the next boot.\n";
            continue;
        }
        let _ = write!(text, "      ansible.builtin.command: {command}\n      changed_when: true\n");
        if let Some((_, family)) = FAMILIES.iter().find(|(known, _)| known == command) {
            let _ = writeln!(text, "      when: ansible_facts.os_family == '{family}'");
        }
    }
    if text.is_empty() { text } else { format!("  handlers:\n{text}") }
}

/// Units of the host are looked for first: one that is not installed is as good as stopped. Our own
/// are not there yet with `--check`.
fn units<'a>(after: impl Iterator<Item = &'a After>) -> String {
    let units: Vec<_> = after
        .filter_map(|after| match after {
            After::Unit(unit, state) => Some((unit, *state)),
            _ => None,
        })
        .collect();
    if units.is_empty() {
        return String::new();
    }
    let mut tasks = "    - name: Units of the host\n      ansible.builtin.service_facts:\n".to_owned();
    for (unit, state) in units {
        let (run, words) = match state {
            UnitState::Enabled => ("started", "enabled: true"),
            UnitState::Disabled => ("stopped", "enabled: false"),
            UnitState::Masked => ("stopped", "masked: true"),
        };
        let _ = write!(tasks, "    - name: {unit} is {run}\n      ansible.builtin.systemd:\n        name: {unit}\n");
        let _ = write!(tasks, "        state: {run}\n        {words}\n        daemon_reload: true\n");
        let _ = match unit.starts_with("nearwire-") {
            true => writeln!(tasks, "      when: not ansible_check_mode"),
            false => writeln!(tasks, "      when: \"'{unit}' in ansible_facts.services\""),
        };
    }
    tasks
}

/// The command line where GRUB's own files are not read.
fn grubby(plan: &Plan<'_>) -> String {
    let (said, removed) = (grub::said(plan), grub::removed(plan));
    if said.is_empty() && removed.is_empty() {
        return String::new();
    }
    let mut task =
        "    - name: Command lines of the installed kernels\n      ansible.builtin.command: grubby --info=ALL\n"
            .to_owned();
    task += "      register: nearwire_kernels\n      changed_when: false\n      check_mode: false\n";
    task += "      when: ansible_facts.os_family == 'RedHat'\n";
    let mut conditions = Vec::new();
    let mut arguments = vec!["grubby".to_owned(), "--update-kernel=ALL".to_owned()];
    if !removed.is_empty() {
        arguments.push(format!("--remove-args={}", removed.join(" ")));
        conditions
            .extend(removed.iter().map(|option| format!("nearwire_kernels.stdout is search('[ \"]{option}[= \"]')")));
    }
    if !said.is_empty() {
        arguments.push(format!("--args={}", said.join(" ")));
        let words = said.iter().flat_map(|words| words.split(' '));
        conditions.extend(words.map(|word| format!("'{word}' not in nearwire_kernels.stdout")));
    }
    task += "    - name: Command line by grubby\n      ansible.builtin.command:\n        argv:\n";
    for argument in arguments {
        let _ = writeln!(task, "          - \"{argument}\"");
    }
    let _ = write!(
        task,
        "      when:\n        - ansible_facts.os_family == 'RedHat'\n        - >-\n          {}\n",
        conditions.join(" or\n          ")
    );
    task + "      notify:\n        - Say that a reboot is needed\n"
}
