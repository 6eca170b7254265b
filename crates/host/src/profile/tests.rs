//! The reader: what it accepts, and that each mistake is shown where it was made.

mod advice;
mod built_in;

use std::fs;

use proptest::prelude::*;

use super::*;

/// The lines of a wish that has everything it needs, `setting` and what is wanted first.
fn wish(lines: &str) -> String {
    format!("purpose = \"p\"\n[[wish]]\n{lines}\nreason = \"r\"\nsource = \"s\"\n")
}

fn message(text: &str) -> String {
    match Profile::parse("mine.toml", text) {
        Ok(profile) => panic!("no mistake found in {text}: {profile:?}"),
        Err(error) => error.to_string(),
    }
}

/// What the message must begin with, and parts that must be in it.
#[track_caller]
fn assert_mistake(text: &str, line: usize, parts: &[&str]) {
    let message = message(text);
    assert!(message.starts_with(&format!("mine.toml:{line}: ")), "{message}\nof {text}");
    for part in parts {
        assert!(message.contains(part), "no {part} in: {message}\nof {text}");
    }
}

#[test]
fn text_that_is_not_toml_is_shown_with_its_line() {
    assert_mistake("purpose = \"p\"\nwish = [", 2, &["not TOML"]);
    assert_mistake("purpose = \"p\"\npurpose = \"q\"\n", 2, &["not TOML", "duplicate"]);
}

#[test]
fn key_that_profiles_do_not_have_is_shown_with_those_they_have() {
    assert_mistake("purpose = \"p\"\nextend = \"latency\"\n", 2, &["no key 'extend'", "extends", "left-out"]);
    let text = wish("setting = \"cpu.governor\"\nequals = \"performance\"");
    assert_mistake(&text, 4, &["no key 'equals'", "equal", "at-least"]);
    let text = wish("setting = \"cpu.turbo\"\nequal = true\nwhen = { hosts = \"guest\" }");
    assert_mistake(&text, 5, &["no key 'hosts'", "kernel-at-least", "host"]);
    let text = wish(
        "setting = \"cpu.turbo\"\nequal = true\nor = { setting = \"boot.nosmt\", equal = true, weight = \"low\" }",
    );
    assert_mistake(&text, 5, &["no key 'weight'"]);
    let text =
        "purpose = \"p\"\n\n[[left-out]]\nsetting = \"cpu.turbo\"\nprinted = \"x\"\nreason = \"y\"\nauthor = \"z\"\n";
    assert_mistake(text, 7, &["no key 'author'", "setting, printed, reason, source"]);
}

#[test]
fn key_that_is_missing_is_shown_with_what_belongs_there() {
    assert_mistake("extends = \"latency\"\n", 1, &["'purpose' is missing", "a sentence"]);
    let text = "purpose = \"p\"\n\n[[wish]]\nsetting = \"cpu.turbo\"\nequal = true\nsource = \"s\"\n";
    assert_mistake(text, 3, &["'reason' is missing", "a sentence that says why"]);
    let text = "purpose = \"p\"\n\n[[wish]]\nsetting = \"cpu.turbo\"\nequal = true\nreason = \"r\"\n";
    assert_mistake(text, 3, &["'source' is missing"]);
    let text = "purpose = \"p\"\n\n[[wish]]\nequal = true\nreason = \"r\"\nsource = \"s\"\n";
    assert_mistake(text, 3, &["'setting' is missing", "id of a setting"]);
    let text = "purpose = \"p\"\n\n[[left-out]]\nsetting = \"cpu.turbo\"\nreason = \"r\"\n";
    assert_mistake(text, 3, &["'printed' is missing"]);
    let text = wish("setting = \"cpu.turbo\"\nequal = true\nverdict = \"harmful\"");
    assert_mistake(&text, 2, &["'today' is missing", "current kernel"]);
}

