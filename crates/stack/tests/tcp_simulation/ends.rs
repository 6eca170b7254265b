//! Both ends of a connection, the programs that use it, and a plan of what is to happen.

use std::fmt::Write as _;

use nearwire_stack::{
    Arrival, CongestionControl, ConnectionId, ReceiveChecksum, Take, TcpCallError, TcpOptions, Verdict,
};

use crate::common::tcp::Agreed;
use crate::common::{self, Host, at, v4, v6};
use crate::network::{Faults, Network, Random};

const MS: u64 = 1_000_000;
/// A run that takes longer than this, in virtual time, hangs.
const LONGEST_NS: u64 = 4 * 3600 * 1000 * MS;

/// More steps than any run needs.
const STEPS_MOST: u32 = 200_000;

/// More moves would keep some connections from ever sending anything twice.
const MOVES_MOST: u64 = 100;

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Plan {
    agreed: Agreed,
    is_v6: bool,
    options: [TcpOptions; 2],
    bytes: [u64; 2],
    faults: Faults,
    delay_ns: u64,
    byte_ns: u64,
    /// The longest that a program does not read.
    pause_ns: u64,
    /// How often an end is released and adopted again, on average.
    move_every_ns: Option<u64>,
    blind_resets: bool,
    reset_at_ns: Option<u64>,
}

impl Plan {
    pub fn any(random: &mut Random) -> Plan {
        let options = |random: &mut Random| TcpOptions {
            no_delay: random.one_in(2),
            cork: random.one_in(8),
            receive_buffer_bytes: random.range(2000, 200_000) as u32,
            send_buffer_bytes: random.range(1000, 100_000) as u32,
            unsent_most_bytes: random.pick(&[u32::MAX, u32::MAX, 16_384, 1000, 1]),
            congestion_control: random.pick(&[CongestionControl::Cubic, CongestionControl::NewReno]),
            ..TcpOptions::default()
        };
        let shift = |random: &mut Random| random.pick(&[0, 1, 7, 14]);
        let number = |random: &mut Random| match random.one_in(3) {
            true => u32::MAX - random.range(0, 30_000) as u32,
            false => random.next() as u32,
        };
        let clock = |random: &mut Random| if random.one_in(3) { u32::MAX - 20 } else { random.next() as u32 };
        let window = |random: &mut Random| random.range(500, 65_000) as u32;
        let some = |random: &mut Random, most: u64| if random.one_in(2) { 0 } else { random.range(0, most) as u32 };
        Plan {
            agreed: Agreed {
                first: [number(random), number(random)],
                maximum_segment_bytes: random.pick(&[536, 1000, 1448, 1460, 9000]),
                window_scale: (!random.one_in(4)).then(|| (shift(random), shift(random))),
                has_selective_acknowledgement: !random.one_in(4),
                timestamps: (!random.one_in(4)).then(|| [clock(random), clock(random)]),
                has_congestion_notification: random.one_in(3),
                window_bytes: [window(random), window(random)],
            },
            is_v6: random.one_in(2),
            options: [options(random), options(random)],
            bytes: [random.range(0, 40_000), random.range(0, 40_000)],
            faults: Faults {
                loss: some(random, 150_000),
                burst: some(random, 20_000),
                duplicate: some(random, 100_000),
                reorder: some(random, 300_000),
                corrupt: some(random, 50_000),
                mark: some(random, 100_000),
            },
            delay_ns: random.pick(&[10_000, 50_000, MS, 20 * MS, 100 * MS]),
            byte_ns: random.pick(&[0, 1, 8, 100]),
            pause_ns: random.pick(&[0, 0, 1000, MS, 300 * MS]),
            move_every_ns: None,
            blind_resets: false,
            reset_at_ns: None,
        }
    }

    pub fn without_faults(self) -> Plan {
        Plan { faults: Faults::default(), ..self }
    }

    /// Programs that read little and late.
    pub fn starved(mut self) -> Plan {
        for options in &mut self.options {
            options.receive_buffer_bytes = options.receive_buffer_bytes % 3000 + 500;
        }
        Plan { pause_ns: 2000 * MS, bytes: self.bytes.map(|bytes| bytes % 15_000), ..self }
    }

