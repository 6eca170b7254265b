use std::time::Duration;

use nearwire_stack::NeedsKernel;
use proptest::prelude::*;

use super::*;
use crate::config::{Config, Spin};
use crate::reason::{Handed, HandedCall, Reason};
use crate::wait::auto::{Doing, Why};

fn page() -> Writer {
    let identity = Identity { pid: 77, started_ticks: 1234 };
    Writer::create(identity, &Config::default(), 2).unwrap()
}

fn status(page: &Writer) -> Status {
    Reader::new(&page.bytes()).unwrap().status()
}

#[test]
fn fresh_page_read_has_its_writer_and_no_socket() {
    let status = status(&page());
    assert_eq!((status.pid, status.started_ticks, status.is_torn), (77, 1234, false));
    assert_eq!(status.library_version, env!("CARGO_PKG_VERSION"));
    assert_eq!((status.spin, status.engine), (Spin::Auto, Some(EngineState::Idle)));
    assert_eq!(status.config, Config::default().to_toml());
    assert!(status.sockets.is_empty() && status.interfaces.is_empty() && status.handed.is_empty());
    assert!(status.counters.iter().all(|(_, value)| *value == 0));
}

#[test]
fn sockets_written_are_read_with_addresses_counters_and_reasons() {
    let page = page();
    let socket = page.socket(SLOTS - 1).unwrap();
    socket.open(5);
    socket.set_local(Some("[fe80::1%3]:9".parse().unwrap()));
    socket.set_remote(Some("192.0.2.7:53".parse().unwrap()));
    socket.count_received(100);
    socket.count_received(20);
    socket.count_sent(1);
    socket.count(SocketCounter::Dropped, 4);
    socket.set_interface(3);
    let read = status(&page).sockets;
    assert_eq!((read.len(), read[0].slot, read[0].fd), (1, SLOTS - 1, 5));
    assert_eq!((read[0].is_accelerated, read[0].why().as_str()), (false, Reason::NotBound.words()));
    assert_eq!(read[0].local, Some("[fe80::1%3]:9".parse().unwrap()));
    assert_eq!(read[0].remote, Some("192.0.2.7:53".parse().unwrap()));
    assert_eq!((read[0].counter(SocketCounter::ReceivedBytes), read[0].counter(SocketCounter::Received)), (120, 2));
    assert_eq!((read[0].counter(SocketCounter::Dropped), read[0].ifindex), (4, 3));

    socket.set_accelerated();
    assert_eq!((status(&page).sockets[0].is_accelerated, status(&page).sockets[0].why()), (true, String::new()));
    page.for_engine(2).socket(SLOTS - 1).unwrap().set_engine_number(2);
    assert_eq!(status(&page).sockets[0].engine, 2);
    socket.set_kernel(Reason::RuleSaysKernel, 2);
    assert_eq!(status(&page).sockets[0].why(), "rule 2 keeps it with the kernel");
    socket.close();
    assert_eq!(status(&page).sockets, []);
    socket.open(-1);
    let reopened = &status(&page).sockets[0];
    assert_eq!((reopened.fd, reopened.local, reopened.engine), (-1, None, 0));
    assert_eq!(reopened.counter(SocketCounter::Received), 0);
    assert!(page.socket(SLOTS).is_none());
}

#[test]
fn engine_interfaces_and_counters_written_are_read() {
    let page = page();
    let text = "ü".repeat(ENGINE_TEXT_BYTES);
    page.set_engine(&Engine { state: EngineState::Failed, reason: Some(Reason::MemoryLimit), text: &text });
    let about = InterfaceAbout {
        name: "eth4",
        ifindex: 4,
        reason: None,
        queues: 2,
        mode: "generic",
        text: "receives on queue 0 and 1",
    };
    page.set_interface(1, &about);
    page.set_interface(INTERFACES, &about);
    page.count(Counter::Kicks, 7);
    page.count_handed(Handed::ByStack(NeedsKernel::NoRoute));
    page.count_handed(Handed::ByLibrary(HandedCall::NotReady));
    page.count_handed(Handed::ByLibrary(HandedCall::NotReady));
    let status = status(&page);
    assert_eq!((status.engine, status.engine_reason), (Some(EngineState::Failed), Some(Reason::MemoryLimit)));
    assert_eq!(status.engine_text, "ü".repeat(ENGINE_TEXT_BYTES / 2));
    assert_eq!(status.interfaces.len(), 2);
    assert_eq!((status.interfaces[1].name.as_str(), status.interfaces[1].queues), ("eth4", 2));
    assert_eq!((status.interfaces[1].mode.as_str(), status.interfaces[1].reason), ("generic", None));
    assert_eq!(status.counter(Counter::Kicks), 7);
    let expected = [(Handed::ByStack(NeedsKernel::NoRoute), 1), (Handed::ByLibrary(HandedCall::NotReady), 2)];
    assert_eq!(status.handed, expected);
}