#[test]
fn value_of_the_wrong_type_is_shown_with_the_type_expected() {
    let rows: &[(&str, usize, &[&str])] = &[
        ("setting = \"cpu.turbo\"\nequal = \"on\"", 4, &["equal = \"on\"", "true or false"]),
        ("setting = \"cpu.turbo\"\nequal = 1", 4, &["true or false"]),
        ("setting = \"net.core.busy_poll\"\nequal = true", 4, &["a number (us)"]),
        ("setting = \"net.core.busy_poll\"\nequal = 1.5", 4, &["a number (us)"]),
        ("setting = \"net.core.busy_poll\"\nequal = 0x10", 4, &["a number (us)"]),
        ("setting = \"cpu.threads\"\nat-least = \"many\"", 4, &["a number"]),
        ("setting = \"nic.driver\"\nequal = true", 4, &["text in quotes"]),
        ("setting = \"nic.driver\"\nequal = \"\"", 4, &["text in quotes"]),
        ("setting = \"nic.driver\"\none-of = \"ice\"", 4, &["a list of values"]),
        ("setting = \"nic.driver\"\none-of = []", 4, &["a list of values"]),
        ("setting = \"nic.driver\"\nlacks = []", 4, &["words in quotes"]),
        ("setting = \"nic.driver\"\nlacks = [\"a b\"]", 4, &["one word in quotes"]),
        ("setting = \"nic.driver\"\ncontains = 7", 4, &["one word in quotes"]),
        ("setting = \"nic.driver\"\nabsent = false", 4, &["absent = false", "true"]),
        ("setting = 7\nequal = true", 3, &["setting = 7", "text in quotes"]),
        ("setting = \"cpu.turbo\"\nequal = true\nwhen = \"guest\"", 5, &["when = \"guest\"", "a table such as"]),
        ("setting = \"cpu.turbo\"\nequal = true\nunless = true", 5, &["unless = true", "a table such as"]),
        ("setting = \"cpu.turbo\"\nequal = true\nwhen = { host = \"cloud\" }", 5, &["bare-metal", "guest"]),
        ("setting = \"cpu.turbo\"\nequal = true\nwhen = { plan = false }", 5, &["plan = false", "true"]),
        ("setting = \"cpu.turbo\"\nequal = true\nwhen = { cpus-at-least = \"4\" }", 5, &["a number"]),
        ("setting = \"cpu.turbo\"\nequal = true\nwhen = { driver = [] }", 5, &["driver = []", "texts in quotes"]),
        ("setting = \"cpu.turbo\"\nequal = true\nweight = \"heavy\"", 5, &["high, medium, low"]),
        ("setting = \"cpu.turbo\"\nequal = true\nverdict = \"bad\"", 5, &["holds", "below-default"]),
        ("setting = \"cpu.turbo\"\nequal = true\ntoday = \"So it is.\"", 5, &["a verdict beside it"]),
        ("setting = \"cpu.turbo\"\nequal = true\nfix = 3", 5, &["fix = 3", "text in quotes"]),
        ("setting = \"cpu.turbo\"\nequal = true\nor = 3", 5, &["or = 3", "text in quotes"]),
    ];
    for (lines, line, parts) in rows {
        assert_mistake(&wish(lines), *line, parts);
    }
    assert_mistake("purpose = \"p\"\nwish = 3\n", 2, &["tables that begin with [[wish]]"]);
    assert_mistake("purpose = \"p\"\nwish = [3]\n", 2, &["tables that begin with [[wish]]"]);
    assert_mistake("purpose = 3\n", 1, &["text in quotes"]);
    assert_mistake("purpose = \"p\"\nwithout = 3\n", 2, &["without = 3", "text in quotes"]);
}

#[test]
fn word_that_the_setting_does_not_have_is_shown_with_those_it_has() {
    let governor = wish("setting = \"cpu.governor\"\nequal = \"preformance\"");
    assert_mistake(&governor, 4, &["\"preformance\"", "one of performance, powersave"]);
    let one_of = wish("setting = \"cpu.smt\"\none-of = [\n  \"off\",\n  \"of\",\n]");
    assert_mistake(&one_of, 6, &["\"of\"", "forceoff"]);
    let lacks = wish("setting = \"nic.fec\"\nlacks = [\"reed-solomon\"]");
    assert_mistake(&lacks, 4, &["reed-solomon", "baser"]);
}

