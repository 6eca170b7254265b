//! Peers that say and write anything: there is a result, and no undefined behaviour or panic.

use std::os::fd::AsFd;

use proptest::prelude::*;
use rustix::fs::SealFlags;

use super::hostile_handshake::{Told, event, laid_out, memory};
use super::hostile_rings::held;
use super::*;
use crate::ports::memif::layout::Layout;
use crate::ports::memif::message::{AddRing, Direction, Init, Message};
use crate::ports::memif::ring::{Descriptor, ring_bytes};

fn descriptors() -> impl Strategy<Value = Vec<Descriptor>> {
    let near = |end: u32| prop_oneof![0..end, end - 300..=end, Just(0), any::<u32>()];
    let end = Layout::new(3, 256).region_bytes() as u32;
    let one = (0..4_u16, 0..3_u16, near(300), near(end)).prop_map(|(flags, region, length_bytes, offset_bytes)| {
        Descriptor { flags, region: region / 2, length_bytes, offset_bytes, metadata: 0 }
    });
    prop::collection::vec(one, 1..=8)
}

fn messages() -> impl Strategy<Value = Vec<(Message, u8)>> {
    let end = Layout::new(4, 256).region_bytes() as u64;
    let ring = (any::<bool>(), 0..2_u16, 0..2_u16, 0..20_u32, 0..16_u8, 0..2_u16);
    let ring = ring.prop_map(|(from_client, number, region, lines, size_log2, header)| {
        let direction = if from_client { Direction::ClientToServer } else { Direction::ServerToClient };
        let (offset_bytes, private_header_bytes) = (lines * 32, header.saturating_sub(1));
        AddRing { direction, number: number / 2, region, offset_bytes, size_log2, private_header_bytes }
    });
    let one = prop_oneof![
        (0..3_u16, 0..=end + 1).prop_map(|(number, length_bytes)| Message::AddRegion { number, length_bytes }),
        ring.prop_map(Message::AddRing),
        Just(Message::Connect { name: [0xff; 32] }),
        Just(Message::Ack),
        any::<u16>().prop_map(|version| Message::Init(Init { version, ..Told::init() })),
    ];
    prop::collection::vec((one, 0..4_u8), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_descriptors_are_frames_or_an_error(descriptors in descriptors(), copies in any::<bool>()) {
        for role in [MemifRole::Server, MemifRole::Client] {
            let mut held = held(role);
            held.port.copies = copies;
            held.send(&descriptors);
            let mut slots = 0;
            while let Ok(Some(len_bytes)) = held.port.receive(|frame| frame.iter().map(|byte| usize::from(*byte)).sum::<usize>().max(frame.len()).min(1)) {
                slots += len_bytes;
            }
            prop_assert!(slots <= descriptors.len());
        }
    }

    #[test]
    fn any_buffers_and_indices_take_frames_or_are_an_error(descriptors in descriptors(), index in any::<u16>()) {
        let mut held = held(MemifRole::Server);
        descriptors.iter().enumerate().for_each(|(at, descriptor)| held.back.write(at as u16, *descriptor));
        held.back.receiver_index().store(8, Ordering::Release);
        let sent = (0..9).take_while(|n| matches!(held.port.send(&vec![1; 14 + n * 100]), Ok(true))).count();
        prop_assert!(sent <= 8);
        held.back.receiver_index().store(index, Ordering::Release);
        held.there.sender_index().store(index, Ordering::Release);
        let _ = (held.port.send(&[1; 64]), held.port.receive(|frame| frame.len()));
    }

    #[test]
    fn any_messages_end_the_handshake(messages in messages()) {
        let told = Told::begun();
        for (message, with) in messages {
            let descriptor = match with {
                0 => None,
                1 => Some(event()),
                2 => Some(laid_out().0),
                _ => Some(memory(ring_bytes(4).into(), SealFlags::SHRINK)),
            };
            // Refused where the server has ended it.
            let _ = told.0.send(&message, descriptor.as_ref().map(AsFd::as_fd));
        }
        let Told(control, server) = told;
        drop(control);
        let _ = server.join().unwrap();
    }
}
