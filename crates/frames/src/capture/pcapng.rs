//! Writing pcapng: one section, its interfaces, enhanced packet blocks, statistics at the end.
//!
//! Everything is in the byte order of this CPU, which the section header tells the reader. Source: "PCAP Next
//! Generation (pcapng) Capture File Format", draft-ietf-opsawg-pcapng, sections 4.1 to 4.6.

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;
const OPTION_END: u16 = 0;
const OPTION_SHB_APPLICATION: u16 = 4;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_DESCRIPTION: u16 = 3;
const OPTION_IF_TIME_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;
const OPTION_FRAMES_RECEIVED: u16 = 4;
const OPTION_FRAMES_DROPPED: u16 = 5;
const DESCRIPTION_BYTES_MAX: usize = 1000;
/// Time stamps count 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// Which way a frame went, as the packet flags have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// It came from the wire.
    Inbound = 1,
    /// This host sent it.
    Outbound = 2,
}

/// An interface of a section.
#[derive(Debug, Clone, Copy)]
pub struct CaptureInterface<'a> {
    /// Its name, if it has one.
    pub name: Option<&'a str>,
    /// What it is, in words; cut where it is too long.
    pub description: &'a str,
    /// Frames are cut to so many bytes; 0: they are whole.
    pub snap_bytes: u32,
}

/// A frame that passed.
#[derive(Debug, Clone, Copy)]
pub struct CapturePacket<'a> {
    /// The number of the interface, as [`PcapngWriter::interface`] gave it.
    pub interface: u32,
    /// When, nanoseconds since 1970.
    pub time_ns: u64,
    /// Which way.
    pub direction: Direction,
    /// The frame, or its first bytes.
    pub bytes: &'a [u8],
    /// Bytes that it had on the wire.
    pub frame_bytes: u32,
}

/// Writes one section. After the first failed write it writes no more, and keeps the error.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    output: W,
    block: Vec<u8>,
    interfaces: u32,
    failed: Option<io::Error>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the head of a section of one interface, whose number is 0: its name, if there is one, and what it is, in words.
    ///
    /// # Errors
    /// The output's.
    pub fn start(output: W, name: Option<&str>, description: &str) -> io::Result<PcapngWriter<W>> {
        let mut writer = PcapngWriter::start_section(output)?;
        writer.interface(&CaptureInterface { name, description, snap_bytes: 0 });
        match writer.failed.take() {
            Some(error) => Err(error),
            None => Ok(writer),
        }
    }

    /// Writes the head of a section that has no interface yet.
    ///
    /// # Errors
    /// The output's.
    pub fn start_section(output: W) -> io::Result<PcapngWriter<W>> {
        let mut writer = PcapngWriter { output, block: Vec::with_capacity(4096), interfaces: 0, failed: None };
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER_MAGIC);
        writer.u16(1); // major version
        writer.u16(0); // minor version
        writer.u64(u64::MAX); // length of the section: not given
        writer.option(OPTION_SHB_APPLICATION, b"nearwire");
        writer.end_with_options()?;
        Ok(writer)
    }

    /// Describes one more interface, before its first frame; its number.
    pub fn interface(&mut self, about: &CaptureInterface<'_>) -> u32 {
        let number = self.interfaces;
        self.interfaces += 1;
        if self.failed.is_some() {
            return number;
        }
        self.begin(INTERFACE_DESCRIPTION);
        self.u16(LINKTYPE_ETHERNET);
        self.u16(0); // reserved
        self.u32(about.snap_bytes);
        if let Some(name) = about.name {
            self.option(OPTION_IF_NAME, name.as_bytes());
        }
        // Options are UTF-8: a character is not cut.
        let description = &about.description[..about.description.floor_char_boundary(DESCRIPTION_BYTES_MAX)];
        self.option(OPTION_IF_DESCRIPTION, description.as_bytes());
        self.option(OPTION_IF_TIME_RESOLUTION, &[NANOSECONDS]);
        self.failed = self.end_with_options().err();
        number
    }

    /// Writes a whole frame of the first interface that passed `time_ns` nanoseconds after the start of 1970.
    pub fn frame(&mut self, time_ns: u64, direction: Direction, frame: &[u8]) {
        self.packet(&CapturePacket { interface: 0, time_ns, direction, bytes: frame, frame_bytes: frame.len() as u32 });
    }

    /// Writes a frame.
    pub fn packet(&mut self, packet: &CapturePacket<'_>) {
        if self.failed.is_some() {
            return;
        }
        self.begin(ENHANCED_PACKET);
        self.u32(packet.interface);
        self.time(packet.time_ns);
        self.u32(packet.bytes.len() as u32); // captured
        self.u32(packet.frame_bytes); // on the wire
        self.padded(packet.bytes);
        self.option(OPTION_PACKET_FLAGS, &(packet.direction as u32).to_ne_bytes());
        self.failed = self.end_with_options().err();
    }

    /// The first write that failed, if one did: nothing is written any more.
    #[must_use]
    pub fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Writes the counters of an interface, as they were at a time.
    pub fn statistics(&mut self, interface: u32, time_ns: u64, received_frames: u64, dropped_frames: u64) {
        if self.failed.is_some() {
            return;
        }
        self.begin(INTERFACE_STATISTICS);
        self.u32(interface);
        self.time(time_ns);
        self.option(OPTION_FRAMES_RECEIVED, &received_frames.to_ne_bytes());
        self.option(OPTION_FRAMES_DROPPED, &dropped_frames.to_ne_bytes());
        self.failed = self.end_with_options().err();
    }

    /// Writes the counters of the first interface, and gives the output back.
    ///
    /// # Errors
    /// The first write that failed since the start.
    pub fn finish(mut self, time_ns: u64, received_frames: u64, dropped_frames: u64) -> io::Result<W> {
        self.statistics(0, time_ns, received_frames, dropped_frames);
        self.finish_section()
    }

    /// Gives the output back, with all in it.
    ///
    /// # Errors
    /// The first write that failed since the start.
    pub fn finish_section(mut self) -> io::Result<W> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.output.flush()?;
        Ok(self.output)
    }

    fn begin(&mut self, block_type: u32) {
        self.block.clear();
        self.u32(block_type);
        self.u32(0); // the length, filled in at the end
    }

    /// Closes the options, fills both lengths in and writes the block.
    fn end_with_options(&mut self) -> io::Result<()> {
        self.option(OPTION_END, &[]);
        let length_bytes = self.block.len() as u32 + 4;
        self.u32(length_bytes);
        self.block[4..8].copy_from_slice(&length_bytes.to_ne_bytes());
        self.output.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.padded(value);
    }

    /// The upper half of a time stamp comes first, whatever the byte order.
    fn time(&mut self, time_ns: u64) {
        self.u32((time_ns >> 32) as u32);
        self.u32(time_ns as u32);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }
}