#[test]
fn setting_that_does_not_exist_is_shown_with_near_ids() {
    let text = wish("setting = \"cpu.govenor\"\nequal = \"performance\"");
    assert_mistake(&text, 3, &["no setting 'cpu.govenor'", "near it: cpu.governor", "nearwire settings"]);
    let text = wish("setting = \"xyzzy.plugh\"\nequal = 1");
    assert_mistake(&text, 3, &["no setting 'xyzzy.plugh'; nearwire settings"]);
    let text = wish("setting = \"nic.pcie.width\"\nsame-as = \"nic.pcie.widths\"");
    assert_mistake(&text, 4, &["no setting 'nic.pcie.widths'", "nic.pcie.width"]);
    let text = wish("setting = \"cpu.turbo\"\nequal = true\nor = \"cpu.trubo\"");
    assert_mistake(&text, 5, &["no setting 'cpu.trubo'", "cpu.turbo"]);
    let text = wish("setting = \"cpu.turbo\"\nequal = true\nwhen = { has = \"cpu.trubo\" }");
    assert_mistake(&text, 5, &["no setting 'cpu.trubo'"]);
    let text = "purpose = \"p\"\nextends = \"latency\"\nwithout = [\n  \"cpu.smt\",\n  \"cpu.smd\",\n]\n";
    assert_mistake(text, 5, &["no setting 'cpu.smd'", "cpu.smt"]);
}

#[test]
fn wish_without_operator_or_with_two_is_shown_with_all_of_them() {
    assert_mistake(&wish("setting = \"cpu.threads\""), 2, &["exactly one of equal", "found none"]);
    let two = wish("setting = \"cpu.threads\"\nat-least = 1\nat-most = 4");
    assert_mistake(&two, 2, &["exactly one of", "found at-least and at-most"]);
    let none = wish("setting = \"cpu.turbo\"\nequal = true\nor = { setting = \"boot.nosmt\" }");
    assert_mistake(&none, 5, &["found none"]);
}

#[test]
fn operator_without_meaning_for_the_setting_is_shown_with_those_that_have_one() {
    let rows: &[(&str, &[&str])] = &[
        ("setting = \"cpu.turbo\"\nat-least = 1", &["at-least does not fit cpu.turbo", "on or off", "equal, absent"]),
        ("setting = \"cpu.governor\"\nat-most = 1", &["at-most does not fit cpu.governor", "contains"]),
        ("setting = \"cpu.threads\"\ncontains = \"4\"", &["contains does not fit cpu.threads", "at-least"]),
        ("setting = \"nic.driver\"\ncpus-within = \"0\"", &["cpus-within does not fit nic.driver", "text"]),
        ("setting = \"cpu.isolated\"\nlacks = \"0\"", &["lacks does not fit cpu.isolated", "cpus-..."]),
    ];
    for (lines, parts) in rows {
        assert_mistake(&wish(lines), 4, parts);
    }
}

#[test]
fn cpu_list_that_is_none_is_shown_with_the_words_for_groups() {
    let list = wish("setting = \"cpu.isolated\"\nequal = \"2-\"");
    assert_mistake(&list, 4, &["\"2-\"", "a CPU list such as \"0-3,8\""]);
    let number = wish("setting = \"cpu.isolated\"\nequal = 2");
    assert_mistake(&number, 4, &["a CPU list in quotes"]);
    for bad in ["\"2-\"", "\"\"", "2", "\"${plan.apps}\""] {
        let group = wish(&format!("setting = \"cpu.isolated\"\ncpus-within = {bad}"));
        assert_mistake(&group, 4, &["a CPU list in quotes or one of", "${plan.app}", "${nic.node}"]);
    }
    let on = wish("setting = \"cpu.governor\"\nequal = \"performance\"\non = \"all\"");
    assert_mistake(&on, 5, &["on = \"all\"", "${host.online}"]);
}

