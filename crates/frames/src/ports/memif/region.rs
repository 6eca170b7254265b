//! Regions: memory that both ends map. The client makes them, as files without a name (memfd_create(2)), and passes their descriptors.
//!
//! A file that becomes shorter takes its pages from whoever mapped it, and the next touch is SIGBUS. So a region is mapped only if its file
//! is sealed against that; DPDK, VPP and libmemif seal those they make for memif. Pages of hugetlbfs can go in spite of a seal (a hole is
//! punched, and there is no free page at the next touch). DPDK with zero-copy offers such memory, and unsealed files: that needs
//! `trusts_unsealed_memory`.
//!
//! Source: DPDK `drivers/net/memif/rte_eth_memif.c` (`memif_region_init_shm`, `memif_connect`), fcntl(2) (file sealing).

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use nearwire_sys::shared_words::set_length;
use rustix::fs::{FileType, MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::error::MemifError;

/// As many as VPP and DPDK have.
pub(super) const REGIONS_MOST: usize = 256;
/// Offsets have 32 bits.
const REGION_MOST_BYTES: u64 = 1 << 32;
/// `HUGETLBFS_MAGIC` of include/uapi/linux/magic.h.
const HUGETLBFS_MAGIC: u32 = 0x9584_58f6;

/// A mapped region. The peer may write to it at any time.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping belongs to no thread; it gives out addresses only, and each access to its bytes is justified where it is made.
unsafe impl Send for Region {}
// SAFETY: as for `Send`.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a region of zeroes whose length is sealed, with its pages.
    ///
    /// # Errors
    /// There is no memory, or this process may not write files as long.
    pub(super) fn create(len_bytes: usize) -> Result<(Region, OwnedFd), MemifError> {
        let refused = |source: std::io::Error| MemifError::kernel("make the region", source);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(c"nearwire-memif", flags).map_err(|errno| refused(errno.into()))?;
        set_length(&file, len_bytes).map_err(refused)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|errno| refused(errno.into()))?;
        let region = Region::map(&file, len_bytes).map_err(|errno| refused(errno.into()))?;
        // Saves page faults later. Refused before Linux 5.14, which harms nobody.
        // SAFETY: the range is our mapping, whose content stays.
        let _ = unsafe { madvise(region.base.as_ptr().cast(), len_bytes, Advice::LinuxPopulateWrite) };
        Ok((region, file))
    }

    /// Maps region `number` that a peer made and says to be `said_bytes` long. `trusts`: also if the peer can take the memory away.
    ///
    /// # Errors
    /// The file is shorter, can be cut, or cannot be mapped.
    pub(super) fn open(file: &OwnedFd, number: u16, said_bytes: u64, trusts: bool) -> Result<Region, MemifError> {
        // Seals first: the length that is read after that stays.
        let lacks = what_lacks(file);
        let facts = fstat(file).map_err(|errno| MemifError::kernel("look at a region's file", errno))?;
        let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
        if let Some(lacks) = lacks.filter(|_| !(trusts && is_file)) {
            return Err(MemifError::RegionUnsealed { region: number, lacks });
        }
        let file_bytes = u64::try_from(facts.st_size).unwrap_or(0);
        if said_bytes == 0 || said_bytes > file_bytes.min(REGION_MOST_BYTES) {
            return Err(MemifError::RegionLength { region: number, found_bytes: said_bytes, file_bytes });
        }
        Region::map(file, said_bytes as usize).map_err(|errno| MemifError::kernel("map a region", errno))
    }

    fn map(file: &OwnedFd, len_bytes: usize) -> Result<Region, rustix::io::Errno> {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory that exists.
        let start = unsafe { mmap(std::ptr::null_mut(), len_bytes, both, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Region { base, len_bytes })
    }

    /// Where these bytes are, if all of them are within the region.
    #[inline]
    pub(super) fn span(&self, offset_bytes: u32, len_bytes: u32) -> Option<NonNull<u8>> {
        let (offset_bytes, len_bytes) = (offset_bytes as usize, len_bytes as usize);
        // Lengths of 32 bits do not overflow one of 64.
        if offset_bytes.checked_add(len_bytes)? > self.len_bytes {
            return None;
        }
        // SAFETY: the offset is within the mapping, or at its end for no bytes.
        Some(unsafe { self.base.add(offset_bytes) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever has an address of it has the region too (`Regions`). A failure leaves it mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len_bytes) };
    }
}

