//! Opening and closing.

use std::ffi::CStr;

use libc::{EINVAL, c_char, c_int};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::{Steer, TimesWanted, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::{PortError, RawPort};
use nearwire_sys::netdev::{XdpFeatures, xdp_features};

use crate::abi::{self, Options};
use crate::fault::Fault;
use crate::handle::{self, OpenPort, Port, State, with_port};

const MODE_AUTO: u32 = 0;
const MODE_XDP: u32 = 1;
const MODE_PACKET: u32 = 2;
const MODE_XDP_ZERO_COPY: u32 = 3;
const MODE_XDP_NATIVE: u32 = 4;
const MODE_XDP_GENERIC: u32 = 5;
const TAKE_FILTERS: u32 = 0;
const TAKE_ALL: u32 = 1;
const WAIT_SPIN: u32 = 0;
const WAIT_SLEEP: u32 = 1;
const OPEN_SEPARATE_TX: u32 = 1;
const OPEN_SMALL_PAGES: u32 = 2;
const OPEN_TIMES: u32 = 4;
const OPEN_TCP: u32 = 8;

/// More buffers than this are a mistake, and their rings no ring the kernel makes.
const FRAMES_MOST: u32 = 32768;
const QUEUES_MOST: u32 = 256;
/// What is left of a buffer of 2048 for a frame.
const SMALL_BUFFER_FRAME_BYTES: usize = 2048 - 256;

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `port` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_open(
    port: *mut *mut Port,
    interface: *const c_char,
    options: *const Options,
) -> c_int {
    handle::call_without_port(|| {
        if port.is_null() {
            return Err(Fault::new(EINVAL, "there is no place for the port; pass the address of a pointer"));
        }
        // SAFETY: not NULL, and the caller's to be written.
        unsafe { port.write(std::ptr::null_mut()) };
        // SAFETY: as the caller promises.
        let interface = unsafe { name(interface) }?;
        let options = if options.is_null() {
            abi::empty()
        } else {
            // SAFETY: as the caller promises.
            unsafe { abi::read(options) }?
        };
        let opened = open(interface, &options)?;
        // SAFETY: as above.
        unsafe { port.write(Box::into_raw(Box::new(Port::new(opened)))) };
        Ok(0)
    })
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; the port is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_close(port: *mut Port) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::close(port) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_mode(port: *mut Port) -> c_int {
    let mode = |state: &mut State| {
        let mode = match &state.port {
            OpenPort::Packet(_) => MODE_PACKET,
            OpenPort::Xdp(port) => match port.config().mode {
                XdpMode::ZeroCopy => MODE_XDP_ZERO_COPY,
                XdpMode::NativeCopy => MODE_XDP_NATIVE,
                XdpMode::Generic => MODE_XDP_GENERIC,
            },
        };
        Ok(mode as c_int)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, mode) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_frame_most(port: *mut Port) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, |state| Ok(with_port!(&state.port, port => port.frame_most_bytes()) as c_int)) }
}

/// A caller's interface name.
///
/// # Safety
/// `from` is NULL or ends in NUL.
pub(crate) unsafe fn name<'a>(from: *const c_char) -> Result<&'a str, Fault> {
    if from.is_null() {
        return Err(Fault::new(EINVAL, "the interface's name is NULL; pass one, as `ip link` lists them"));
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| Fault::new(libc::ENODEV, format!("open {text:?}: no interface has such a name")))
}

