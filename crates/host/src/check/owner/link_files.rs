//! Which `.link` file of systemd counts for an interface: the first that matches, by name, whichever directory it is in.
//!
//! Source: `systemd.link(5)`, `net_match_config` of `src/shared/net-condition.c` (systemd 252). A file's conditions are
//! looked up in sysfs, not in the database of udev, which holds addresses and serial numbers.

use super::assignments;
use super::glob::is_match;
use crate::Root;
use crate::read::Nic;
use crate::setting::{LinkFact, NicFact};

/// Where systemd looks; a file of an earlier directory takes the place of one with its name in a later one.
const DIRECTORIES: [&str; 5] = [
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
    "/lib/systemd/network",
];
const SECTION: &str = "Match";

/// A file, with its drop-ins behind it.
#[derive(Debug)]
pub(crate) struct LinkFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Whether a file is for an interface.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    No,
    /// This condition cannot be judged here.
    Perhaps(&'static str),
}

/// What a condition looks at.
enum Fact {
    Value(String),
    Lacking,
    Unknown,
}

type Test = fn(&Interface<'_>, &[&str]) -> Option<bool>;

/// The conditions, and how each is judged; `None`: not here.
const CONDITIONS: [(&str, Test); 14] = [
    ("MACAddress", |interface, list| Some(has_address(&interface.address()?, list))),
    ("PermanentMACAddress", |interface, list| Some(has_address(&interface.permanent_address()?, list))),
    ("Path", |interface, list| globs(&interface.path(), list)),
    ("Driver", |interface, list| globs(&interface.driver(), list)),
    ("Type", |interface, list| globs(&interface.kind_of_device(), list)),
    ("Kind", |interface, list| globs(&interface.kind(), list)),
    ("OriginalName", |interface, list| match interface.original_name() {
        Fact::Unknown if list == ["*"] => Some(true),
        name => globs(&name, list),
    }),
    ("KernelCommandLine", |interface, list| interface.has_word(list)),
    ("Property", |_, _| None),
    ("Host", |_, _| None),
    ("Virtualization", |_, _| None),
    ("KernelVersion", |_, _| None),
    ("Credential", |_, _| None),
    ("Architecture", |_, _| None),
];

/// All files, in the order in which systemd tries them. An empty file or a link to nothing hides those of its name.
pub(crate) fn link_files(root: &Root) -> Vec<LinkFile> {
    let files = root.files_of(DIRECTORIES, ".link");
    let with_text = files.into_iter().map(|(name, path)| (root.read(&path).unwrap_or_default(), name, path));
    let in_force = with_text.filter(|(text, ..)| !text.is_empty());
    in_force.map(|(text, name, path)| LinkFile { text: text + &drop_ins(root, &name), path }).collect()
}

fn drop_ins(root: &Root, name: &str) -> String {
    let paths = root.files_of(DIRECTORIES.map(|directory| format!("{directory}/{name}.d")), ".conf");
    paths.values().map(|path| format!("\n{}", root.read(path).unwrap_or_default())).collect()
}

impl LinkFile {
    /// The name by which files are in order.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// All conditions must hold. A file without any is passed over with a warning, whatever the manual says
    /// (`link_load_one` of `src/udev/net/link-config.c`).
    pub(crate) fn fits(&self, root: &Root, interface: &str) -> Fit {
        let interface = Interface { root, name: interface };
        let mut fit = Fit::No;
        for (key, test) in CONDITIONS {
            let list = self.values(key);
            if list.is_empty() {
                continue;
            }
            match (test(&interface, &list), &fit) {
                (Some(true), Fit::No) => fit = Fit::Yes,
                (Some(true), _) => {}
                (Some(false), _) => return Fit::No,
                (None, _) => fit = Fit::Perhaps(key),
            }
        }
        fit
    }

    /// The words of a condition: several lines are one list, which an empty one begins anew. A mark of negation before the
    /// first word of a line is before all of them.
    fn values(&self, key: &str) -> Vec<&str> {
        let mut words = Vec::new();
        for (.., value) in assignments(&self.text).filter(|(section, found, _)| (*section, *found) == (SECTION, key)) {
            if value.is_empty() {
                words.clear();
            }
            words.extend(value.split_whitespace());
        }
        words
    }
}

/// Any pattern fits, and none of the negated ones.
fn globs(fact: &Fact, list: &[&str]) -> Option<bool> {
    let value = match fact {
        Fact::Value(value) => Some(value.as_str()),
        Fact::Lacking => None,
        Fact::Unknown => return None,
    };
    let fits = |glob: &str| value.is_some_and(|value| is_match(glob, value));
    // One mark negates the whole list, as lists are written in one line.
    match list.first().and_then(|first| first.strip_prefix('!')) {
        Some(first) => Some(!fits(first) && !list[1..].iter().any(|glob| fits(glob.trim_start_matches('!')))),
        None => Some(list.iter().any(|glob| fits(glob))),
    }
}

fn has_address(address: &str, list: &[&str]) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase();
    list.iter().any(|wanted| digits(wanted) == digits(address))
}