/// Why the peer could take the memory away; `None` if it cannot.
fn what_lacks(file: &OwnedFd) -> Option<&'static str> {
    let Ok(seals) = fcntl_get_seals(file) else { return Some("the file cannot be sealed") };
    if !seals.contains(SealFlags::SHRINK) {
        return Some("no F_SEAL_SHRINK");
    }
    let is_huge = !fstatfs(file).is_ok_and(|facts| facts.f_type as u32 != HUGETLBFS_MAGIC);
    is_huge.then_some("pages of hugetlbfs")
}

/// All regions of a connection, by number.
#[derive(Debug, Default)]
pub(super) struct Regions(Vec<Region>);

impl Regions {
    /// Adds the next one.
    ///
    /// # Errors
    /// It has another number, or there are as many as can be.
    pub(super) fn add(&mut self, number: u16, region: Region) -> Result<(), MemifError> {
        self.check_next(number)?;
        self.0.push(region);
        Ok(())
    }

    /// Fails unless the next one can have this number.
    ///
    /// # Errors
    /// As [`Regions::add`].
    pub(super) fn check_next(&self, number: u16) -> Result<(), MemifError> {
        let wanted = self.0.len();
        if usize::from(number) != wanted || wanted >= REGIONS_MOST {
            return Err(MemifError::RegionNumber { found: number, wanted, most: REGIONS_MOST });
        }
        Ok(())
    }

    /// Where these bytes of a region are, if there is such a region and all of them are within it.
    #[inline]
    pub(super) fn span(&self, region: u16, offset_bytes: u32, len_bytes: u32) -> Option<NonNull<u8>> {
        self.0.get(usize::from(region))?.span(offset_bytes, len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::ftruncate;

    use super::*;

    fn file(len_bytes: u64, seals: SealFlags) -> OwnedFd {
        let file = memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, len_bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn region_created_is_opened_by_the_other_end_and_cannot_be_cut() {
        let (ours, memory) = Region::create(10_000).unwrap();
        let theirs = Region::open(&memory, 0, 10_000, false).unwrap();
        let byte = |region: &Region| region.span(9_999, 1).unwrap();
        // SAFETY: the byte is within both mappings, and this thread alone uses it.
        let seen = unsafe {
            byte(&ours).write(7);
            byte(&theirs).read()
        };
        assert_eq!(seen, 7);
        ftruncate(&memory, 0).unwrap_err();
    }

    #[test]
    fn region_that_can_be_cut_is_opened_only_if_the_peer_is_trusted() {
        let unsealed = file(4096, SealFlags::empty());
        assert!(matches!(Region::open(&unsealed, 3, 4096, false), Err(MemifError::RegionUnsealed { region: 3, .. })));
        Region::open(&unsealed, 3, 4096, true).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap().into();
        Region::open(&null, 0, 1, true).unwrap_err();
        let (pipe, _end) = rustix::pipe::pipe().unwrap();
        Region::open(&pipe, 0, 1, true).unwrap_err();
    }

    #[test]
    fn region_longer_than_its_file_is_refused() {
        let sealed = file(4096, SealFlags::SHRINK);
        Region::open(&sealed, 0, 4096, false).unwrap();
        for said_bytes in [0, 4097, REGION_MOST_BYTES + 1, u64::MAX] {
            let opened = Region::open(&sealed, 0, said_bytes, false);
            assert!(matches!(opened, Err(MemifError::RegionLength { file_bytes: 4096, .. })), "{opened:?}");
        }
        let vast = file(REGION_MOST_BYTES + 4096, SealFlags::SHRINK);
        Region::open(&vast, 0, REGION_MOST_BYTES + 1, false).unwrap_err();
        Region::open(&vast, 0, REGION_MOST_BYTES, false).unwrap();
    }

    #[test]
    fn bytes_beyond_a_region_are_not_there() {
        let mut regions = Regions::default();
        regions.add(0, Region::create(4096).unwrap().0).unwrap();
        assert!(regions.span(0, 4095, 1).is_some() && regions.span(0, 4096, 0).is_some());
        for (region, offset_bytes, len_bytes) in [(0, 4096, 1), (0, u32::MAX, u32::MAX), (1, 0, 0), (u16::MAX, 0, 1)] {
            assert!(regions.span(region, offset_bytes, len_bytes).is_none());
        }
    }

    #[test]
    fn regions_are_numbered_without_gaps() {
        let mut regions = Regions::default();
        let one = || Region::create(1).unwrap().0;
        assert!(matches!(regions.add(1, one()), Err(MemifError::RegionNumber { found: 1, wanted: 0, .. })));
        (0..REGIONS_MOST as u16).for_each(|number| regions.add(number, one()).unwrap());
        regions.add(REGIONS_MOST as u16, one()).unwrap_err();
    }
}
