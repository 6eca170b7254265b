use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn file(text: &str) -> Result<Config, ConfigError> {
    Config::read(Some(("nearwire.toml", text)), std::iter::empty())
}

fn variables(variables: &[(&'static str, &'static str)]) -> Result<Config, ConfigError> {
    Config::read(None, variables.iter().copied())
}

fn variables_spin(text: &str) -> Option<Spin> {
    Config::read(None, [("NEARWIRE_SPIN", text)].into_iter()).ok().map(|config| config.spin)
}

fn end(address: &str, port: u16) -> Option<(IpAddr, u16)> {
    Some((address.parse().unwrap(), port))
}

#[test]
fn nothing_given_is_the_default() {
    assert_eq!(variables(&[]), Ok(Config::default()));
    assert_eq!(file(""), Ok(Config::default()));
    assert_eq!(variables(&[("PATH", "/bin"), ("NEARWIRE_CONFIG", "/x")]), Ok(Config::default()));
}

#[test]
fn file_and_variables_give_the_same_values() {
    let text = "spin = \"50us\"\ninterfaces = [\"eth4\", \"eth5\"]\nmode = \"generic\"\nstrict = true\nstats = true\n";
    let by_file = file(text).unwrap();
    let by_variables = variables(&[
        ("NEARWIRE_SPIN", "50us"),
        ("NEARWIRE_INTERFACES", "eth4,eth5"),
        ("NEARWIRE_MODE", "generic"),
        ("NEARWIRE_STRICT", "1"),
        ("NEARWIRE_STATS", "true"),
    ]);
    assert_eq!(by_variables, Ok(by_file.clone()));
    assert_eq!(by_file.spin, Spin::For(Duration::from_micros(50)));
    assert_eq!(by_file.interfaces, ["eth4", "eth5"]);
}

#[test]
fn variable_counts_more_than_the_file() {
    let config = Config::read(Some(("f", "spin = \"1s\"")), [("NEARWIRE_SPIN", "forever")].into_iter()).unwrap();
    assert_eq!(config.spin, Spin::Forever);
}

#[test]
fn mistake_is_told_with_its_place() {
    let message = |text| file(text).unwrap_err().to_string();
    assert_eq!(
        message("spin = \"forever\"\nspinn = 1\n"),
        "nearwire.toml:2: no key 'spinn'; expected one of spin, interfaces, mode, strict, stats, send_coalescing, \
         kernel_first, engines, past_filters, agent, adopt, rule"
    );
    assert!(message("spin = \"fast\"").starts_with("nearwire.toml:1: spin = \"fast\": expected auto, forever"));
    assert!(message("[[rule]]\nport = 53\n").contains("a rule without 'use'"));
    assert!(message("[[rule]]\nuse = \"kernel\"\nport = \"9-1\"\n").starts_with("nearwire.toml:3: port = \"9-1\""));
    assert!(message("[[rule]]\nuse = \"kernel\"\nlocal = \"10.0.0.0/40\"\n").contains("a prefix such as"));
    assert!(message("spin = ").contains("not TOML"));
    let error = variables(&[("NEARWIRE_SPINN", "1")]).unwrap_err();
    assert!(error.to_string().starts_with("NEARWIRE_SPINN: no key 'spinn'"), "{error}");
    let error = variables(&[("NEARWIRE_STRICT", "maybe")]).unwrap_err();
    assert_eq!(error.to_string(), "NEARWIRE_STRICT: strict = \"maybe\": expected true or false");
}

#[test]
fn configuration_with_a_mistake_keeps_strict_and_says_what_is_wrong() {
    let of = |file: Option<std::io::Result<String>>, variables: &[(&str, &str)]| {
        let variables: Vec<_> = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Config::of_process(file.map(|text| ("f.toml", text)), &variables)
    };
    let (config, mistake) = of(None, &[("NEARWIRE_SPIN", "0"), ("NEARWIRE_STRICT", "1")]);
    assert!(config.strict && config.spin == Spin::For(Duration::ZERO) && mistake.is_none());
    let (config, mistake) = of(None, &[("NEARWIRE_SPIN", "0"), ("NEARWIRE_STRICT", "1"), ("NEARWIRE_X", "")]);
    assert_eq!(config, Config { strict: true, ..Config::default() });
    assert!(mistake.unwrap().starts_with("NEARWIRE_X: no key 'x'"));
    let broken = || Some(Ok("spin = \n  strict =true # so\n".to_owned()));
    assert!(of(broken(), &[]).0.strict && of(broken(), &[("NEARWIRE_STRICT", "maybe")]).0.strict);
    assert!(!of(broken(), &[("NEARWIRE_STRICT", "0")]).0.strict, "the variable counts more");
    let (config, mistake) = of(Some(Err(std::io::ErrorKind::NotFound.into())), &[]);
    assert!(!config.strict && mistake.unwrap().starts_with("f.toml: "));
}

#[test]
fn dns_of_a_client_stays_with_the_kernel_unless_a_rule_says_otherwise() {
    let dns = Socket { program: "x", role: Role::Client, local: None, remote: end("192.0.2.1", 53) };
    let other = Socket { remote: end("192.0.2.1", 5353), ..dns };
    assert_eq!(Config::default().decide(&dns), (Use::Kernel, 0));
    assert_eq!(Config::default().decide(&other), (Use::Nearwire, 0));
    let server = Socket { role: Role::Server, local: end("192.0.2.1", 53), remote: None, ..dns };
    assert_eq!(Config::default().decide(&server), (Use::Nearwire, 0), "a name server");
    let config = file("[[rule]]\nuse = \"nearwire\"\nport = 53\n").unwrap();
    assert_eq!(config.decide(&dns), (Use::Nearwire, 1));
}

