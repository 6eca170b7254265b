//! The configuration of accelerated sockets: any text is read or refused with a place in it, and rules decide as their
//! words say.

use nearwire_socket::config::{Config, Place, Role, Rule, Socket, Use};

use crate::bytes::Bytes;

const FILE: &str = "nearwire.toml";
/// Those behind the user's: about DNS, and about all.
const RULES_BEHIND: usize = 2;
const VARIABLES: [&str; 8] = [
    "NEARWIRE_SPIN",
    "NEARWIRE_INTERFACES",
    "NEARWIRE_MODE",
    "NEARWIRE_STRICT",
    "NEARWIRE_STATS",
    "NEARWIRE_KERNEL_FIRST",
    "NEARWIRE_CONFIG",
    "NEARWIRE_OTHER",
];
const PROGRAMS: [&str; 4] = ["", "dnsmasq", "md-feed-a", "*"];

/// The input as a pattern and a program's name, and as text: the first byte says which variable there is and how long its value is; the rest, the file.
pub fn check(input: &[u8]) {
    pattern(input);
    let mut bytes = Bytes(input);
    let (variable, len_bytes) = (bytes.choose(&VARIABLES), bytes.below(32));
    let Ok(value) = std::str::from_utf8(bytes.take(len_bytes)) else { return };
    let Ok(text) = std::str::from_utf8(bytes.0) else { return };
    text_and_variable(text, (len_bytes > 0).then_some((variable, value)));
}

/// Two letters and `*`, so that patterns and names often fit in part; the first byte says where the name begins.
fn pattern(input: &[u8]) {
    let (cut, rest) = input.split_first().unwrap_or((&0, &[]));
    let (pattern, name) = rest.split_at(usize::from(cut % 16).min(rest.len()));
    let pattern: String = pattern.iter().map(|byte| ['a', 'b', '*'][usize::from(byte % 3)]).collect();
    let name: String = name.iter().take(32).map(|byte| ['a', 'b'][usize::from(byte % 2)]).collect();
    let rule = Rule { program: Some(pattern.clone()), ..Rule::all(Use::Kernel) };
    let socket = Socket { program: &name, role: Role::Client, local: None, remote: None };
    assert_eq!(rule.fits(&socket), is_match(pattern.as_bytes(), &name), "{pattern} {name}");
}

/// The one check of a file's text, and of a variable beside it.
pub fn text_and_variable(text: &str, variable: Option<(&str, &str)>) {
    let read = Config::read(Some((FILE, text)), variable.into_iter());
    assert_eq!(read, Config::read(Some((FILE, text)), variable.into_iter()));
    match read {
        Ok(config) => decisions(&config),
        Err(error) => {
            assert!(!error.problem.to_string().is_empty());
            match &error.place {
                Place::File { name, line } => {
                    assert_eq!(name, FILE);
                    assert!((1..=text.matches('\n').count() + 1).contains(line), "{error}");
                }
                Place::Variable { name } => assert_eq!(Some(name.as_str()), variable.map(|(name, _)| name)),
            }
        }
    }
}

/// Every socket is decided by the first rule that speaks of it; the last one speaks of all.
fn decisions(config: &Config) {
    assert_eq!(config.rules.last(), Some(&Rule::all(Use::Nearwire)));
    assert!(config.interfaces.iter().all(|name| (1..16).contains(&name.len())));
    let ends = ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1"].map(|text| text.parse().expect("an address"));
    for program in PROGRAMS {
        for (role, end) in [(Role::Client, ends[0]), (Role::Server, ends[1]), (Role::Client, ends[2])] {
            for port in [53, 5000] {
                let socket = Socket { program, role, local: Some((end, port)), remote: None };
                decision(config, &socket);
                decision(config, &Socket { local: None, remote: Some((end, port)), ..socket });
            }
        }
    }
}

fn decision(config: &Config, socket: &Socket<'_>) {
    let (to, number) = config.decide(socket);
    let at = config.rules.iter().position(|rule| fits(rule, socket)).expect("the last rule speaks of all");
    assert_eq!(to, config.rules[at].to, "rule {} of {config:?} for {socket:?}", at + 1);
    let is_users = at + RULES_BEHIND < config.rules.len();
    assert_eq!(number, if is_users { at + 1 } else { 0 }, "rule {} of {config:?} for {socket:?}", at + 1);
}

fn fits(rule: &Rule, socket: &Socket<'_>) -> bool {
    let served = if socket.role == Role::Client { socket.remote } else { socket.local };
    let is_program = rule.program.as_ref().is_none_or(|pattern| is_match(pattern.as_bytes(), socket.program));
    let is_role = rule.role.is_none_or(|role| role == socket.role);
    let inside = |wanted: &Option<nearwire_socket::config::Prefix>, end: Option<(std::net::IpAddr, u16)>| {
        wanted.is_none() || end.is_some_and(|(address, _)| wanted.is_some_and(|wanted| wanted.contains(address)))
    };
    let in_range = |(first, last): &(u16, u16)| served.is_some_and(|(_, port)| *first <= port && port <= *last);
    let is_port = rule.ports.is_empty() || rule.ports.iter().any(in_range);
    is_program && is_role && inside(&rule.local, socket.local) && inside(&rule.remote, socket.remote) && is_port
}

/// Patterns by their definition: by the places of the pattern that each start of the text reaches.
fn is_match(pattern: &[u8], text: &str) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for letter in pattern {
        reached = if *letter == b'*' {
            let first = reached.iter().position(|reached| *reached).unwrap_or(reached.len());
            (0..reached.len()).map(|at| at >= first).collect()
        } else {
            let after = text.bytes().zip(&reached).map(|(byte, reached)| *reached && byte == *letter);
            std::iter::once(false).chain(after).collect()
        };
    }
    reached[text.len()]
}
