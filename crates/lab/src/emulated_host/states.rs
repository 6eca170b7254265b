//! What is in many files of a host, to compare before and after.

use std::collections::BTreeMap;
use std::fmt;

/// The contents of files by path. A file that cannot be read, such as an affinity of an interrupt that has none, counts as
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileStates(BTreeMap<String, String>);

/// A file whose content differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Which one.
    pub path: String,
    /// Its content before, none when it was not there.
    pub before: Option<String>,
    /// Its content after, none when it is not there.
    pub after: Option<String>,
}

impl fmt::Display for FileChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            |content: &Option<String>| content.as_ref().map_or("not there".to_owned(), |text| format!("{text:?}"));
        write!(out, "{}: {} -> {}", self.path, shown(&self.before), shown(&self.after))
    }
}

/// Lists the files, an empty line, then their lines with the path in front: one process for all of them, because each costs
/// milliseconds in emulation.
pub(super) fn script(patterns: &[&str]) -> String {
    let patterns = patterns.join(" ");
    format!(
        "files=; for file in {patterns}; do [ -f \"$file\" ] && files=\"$files $file\" && echo \"$file\"; done; echo; \
         [ -z \"$files\" ] || grep -H '' $files 2>/dev/null"
    )
}

impl FileStates {
    pub(super) fn parse(output: &[u8]) -> Self {
        let text = String::from_utf8_lossy(output);
        let mut lines = text.lines();
        let mut contents: BTreeMap<_, _> =
            lines.by_ref().take_while(|path| !path.is_empty()).map(|path| (path.to_owned(), String::new())).collect();
        let mut present = None;
        for line in lines {
            let Some((path, content)) = split(&contents, line).or_else(|| Some((present.clone()?, line))) else {
                continue;
            };
            if let Some(so_far) = contents.get_mut(&path) {
                if !so_far.is_empty() {
                    so_far.push('\n');
                }
                so_far.push_str(content);
            }
            present = Some(path);
        }
        Self(contents)
    }

    /// The content of a file, without the last line end.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when no pattern matched anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The files whose content differs `after`, in order of paths.
    #[must_use]
    pub fn changes(&self, after: &Self) -> Vec<FileChange> {
        let gone = self.0.keys().filter(|path| !after.0.contains_key(*path));
        let mut paths: Vec<_> = gone.chain(after.0.keys()).collect();
        paths.sort();
        let change = |path: &String| {
            let (before, after) = (self.0.get(path).cloned(), after.0.get(path).cloned());
            (before != after).then(|| FileChange { path: path.clone(), before, after })
        };
        paths.into_iter().filter_map(change).collect()
    }
}

/// Path and line. A path may have colons (PCI addresses do), so the shortest prefix that is a path decides.
fn split<'a>(contents: &BTreeMap<String, String>, line: &'a str) -> Option<(String, &'a str)> {
    let colons = line.match_indices(':');
    let found = colons.map(|(at, _)| (&line[..at], &line[at + 1..])).find(|(path, _)| contents.contains_key(*path));
    found.map(|(path, content)| (path.to_owned(), content))
}

#[cfg(test)]
mod tests {
    use super::{FileChange, FileStates};

    #[test]
    fn paths_with_colons_and_lines_with_colons_are_told_apart() {
        let states = FileStates::parse(
            b"/sys/0000:00:01.0/irq\n/etc/a\n/etc/empty\n\n/sys/0000:00:01.0/irq:11\n/etc/a:x: 1\n/etc/a:y\n",
        );
        assert_eq!(states.get("/sys/0000:00:01.0/irq"), Some("11"));
        assert_eq!(states.get("/etc/a"), Some("x: 1\ny"));
        assert_eq!((states.get("/etc/empty"), states.get("/etc/b")), (Some(""), None));
    }

    #[test]
    fn change_names_what_came_went_and_differs() {
        let before = FileStates::parse(b"/a\n/b\n/c\n\n/a:1\n/b:2\n/c:3\n");
        let after = FileStates::parse(b"/b\n/c\n/d\n\n/b:2\n/c:4\n/d:5\n");
        let change = |path: &str, before: Option<&str>, after: Option<&str>| FileChange {
            path: path.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        let expected =
            [change("/a", Some("1"), None), change("/c", Some("3"), Some("4")), change("/d", None, Some("5"))];
        assert_eq!(before.changes(&after), expected);
        assert_eq!(before.changes(&before), []);
        assert_eq!(expected[1].to_string(), "/c: \"3\" -> \"4\"");
    }
}
