//! Captures the frames of an accelerated process: its engine copies them into a ring in shared memory, and this command reads the ring.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nearwire_frames::capture::{CaptureInterface, CapturePacket, PcapngWriter};
use nearwire_frames::steering::FilterSet;
use nearwire_socket::capture::{CapturedFrame, Request, RingError, RingReader};
use nearwire_socket::status::{SocketCounter, Status};

use super::seccomp;
use super::target::Target;
use super::{LOOK, Limits, Writer, create, filters, now_ns, snap};
use crate::args::CaptureArgs;
use crate::commands::status::process::{Looked, look};
use crate::exit::{FAILED, Failure, OrExit, Outcome, USAGE};
use crate::output;

/// An empty ring is read again after this time. The default ring holds 60 ms of the smallest frames at 1.5 million a
/// second.
const RING_AGAIN: Duration = Duration::from_millis(1);
/// A process that spins answers within 40 us; one that sleeps, when something wakes it.
const ANSWER_AGAIN: Duration = Duration::from_micros(200);
const ANSWER_AGAIN_LATER: Duration = Duration::from_millis(2);
const ANSWER_LATE: Duration = Duration::from_millis(300);
/// Memory for each frame of the ring.
const FRAME_BYTES: u32 = 2048;
const RING_FRAMES_MOST: u32 = 1 << 19;
/// How long to wait until the process has unmapped the ring, so that its memory is freed when this command ends.
const LET_GO_WITHIN: Duration = Duration::from_millis(200);

pub fn run(args: &CaptureArgs, pid: i32) -> Outcome {
    let ring_log2_bytes = ring_log2_bytes(args.ring)?;
    let mut filter = FilterSet::new();
    for wanted in filters(args) {
        filter.add(wanted).or_exit(USAGE)?;
    }
    let target = Target::find(pid)?;
    if !args.despite_seccomp {
        seccomp::check(pid)?;
    }
    let by_kernel_before = by_kernel(pid);
    let wrote = || format!("write {}", args.output.display());
    let writer = PcapngWriter::start_section(create(args)?).with_context(wrote).or_exit(FAILED)?;
    // A filter needs the headers, so with a filter the process copies whole frames, and they are cut here.
    let has_filter = filter.iter().next().is_some();
    let snap_bytes = args.snaplen.filter(|_| !has_filter).unwrap_or(0);
    let request = target.ask(ring_log2_bytes, snap_bytes)?;
    let mut session = Session { args, target, request, filter, writer, ring: None, read_frames: Vec::new(), count: 0 };
    let ended = session.follow();
    let dropped_frames = session.describe_end();
    session.let_go();
    session.writer.finish_section().with_context(wrote).or_exit(FAILED)?;
    let (count, file) = (session.count, args.output.display());
    if session.ring.is_none() && ended.is_err() {
        return ended.map(|_| ());
    }
    if matches!(ended, Ok(End::Gone)) {
        let what = if session.target.is_there() {
            "no longer accelerates its sockets"
        } else {
            "ended, or executed another program"
        };
        output::note(&format!("process {pid} {what}"));
    }
    if let Some(calls) = by_kernel(pid).zip(by_kernel_before).map(|(now, before)| now.saturating_sub(before))
        && calls > 0
    {
        output::note(&format!(
            "{calls} datagrams of its accelerated sockets went through the kernel and are not in the file"
        ));
    }
    output::print(&format!("{count} frames in {file}, {dropped_frames} dropped\n"))?;
    ended.map(|_| ()).map_err(|Failure { code, error }| Failure {
        code,
        error: error.map(|error| error.context("the capture ended early; its file is complete")),
    })
}

fn ring_log2_bytes(ring_frames: u32) -> Result<u32, Failure> {
    if ring_frames.is_power_of_two() && (2..=RING_FRAMES_MOST).contains(&ring_frames) {
        return Ok((ring_frames * FRAME_BYTES).ilog2());
    }
    let error = anyhow!("--ring {ring_frames}: with --pid, give a power of two from 2 to {RING_FRAMES_MOST}");
    Err(Failure { code: USAGE, error: Some(error) })
}

/// Datagrams of accelerated sockets that went through the kernel, as the sockets that are open count them.
fn by_kernel(pid: i32) -> Option<u64> {
    let Ok(Looked::Page(process)) = look(pid) else { return None };
    let of = |status: &Status, counter| status.sockets.iter().map(|socket| socket.counter(counter)).sum::<u64>();
    let (received, sent) = (SocketCounter::ReceivedByShadow, SocketCounter::SentByShadow);
    Some(of(&process.status, received) + of(&process.status, sent))
}

/// Why a capture ended.
enum End {
    /// As many frames were captured as wanted, or the time is over.
    Done,
    /// The process ended, executed another program, or stopped accelerating.
    Gone,
}

struct Session<'a> {
    args: &'a CaptureArgs,
    target: Target,
    request: Request,
    filter: FilterSet,
    writer: Writer,
    /// `None` until the process has answered.
    ring: Option<RingReader>,
    /// Frames read from the ring, for each interface that is in the file.
    read_frames: Vec<u64>,
    /// Frames in the file.
    count: u64,
}