/// An interface as conditions see it.
struct Interface<'a> {
    root: &'a Root,
    name: &'a str,
}

impl Interface<'_> {
    fn directory(&self) -> String {
        format!("/sys/class/net/{}", self.name)
    }

    fn file(&self, name: &str) -> Option<String> {
        self.root.read(&format!("{}/{name}", self.directory())).ok()
    }

    /// Not noted as read, so that no snapshot has it.
    fn address(&self) -> Option<String> {
        self.root.untraced().read(&format!("{}/address", self.directory())).ok()
    }

    /// That which is set now, if it is the device's own (`NET_ADDR_PERM`).
    fn permanent_address(&self) -> Option<String> {
        (self.file("addr_assign_type")? == "0").then(|| self.address())?
    }

    /// `ID_PATH` of a device on PCI; udev leaves out that virtio is in between, and adds more where USB is.
    fn path(&self) -> Fact {
        let Ok(target) = self.root.link_target(&self.directory()) else { return Fact::Unknown };
        if target.contains("/virtual/") {
            return Fact::Lacking;
        }
        let nic = Nic::open(self.root, self.name);
        match nic.pci_path().ok().and_then(|path| path.last().map(|(address, _)| format!("pci-{address}"))) {
            Some(path) if target.contains("/usb") => Fact::Value(format!("{path}-usb-0")),
            Some(path) => Fact::Value(path),
            None => Fact::Unknown,
        }
    }

    fn driver(&self) -> Fact {
        Nic::open(self.root, self.name).read(NicFact::Driver).into()
    }

    fn kind(&self) -> Fact {
        Nic::open(self.root, self.name).read(NicFact::Link(LinkFact::Kind)).into()
    }

    /// The device's own word, else the name of its hardware (`linux/if_arp.h`).
    fn kind_of_device(&self) -> Fact {
        const HARDWARE: [(&str, &str); 4] =
            [("1", "ether"), ("32", "infiniband"), ("772", "loopback"), ("65534", "none")];
        let own = self
            .file("uevent")
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix("DEVTYPE=").map(str::to_owned)));
        let number = self.file("type");
        let by_number = || HARDWARE.iter().find(|(known, _)| Some(*known) == number.as_deref());
        own.or_else(|| by_number().map(|(_, word)| (*word).to_owned())).map_or(Fact::Unknown, Fact::Value)
    }

    /// The present name, unless it was given by udev or a person (`NET_NAME_RENAMED`): then nothing tells the kernel's.
    fn original_name(&self) -> Fact {
        const RENAMED: &str = "4";
        if self.file("name_assign_type").as_deref() == Some(RENAMED) {
            return Fact::Unknown;
        }
        Fact::Value(self.name.to_owned())
    }

    fn has_word(&self, list: &[&str]) -> Option<bool> {
        let line = self.root.read("/proc/cmdline").ok()?;
        let has =
            |word: &str| line.split_whitespace().any(|found| found == word || found.split('=').next() == Some(word));
        Some(list.iter().all(|word| word.strip_prefix('!').map_or_else(|| has(word), |word| !has(word))))
    }
}

