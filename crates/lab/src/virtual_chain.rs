//! The virtual chain: anonymous namespaces in a row, each joined to the next by a veth pair. The first has the generator, the last the
//! sink, those in between are devices under test.

use crate::virtual_cable::{Side, VirtualCableOptions, lay_pair};
use crate::{CablePair, LabError};

/// Most links of a chain.
const LINKS_MOST: u32 = 4;

/// Namespaces in a row. Interfaces are `nw0` to `nw1`, `nw2` to `nw3` and so on from the first namespace to the last.
///
/// Gone when dropped, and when the process ends in whatever way.
#[derive(Debug)]
pub struct VirtualChain {
    links: Vec<CablePair>,
    warnings: Vec<String>,
}

impl VirtualChain {
    /// Lays a chain of so many links, 1 to 4: there is one namespace more. Takes milliseconds.
    ///
    /// # Errors
    ///
    /// [`LabError::Option`]; [`LabError::CreateNamespace`] without privilege; [`LabError::Refused`] where the kernel has no veth.
    pub fn lay(links: u32, options: VirtualCableOptions) -> Result<Self, LabError> {
        options.check()?;
        if !(1..=LINKS_MOST).contains(&links) {
            return Err(LabError::Option { option: "links", value: links, allowed: "1 to 4" });
        }
        let mut here = Side::make()?;
        let mut warnings: Vec<String> = here.warning.iter().cloned().collect();
        let mut laid = Vec::new();
        for link in 0..links {
            let mut there = Side::make()?;
            laid.push(lay_pair(&mut here, &mut there, options, link as u8)?);
            here = there;
        }
        warnings.extend(crate::cable::ipv6_warning(&laid[0]));
        Ok(Self { links: laid, warnings })
    }

    /// From the first namespace to the last; `near` of each is nearer to the first.
    #[must_use]
    pub fn links(&self) -> &[CablePair] {
        &self.links
    }

    /// What a reader of the results should know, a sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_or_skip;

    #[test]
    fn impossible_numbers_of_links_are_refused() {
        for links in [0, 5] {
            let error = VirtualChain::lay(links, VirtualCableOptions::default()).unwrap_err();
            assert!(matches!(error, LabError::Option { option: "links", .. }), "{error}");
        }
    }

    #[test]
    fn chain_laid_has_a_device_between_generator_and_sink() {
        let Some(chain) = made_or_skip(VirtualChain::lay(2, VirtualCableOptions::default())) else { return };
        let [first, second] = chain.links() else { panic!("{:?}", chain.links()) };
        let inode = |end: &crate::CableEnd| end.namespace.inode().unwrap();
        assert_eq!(inode(&first.far), inode(&second.near));
        assert_ne!(inode(&first.near), inode(&second.far));
        assert_eq!(second.far.interface, "nw3");
    }
}