fn open(interface: &str, options: &Options) -> Result<State, Fault> {
    check(options)?;
    let facts = InterfaceFacts::read(interface)?;
    let mut refused = None;
    for mode in modes(options, &facts, || has_zero_copy(&facts)) {
        let opened = match mode {
            Some(mode) => xdp(&facts, mode, options).map(|port| OpenPort::Xdp(Box::new(port))),
            None => packet(&facts, options).map(|port| OpenPort::Packet(Box::new(port))),
        };
        match opened {
            Ok(port) => return Ok(state(port, interface, options)),
            Err(error) if another_mode_may_do(&error) => refused = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    Err(refused.map_or_else(|| Fault::new(EINVAL, "no mode was tried"), Fault::from))
}

fn state(port: OpenPort, interface: &str, options: &Options) -> State {
    let slots = with_port!(&port, port => port.prepared_most());
    State {
        port,
        interface: interface.to_owned(),
        sleeps: options.waiting == WAIT_SLEEP,
        slots: vec![None; slots as usize],
        filters: 0,
        carrying: None,
        broken: false,
    }
}

fn check(options: &Options) -> Result<(), Fault> {
    let checks = [
        ("mode", options.mode, options.mode <= MODE_XDP_GENERIC, "enum nearwire_mode"),
        ("take", options.take, [TAKE_FILTERS, TAKE_ALL].contains(&options.take), "enum nearwire_take"),
        ("waiting", options.waiting, [WAIT_SPIN, WAIT_SLEEP].contains(&options.waiting), "enum nearwire_waiting"),
        (
            "flags",
            options.flags,
            options.flags & !(OPEN_SEPARATE_TX | OPEN_SMALL_PAGES | OPEN_TIMES | OPEN_TCP) == 0,
            "enum nearwire_open_flags",
        ),
        ("queue_count", options.queue_count, options.queue_count <= QUEUES_MOST, "0 to 256"),
        ("queue", options.queue, options.queue <= u32::MAX - QUEUES_MOST, "a queue's number"),
        ("rx_frames", options.rx_frames, options.rx_frames <= FRAMES_MOST, "0 to 32768"),
        ("tx_frames", options.tx_frames, options.tx_frames <= FRAMES_MOST, "0 to 32768"),
        ("slots", options.slots, options.slots <= FRAMES_MOST, "0 to 32768"),
        ("frame_bytes", options.frame_bytes, [0, 2048, 4096].contains(&options.frame_bytes), "0, 2048 or 4096"),
        ("busy_poll_us", options.busy_poll_us, options.busy_poll_us <= i32::MAX as u32, "0 to 2147483647"),
        ("reserved", options.reserved, options.reserved == 0, "0"),
    ];
    match checks.into_iter().find(|check| !check.2) {
        Some((option, found, _, wanted)) => {
            Err(Fault::new(EINVAL, format!("open a port: options.{option} is {found}; wanted: {wanted}")))
        }
        None => Ok(()),
    }
}

/// The ways to try, the best first; `None` is AF_PACKET.
fn modes(options: &Options, facts: &InterfaceFacts, may_zero_copy: impl FnOnce() -> bool) -> Vec<Option<XdpMode>> {
    let xdp = || {
        let [native, generic] = [Some(XdpMode::NativeCopy), Some(XdpMode::Generic)];
        // A socket that only sends takes the receive side of its queue too in zero-copy mode, so a port with one is refused there.
        let separate = options.flags & OPEN_SEPARATE_TX != 0;
        match facts.driver.as_str() {
            // The one driver on which generic is the faster.
            "veth" => vec![generic, native],
            _ if !separate && may_zero_copy() => vec![Some(XdpMode::ZeroCopy), native, generic],
            _ => vec![native, generic],
        }
    };
    match options.mode {
        MODE_AUTO => [xdp(), vec![None]].concat(),
        MODE_XDP => xdp(),
        MODE_PACKET => vec![None],
        MODE_XDP_ZERO_COPY => vec![Some(XdpMode::ZeroCopy)],
        MODE_XDP_NATIVE => vec![Some(XdpMode::NativeCopy)],
        _ => vec![Some(XdpMode::Generic)],
    }
}

/// A driver that cannot do it is not asked to: on a real one the attempt resets the queue.
fn has_zero_copy(facts: &InterfaceFacts) -> bool {
    xdp_features(facts.ifindex).is_ok_and(|features| features.contains(XdpFeatures::XSK_ZEROCOPY))
}

fn another_mode_may_do(error: &PortError) -> bool {
    matches!(
        error,
        PortError::ModeUnsupported { .. }
            | PortError::AttachRefused { .. }
            | PortError::Privilege { .. }
            | PortError::ProgramRejected { .. }
            | PortError::MemoryLimit { .. }
            | PortError::Kernel { .. }
    )
}

fn steer(options: &Options) -> Steer {
    if options.take == TAKE_ALL { Steer::All } else { Steer::Filters }
}

fn or_default(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

fn xdp(facts: &InterfaceFacts, mode: XdpMode, options: &Options) -> Result<XdpPort, PortError> {
    let mut config = XdpConfig::new(&facts.name, mode, steer(options));
    let follows_mtu = if facts.frame_most_bytes() > SMALL_BUFFER_FRAME_BYTES { 4096 } else { 2048 };
    config.joined_segments = options.flags & OPEN_TCP != 0;
    // The device chooses which queue a connection comes on.
    let queues = if config.joined_segments { facts.rx_queues.saturating_sub(options.queue).max(1) } else { 1 };
    config.rx_queues = (options.queue..options.queue + or_default(options.queue_count, queues)).collect();
    config.tx_queue = options.queue;
    if options.flags & OPEN_SEPARATE_TX != 0 {
        (config.separate_tx_socket, config.tx_queue) = (true, options.tx_queue);
    }
    config.frame_size_bytes = or_default(options.frame_bytes, follows_mtu);
    let small = config.fill_frames;
    if options.rx_frames == 0 {
        config = config.with_ring_of(facts);
    } else {
        (config.fill_frames, config.rx_ring_slots) = (options.rx_frames, (2 * options.rx_frames).next_power_of_two());
    }
    config.tx_frames = or_default(options.tx_frames, config.tx_frames);
    config.prepared_frames = or_default(options.slots, config.prepared_frames);
    config.huge_pages = options.flags & OPEN_SMALL_PAGES == 0;
    let mut port = match XdpPort::open(&config) {
        // The caller did not ask for so many: a few that may be locked are better than another mode.
        Err(PortError::MemoryLimit { .. }) if options.rx_frames == 0 && config.fill_frames > small => {
            XdpPort::open(&XdpConfig { fill_frames: small, rx_ring_slots: 2 * small, ..config })?
        }
        opened => opened?,
    };
    if options.busy_poll_us > 0 {
        port.set_busy_poll(options.busy_poll_us)?;
    }
    if options.flags & OPEN_TIMES != 0 {
        port.want_times(TimesWanted::Device);
    }
    Ok(port)
}

fn packet(facts: &InterfaceFacts, options: &Options) -> Result<PacketPort, PortError> {
    let mut config = PacketConfig::new(&facts.name, steer(options));
    config.ring_slots = or_default(options.rx_frames, config.ring_slots).next_power_of_two().max(4);
    config.tx_frames = or_default(options.tx_frames, config.tx_frames);
    config.prepared_frames = or_default(options.slots, config.prepared_frames);
    PacketPort::open(&config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> InterfaceFacts {
        InterfaceFacts {
            name: "nw0".into(),
            ifindex: 0x7fff_fff1,
            mac: [0; 6],
            mtu_bytes: 1500,
            up: true,
            carrier: true,
            receive_dropped_frames: 0,
            driver: "ice".into(),
            rx_queues: 2,
            tx_queues: 2,
            rx_ring_frames: 1024,
            program: None,
        }
    }

    fn options(mode: u32, flags: u32) -> Options {
        Options { mode, flags, ..abi::empty() }
    }

    #[test]
    fn device_with_zero_copy_opened_with_a_socket_that_only_sends_is_tried_in_the_other_modes() {
        let (zero_copy, native, generic) = (Some(XdpMode::ZeroCopy), Some(XdpMode::NativeCopy), Some(XdpMode::Generic));
        let tried = |mode, flags| modes(&options(mode, flags), &device(), || true);
        assert_eq!(tried(MODE_XDP, 0), [zero_copy, native, generic]);
        assert_eq!(tried(MODE_XDP, OPEN_SEPARATE_TX), [native, generic]);
        assert_eq!(tried(MODE_AUTO, OPEN_SEPARATE_TX), [native, generic, None]);
        assert_eq!(
            tried(MODE_XDP_ZERO_COPY, OPEN_SEPARATE_TX),
            [zero_copy],
            "asked for by name: the open says why not"
        );
    }
}