impl From<crate::Reading> for Fact {
    fn from(reading: crate::Reading) -> Self {
        match reading {
            crate::Reading::Value(value) => Self::Value(value),
            crate::Reading::Unsupported => Self::Lacking,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{MemoryTree, Node};

    const DEVICE: &str = "sys/devices/pci0000:00/0000:00:02.0/0000:05:00.0/net/eth0";

    fn root(files: &[(&str, &str)]) -> Root {
        let mut tree = MemoryTree::new();
        let target = format!("../../{}", DEVICE.trim_start_matches("sys/"));
        tree.insert("sys/class/net/eth0", Node::Link(target.into())).unwrap();
        tree.insert(&format!("{DEVICE}/device"), Node::Link("../../../0000:05:00.0".into())).unwrap();
        tree.insert(
            "sys/devices/pci0000:00/0000:00:02.0/0000:05:00.0/driver",
            Node::Link("../../../../bus/pci/drivers/ice".into()),
        )
        .unwrap();
        for (path, text) in files {
            tree.insert(path, Node::File(text.as_bytes().into())).unwrap();
        }
        Root::memory(tree, "test".into()).unwrap()
    }

    #[test]
    fn condition_of_a_link_file_is_judged_by_what_sysfs_says_of_the_interface() {
        let of = |name: &str| format!("{DEVICE}/{name}");
        let root = root(&[
            (&of("address"), "02:0a:0b:0c:0d:0e\n"),
            (&of("addr_assign_type"), "0\n"),
            (&of("type"), "1\n"),
            (&of("uevent"), "INTERFACE=eth0\nIFINDEX=2\n"),
            (&of("name_assign_type"), "1\n"),
            ("proc/cmdline", "ro net.ifnames=0 quiet\n"),
            ("nearwire/interfaces/eth0.json", r#"{"driver": {"driver": "ice"}, "link": {}}"#),
        ]);
        for (lines, fit) in [
            ("", Fit::No),
            ("OriginalName=*", Fit::Yes),
            ("OriginalName=en* eth?", Fit::Yes),
            ("OriginalName=en*", Fit::No),
            ("OriginalName=eth0\nOriginalName=\nOriginalName=en*", Fit::No),
            ("MACAddress=00:11:22:33:44:55 02-0A-0B-0C-0D-0E", Fit::Yes),
            ("MACAddress=020a.0b0c.0d0e", Fit::Yes),
            ("MACAddress=020a.0b0c.0d0f", Fit::No),
            ("PermanentMACAddress=02:0a:0b:0c:0d:0e", Fit::Yes),
            ("Path=pci-0000:05:00.0", Fit::Yes),
            ("Path=pci-0000:0[0-5]:00.*", Fit::Yes),
            ("Path=*-usb-*", Fit::No),
            ("Driver=i40e ice", Fit::Yes),
            ("Driver=!i40e ice", Fit::No),
            ("Driver=!mlx5_core", Fit::Yes),
            ("Type=ether\nDriver=mlx5_core", Fit::No),
            ("Type=!ether", Fit::No),
            ("Kind=bond", Fit::No),
            ("Kind=!*", Fit::Yes),
            ("KernelCommandLine=net.ifnames", Fit::Yes),
            ("KernelCommandLine=!quiet", Fit::No),
            ("OriginalName=*\nHost=db*", Fit::Perhaps("Host")),
            ("Host=db*\nDriver=mlx5_core", Fit::No),
            ("Nonsense=x", Fit::No),
        ] {
            let file = LinkFile { path: "/x.link".to_owned(), text: format!("[Match]\n{lines}\n[Link]\nDriver=no\n") };
            assert_eq!(file.fits(&root, "eth0"), fit, "{lines}");
        }
    }

    #[test]
    fn condition_that_a_copy_cannot_judge_fits_perhaps() {
        let root = root(&[(&format!("{DEVICE}/name_assign_type"), "4\n")]);
        for (line, fit) in [
            ("MACAddress=02:0a:0b:0c:0d:0e", Fit::Perhaps("MACAddress")),
            ("Type=ether", Fit::Perhaps("Type")),
            ("OriginalName=en*", Fit::Perhaps("OriginalName")),
            ("OriginalName=*", Fit::Yes),
        ] {
            let file = LinkFile { path: "/x.link".to_owned(), text: format!("[Match]\n{line}\n") };
            assert_eq!(file.fits(&root, "eth0"), fit, "{line}");
        }
    }

    #[test]
    fn link_files_are_in_order_of_their_names_and_the_first_directory_wins() {
        let root = root(&[
            ("usr/lib/systemd/network/99-default.link", "[Match]\nOriginalName=*\n"),
            ("usr/lib/systemd/network/73-usb.link", "[Match]\nPath=*-usb-*\n"),
            ("usr/lib/systemd/network/10-a.link", "[Match]\nDriver=x\n"),
            ("etc/systemd/network/10-a.link", "[Match]\nDriver=y\n"),
            ("run/systemd/network/50-hidden.link", "[Match]\nDriver=z\n"),
            ("etc/systemd/network/50-hidden.link", ""),
            ("run/systemd/network/10-a.link.d/b.conf", "[Match]\nDriver=\nDriver=ice\n"),
        ]);
        let found = link_files(&root);
        let paths: Vec<_> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/etc/systemd/network/10-a.link",
                "/usr/lib/systemd/network/73-usb.link",
                "/usr/lib/systemd/network/99-default.link"
            ]
        );
        let fits: Vec<_> = found.iter().map(|file| file.fits(&root, "eth0")).collect();
        assert_eq!(fits, [Fit::Yes, Fit::No, Fit::Yes]);
    }
}