    pub fn moved(self) -> Plan {
        Plan { move_every_ns: Some(self.delay_ns * 2 + 30_000), ..self }
    }

    pub fn with_blind_resets(self) -> Plan {
        Plan { blind_resets: true, ..self }
    }

    pub fn with_a_reset(self) -> Plan {
        Plan { reset_at_ns: Some(self.delay_ns * 4), bytes: self.bytes.map(|bytes| bytes + 200_000), ..self }
    }
}

/// Byte `at` of what an end sends.
fn byte(end: usize, at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 7) as u8 ^ (end as u8).wrapping_mul(0x5a)
}

/// An end: a host, its connection, and its program.
struct End {
    host: Host,
    id: Option<ConnectionId>,
    written: u64,
    read: u64,
    is_shut: bool,
    has_ended: bool,
    error: Option<TcpCallError>,
    /// The program does nothing until then.
    asleep_until_ns: u64,
    moves: u64,
    move_at_ns: u64,
}

/// Both ends and the network between them.
pub struct Pair {
    plan: Plan,
    ends: [End; 2],
    network: Network,
    random: Random,
    now_ns: u64,
    pub is_traced: bool,
}

impl Pair {
    pub fn new(plan: Plan, seed: u64) -> Pair {
        let random = Random(seed ^ 0x5eed);
        let (one, two) = common::pair();
        let network = Network::new(Random(seed ^ 0xface), plan.faults, plan.delay_ns, plan.byte_ns);
        let now_ns = 1000 * MS;
        let end = |host| End {
            host,
            id: None,
            written: 0,
            read: 0,
            is_shut: false,
            has_ended: false,
            error: None,
            asleep_until_ns: 0,
            moves: 0,
            move_at_ns: 0,
        };
        let mut pair = Pair { plan, ends: [end(one), end(two)], network, random, now_ns, is_traced: false };
        for index in 0..2 {
            let (local, peer) = pair.addresses(index);
            let facts = pair.plan.agreed.facts(index, local, peer);
            let options = pair.plan.options[index];
            let end = &mut pair.ends[index];
            end.id = Some(end.host.stack.tcp_adopt(&facts, options, now_ns).expect("can be adopted"));
        }
        pair
    }

    fn addresses(&self, end: usize) -> (std::net::SocketAddr, std::net::SocketAddr) {
        let addresses = if self.plan.is_v6 { [v6(1), v6(2)] } else { [v4(1), v4(2)] };
        let all = [at(addresses[0], 4000), at(addresses[1], 80)];
        (all[end], all[1 - end])
    }

    pub fn total_bytes(&self) -> u64 {
        self.ends.iter().map(|end| end.read).sum()
    }

    pub fn moves(&self) -> u64 {
        self.ends.iter().map(|end| end.moves).sum()
    }

    pub fn run(&mut self) {
        if self.is_traced {
            println!("{:#?}", self.plan);
        }
        for steps in 0.. {
            assert!(steps < STEPS_MOST, "it spins: {}", self.state());
            self.step();
            if self.is_over() {
                break;
            }
            let next_ns = self.next_ns();
            assert!(next_ns.is_some_and(|next_ns| next_ns < LONGEST_NS), "it hangs: {}", self.state());
            self.now_ns = next_ns.unwrap_or(0).max(self.now_ns + 1);
        }
        self.check();
    }

    fn check(&self) {
        if self.plan.reset_at_ns.is_some() {
            return;
        }
        for (index, end) in self.ends.iter().enumerate() {
            assert_eq!(end.error, None, "end {index} failed: {}", self.state());
            assert_eq!(end.read, self.plan.bytes[1 - index], "end {index}: {}", self.state());
        }
    }