#[test]
fn first_rule_that_fits_decides() {
    let config = file(
        "[[rule]]\nuse = \"nearwire\"\nprogram = \"md-*\"\nrole = \"server\"\nlocal = \"10.0.0.0/8\"\n\
         [[rule]]\nuse = \"kernel\"\nprogram = \"md-*\"\n",
    )
    .unwrap();
    let socket = Socket { program: "md-feed", role: Role::Server, local: end("10.1.2.3", 7000), remote: None };
    assert_eq!(config.decide(&socket), (Use::Nearwire, 1));
    assert_eq!(config.decide(&Socket { local: end("11.1.2.3", 7000), ..socket }), (Use::Kernel, 2));
    assert_eq!(config.decide(&Socket { program: "feed", ..socket }), (Use::Nearwire, 0));
    assert_eq!(config.decide(&Socket { local: None, ..socket }), (Use::Kernel, 2));
    let mapped = Socket { local: end("::ffff:10.1.2.3", 7000), ..socket };
    assert_eq!(config.decide(&mapped), (Use::Nearwire, 1));
}

#[test]
fn layers_given_count_in_order_and_are_told_apart() {
    let mut layered = Layered::default();
    layered.profile(Profile::named("shared").unwrap()).unwrap();
    layered.file("f.toml", "mode = \"generic\"\n[[rule]]\nuse = \"kernel\"\nport = 9\n").unwrap();
    layered.variables([("NEARWIRE_STATS", "1"), ("NEARWIRE_TOKEN", "x")].into_iter()).unwrap();
    layered.option("--strict", "strict", "true").unwrap();
    let lines: Vec<_> = layered.lines().into_iter().map(|(line, origin)| format!("{line} ({origin})")).collect();
    let expected = [
        "spin = \"50us\" (profile shared)",
        "interfaces: all (default)",
        "mode = \"generic\" (f.toml)",
        "strict = true (--strict)",
        "stats = true (NEARWIRE_STATS)",
        "send_coalescing = \"0\" (default)",
        "kernel_first = 8 (default)",
        "engines = \"auto\" (default)",
        "past_filters = false (default)",
        "agent = \"auto\" (default)",
        "adopt = \"auto\" (default)",
        "rule 1: use = \"kernel\", port = \"9\" (f.toml)",
        "rule 2: use = \"kernel\", role = \"client\", port = \"53\" (default)",
        "rule 3: use = \"nearwire\" (default)",
    ];
    assert_eq!(lines, expected);
    let beside = layered.beside_the_file();
    let beside: Vec<_> = beside.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(beside, [("NEARWIRE_SPIN", "50us"), ("NEARWIRE_STRICT", "true"), ("NEARWIRE_STATS", "true")]);
}

#[test]
fn file_over_a_profile_needs_no_variable() {
    let mut layered = Layered::default();
    layered.profile(Profile::named("latency").unwrap()).unwrap();
    layered.file("f", "spin = \"0\"").unwrap();
    assert_eq!((layered.config().spin, layered.beside_the_file()), (Spin::For(Duration::ZERO), vec![]));
}

#[test]
fn profiles_are_read_and_have_no_rules() {
    for profile in Profile::ALL {
        let config = file(profile.text).unwrap();
        assert_eq!(config.rules, Config::default().rules, "{}", profile.name);
    }
    assert_eq!(Profile::named("latency").map(|profile| file(profile.text).unwrap().spin), Some(Spin::Forever));
    assert_eq!(Profile::named("none"), None);
}

#[test]
fn example_of_the_guide_is_a_configuration() {
    let guide = include_str!("../../../../docs/run.md");
    let examples: Vec<_> = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        file(example).unwrap();
    }
}

#[test]
fn auto_sleeps_on_the_only_cpu() {
    assert_eq!(Spin::Auto.on(2), Spin::Auto);
    assert_eq!(Spin::Auto.on(1), Spin::For(Duration::ZERO));
    assert_eq!(Spin::Forever.on(1), Spin::Forever);
}

#[test]
fn configuration_written_is_read_back() {
    let text = "spin = \"1500ns\"\ninterfaces = [\"eth4\", \"q\\\"\"]\nmode = \"native\"\nstrict = true\n\
                [[rule]]\nuse = \"nearwire\"\nprogram = \"a, b\\\\\\\"*\"\nrole = \"server\"\nlocal = \"10.0.0.0/8\"\n\
                [[rule]]\nuse = \"kernel\"\nremote = \"2001:db8::/32\"\nport = \"53,5000-5010\"\n";
    let config = file(text).unwrap();
    assert_eq!(file(&config.to_toml()), Ok(config.clone()), "{}", config.to_toml());
    assert_eq!(file(&Config::default().to_toml()), Ok(Config::default()));
}

proptest! {
    #[test]
    fn spin_written_is_read_back(ns: u64) {
        let spin = Spin::For(Duration::from_nanos(ns));
        prop_assert_eq!(variables_spin(&spin.to_string()), Some(spin));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*|(spin|rule|mode|interfaces|use|port|[\\[\\]= \"\n,./0-9a-f*]){0,40}") {
        nearwire_checks::config::text_and_variable(&text, None);
        let _ = text.parse::<Prefix>();
    }

    #[test]
    fn prefix_contains_what_shares_its_bits(address: u32, other: u32, bits in 0..=32_u32) {
        let prefix: Prefix = format!("{}/{bits}", std::net::Ipv4Addr::from_bits(address)).parse().unwrap();
        let shares = (0..bits).all(|bit| (address ^ other) >> (31 - bit) & 1 == 0);
        prop_assert_eq!(prefix.contains(std::net::Ipv4Addr::from_bits(other).into()), shares);
    }
}