#[test]
fn wish_that_lowers_security_is_refused() {
    let wishes = [
        "setting = \"boot.mitigations\"\nequal = \"off\"",
        "setting = \"service.selinux\"\nequal = \"disabled\"",
        "setting = \"firmware.execute-disable\"\nequal = false",
        "setting = \"cpu.mitigations\"\nabsent = true",
        "setting = \"stack.packet-filters\"\nequal = \"none\"",
    ];
    for lines in wishes {
        assert_mistake(&wish(lines), 2, &["can lower security", "[[left-out]]"]);
    }
    let safe = Profile::parse("mine.toml", &wish("setting = \"firmware.execute-disable\"\nequal = true"));
    assert_eq!(safe.unwrap().wishes.len(), 1);
}

#[test]
fn alternative_that_lowers_security_is_refused() {
    let same = wish("setting = \"boot.nosmt\"\nequal = true\nor = \"boot.selinux\"");
    assert_mistake(&same, 5, &["boot.selinux can lower security"]);
    let own = wish("setting = \"boot.nosmt\"\nequal = true\nor = { setting = \"boot.mitigations\", equal = \"off\" }");
    assert_mistake(&own, 5, &["boot.mitigations can lower security"]);
}

#[test]
fn alternative_of_another_kind_needs_a_value_of_its_own() {
    let text = wish("setting = \"service.irqbalance\"\nlacks = \"running\"\nor = \"service.irqbalance.banned-cpus\"");
    assert_mistake(&text, 5, &["or", "a setting whose value is text", "{ setting ="]);
}

#[test]
fn setting_that_is_wanted_twice_without_conditions_is_shown_at_the_second() {
    let one = "setting = \"cpu.threads\"\nat-least = 1\nreason = \"r\"\nsource = \"s\"\n";
    let twice = |when: &str| format!("purpose = \"p\"\n[[wish]]\n{one}when = {{ plan = true }}\n[[wish]]\n{one}{when}");
    assert_mistake(&twice(""), 8, &["cpu.threads is wanted twice", "expected one wish"]);
    assert!(Profile::parse("mine.toml", &twice("unless = { plan = true }\n")).is_ok());
}

#[test]
fn limit_or_version_without_numbers_is_shown() {
    let text = wish("setting = \"kernel.release\"\nat-least = \"the newest\"");
    assert_mistake(&text, 4, &["at-least = \"the newest\"", "a number", "a version"]);
    let text = wish("setting = \"cpu.turbo\"\nequal = true\nwhen = { kernel-at-least = \"six\" }");
    assert_mistake(&text, 5, &["kernel-at-least = \"six\"", "such as \"6.12\""]);
}

#[test]
fn wish_that_is_left_out_but_not_inherited_is_shown_with_the_base() {
    let text = "purpose = \"p\"\nextends = \"latency\"\nwithout = [\n  \"cpu.smt\",\n  \"cpu.model\",\n]\n";
    assert_mistake(text, 5, &["without = \"cpu.model\"", "latency wants something"]);
    assert_mistake("purpose = \"p\"\nwithout = \"cpu.smt\"\n", 2, &["a profile that this one extends"]);
}

#[test]
fn left_out_advice_is_inherited_until_the_profile_says_something_itself() {
    let of = |text: &str, id: &str| {
        let profile = Profile::parse("mine.toml", text).unwrap();
        profile
            .left_out
            .iter()
            .filter(|advice| advice.setting.id == id)
            .map(|advice| advice.printed.clone())
            .collect::<Vec<_>>()
    };
    let base = "purpose = \"p\"\nextends = \"latency\"\n";
    assert_eq!(of(base, "nic.ring.tx"), ["the smallest"]);
    let wish = "[[wish]]\nsetting = \"nic.ring.tx\"\nat-most = 512\nreason = \"r\"\nsource = \"s\"\n";
    assert!(of(&format!("{base}{wish}"), "nic.ring.tx").is_empty());
    let left_out = "[[left-out]]\nsetting = \"nic.ring.tx\"\nprinted = \"mine\"\nreason = \"r\"\n";
    assert_eq!(of(&format!("{base}{left_out}"), "nic.ring.tx"), ["mine"]);
}

