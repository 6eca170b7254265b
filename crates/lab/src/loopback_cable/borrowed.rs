//! An interface that is away from home.

use crate::interface::{self, InterfaceFacts};
use crate::netlink::Netlink;
use crate::{LabError, Namespace};

use super::kept::KeptInterface;

/// Name pattern for an interface whose own name was taken while it was away.
const FALLBACK_NAME: &str = "nwback%d";
/// What names of that pattern start with.
const FALLBACK_PREFIX: &str = "nwback";

/// Where an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// In the cable's namespace.
    Abroad,
    /// Back, but bare: down and without addresses.
    Home,
    /// Back with all it had, as far as that went.
    Settled,
}

/// An interface moved from its namespace into another. Comes home when dropped.
#[derive(Debug)]
pub(super) struct BorrowedInterface {
    kept: KeptInterface,
    home: Namespace,
    abroad: Namespace,
    whereabouts: Whereabouts,
    failures: Vec<String>,
}

impl BorrowedInterface {
    /// Moves the interface from `home`, where the calling thread is, to `abroad`.
    pub(super) fn take(kept: KeptInterface, home: &Namespace, abroad: &Namespace) -> Result<Self, LabError> {
        let mut netlink = Netlink::open_in(home)?;
        match netlink.move_link(kept.facts.ifindex, abroad.fd(), None) {
            Ok(()) => Ok(Self {
                kept,
                home: home.clone(),
                abroad: abroad.clone(),
                whereabouts: Whereabouts::Abroad,
                failures: Vec::new(),
            }),
            // EINVAL is how kernels before 6.15 say what IFLA_NETNS_IMMUTABLE says since.
            Err(error) if error.refused_errno() == Some(libc::EINVAL) => Err(LabError::PinnedToNamespace {
                interface: kept.facts.name.clone(),
                kind: kept.facts.driver_or_kind().to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Brings the interface home, down and bare. Both ends of a cable come home before either is
    /// settled, lest one sees carrier that it did not have and the kernel gives it addresses.
    pub(super) fn bring_home(&mut self) {
        if self.whereabouts != Whereabouts::Abroad {
            return;
        }
        self.whereabouts = match self.move_home() {
            Ok(()) => Whereabouts::Home,
            Err(error) => {
                self.failures.push(error.to_string());
                Whereabouts::Settled
            }
        };
    }

    /// Brings the interface home if it is away and restores what it had. Calling it again does
    /// nothing.
    pub(super) fn settle(&mut self) -> Result<(), LabError> {
        self.bring_home();
        if self.whereabouts == Whereabouts::Home {
            self.whereabouts = Whereabouts::Settled;
            match Netlink::open_in(&self.home) {
                Ok(mut netlink) => {
                    let failures = self.kept.restore(&mut netlink, &self.home);
                    self.failures.extend(failures);
                }
                Err(error) => self.failures.push(error.to_string()),
            }
        }
        let failures = std::mem::take(&mut self.failures);
        if failures.is_empty() {
            return Ok(());
        }
        Err(LabError::PutBack { interface: self.kept.facts.name.clone(), failures })
    }

    fn move_home(&mut self) -> Result<(), LabError> {
        let name = &self.kept.facts.name;
        let mut abroad = Netlink::open_in(&self.abroad)?;
        let here = interface::facts_named(&mut abroad, name)?;
        match abroad.move_link(here.ifindex, self.home.fd(), None) {
            Err(error) if error.refused_errno() == Some(libc::EEXIST) => {
                abroad.move_link(here.ifindex, self.home.fd(), Some(FALLBACK_NAME))?;
                Err(self.name_taken()?)
            }
            outcome => outcome,
        }
    }

    /// Says under which name the interface came home when its own was taken.
    fn name_taken(&self) -> Result<LabError, LabError> {
        let links = Netlink::open_in(&self.home)?.links()?;
        let found = links
            .iter()
            .map(InterfaceFacts::from_link)
            .find(|facts| facts.name.starts_with(FALLBACK_PREFIX) && facts.mac == self.kept.facts.mac);
        Ok(LabError::NameTaken {
            interface: self.kept.facts.name.clone(),
            present: found.map_or_else(|| FALLBACK_NAME.to_owned(), |facts| facts.name),
        })
    }
}

impl Drop for BorrowedInterface {
    fn drop(&mut self) {
        // Nobody is left to tell; whoever wants to know calls settle.
        self.settle().ok();
    }
}