#[test]
fn counters_of_several_engines_are_read_as_their_sum() {
    let page = page();
    page.set_engine_count(3);
    let engines = [0, 1, 2].map(|engine| page.for_engine(engine));
    for engine in &engines {
        engine.count(Counter::Kicks, 5);
        engine.set_counter(Counter::FramesReceived, 100 + u64::from(engine.engine()));
        engine.count_handed(Handed::ByLibrary(HandedCall::NotReady));
        engine.set_process_counter(Counter::SpinningNs, 7);
    }
    engines[2].clone().set_counter(Counter::FramesReceived, 1000);
    let read = status(&page);
    assert_eq!((read.engines, read.counter(Counter::Kicks)), (3, 15));
    assert_eq!(read.counter(Counter::FramesReceived), 100 + 101 + 1000);
    assert_eq!(read.handed, [(Handed::ByLibrary(HandedCall::NotReady), 3)]);
    assert_eq!(read.counter(Counter::SpinningNs), 7, "of all threads, whoever says so");
    // One that ended keeps what it counted.
    drop(engines);
    page.set_engine_count(1);
    assert_eq!((status(&page).engines, status(&page).counter(Counter::Kicks)), (1, 15));
}

#[test]
fn engines_beyond_the_blocks_are_counted_too() {
    let page = page();
    for engine in 0..ENGINES as u32 + 3 {
        page.for_engine(engine).count(Counter::Kicks, 1);
    }
    assert_eq!(status(&page).counter(Counter::Kicks), ENGINES as u64 + 3);
    assert_eq!(status(&page).counters.iter().filter(|(_, count)| *count > 0).count(), 1);
}

#[test]
fn engines_that_count_at_the_same_time_lose_nothing() {
    const TIMES: u64 = 100_000;
    let page = page();
    std::thread::scope(|scope| {
        for engine in 0..2 {
            let page = page.for_engine(engine);
            scope.spawn(move || (0..TIMES).for_each(|_| page.count(Counter::Kicks, 1)));
        }
    });
    assert_eq!(status(&page).counter(Counter::Kicks), 2 * TIMES);
}

#[test]
fn automatic_spinning_says_what_it_does_and_why() {
    let identity = Identity::of_self().unwrap();
    let page = Writer::create(identity, &Config::default(), 2).unwrap();
    page.set_waiting(Waiting::of(Doing::Sleeps, Why::Crowded) as u64);
    let found = status(&page);
    assert_eq!((found.spin, found.waiting), (Spin::Auto, Some(Waiting::SleepsCrowded)));
    let said = Process::of_self("echo", found).page();
    let expected = "spin auto: it sleeps: more threads spin than there are CPUs, and sleeping passes most messages; ";
    assert!(said.contains(expected), "{said}");
    let forever = Config { spin: Spin::Forever, ..Config::default() };
    assert_eq!(status(&Writer::create(identity, &forever, 2).unwrap()).waiting, None);
}

#[test]
fn way_of_waiting_is_that_of_the_cpus() {
    let identity = Identity::of_self().unwrap();
    let of = |config: &Config, cpus| status(&Writer::create(identity, config, cpus).unwrap()).spin;
    assert_eq!(of(&Config::default(), 1), Spin::For(Duration::ZERO));
    let some = Config { spin: Spin::For(Duration::from_micros(50)), ..Config::default() };
    assert_eq!(of(&some, 1), some.spin);
}

#[test]
fn identity_read_is_this_process() {
    let identity = Identity::of_self().unwrap();
    assert_eq!(identity.pid, std::process::id());
    assert!(identity.started_ticks > 0);
}

#[test]
fn slot_changed_while_copied_is_told_and_left_out() {
    let page = page();
    for slot in [0, 1] {
        page.socket(slot).unwrap().open(3);
    }
    let mut bytes = page.bytes();
    // The writer stores the last sequence word before anything else.
    let last = (layout::slot_start(1) + layout::SOCKET_LAST.at) * 8;
    bytes[last] = bytes[last].wrapping_add(1);
    let status = Reader::new(&bytes).unwrap().status();
    assert!(status.is_torn);
    assert_eq!(status.sockets.iter().map(|socket| socket.slot).collect::<Vec<_>>(), [0]);
}