#[test]
fn profile_that_extends_an_unknown_one_is_shown_at_that_line() {
    let text = "purpose = \"p\"\n\nextends = \"latencies\"\n";
    assert_mistake(text, 3, &["extends = \"latencies\"", "no profile 'latencies'", "raw-frame", ".toml"]);
    assert_mistake("purpose = \"p\"\nextends = \"absent.toml\"\n", 2, &["read absent.toml", "No such file"]);
}

#[test]
fn unknown_name_is_answered_with_the_known_ones() {
    let message = Profile::load("latencies").unwrap_err().to_string();
    for part in ["no profile 'latencies'", "socket-bypass", "as-printed/usnic", "names end in .toml"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn file_extends_a_file_beside_it_and_mistakes_name_the_right_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    let load = |name: &str| Profile::load(&path(name).to_string_lossy());
    let base = wish("setting = \"cpu.turbo\"\nequal = true")
        + "[[wish]]\nsetting = \"cpu.smt\"\nequal = \"off\"\nreason = \"r\"\nsource = \"s\"\n";
    write("base.toml", &base);
    let text = wish("setting = \"cpu.turbo\"\nequal = false").replacen("[[", "extends = \"base.toml\"\n[[", 1);
    write("mine.toml", &text);
    let profile = load("mine.toml").unwrap();
    assert_eq!(profile.extends, ["base.toml"]);
    let wishes: Vec<_> = profile.wishes.iter().map(|wish| (wish.setting.id, wish.wanted.to_string())).collect();
    assert_eq!(wishes, [("cpu.smt", "off".to_owned()), ("cpu.turbo", "off".to_owned())]);

    write("base.toml", &base.replace("off", "of"));
    let message = load("mine.toml").unwrap_err().to_string();
    assert!(message.starts_with(&format!("{}:2: extends", path("mine.toml").display())), "{message}");
    assert!(message.contains(&format!("{}:9: equal = \"of\"", path("base.toml").display())), "{message}");
}

#[test]
fn profiles_that_extend_each_other_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (name, other) in [("a", "b"), ("b", "a"), ("c", "c")] {
        let text = format!("purpose = \"p\"\n\nextends = \"{other}.toml\"\n");
        fs::write(directory.path().join(format!("{name}.toml")), text).unwrap();
    }
    for name in ["a", "c"] {
        let message =
            Profile::load(&directory.path().join(format!("{name}.toml")).to_string_lossy()).unwrap_err().to_string();
        assert!(message.contains(".toml:3: extends = "), "{message}");
        assert!(message.contains("cannot extend itself"), "{message}");
        assert!(message.len() < 300, "{message}");
    }
}