    fn state(&self) -> String {
        let mut text = format!("at {} us\n", self.now_ns / 1000);
        for end in &self.ends {
            let info = end.id.and_then(|id| end.host.stack.tcp_info(id));
            let _ = writeln!(
                text,
                "written {} read {} shut {} ended {} error {:?} asleep {} {info:#?}",
                end.written, end.read, end.is_shut, end.has_ended, end.error, end.asleep_until_ns
            );
        }
        text
    }

    fn is_over(&self) -> bool {
        if self.plan.reset_at_ns.is_some() {
            return self.ends.iter().all(|end| end.error.is_some());
        }
        let is_done = |end: &End| end.error.is_some() || end.id.is_some_and(|id| end.host.stack.tcp_is_finished(id));
        self.ends.iter().any(|end| end.error.is_some())
            || (self.ends.iter().all(is_done) && self.ends.iter().all(|end| end.has_ended))
    }

    fn next_ns(&self) -> Option<u64> {
        let programs = self.ends.iter().map(|end| end.asleep_until_ns).filter(|at_ns| *at_ns > self.now_ns);
        let deadlines = self.ends.iter().filter_map(|end| end.host.stack.next_deadline());
        let moves = self.plan.move_every_ns.map(|_| self.ends[0].move_at_ns.min(self.ends[1].move_at_ns));
        let reset = self.plan.reset_at_ns.map(|after_ns| 1000 * MS + after_ns).filter(|at_ns| *at_ns > self.now_ns);
        let all = programs.chain(deadlines).chain(self.network.next_ns()).chain(moves).chain(reset);
        all.min()
    }

    fn step(&mut self) {
        while let Some((to, frame)) = self.network.arrived(self.now_ns) {
            self.receive(to, &frame);
        }
        for end in 0..2 {
            // What is due may be news for the program.
            self.transmit(end);
            self.program(end);
            self.transmit(end);
            self.relocate(end);
            self.transmit(end);
        }
        self.third_party();
    }

    fn receive(&mut self, to: usize, frame: &[u8]) {
        if self.is_traced {
            println!("{:>12} us  {} <- {}", self.now_ns / 1000, to, describe(frame));
        }
        let end = &mut self.ends[to];
        end.host.stack.tcp_time(self.now_ns);
        let arrival =
            Arrival { port: end.host.port, frame, received_ns: 0, device_ns: 0, checksum: ReceiveChecksum::Verify };
        let verdict = end.host.stack.receive(&arrival, |_, _| Take::Queue);
        assert!(!matches!(verdict, Verdict::Delivered { .. }));
    }

    fn transmit(&mut self, from: usize) {
        for frame in common::tcp::frames(&mut self.ends[from].host.stack, self.now_ns) {
            if self.is_traced {
                println!("{:>12} us  {} -> {}", self.now_ns / 1000, from, describe(&frame));
            }
            self.network.send(self.now_ns, 1 - from, frame);
        }
    }

    /// Writes and reads what there is, now and then nothing for a while.
    fn program(&mut self, index: usize) {
        let pause_ns = self.plan.pause_ns;
        let (wanted, now_ns) = (self.plan.bytes[index], self.now_ns);
        let end = &mut self.ends[index];
        while end.host.stack.take_ready().is_some() {}
        if now_ns < end.asleep_until_ns || end.error.is_some() {
            return;
        }
        let Some(id) = end.id else { return };
        let before = (end.written, end.read);
        let stack = &mut end.host.stack;
        while end.written < wanted {
            let len = self.random.range(1, 3000).min(wanted - end.written);
            let data: Vec<u8> = (0..len).map(|at| byte(index, end.written + at)).collect();
            match stack.tcp_write(id, now_ns, &data, self.random.one_in(10)) {
                Ok(taken) => end.written += taken as u64,
                Err(TcpCallError::WouldBlock) => break,
                Err(error) => {
                    end.error = Some(error);
                    return;
                }
            }
        }
        if end.written == wanted && !end.is_shut {
            end.is_shut = stack.tcp_shutdown(id, now_ns).is_ok();
        }
        let mut into = [0; 2000];
        while !end.has_ended {
            let most = self.random.range(1, into.len() as u64) as usize;
            match stack.tcp_read(id, &mut into[..most]) {
                Ok(0) => end.has_ended = true,
                Ok(count) => {
                    for (at, found) in into[..count].iter().enumerate() {
                        assert_eq!(*found, byte(1 - index, end.read + at as u64), "byte {} of end {index}", end.read);
                    }
                    end.read += count as u64;
                }
                Err(TcpCallError::WouldBlock) => break,
                Err(error) => {
                    end.error = Some(error);
                    return;
                }
            }
            if pause_ns > 0 && self.random.one_in(4) {
                break;
            }
        }
        if pause_ns > 0 && (end.written, end.read) != before {
            end.asleep_until_ns = now_ns + self.random.range(1, pause_ns);
        }
    }

