//! The structures of `nearwire.h`, member by member. A test compares sizes and offsets with what a C compiler makes of the
//! header.

use libc::{E2BIG, EINVAL};

use crate::fault::Fault;

/// A structure that begins with its size.
///
/// # Safety
/// `repr(C)`, integers and arrays of them only (every byte pattern is a value), no padding, and the first member is a `u32`
/// that holds the size.
pub unsafe trait Sized32: Copy {
    /// The name in the header.
    const NAME: &'static str;
    /// Length of the structure in the first version of the library that had it: callers have at least that.
    const LEAST_BYTES: usize;
}

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $text:literal { $($member:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            #[repr(C)]
            #[expect(missing_docs, reason = "nearwire.h says what the members are")]
            pub struct $name {
                $(pub $member: $type,)*
            }

            // SAFETY: `repr(C)`, integers and arrays of them, `size` first; that there is no padding is asserted below.
            unsafe impl Sized32 for $name {
                const NAME: &'static str = $text;
                const LEAST_BYTES: usize = size_of::<$name>();
            }

            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "no padding");
        )*

        /// Each structure with its size, and each member with offset and size, as `nearwire_flow.port 12 2`.
        #[must_use]
        pub fn layout() -> Vec<String> {
            let mut lines = Vec::new();
            $(
                lines.push(format!("{} 0 {}", $text, size_of::<$name>()));
                $(lines.push(format!(
                    "{}.{} {} {}",
                    $text, stringify!($member), std::mem::offset_of!($name, $member), size_of::<$type>()
                ));)*
            )*
            lines
        }
    };
}

structures! {
    /// `struct nearwire_options`.
    Options = "nearwire_options" {
        size: u32,
        mode: u32,
        take: u32,
        waiting: u32,
        flags: u32,
        queue: u32,
        queue_count: u32,
        tx_queue: u32,
        rx_frames: u32,
        tx_frames: u32,
        slots: u32,
        frame_bytes: u32,
        busy_poll_us: u32,
        reserved: u32,
    }
    /// `struct nearwire_frame_info`.
    FrameInfo = "nearwire_frame_info" {
        size: u32,
        queue: u32,
        time_ns: u64,
        time_source: u32,
        reserved: u32,
    }
    /// `struct nearwire_flow`.
    Flow = "nearwire_flow" {
        size: u32,
        protocol: u32,
        family: u32,
        port: u16,
        reserved: u16,
        address: [u8; 16],
    }
    /// `struct nearwire_frame_filter`.
    FrameFilter = "nearwire_frame_filter" {
        size: u32,
        r#match: u32,
        mac: [u8; 6],
        ether_type: u16,
        vlan: u16,
        reserved: u16,
    }
    /// `struct nearwire_statistics`.
    Statistics = "nearwire_statistics" {
        size: u32,
        reserved: u32,
        received_frames: u64,
        sent_frames: u64,
        receive_dropped_frames: u64,
        send_refused_frames: u64,
        kicks: u64,
    }
    /// `struct nearwire_tcp_options`.
    TcpOptions = "nearwire_tcp_options" {
        size: u32,
        slots: u32,
        reserved: u64,
    }
    /// `struct nearwire_tcp_info`.
    TcpInfo = "nearwire_tcp_info" {
        size: u32,
        segment_bytes: u32,
        smoothed_round_trip_ns: u64,
        retransmitted_segments: u64,
        prepared_messages: u64,
        written_messages: u64,
        unacknowledged_bytes: u32,
        unsent_bytes: u32,
        unread_bytes: u32,
        send_window_bytes: u32,
    }
    /// `struct nearwire_facts`.
    Facts = "nearwire_facts" {
        size: u32,
        flags: u32,
        ifindex: u32,
        mtu_bytes: u32,
        speed_mbps: u32,
        rx_queues: u32,
        tx_queues: u32,
        xdp_program_id: u32,
        receive_dropped_frames: u64,
        mac: [u8; 6],
        reserved: [u8; 2],
        driver: [u8; 32],
    }
}

/// All zero, which means default, but for the size.
#[must_use]
pub fn empty<T: Sized32>() -> T {
    // SAFETY: `Sized32` promises integers only, for which zero is a value.
    let mut value: T = unsafe { std::mem::zeroed() };
    // SAFETY: the first member is a u32, and the structure is at least as long and as aligned.
    unsafe { (&raw mut value).cast::<u32>().write(size_of::<T>() as u32) };
    value
}

/// The size that a caller's structure states.
///
/// # Safety
/// `from` is NULL or points to a structure of this kind, as [`crate`] says.
unsafe fn stated_bytes<T: Sized32>(from: *const T) -> Result<usize, Fault> {
    if from.is_null() {
        return Err(Fault::new(EINVAL, format!("struct {} is NULL; pass one", T::NAME)));
    }
    if !from.is_aligned() {
        return Err(Fault::new(EINVAL, format!("struct {} is not aligned; declare it as what it is", T::NAME)));
    }
    // SAFETY: not NULL and aligned, and every structure has at least its first member.
    let stated_bytes = unsafe { from.cast::<u32>().read() } as usize;
    // Longer structures than a page are uninitialised ones.
    if (T::LEAST_BYTES..=4096).contains(&stated_bytes) {
        return Ok(stated_bytes);
    }
    let why = format!(
        "struct {} states a size of {stated_bytes} bytes; it has at least {}; initialise it with its _INIT macro",
        T::NAME,
        T::LEAST_BYTES
    );
    Err(Fault::new(EINVAL, why))
}

