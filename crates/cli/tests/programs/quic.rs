//! gtlsserver and gtlsclient of ngtcp2: a file by QUIC, in datagrams with marks of congestion and local addresses in control messages.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Found, Side, counter_told, found_or_skip};

const PORT: u16 = 4433;
const CONTENT_BYTES: usize = 24_000_000;
/// A datagram has so many bytes of the file at most.
const DATAGRAM_BYTES: usize = 1452;
/// What may be dropped beyond what the kernel drops, of 16 500 datagrams of the file: QUIC sends faster until some are lost, so that no two
/// transfers lose the same. On a busy machine 10 were in one of 40 transfers, and none in the others.
const DROPPED_MORE: u64 = 40;
/// In veth a bundle of datagrams (`UDP_SEGMENT`) stays one where the peer has no program in its driver, and goes by the kernel with all
/// that follow it.
const SINGLY: &str = "--max-gso-dgrams=1";
/// On a busy machine a receiver is kept from its CPU for longer than any buffer lasts, whoever serves it.
const ATTEMPTS: usize = 3;

/// A transfer of a file, which arrives whole. How many datagrams were dropped at the receiver, and how long it took: that is only told, as
/// the library is not optimized in tests.
fn transfer([server, client, openssl]: &[Found; 3], accelerated: Accelerated) -> (u64, Duration) {
    let bed = Bed::lay(accelerated).with_configuration("stats = true\n");
    let content: Vec<u8> = (0..CONTENT_BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 17) as u8).collect();
    bed.write("content", &content);
    bed.run(
        Side::Far,
        openssl,
        "req -x509 -newkey rsa:2048 -nodes -keyout key -out certificate -subj /CN=nearwire -days 2",
    );
    let address = bed.address(Side::Far);
    let serving = bed.start(Side::Far, server, &format!("-q {SINGLY} {address} {PORT} key certificate"));
    bed.wait_for_port(Side::Far, PORT);
    fs::create_dir(bed.path("got")).unwrap();
    let url = format!("https://{address}:{PORT}/content");
    let ask = format!("-q --exit-on-all-streams-close --download=got {address} {PORT} {url}");
    let started = Instant::now();
    let told = bed.start(Side::Near, client, &ask).succeed_and_tell();
    let took = started.elapsed();
    let got = fs::read(bed.path("got/content")).unwrap_or_default();
    assert!(got == content, "{accelerated:?}: {} bytes: {told}", got.len());
    // What finds no room in the rings goes by the kernel.
    let most = (CONTENT_BYTES / DATAGRAM_BYTES / 2) as u64;
    if accelerated.at(Side::Near) {
        assert!(counter_told(&told, "frames received") > most, "{accelerated:?}: {told}");
    }
    if accelerated.at(Side::Far) {
        let sent = bed.counted_by_library(Side::Far, "frames_sent");
        assert!(sent > most, "{accelerated:?}: {sent} frames sent");
    }
    serving.stop(Signal::TERM);
    (bed.dropped_by_kernel(Side::Near) + counter_told(&told, "frames dropped"), took)
}

#[test]
fn file_sent_by_quic_arrives_whole_and_no_more_is_dropped_than_by_the_kernel() {
    let Some(programs) = found_or_skip(["gtlsserver", "gtlsclient", "openssl"]) else { return };
    let (mut by_kernel, mut took_kernel) = transfer(&programs, Accelerated::NONE);
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        let mut attempt = |number| {
            if number > 0 {
                (by_kernel, took_kernel) = transfer(&programs, Accelerated::NONE);
            }
            let (by_library, took) = transfer(&programs, accelerated);
            println!(
                "{accelerated:?}: {by_library} dropped in {took:.2?}, {by_kernel} in {took_kernel:.2?} without the library"
            );
            (by_library > by_kernel + DROPPED_MORE).then(|| format!("{by_library}, by the kernel {by_kernel}"))
        };
        let found: Vec<_> = (0..ATTEMPTS).map_while(&mut attempt).collect();
        assert!(found.len() < ATTEMPTS, "{accelerated:?} dropped {found:?}");
    }
}