/// A directory with profiles of these names and texts.
fn profiles(files: &[(&str, String)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn load_in(directory: &tempfile::TempDir, name: &str) -> Result<Profile, ProfileError> {
    Profile::load(&directory.path().join(name).to_string_lossy())
}

const SMT_OFF: &str = "setting = \"cpu.smt\"\nequal = \"off\"";
const SMT_ON: &str = "setting = \"cpu.smt\"\nequal = \"on\"";
const BOTH: &str = "purpose = \"p\"\nextends = [\n  \"one.toml\",\n  \"two.toml\",\n]\n";

#[test]
fn profile_that_extends_several_has_the_wishes_of_each_and_shared_ones_once() {
    let turbo = wish("setting = \"cpu.turbo\"\nequal = true");
    let directory = profiles(&[
        ("base.toml", wish(SMT_OFF)),
        ("one.toml", turbo.replacen("[[", "extends = \"base.toml\"\n[[", 1)),
        ("poll.toml", wish("setting = \"net.core.busy_poll\"\nequal = 50")),
        ("two.toml", "purpose = \"p\"\nextends = [\"base.toml\", \"poll.toml\"]\n".to_owned()),
        ("both.toml", BOTH.to_owned()),
    ]);
    let profile = load_in(&directory, "both.toml").unwrap();
    assert_eq!(profile.extends, ["one.toml", "two.toml"]);
    let count = |id: &str| profile.wishes.iter().filter(|wish| wish.setting.id == id).count();
    assert_eq!((count("cpu.smt"), count("cpu.turbo"), count("net.core.busy_poll")), (1, 1, 1));
}

#[test]
fn profiles_extended_together_that_want_different_things_are_refused_until_the_file_decides() {
    let directory =
        profiles(&[("one.toml", wish(SMT_OFF)), ("two.toml", wish(SMT_ON)), ("both.toml", BOTH.to_owned())]);
    let message = load_in(&directory, "both.toml").unwrap_err().to_string();
    let place = format!("{}:4: extends = \"two.toml\"", directory.path().join("both.toml").display());
    assert!(message.starts_with(&place), "{message}");
    for part in ["cpu.smt", "one.toml wants off", "two.toml wants on", "without = [\"cpu.smt\"]"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let decided = |rest: String| {
        fs::write(directory.path().join("both.toml"), format!("{BOTH}{rest}")).unwrap();
        let wishes = load_in(&directory, "both.toml").unwrap().wishes;
        wishes.iter().map(|wish| wish.wanted.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(decided(wish(SMT_ON).replacen("purpose = \"p\"\n", "", 1)), ["on"]);
    assert_eq!(decided("without = \"cpu.smt\"\n".to_owned()), [""; 0]);
}

#[test]
fn wishes_of_profiles_extended_together_may_differ_where_both_have_conditions() {
    let on = |host: &str, wanted: &str| wish(&format!("{wanted}\nwhen = {{ host = \"{host}\" }}"));
    let files =
        [("one.toml", on("guest", SMT_ON)), ("two.toml", on("bare-metal", SMT_OFF)), ("both.toml", BOTH.to_owned())];
    assert_eq!(load_in(&profiles(&files), "both.toml").unwrap().wishes.len(), 2);
}

#[test]
fn circle_through_one_of_several_profiles_is_told_with_the_way_round() {
    let back = "purpose = \"p\"\nextends = [\"latency\", \"both.toml\"]\n";
    let directory =
        profiles(&[("one.toml", wish(SMT_ON)), ("two.toml", back.to_owned()), ("both.toml", BOTH.to_owned())]);
    let message = load_in(&directory, "both.toml").unwrap_err().to_string();
    let place = format!("{}:2: extends = \"both.toml\"", directory.path().join("two.toml").display());
    assert!(message.starts_with(&place), "{message}");
    assert!(message.contains("both.toml -> ") && message.contains("two.toml -> "), "{message}");
}

#[test]
fn file_that_is_missing_or_no_text_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.toml");
    let load = || Profile::load(&path.to_string_lossy()).unwrap_err().to_string();
    assert!(load().starts_with(&format!("read {}: No such file", path.display())), "{}", load());
    fs::write(&path, b"purpose = \"p\"\n# \xff\n").unwrap();
    assert_eq!(load(), format!("{}:2: not UTF-8: expected a text", path.display()));
}

#[test]
fn wish_with_everything_is_read_as_it_is_written() {
    let text = wish(
        "setting = \"cpu.pm-qos-resume-latency-us\"\none-of = [\"n/a\", 1]\non = \"${plan.app}\"\n\
         or = { setting = \"cpu.dma-latency-us\", at-most = 2 }\nweight = \"high\"\nfix = \"Do it.\"\n\
         verdict = \"harmful\"\ntoday = \"It is.\"\nwhen = { host = \"bare-metal\", kernel-at-least = \"6.1\" }\n\
         unless = { driver = \"mana\", plan = true }",
    );
    let profile = Profile::parse("mine.toml", &text).unwrap();
    let wish = &profile.wishes[0];
    assert_eq!(wish.wanted, Wanted::OneOf(vec!["n/a".to_owned(), "1".to_owned()]));
    assert_eq!(wish.on, Some(CpuGroup::App));
    let (other, wanted) = wish.alternative().unwrap();
    assert_eq!((other.id, wanted), ("cpu.dma-latency-us", &Wanted::AtMost("2".to_owned())));
    assert_eq!((wish.weight, wish.verdict), (Weight::High, Verdict::Harmful));
    let when: Vec<_> = wish.when.iter().map(ToString::to_string).collect();
    assert_eq!(when, ["bare metal", "Linux 6.1 or later", "not driver mana", "not a plan of CPUs"]);
}

#[test]
fn value_in_another_notation_is_read_in_the_words_of_the_setting() {
    let wanted = |lines: &str| Profile::parse("mine.toml", &wish(lines)).unwrap().wishes[0].wanted.clone();
    assert_eq!(wanted("setting = \"cpu.turbo\"\nequal = true"), Wanted::Equal("on".to_owned()));
    assert_eq!(wanted("setting = \"boot.isolcpus\"\nequal = \"3,2\""), Wanted::Equal("2-3".to_owned()));
    assert_eq!(wanted("setting = \"cpu.isolated\"\nat-least = 2"), Wanted::AtLeast("2".to_owned()));
    assert_eq!(wanted("setting = \"rdma.mlx4.flow-steering\"\nequal = -1"), Wanted::Equal("-1".to_owned()));
    assert_eq!(
        wanted("setting = \"memory.lock-limit-bytes\"\nat-least = \"unlimited\""),
        Wanted::AtLeast("unlimited".to_owned())
    );
    assert_eq!(wanted("setting = \"net.ipv4.tcp_timestamps\"\nequal = 1"), Wanted::Equal("1".to_owned()));
    assert_eq!(
        wanted("setting = \"boot.split_lock_detect\"\nequal = \"ratelimit:9\""),
        Wanted::Equal("ratelimit:9".to_owned())
    );
    let cpus = wanted("setting = \"cpu.isolated\"\ncpus-cover = \"2-3\"");
    assert_eq!(cpus.to_string(), "all of CPUs 2-3");
}

/// Lines that belong in a profile, some of them wrong or in the wrong place.
fn line() -> impl Strategy<Value = String> {
    const KEYS: &[&str] = &[
        "setting",
        "equal",
        "at-least",
        "one-of",
        "lacks",
        "cpus-within",
        "on",
        "or",
        "when",
        "unless",
        "weight",
        "extends",
        "without",
        "purpose",
        "reason",
        "source",
        "same-as",
    ];
    const VALUES: &[&str] = &[
        "\"cpu.governor\"",
        "\"cpu.isolated\"",
        "\"performance\"",
        "true",
        "7",
        "-1",
        "[]",
        "[\"a\", 1]",
        "{}",
        "{ plan = true }",
        "{ setting = \"cpu.smt\", equal = \"off\" }",
        "\"0-3\"",
        "\"${plan.app}\"",
        "\"latency\"",
        "\"\"",
        "1979-05-27",
        "1e9",
    ];
    prop_oneof![
        (prop::sample::select(KEYS), prop::sample::select(VALUES)).prop_map(|(key, value)| format!("{key} = {value}")),
        prop::sample::select(&["[[wish]]", "[wish]", "[[left-out]]", "# x", "", "\u{fe0f}", "purpose = \"p\""][..])
            .prop_map(str::to_owned),
        "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn any_text_is_a_profile_or_a_mistake_with_a_line(text in "\\PC{0,200}") {
        check(&text)?;
    }

    #[test]
    fn any_lines_of_profiles_are_a_profile_or_a_mistake_with_a_line(lines in prop::collection::vec(line(), 0..12)) {
        check(&lines.join("\n"))?;
    }
}

fn check(text: &str) -> Result<(), TestCaseError> {
    match Profile::parse("mine.toml", text) {
        Err(ProfileError::Text { line, .. }) => prop_assert!((1..=text.lines().count() + 1).contains(&line)),
        Err(other) => prop_assert!(false, "{other}"),
        Ok(_) => {}
    }
    Ok(())
}