/// Reads a caller's structure. What a longer one has beyond ours must be zero.
///
/// # Safety
/// `from` is NULL or points to as many bytes as its size says.
pub(crate) unsafe fn read<T: Sized32>(from: *const T) -> Result<T, Fault> {
    // SAFETY: as the caller promises.
    let stated_bytes = unsafe { stated_bytes(from) }?;
    let known_bytes = stated_bytes.min(size_of::<T>());
    let mut value = empty::<T>();
    // SAFETY: both are at least `known_bytes` long, `value` is ours alone, and any bytes are a value of `T`.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast::<u8>(), known_bytes) };
    // SAFETY: the caller's structure is `stated_bytes` long.
    let rest =
        unsafe { std::slice::from_raw_parts(from.cast::<u8>().wrapping_add(known_bytes), stated_bytes - known_bytes) };
    if rest.iter().any(|&byte| byte != 0) {
        let why = format!("struct {} has parts that this library does not know; use a newer library", T::NAME);
        return Err(Fault::new(E2BIG, why));
    }
    Ok(value)
}

/// Writes to a caller's structure as much as it holds, and zero to what a longer one has beyond ours. Its size stays.
///
/// # Safety
/// `to` is NULL or points to as many bytes as its size says, for writing.
pub(crate) unsafe fn write<T: Sized32>(to: *mut T, value: &T) -> Result<(), Fault> {
    // SAFETY: as the caller promises.
    let stated_bytes = unsafe { stated_bytes(to.cast_const()) }?;
    let known_bytes = stated_bytes.min(size_of::<T>());
    const SIZE_BYTES: usize = size_of::<u32>();
    let (from, to) = (std::ptr::from_ref(value).cast::<u8>(), to.cast::<u8>());
    // SAFETY: both are at least `known_bytes` long, which is more than the size's, and do not overlap: `value` is ours.
    unsafe { std::ptr::copy_nonoverlapping(from.add(SIZE_BYTES), to.add(SIZE_BYTES), known_bytes - SIZE_BYTES) };
    // SAFETY: the caller's structure is `stated_bytes` long.
    unsafe { to.add(known_bytes).write_bytes(0, stated_bytes - known_bytes) };
    Ok(())
}

/// Bytes of a caller.
///
/// # Safety
/// `from` is NULL or points to `len_bytes` bytes that nobody writes while the slice lives.
pub(crate) unsafe fn bytes<'a>(
    from: *const libc::c_void,
    len_bytes: usize,
    name: &'static str,
) -> Result<&'a [u8], Fault> {
    check_pointer(from.cast(), len_bytes, name)?;
    // SAFETY: not NULL, of a possible length, and as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(from.cast(), len_bytes) })
}

/// Room of a caller.
///
/// # Safety
/// `to` is NULL or points to `len_bytes` bytes that nobody else touches while the slice lives.
pub(crate) unsafe fn room<'a>(
    to: *mut libc::c_void,
    len_bytes: usize,
    name: &'static str,
) -> Result<&'a mut [std::mem::MaybeUninit<u8>], Fault> {
    check_pointer(to.cast_const().cast(), len_bytes, name)?;
    // SAFETY: not NULL, of a possible length, and as the caller promises; the bytes need not be initialised.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.cast(), len_bytes) })
}

fn check_pointer(pointer: *const u8, len_bytes: usize, name: &'static str) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::new(EINVAL, format!("{name} is NULL; pass a pointer")));
    }
    if isize::try_from(len_bytes).is_err() {
        return Err(Fault::new(EINVAL, format!("{name} has {len_bytes} bytes, which no memory has; pass its length")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure as a later version would have it.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        now: Flow,
        more: u64,
    }

    fn later(more: u64) -> Later {
        let mut now = empty::<Flow>();
        (now.size, now.protocol, now.port) = (size_of::<Later>() as u32, 17, 7000);
        Later { now, more }
    }

    #[test]
    fn later_structure_read_is_taken_when_its_new_parts_are_zero() {
        let (plain, used) = (later(0), later(1));
        // SAFETY: both are as long as they say.
        unsafe {
            assert_eq!(read(&raw const plain.now).unwrap().port, 7000);
            assert_eq!(read((&raw const used).cast::<Flow>()).unwrap_err().errno, E2BIG);
        }
    }

    #[test]
    fn structure_of_impossible_size_read_is_refused() {
        let mut flow = empty::<Flow>();
        for size in [0, 4, size_of::<Flow>() as u32 - 1, 5000, u32::MAX] {
            flow.size = size;
            // SAFETY: sizes that are not the structure's are refused before anything beyond it is read.
            let refused = unsafe { read(&raw const flow) }.unwrap_err();
            assert!(refused.errno == EINVAL && refused.text.contains("nearwire_flow"), "{}", refused.text);
        }
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { read(std::ptr::null::<Flow>()) }.unwrap_err().errno, EINVAL);
    }

    #[test]
    fn later_structure_written_has_zero_where_we_know_nothing() {
        let mut theirs = later(u64::MAX);
        let mut ours = empty::<Flow>();
        ours.port = 9;
        // SAFETY: `theirs` is as long as it says.
        unsafe { write((&raw mut theirs).cast::<Flow>(), &ours) }.unwrap();
        assert_eq!((theirs.now.size as usize, theirs.now.port, theirs.more), (size_of::<Later>(), 9, 0));
    }
}