    /// Now and then the connection goes to another owner, which is the same host some time later.
    fn relocate(&mut self, index: usize) {
        let Some(every_ns) = self.plan.move_every_ns else { return };
        let end = &mut self.ends[index];
        if self.now_ns < end.move_at_ns || end.error.is_some() {
            return;
        }
        end.move_at_ns = self.now_ns + self.random.range(1, 2 * every_ns);
        let Some(id) = end.id else { return };
        let Ok(mut facts) = end.host.stack.tcp_export(id, self.now_ns) else {
            // One that ends stays.
            end.move_at_ns = u64::MAX;
            return;
        };
        assert_eq!(end.host.stack.tcp_readiness(id), None);
        // What the kernel refuses (`tcp_repair_set_window`).
        let (window, after) = (facts.window, |a: u32, b: u32| a.wrapping_sub(b).cast_signed() > 0);
        assert!(window.send_most_bytes >= window.send_bytes);
        assert!(!after(window.send_sequence, facts.next_sequence.wrapping_add(window.receive_bytes)));
        assert!(!after(window.receive_sequence, facts.next_sequence));
        // What the kernel does not tell.
        if self.random.one_in(2) {
            facts.round_trip = None;
            facts.timestamp =
                facts.timestamp.map(|timestamp| nearwire_stack::TcpTimestamp { recent: None, ..timestamp });
        }
        if self.is_traced {
            println!("{:>12} us  {index} moves", self.now_ns / 1000);
        }
        let options = self.plan.options[index];
        end.id = Some(end.host.stack.tcp_adopt(&facts, options, self.now_ns).expect("can be adopted again"));
        end.moves += 1;
        if end.moves == MOVES_MOST {
            end.move_at_ns = u64::MAX;
        }
    }

    /// Frames of somebody who knows the four-tuple, and may know a number.
    fn third_party(&mut self) {
        if self.plan.blind_resets && self.random.one_in(5) {
            let to = self.random.range(0, 2) as usize;
            let number = self.random.next() as u32;
            let flags = self.random.pick(&[4_u8, 4, 0x14, 2, 0x12, 0x10, 0x11]);
            let frame = self.forged(to, number, flags);
            self.network.inject(self.now_ns, to, frame);
        }
        if let Some(after_ns) = self.plan.reset_at_ns
            && self.now_ns >= 1000 * MS + after_ns
            && self.ends.iter().all(|end| end.error.is_none())
            && let Some(id) = self.ends[0].id
        {
            self.ends[0].host.stack.tcp_abort(id, self.now_ns);
            self.transmit(0);
        }
    }

    fn forged(&mut self, to: usize, number: u32, flags: u8) -> Vec<u8> {
        let (local, peer) = self.addresses(to);
        let header = nearwire_wire::tcp::TcpHeader {
            source_port: peer.port(),
            destination_port: local.port(),
            sequence: number,
            acknowledgement: self.random.next() as u32,
            flags: nearwire_wire::tcp::Flags::from_bits_retain(flags),
            window: self.random.next() as u16,
            checksum: [0; 2],
            urgent: 0,
        };
        common::tcp::frame(2 - to as u8, 1 + to as u8, peer.ip(), local.ip(), header, &[], b"")
    }
}

/// A frame in one line.
fn describe(frame: &[u8]) -> String {
    common::tcp::describe(frame)
}
