//! A tree of files in memory, with the path rules of the kernel.

use std::collections::BTreeMap;

use rustix::io::Errno;

/// As many links as the kernel follows in one path (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

/// What a name stands for.
#[derive(Debug)]
pub(crate) enum Node {
    Directory(BTreeMap<Box<str>, usize>),
    File(Box<[u8]>),
    Link(Box<str>),
    /// A device, pipe or socket: it can be named and not read.
    Special,
}

/// Files, directories and links. A path cannot leave it: above the root is the root, and a link
/// with an absolute target begins there, as with `RESOLVE_IN_ROOT` of `openat2(2)`.
#[derive(Debug)]
pub(crate) struct MemoryTree {
    nodes: Vec<Node>,
    root: usize,
}

impl MemoryTree {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::Directory(BTreeMap::new())], root: 0 }
    }

    /// How many names there are, directories that were made on the way included.
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Puts something at a path without links and `..`; missing directories are made. A directory
    /// may be put where one is, and what is no directory takes the place of what is none.
    ///
    /// # Errors
    /// `EEXIST` when one of the two is a directory, `ENOTDIR` when something on the way is no
    /// directory.
    pub(crate) fn insert(&mut self, path: &str, node: Node) -> Result<usize, Errno> {
        let mut at = self.root;
        let mut parts = parts(path).peekable();
        while let Some(part) = parts.next() {
            let Node::Directory(names) = &self.nodes[at] else { return Err(Errno::NOTDIR) };
            let known = names.get(part).copied();
            if parts.peek().is_some() {
                at = match known {
                    Some(child) => child,
                    None => self.add(at, part, Node::Directory(BTreeMap::new())),
                };
                continue;
            }
            return match (known, &node) {
                (None, _) => Ok(self.add(at, part, node)),
                (Some(child), Node::Directory(_)) if matches!(self.nodes[child], Node::Directory(_)) => Ok(child),
                (Some(child), _) if matches!(self.nodes[child], Node::Directory(_)) => Err(Errno::EXIST),
                (Some(_), Node::Directory(_)) => Err(Errno::EXIST),
                (Some(_), _) => Ok(self.add(at, part, node)),
            };
        }
        match node {
            Node::Directory(_) => Ok(at),
            _ => Err(Errno::EXIST),
        }
    }

    /// Another name for a file that is there.
    pub(crate) fn link_hard(&mut self, path: &str, target: &str) -> Result<(), Errno> {
        let mut at = self.root;
        for part in parts(target) {
            let Node::Directory(names) = &self.nodes[at] else { return Err(Errno::NOTDIR) };
            at = *names.get(part).ok_or(Errno::NOENT)?;
        }
        if !matches!(self.nodes[at], Node::File(_)) {
            return Err(Errno::NOENT);
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.insert(parent, Node::Directory(BTreeMap::new()))?;
        match &mut self.nodes[parent] {
            Node::Directory(names) if !names.contains_key(name) && !name.is_empty() => {
                names.insert(name.into(), at);
                Ok(())
            }
            Node::Directory(_) => Err(Errno::EXIST),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn add(&mut self, directory: usize, name: &str, node: Node) -> usize {
        let child = self.nodes.len();
        self.nodes.push(node);
        if let Node::Directory(names) = &mut self.nodes[directory] {
            names.insert(name.into(), child);
        }
        child
    }

    /// Makes the first directory that has one of these names, at most `depth` below the root, the
    /// new root.
    pub(crate) fn descend_to(&mut self, wanted: &[&str], depth: u32) -> bool {
        let mut level = vec![self.root];
        for _ in 0..=depth {
            let has = |at: &&usize| match &self.nodes[**at] {
                Node::Directory(names) => wanted.iter().any(|name| names.contains_key(*name)),
                _ => false,
            };
            if let Some(&found) = level.iter().find(has) {
                self.root = found;
                return true;
            }
            let below = level.iter().flat_map(|&at| match &self.nodes[at] {
                Node::Directory(names) => names.values().copied().collect(),
                _ => Vec::new(),
            });
            level = below.collect();
        }
        false
    }

    /// What is at a path; of a link what it points at.
    pub(crate) fn find(&self, path: &str) -> Result<&Node, Errno> {
        self.resolve(path, true)
    }

    /// What is at a path; of a link the link itself.
    pub(crate) fn find_link(&self, path: &str) -> Result<&Node, Errno> {
        self.resolve(path, false)
    }

    fn resolve(&self, path: &str, follows_last: bool) -> Result<&Node, Errno> {
        let mut links_left = LINKS_MAX;
        let mut way = vec![self.root];
        // What is still to be walked, the next part last.
        let mut rest: Vec<&str> = parts(path).rev().collect();
        while let Some(part) = rest.pop() {
            let here = way.last().copied().unwrap_or(self.root);
            let Node::Directory(names) = &self.nodes[here] else { return Err(Errno::NOTDIR) };
            if part == ".." {
                if way.len() > 1 {
                    way.pop();
                }
                continue;
            }
            let child = *names.get(part).ok_or(Errno::NOENT)?;
            match &self.nodes[child] {
                Node::Link(target) if follows_last || !rest.is_empty() => {
                    links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
                    if target.starts_with('/') {
                        way.truncate(1);
                    }
                    rest.extend(parts(target).rev());
                }
                _ => way.push(child),
            }
        }
        Ok(&self.nodes[way.last().copied().unwrap_or(self.root)])
    }
}

/// The names in a path.
fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, &str)]) -> MemoryTree {
        let mut tree = MemoryTree::new();
        for (path, target) in entries {
            let node = match target.strip_prefix("-> ") {
                Some(target) => Node::Link(target.into()),
                None => Node::File(target.as_bytes().into()),
            };
            tree.insert(path, node).unwrap();
        }
        tree
    }

    fn text(tree: &MemoryTree, path: &str) -> Result<String, Errno> {
        match tree.find(path)? {
            Node::File(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn links_followed_stay_inside() {
        let tree = tree(&[
            ("sys/devices/pci0/f/net/eth0/mtu", "1500"),
            ("sys/class/net/eth0", "-> ../../devices/pci0/f/net/eth0"),
            ("sys/devices/pci0/f/net/eth0/device", "-> ../../../f"),
            ("sys/devices/pci0/f/irq", "9"),
            ("etc/absolute", "-> /sys/devices/pci0/f/irq"),
            ("etc/above", "-> ../../../../../../sys/devices/pci0/f/irq"),
            ("etc/loop", "-> loop"),
            ("etc/dangling", "-> nowhere"),
            ("etc/empty", "-> "),
        ]);
        assert_eq!(text(&tree, "/sys/class/net/eth0/mtu").unwrap(), "1500");
        assert_eq!(text(&tree, "/sys/class/net/eth0/device/irq").unwrap(), "9");
        assert_eq!(text(&tree, "/sys/class/net/eth0/device/../f/irq").unwrap(), "9");
        for path in ["/etc/absolute", "/etc/above", "/../../etc/./absolute", "etc//absolute"] {
            assert_eq!(text(&tree, path).unwrap(), "9", "{path}");
        }
        assert_eq!(tree.find("/etc/loop").err(), Some(Errno::LOOP));
        assert_eq!(tree.find("/etc/dangling").err(), Some(Errno::NOENT));
        assert_eq!(tree.find("/etc/absolute/x").err(), Some(Errno::NOTDIR));
        assert!(matches!(tree.find_link("/etc/dangling"), Ok(Node::Link(_))));
    }

    #[test]
    fn name_taken_is_replaced_unless_one_is_a_directory() {
        let mut tree = tree(&[("a/b", "1"), ("link", "-> a")]);
        let directory = || Node::Directory(BTreeMap::new());
        assert!(tree.insert("a", directory()).is_ok());
        assert!(tree.insert("", directory()).is_ok());
        assert_eq!(tree.insert("a/b", directory()).err(), Some(Errno::EXIST));
        assert_eq!(tree.insert("a", Node::Special).err(), Some(Errno::EXIST));
        assert_eq!(tree.insert("a/b/c", directory()).err(), Some(Errno::NOTDIR));
        tree.insert("a/b", Node::File(b"2".as_slice().into())).unwrap();
        assert_eq!(text(&tree, "/a/b").unwrap(), "2");
        // A way through a link would put the entry somewhere else.
        assert_eq!(tree.insert("link/c", directory()).err(), Some(Errno::NOTDIR));
    }

    #[test]
    fn hard_link_is_another_name_of_an_earlier_file() {
        let mut tree = tree(&[("a/b", "1"), ("link", "-> a")]);
        tree.link_hard("c/d", "a/b").unwrap();
        assert_eq!(text(&tree, "/c/d").unwrap(), "1");
        for target in ["a", "x", "link", "link/b", "a/b/c", ""] {
            assert!(tree.link_hard("e", target).is_err(), "{target}");
        }
    }
}
