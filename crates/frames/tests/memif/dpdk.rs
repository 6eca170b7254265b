//! The other end is DPDK: testpmd of the distribution with its driver `net_memif`, in both roles.
//!
//! Sources: DPDK `doc/guides/nics/memif.rst`, `doc/guides/testpmd_app_ug/run_app.rst`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;

/// A forwarding thread has the second CPU for itself: one testpmd at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Testpmd {
    _process: Ended,
    _alone: MutexGuard<'static, ()>,
}

/// Starts testpmd, with a port in `role` whose device has `further` arguments. Where there is none, a test is over, or fails.
fn testpmd(role: &str, socket: &Path, further: &str, forward: &str) -> Option<Testpmd> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let prefix = format!("nearwire-{}-{role}-{forward}", std::process::id());
    let device = format!("net_memif0,role={role},socket={},socket-abstract=no,zero-copy=no{further}", socket.display());
    let mut program = Command::new("dpdk-testpmd");
    program.args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--file-prefix", &prefix, "--vdev", &device]);
    // Else it drops what comes before it forwards.
    program.args(["--", "--total-num-mbufs=8192", "--auto-start", "--no-flush-rx", "--forward-mode", forward]);
    // Its files go with the test's.
    program.env("RUNTIME_DIRECTORY", socket.parent().unwrap());
    // It ends when its input does.
    match program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => Some(Testpmd { _process: Ended(child), _alone: alone }),
        Err(error) => {
            assert!(
                std::env::var_os("NEARWIRE_REQUIRE").is_none(),
                "NEARWIRE_REQUIRE is set, and no dpdk-testpmd: {error}"
            );
            println!("SKIP no dpdk-testpmd (package dpdk-dev): {error}");
            None
        }
    }
}

/// Opens our end of a cable whose other end testpmd is, in the other role.
fn opposite(role: MemifRole, further: &str, forward: &str, with: &MemifConfig) -> Option<(MemifPort, Testpmd)> {
    let MemifSocket::Path(socket) = &with.socket else { panic!("{:?}", with.socket) };
    let config = MemifConfig { role, ..with.clone() };
    match role {
        MemifRole::Client => {
            let other = testpmd("server", socket, further, forward)?;
            Some((MemifPort::open(&config).unwrap(), other))
        }
        MemifRole::Server => {
            // A client of DPDK connects once.
            let listener = nearwire_frames::ports::memif::MemifListener::bind(&config).unwrap();
            let other = testpmd("client", socket, further, forward)?;
            Some((listener.accept().unwrap(), other))
        }
    }
}

/// Has `test` use our end of such a cable, in `role`.
pub fn with_opposite(
    role: MemifRole,
    further: &str,
    forward: &str,
    change: fn(&mut MemifConfig),
    test: impl FnOnce(MemifPort),
) {
    let directory = tempfile::tempdir().unwrap();
    let mut with = config(role, &directory.path().join("memif.sock"));
    change(&mut with);
    if let Some((port, _other)) = opposite(role, further, forward, &with) {
        test(port);
    }
}

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn frame(number: u32, len_bytes: usize) -> Vec<u8> {
    let mut frame = vec![(number % 251) as u8; len_bytes];
    frame[..6].copy_from_slice(&THEIRS);
    frame[6..12].copy_from_slice(&OURS);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_ne_bytes());
    frame
}

fn swapped(mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&OURS);
    frame[6..12].copy_from_slice(&THEIRS);
    frame
}

/// Frames of many sizes there and back, some under way at any time.
fn all_come_back(port: &mut MemifPort, frames: u32) {
    const UNDER_WAY: u32 = 32;
    let of = |number: u32| frame(number, 60 + number as usize * 37 % 1400);
    for number in 0..frames + UNDER_WAY {
        if number < frames {
            send(port, &of(number)).unwrap();
        }
        if number >= UNDER_WAY {
            let wanted = swapped(of(number - UNDER_WAY));
            assert!(received(port).unwrap() == wanted, "frame {}", number - UNDER_WAY);
        }
    }
}

/// Short frames, and a long one: two buffers there, two buffers back.
fn come_back_swapped(role: MemifRole) {
    let exchange = |mut port: MemifPort| {
        all_come_back(&mut port, 20_000);
        let long = frame(7, 3000);
        send(&mut port, &long).unwrap();
        assert!(received(&mut port).unwrap() == swapped(long));
    };
    with_opposite(role, "", "macswap", |_| (), exchange);
}

#[test]
fn frames_sent_to_dpdk_as_server_come_back_swapped() {
    come_back_swapped(MemifRole::Client);
}

#[test]
fn frames_sent_to_dpdk_as_client_come_back_swapped() {
    come_back_swapped(MemifRole::Server);
}

#[test]
fn dpdk_knows_the_secret_and_the_interface_in_both_roles() {
    let change = |config: &mut MemifConfig| {
        (config.id, config.secret, config.ring_size_log2) = (5, Some(b"of both".to_vec()), 8);
    };
    for role in [MemifRole::Client, MemifRole::Server] {
        with_opposite(role, ",id=5,rsize=7,secret=of both", "macswap", change, |mut port| {
            all_come_back(&mut port, 500);
            let slots = if role == MemifRole::Client { 256 } else { 128 };
            assert!(port.describe().ends_with(&format!("rings of {slots} slots")), "{}", port.describe());
        });
    }
}

#[test]
fn dpdk_refuses_a_wrong_secret_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif.sock");
    let Some(_server) = testpmd("server", &socket, ",secret=right", "macswap") else { return };
    let config = MemifConfig {
        secret: Some(b"wrong".to_vec()),
        connect_within: Duration::from_secs(10),
        ..config(MemifRole::Client, &socket)
    };
    let error = MemifPort::open(&config).unwrap_err().to_string();
    assert!(error.contains("Incorrect secret"), "{error}");
}

#[test]
fn dpdk_sends_and_ends_and_the_peer_is_gone() {
    for role in [MemifRole::Client, MemifRole::Server] {
        let directory = tempfile::tempdir().unwrap();
        let with = config(role, &directory.path().join("memif.sock"));
        let Some((mut port, other)) = opposite(role, "", "txonly", &with) else { return };
        (0..10_000).for_each(|_| assert_eq!(received(&mut port).unwrap().len(), 64));
        drop(other);
        let error = loop {
            if let Err(error) = received(&mut port) {
                break error;
            }
        };
        assert!(matches!(error, PortError::PeerGone), "{error}");
    }
}

#[test]
fn dpdk_that_only_receives_takes_all() {
    for role in [MemifRole::Client, MemifRole::Server] {
        with_opposite(
            role,
            "",
            "rxonly",
            |_| (),
            |mut port| {
                (0..100_000).for_each(|number| send(&mut port, &frame(number, 64)).unwrap());
                assert_eq!(port.statistics().sent_frames, 100_000);
            },
        );
    }
}