#[test]
fn slot_changed_all_the_time_is_never_shown_half() {
    use std::net::{Ipv6Addr, SocketAddr};
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    let page = page();
    page.socket(0).unwrap().open(3);
    let is_done = AtomicBool::new(false);
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    let mut bytes = page.bytes();
    let slot = layout::slot_start(0) * 8..layout::slot_start(1) * 8;
    let local = slot.start + layout::SOCKET_LOCAL.at * 8;
    let (mut whole, mut halves) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for half in (0..u64::MAX).take_while(|_| !is_done.load(Ordering::Relaxed)) {
                let address = Ipv6Addr::from_bits(u128::from(half) << 64 | u128::from(half));
                page.socket(0).unwrap().set_local(Some(SocketAddr::new(address.into(), half as u16)));
                // Without a rest no copy would be whole.
                (0..20).for_each(|_| std::hint::spin_loop());
            }
        });
        for number in 0..100_000 {
            memory.read_exact_at(&mut bytes[slot.clone()], page.address() + slot.start as u64).unwrap();
            let is_half = bytes[local..local + 8] != bytes[local + 8..local + 16];
            // A page takes long to read: all that are half, and some others.
            if !is_half && number % 300 > 0 {
                continue;
            }
            halves += usize::from(is_half);
            for socket in Reader::new(&bytes).unwrap().status().sockets {
                let Some(SocketAddr::V6(local)) = socket.local else { continue };
                let bits = local.ip().to_bits();
                assert_eq!(((bits >> 64) as u64, local.port()), (bits as u64, bits as u16));
                whole += 1;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    println!("{halves} copies had half of a change, {whole} were shown whole");
    assert!(whole > 0);
}

#[test]
fn bytes_of_something_else_are_refused_with_the_reason() {
    let bytes = page().bytes();
    assert_eq!(Reader::new(&[]).unwrap_err(), PageError::NoMagic);
    assert_eq!(Reader::new(&bytes[..4096]).unwrap_err(), PageError::TooShort { found_bytes: 4096 });
    let mut newer = bytes.clone();
    let version_at = if cfg!(target_endian = "little") { 7 } else { 0 };
    newer[version_at] = 9;
    assert_eq!(Reader::new(&newer).unwrap_err(), PageError::OtherVersion { found: 9 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_page_read_never_panics(seed in proptest::collection::vec(any::<u64>(), 64), is_random: bool) {
        let mut bytes = page().bytes();
        let header = 8;
        for (at, word) in bytes[header..].chunks_mut(8).enumerate() {
            let value = seed[at % 64].rotate_left((at / 64) as u32) ^ if is_random { at as u64 } else { 0 };
            if is_random || value % 5 == 0 {
                word.copy_from_slice(&value.to_ne_bytes()[..word.len()]);
            }
        }
        let status = Reader::new(&bytes).unwrap().status();
        for socket in &status.sockets {
            let _ = (socket.why(), socket.counter(SocketCounter::Sent));
        }
        prop_assert!(status.interfaces.len() <= INTERFACES && status.sockets.len() <= SLOTS);
    }
}

#[test]
fn connection_written_is_read_with_its_changes_and_figures() {
    let page = page();
    let slot = page.socket(7).unwrap();
    assert!(slot.is_free());
    slot.open_connection(9, Reason::NotYetAdopted);
    assert!(!slot.is_free());
    let read = || status(&page).sockets[0].clone();
    assert_eq!((read().fd, read().is_accelerated, read().reason), (9, false, Some(Reason::NotYetAdopted)));
    let begun = read().connection.unwrap();
    assert!(begun.since_ns > 0 && (begun.adopted, begun.released) == (0, 0), "{begun:?}");

    slot.set_adopted(3);
    slot.set_round_trip(14_200, 2);
    let adopted = read().connection.unwrap();
    assert_eq!((read().is_accelerated, read().ifindex, adopted.adopted), (true, 3, 1));
    assert_eq!((adopted.round_trip_ns, adopted.retransmitted_segments), (14_200, 2));
    assert!(adopted.since_ns >= begun.since_ns);

    slot.set_released(Reason::FarEndEnds);
    let released = read().connection.unwrap();
    assert_eq!((read().is_accelerated, read().why().as_str()), (false, Reason::FarEndEnds.words()));
    assert_eq!((released.adopted, released.released), (1, 1));

    slot.close();
    slot.open(4);
    assert_eq!((read().fd, read().connection), (4, None), "a datagram socket in the same slot");
}
