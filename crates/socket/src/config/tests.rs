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
        "nearwire.toml:2: no key 'spinn'; expected one of spin, interfaces, mode, strict, stats, rule"
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
fn dns_stays_with_the_kernel_unless_a_rule_says_otherwise() {
    let dns = Socket { program: "x", role: Role::Client, local: None, remote: end("192.0.2.1", 53) };
    let other = Socket { remote: end("192.0.2.1", 5353), ..dns };
    assert_eq!(Config::default().decide(&dns), (Use::Kernel, 1));
    assert_eq!(Config::default().decide(&other), (Use::Nearwire, 2));
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
    assert_eq!(config.decide(&Socket { program: "feed", ..socket }), (Use::Nearwire, 4));
    assert_eq!(config.decide(&Socket { local: None, ..socket }), (Use::Kernel, 2));
    let mapped = Socket { local: end("::ffff:10.1.2.3", 7000), ..socket };
    assert_eq!(config.decide(&mapped), (Use::Nearwire, 1));
}

proptest! {
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