impl Session<'_> {
    fn follow(&mut self) -> Result<End, Failure> {
        let limits = Limits::start(self.args);
        let Some(end) = self.wait_for_answer(&limits)? else { return self.copy(&limits) };
        Ok(end)
    }

    /// Waits for the ring. Returns why the capture ended, if it ended before there was one.
    fn wait_for_answer(&mut self, limits: &Limits) -> Result<Option<End>, Failure> {
        let (pid, name, asked) = (self.target.pid, self.target.name.clone(), Instant::now());
        let mut is_told = false;
        loop {
            // Checked first, so that all that was recorded before the end is in the file.
            let is_over = limits.is_over();
            if let Some(ring) = self.target.answer(self.request)? {
                self.ring = Some(ring);
                self.describe_interfaces();
                output::note(&format!("capturing process {pid} ({name}); Ctrl-C ends it"));
                return Ok(None);
            }
            if is_over || !self.target.is_there() {
                return Ok(Some(if is_over { End::Done } else { End::Gone }));
            }
            let is_late = asked.elapsed() > ANSWER_LATE;
            if is_late && !std::mem::replace(&mut is_told, true) {
                let until = match self.target.is_running {
                    true => "its next frame, or its next call on an accelerated socket",
                    false => "its first accelerated socket",
                };
                output::note(&format!(
                    "waiting for process {pid} ({name}): the capture begins with {until}; Ctrl-C ends it"
                ));
            }
            let pause = if is_late { ANSWER_AGAIN_LATER } else { ANSWER_AGAIN };
            std::thread::sleep(limits.rest(pause));
        }
    }

    /// Writes frames until there are enough, the time is over, Ctrl-C is pressed, or the process ends.
    fn copy(&mut self, limits: &Limits) -> Result<End, Failure> {
        let mut bytes = Vec::with_capacity(4096);
        let mut looked = Instant::now();
        loop {
            if limits.is_over() {
                self.drain(limits, &mut bytes, now_ns()).or_exit(FAILED)?;
                return Ok(End::Done);
            }
            // Checked first, so that all that was recorded before the end is read.
            let is_gone = looked.elapsed() > LOOK && {
                looked = Instant::now();
                !self.target.is_there() || self.ring.as_ref().is_none_or(RingReader::is_ended)
            };
            self.drain(limits, &mut bytes, now_ns()).or_exit(FAILED)?;
            if limits.has_enough(self.count) || self.writer.failed().is_some() {
                return Ok(End::Done);
            }
            if is_gone {
                return Ok(End::Gone);
            }
            std::thread::sleep(limits.rest(RING_AGAIN));
        }
    }

    /// Writes the frames in the ring that were recorded up to `end_ns`.
    fn drain(&mut self, limits: &Limits, bytes: &mut Vec<u8>, end_ns: u64) -> Result<(), RingError> {
        self.describe_interfaces();
        let Some(ring) = &mut self.ring else { return Ok(()) };
        while !limits.has_enough(self.count) && self.writer.failed().is_none() {
            let Some(frame) = ring.next(bytes)? else { break };
            let number = frame.interface;
            if number >= self.read_frames.len() {
                describe(ring, &mut self.writer, &mut self.read_frames, self.args);
            }
            self.read_frames[number] += 1;
            if is_wanted(self.args, &self.filter, &frame, bytes) {
                self.writer.packet(&CapturePacket {
                    interface: number as u32,
                    time_ns: frame.time_ns,
                    direction: frame.direction,
                    bytes: &bytes[..bytes.len().min(snap(self.args))],
                    frame_bytes: frame.frame_bytes,
                });
                self.count += 1;
            }
            if frame.time_ns > end_ns {
                break;
            }
        }
        Ok(())
    }

    fn describe_interfaces(&mut self) {
        if let Some(ring) = &self.ring {
            describe(ring, &mut self.writer, &mut self.read_frames, self.args);
        }
    }

    /// Writes the counters of the interfaces. Returns how many frames were dropped in all.
    fn describe_end(&mut self) -> u64 {
        let Some(ring) = &self.ring else { return 0 };
        let now_ns = now_ns();
        let mut dropped_frames = 0;
        for (number, (interface, read_frames)) in ring.interfaces().zip(&self.read_frames).enumerate() {
            let dropped = interface.dropped_frames;
            self.writer.statistics(number as u32, now_ns, read_frames + dropped, dropped);
            dropped_frames += dropped;
        }
        dropped_frames
    }

    /// Asks the process to end the capture, and waits a moment until it has.
    fn let_go(&self) {
        self.target.withdraw(self.request);
        let Some(ring) = &self.ring else { return };
        ring.close();
        let asked = Instant::now();
        while !ring.is_ended() && asked.elapsed() < LET_GO_WITHIN && self.target.is_there() {
            std::thread::sleep(RING_AGAIN);
        }
    }
}

/// Writes the interfaces that are not in the file yet. Their numbers in the file are their places in the ring.
fn describe(ring: &RingReader, writer: &mut Writer, read_frames: &mut Vec<u64>, args: &CaptureArgs) {
    for interface in ring.interfaces().skip(read_frames.len()) {
        let snap_bytes = args.snaplen.map_or(0, u32::from);
        let about = CaptureInterface { name: Some(&interface.name), description: &interface.port, snap_bytes };
        writer.interface(&about);
        read_frames.push(0);
    }
}

fn is_wanted(args: &CaptureArgs, filter: &FilterSet, frame: &CapturedFrame, bytes: &[u8]) -> bool {
    let is_outbound = frame.direction == nearwire_frames::capture::Direction::Outbound;
    !(args.inbound && is_outbound) && (filter.iter().next().is_none() || filter.takes(bytes))
}
