//! The parts of `union bpf_attr` that the calls of [`super`] use, one struct a command.
//!
//! The kernel takes any prefix of the union: what lies beyond the size passed counts as zero. Each struct is
//! therefore as long as its last member that is used, has no padding, and starts zeroed.
//!
//! Source: `union bpf_attr` in `include/uapi/linux/bpf.h`, Linux 6.12.

/// Commands of bpf(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookupElem = 1,
    MapUpdateElem = 2,
    MapDeleteElem = 3,
    ProgLoad = 5,
    ProgTestRun = 10,
    ProgGetNextId = 11,
    ProgGetFdById = 13,
    ObjGetInfoByFd = 15,
    ProgQuery = 16,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkGetFdById = 30,
    LinkGetNextId = 31,
    LinkDetach = 34,
}

/// A struct that is a prefix of `union bpf_attr`.
///
/// # Safety
/// The type is `repr(C)`, without padding, valid when all its bytes are zero, and laid out as the kernel's
/// member for `COMMAND`.
pub(super) unsafe trait Attr: Sized {}

/// A zeroed attribute.
pub(super) fn zeroed<A: Attr>() -> A {
    // SAFETY: `Attr` promises that all-zero bytes are a valid value.
    unsafe { std::mem::zeroed() }
}

/// `BPF_OBJ_NAME_LEN`, with the closing NUL.
pub(super) const NAME_LEN: usize = 16;

/// A kernel object's name: cut to what the kernel takes, other characters than it takes replaced.
pub(super) fn object_name(name: &str) -> [u8; NAME_LEN] {
    let mut out = [0; NAME_LEN];
    for (to, from) in out[..NAME_LEN - 1].iter_mut().zip(name.bytes()) {
        *to = if from.is_ascii_alphanumeric() || from == b'_' || from == b'.' { from } else { b'_' };
    }
    out
}

#[repr(C)]
pub(super) struct MapCreate {
    pub map_type: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub inner_map_fd: u32,
    pub numa_node: u32,
    pub map_name: [u8; NAME_LEN],
}
// SAFETY: integers and bytes only, 4-byte members throughout; checked by `attributes_have_the_kernels_layout`.
unsafe impl Attr for MapCreate {}

#[repr(C)]
pub(super) struct MapElem {
    pub map_fd: u32,
    pub pad: u32,
    pub key: u64,
    pub value: u64,
    pub flags: u64,
}
// SAFETY: integers only, the hole before `key` is the member `pad`; checked by the layout test.
unsafe impl Attr for MapElem {}

#[repr(C)]
pub(super) struct ProgQuery {
    /// A descriptor or an interface's index.
    pub target: u32,
    pub attach_type: u32,
    pub query_flags: u32,
    pub attach_flags: u32,
    pub program_ids: u64,
    /// Room for ids; the kernel writes how many there are.
    pub programs: u32,
    pub pad: u32,
    pub program_attach_flags: u64,
    pub link_ids: u64,
    pub link_attach_flags: u64,
    /// Written by the kernel without a look at the size (`bpf_mprog_query`), so it must be here.
    pub revision: u64,
}
// SAFETY: integers only, the hole behind `programs` is the member `pad`; checked by the layout test.
unsafe impl Attr for ProgQuery {}

#[repr(C)]
pub(super) struct NextId {
    pub start_id: u32,
    pub next_id: u32,
    pub open_flags: u32,
}
// SAFETY: integers only; checked by the layout test.
unsafe impl Attr for NextId {}

#[repr(C)]
pub(super) struct ProgLoad {
    pub prog_type: u32,
    pub insn_cnt: u32,
    pub insns: u64,
    pub license: u64,
    pub log_level: u32,
    pub log_size: u32,
    pub log_buf: u64,
    pub kern_version: u32,
    pub prog_flags: u32,
    pub prog_name: [u8; NAME_LEN],
    pub prog_ifindex: u32,
    pub expected_attach_type: u32,
}
// SAFETY: integers and bytes only, every u64 is at a multiple of 8; checked by the layout test.
unsafe impl Attr for ProgLoad {}

#[repr(C)]
pub(super) struct ProgTestRun {
    pub prog_fd: u32,
    pub retval: u32,
    pub data_size_in: u32,
    pub data_size_out: u32,
    pub data_in: u64,
    pub data_out: u64,
    pub repeat: u32,
    pub duration: u32,
    pub ctx_size_in: u32,
    pub ctx_size_out: u32,
    pub ctx_in: u64,
    pub ctx_out: u64,
}
// SAFETY: integers only, every u64 is at a multiple of 8; checked by the layout test.
unsafe impl Attr for ProgTestRun {}

/// `struct xdp_md`: what a test run says about where the frame came from.
#[repr(C)]
pub(super) struct XdpMd {
    pub data: u32,
    pub data_end: u32,
    pub data_meta: u32,
    pub ingress_ifindex: u32,
    pub rx_queue_index: u32,
    pub egress_ifindex: u32,
}

