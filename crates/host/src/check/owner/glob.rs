//! Patterns of names, as shells have them (`fnmatch(3)`).

/// Whether a name fits a pattern: `*` stands for anything, `?` for one letter, `[a-c]` for one of these, `[!a-c]` for another.
pub(super) fn is_match(glob: &str, name: &str) -> bool {
    let mut glob = glob.chars();
    match glob.next() {
        None => name.is_empty(),
        Some('*') => {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| is_match(glob.as_str(), &name[at..]))
        }
        Some(first) => {
            let mut name = name.chars();
            let Some(letter) = name.next() else { return false };
            let (fits, rest) = match (first, set(glob.as_str())) {
                ('?', _) => (true, glob.as_str()),
                ('[', Some((letters, rest))) => (is_in(letters, letter), rest),
                ('\\', _) => (glob.next() == Some(letter), glob.as_str()),
                _ => (first == letter, glob.as_str()),
            };
            fits && is_match(rest, name.as_str())
        }
    }
}

/// What stands between the brackets, and what comes behind them; a bracket in front is a letter.
fn set(behind: &str) -> Option<(&str, &str)> {
    let first = behind.chars().next()?.len_utf8();
    let end = first + behind[first..].find(']')?;
    Some((&behind[..end], &behind[end + 1..]))
}

fn is_in(letters: &str, letter: char) -> bool {
    let (is_negated, letters) = match letters.strip_prefix(['!', '^']) {
        Some(letters) => (true, letters),
        None => (false, letters),
    };
    let mut rest = letters.chars();
    let mut is_in = false;
    while let Some(first) = rest.next() {
        let mut ahead = rest.clone();
        let last = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) => {
                rest = ahead;
                last
            }
            _ => first,
        };
        is_in |= (first..=last).contains(&letter);
    }
    is_in != is_negated
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn glob_matches_names_that_fit() {
        for (glob, name, fits) in [
            ("*", "eth0", true),
            ("en*s0", "enp4s0", true),
            ("en*s0", "enp4s1", false),
            ("eth0", "eth01", false),
            ("eth?", "eth0", true),
            ("eth?", "eth", false),
            ("eth[0-2]", "eth1", true),
            ("eth[!0-2]", "eth1", false),
            ("eth[02]", "eth2", true),
            ("[]x]", "]", true),
            ("eth[", "eth[", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
        ] {
            assert_eq!(is_match(glob, name), fits, "{glob} {name}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_never_panics(glob in r"[-a-c*?\[\]!\\ä]{0,8}", name in "[a-cä]{0,6}") {
            let _ = is_match(&glob, &name);
        }
    }
}