#[repr(C)]
pub(super) struct ObjInfo {
    pub bpf_fd: u32,
    pub info_len: u32,
    pub info: u64,
}
// SAFETY: integers only, the u64 is at a multiple of 8; checked by the layout test.
unsafe impl Attr for ObjInfo {}

/// The head of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct ProgInfo {
    pub kind: u32,
    pub id: u32,
    pub tag: [u8; 8],
    pub jited_prog_len_bytes: u32,
    pub xlated_prog_len_bytes: u32,
    pub jited_prog: u64,
    pub xlated_prog: u64,
    pub load_time_ns: u64,
    pub created_by_uid: u32,
    /// None are asked for.
    pub map_ids: u32,
    pub map_ids_at: u64,
    pub name: [u8; NAME_LEN],
}

/// The head of `struct bpf_link_info`, with the part of XDP links.
#[repr(C)]
#[derive(Default)]
pub(super) struct LinkInfo {
    pub kind: u32,
    pub id: u32,
    pub prog_id: u32,
    /// The union behind it begins at a multiple of 8.
    pub pad: u32,
    pub ifindex: u32,
}

#[repr(C)]
pub(super) struct LinkCreate {
    pub prog_fd: u32,
    pub target_ifindex: u32,
    pub attach_type: u32,
    pub flags: u32,
}
// SAFETY: integers of 4 bytes only; checked by the layout test.
unsafe impl Attr for LinkCreate {}

#[repr(C)]
pub(super) struct LinkUpdate {
    pub link_fd: u32,
    pub new_prog_fd: u32,
    pub flags: u32,
    pub old_prog_fd: u32,
}
// SAFETY: integers of 4 bytes only; checked by the layout test.
unsafe impl Attr for LinkUpdate {}

#[repr(C)]
pub(super) struct LinkDetach {
    pub link_fd: u32,
}
// SAFETY: one integer; checked by the layout test.
unsafe impl Attr for LinkDetach {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn attributes_have_the_kernels_layout() {
        assert_eq!(offset_of!(MapCreate, map_name), 28);
        assert_eq!(size_of::<MapCreate>(), 44);
        assert_eq!((offset_of!(MapElem, key), offset_of!(MapElem, flags)), (8, 24));
        assert_eq!(size_of::<MapElem>(), 32);
        assert_eq!((offset_of!(ProgQuery, programs), offset_of!(ProgQuery, revision)), (24, 56));
        assert_eq!(size_of::<ProgQuery>(), 64);
        assert_eq!((offset_of!(NextId, next_id), size_of::<NextId>()), (4, 12));
        assert_eq!((offset_of!(ProgLoad, insns), offset_of!(ProgLoad, license)), (8, 16));
        assert_eq!((offset_of!(ProgLoad, log_buf), offset_of!(ProgLoad, prog_name)), (32, 48));
        assert_eq!((offset_of!(ProgLoad, prog_flags), offset_of!(ProgLoad, prog_ifindex)), (44, 64));
        assert_eq!(offset_of!(ProgLoad, expected_attach_type), 68);
        assert_eq!(size_of::<ProgLoad>(), 72);
        assert_eq!((offset_of!(ProgTestRun, data_in), offset_of!(ProgTestRun, repeat)), (16, 32));
        assert_eq!((offset_of!(ProgTestRun, ctx_in), offset_of!(ProgTestRun, ctx_out)), (48, 56));
        assert_eq!(size_of::<ProgTestRun>(), 64);
        assert_eq!((offset_of!(XdpMd, ingress_ifindex), offset_of!(XdpMd, rx_queue_index)), (12, 16));
        assert_eq!(size_of::<XdpMd>(), 24);
        assert_eq!((offset_of!(ObjInfo, info), size_of::<ObjInfo>()), (8, 16));
        assert_eq!((offset_of!(ProgInfo, id), offset_of!(ProgInfo, jited_prog_len_bytes)), (4, 16));
        assert_eq!((offset_of!(ProgInfo, load_time_ns), offset_of!(ProgInfo, name)), (40, 64));
        assert_eq!(size_of::<ProgInfo>(), 80);
        assert_eq!((offset_of!(LinkInfo, prog_id), offset_of!(LinkInfo, ifindex)), (8, 16));
        assert_eq!((offset_of!(LinkCreate, flags), size_of::<LinkCreate>()), (12, 16));
        assert_eq!((offset_of!(LinkUpdate, new_prog_fd), size_of::<LinkUpdate>()), (4, 16));
        assert_eq!(size_of::<LinkDetach>(), 4);
    }

    #[test]
    fn object_name_too_long_or_odd_is_made_acceptable() {
        assert_eq!(&object_name("nw-steer"), b"nw_steer\0\0\0\0\0\0\0\0");
        assert_eq!(&object_name("a_name_longer_than_allowed"), b"a_name_longer_t\0");
    }
}
