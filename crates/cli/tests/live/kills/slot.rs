//! A port at which one program after the other answers, and the account of every datagram.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nearwire_lab::Cable;

use crate::by_agent::wait_until;
use crate::common::accelerated::{Bed, Running};

/// The first slot's port.
const PORT: u16 = 7300;
/// A second port of each program.
const SECOND: u16 = 100;
/// Questions that a program has at a time: no more than the kernel keeps for one that has no CPU for a while.
const UNDER_WAY_MOST: usize = 24;
/// A question that has no answer by now is lost.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// How a program answers. Each answer is the question, with the number of the program's life and that of the answer behind.
#[derive(Clone, Copy)]
pub struct Kind {
    script: &'static str,
    /// Answers to a question.
    answers: u8,
}

pub const KINDS: [Kind; 5] = [
    // Waits in recvfrom.
    Kind {
        answers: 1,
        script: "
one = bound(near, PORT)
step()
while True:
    data, source = one.recvfrom(2000)
    one.sendto(data + b' LIFE 0', source)
",
    },
    // Two sockets in an epoll set.
    Kind {
        answers: 2,
        script: "
sockets = {one.fileno(): one for one in (bound(near, PORT), bound(near, PORT + 100))}
waits = select.epoll()
for one in sockets: waits.register(one, select.EPOLLIN)
step()
while True:
    for number, _ in waits.poll():
        data, source = sockets[number].recvfrom(2000)
        for copy in range(2): sockets[number].sendto(b'%s LIFE %d' % (data, copy), source)
",
    },
    // Answers in bursts.
    Kind {
        answers: 8,
        script: "
one = bound(near, PORT)
step()
while True:
    data, source = one.recvfrom(2000)
    for copy in range(8): one.sendto(b'%s LIFE %d' % (data, copy), source)
",
    },
    // Opens and closes a further socket for each question: its flow comes and goes.
    Kind {
        answers: 1,
        script: "
one = bound(near, PORT)
step()
while True:
    data, source = one.recvfrom(2000)
    other = bound(near, 0)
    other.sendto(b'x', (far, 9))
    one.sendto(data + b' LIFE 0', source)
    other.close()
",
    },
    // Two threads, with a socket each.
    Kind {
        answers: 1,
        script: "
import threading
def answer(one):
    while True:
        data, source = one.recvfrom(2000)
        one.sendto(data + b' LIFE 0', source)
sockets = [bound(near, PORT), bound(near, PORT + 100)]
threading.Thread(target=answer, args=(sockets[1],), daemon=True).start()
step()
answer(sockets[0])
",
    },
];

/// A question that has not all its answers.
#[derive(Debug)]
struct Asked {
    at: Instant,
    life: u32,
    /// Bits of the answers that came.
    came: u8,
}

#[derive(Debug, Default)]
struct Account {
    next: u32,
    under_way: BTreeMap<u32, Asked>,
    /// Of programs that were killed since: answers may come, or not.
    doomed: BTreeMap<u32, Asked>,
    answered: u64,
    /// Those that no answer came to, although their program lives.
    lost: Vec<u32>,
    /// Whether somebody answers, and shall.
    is_up: bool,
    life: u32,
}

impl Account {
    /// Of a question that has an answer, which nobody waits for.
    fn why_not_awaited(&self, number: u32) -> &'static str {
        match number {
            _ if self.lost.contains(&number) => "comes when it is long taken for lost",
            _ if number < self.next => "comes twice",
            _ => "was never asked",
        }
    }
}

/// See the module.
pub struct Slot {
    port: u16,
    kind: Kind,
    /// At two ports of the far end: for the first and the second port.
    sockets: [UdpSocket; 2],
    account: Mutex<Account>,
    program: Mutex<Option<Running>>,
}

impl Slot {
    pub fn new(bed: &Bed, at: usize, kind: Kind) -> Slot {
        let (far, near, port) = (bed.cable.far(), bed.cable.near().ipv4, PORT + at as u16);
        let has_second = kind.script.contains("PORT + 100");
        let sockets = [0, if has_second { SECOND } else { 0 }].map(|more| {
            let socket = far.namespace.enter(|| UdpSocket::bind((far.ipv4, 0))).unwrap().unwrap();
            socket.connect((near, port + more)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        });
        Slot { port, kind, sockets, account: Mutex::default(), program: Mutex::default() }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    /// The process that answers.
    pub fn pid(&self) -> u32 {
        self.program.lock().unwrap().as_ref().unwrap().child.id()
    }

    /// Kills the program; what is under way to it is its.
    pub fn kill(&self) {
        {
            let mut account = self.account();
            account.is_up = false;
            let under_way = std::mem::take(&mut account.under_way);
            account.doomed.extend(under_way);
        }
        // Dropped, it is killed and waited for.
        drop(self.program.lock().unwrap().take());
    }

    /// Starts a program without waiting for it.
    pub fn begin(&self, bed: &Bed) -> Running {
        let life = {
            let mut account = self.account();
            account.life += 1;
            account.life.to_string()
        };
        let script = self.kind.script.replace("PORT", &self.port.to_string()).replace("LIFE", &life);
        bed.run_as(bed.cable.near(), 0, &script)
    }

    /// Starts a program, which answers from now on.
    pub fn start(&self, bed: &Bed) {
        let mut program = self.begin(bed);
        program.step();
        program.say("");
        *self.program.lock().unwrap() = Some(program);
        self.account().is_up = true;
    }

    /// Asks as much as may be under way, and takes the answers. Whether any came.
    fn turn(&self, asks: bool) -> bool {
        let mut account = self.account();
        let mut any = false;
        for socket in &self.sockets {
            any |= self.take_answers(&mut account, socket);
        }
        let late = |asked: &Asked| asked.at.elapsed() > ANSWERED_WITHIN;
        let lost: Vec<u32> =
            account.under_way.extract_if(.., |_, asked| late(asked)).map(|(number, _)| number).collect();
        account.lost.extend(lost);
        // Answers may be so many at a time as the receive buffer here holds.
        let most = UNDER_WAY_MOST.min(128 / usize::from(self.kind.answers));
        while asks && account.is_up && account.under_way.len() < most {
            let number = account.next;
            account.next += 1;
            let asked = Asked { at: Instant::now(), life: account.life, came: 0 };
            account.under_way.insert(number, asked);
            let socket = &self.sockets[number as usize % 2];
            // Refused: an error report of what was sent to a program that was killed.
            while socket.send(number.to_string().as_bytes()).is_err() {}
        }
        any
    }

    fn take_answers(&self, account: &mut Account, socket: &UdpSocket) -> bool {
        let (mut any, mut answer) = (false, [0; 64]);
        loop {
            let len = match socket.recv(&mut answer) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return any,
                // An error report.
                Err(_) => continue,
            };
            any = true;
            let text = std::str::from_utf8(&answer[..len]).unwrap();
            let words: Vec<u32> = text.split(' ').map(|word| word.parse().unwrap()).collect();
            let [number, life, copy] = words[..] else { panic!("port {}: {text:?}", self.port) };
            account.answered += 1;
            let all = (1_u16 << self.kind.answers) - 1;
            let (asked, is_doomed) = match account.under_way.get_mut(&number) {
                Some(asked) => (asked, false),
                None => match account.doomed.get_mut(&number) {
                    Some(asked) => (asked, true),
                    None => panic!("port {}: {text:?} {}", self.port, account.why_not_awaited(number)),
                },
            };
            let is_its = if is_doomed { life >= asked.life } else { life == asked.life };
            assert!(is_its, "port {}: {text:?} is of another program than {asked:?}", self.port);
            assert!(asked.came & 1 << copy == 0, "port {}: {text:?} came twice", self.port);
            asked.came |= 1 << copy;
            if u16::from(asked.came) == all && !is_doomed {
                account.under_way.remove(&number);
            }
        }
    }

    /// Every question to a program that was not killed has its answers.
    pub fn assert_whole(&self) {
        let account = self.account();
        let (lost, left) = (&account.lost, account.under_way.len());
        assert!(lost.is_empty() && left == 0, "port {}: lost {lost:?}, {left} not answered", self.port);
    }

    /// Questions and answers.
    pub fn counts(&self) -> (u64, u64) {
        let account = self.account();
        (account.next.into(), account.answered)
    }

    /// Nobody has the flows of a program that is gone: its port is the kernel's.
    pub fn is_the_kernels(&self, bed: &Bed) {
        let near = bed.cable.near();
        let at = |port: u16| near.namespace.enter(|| UdpSocket::bind((near.ipv4, port))).unwrap().unwrap();
        let plain = [at(self.port), at(self.port + SECOND)];
        let far = bed.far_at(0);
        for socket in &plain {
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            wait_until("the kernel has the port", || {
                far.send_to(b"x", socket.local_addr().unwrap()).unwrap();
                socket.recv(&mut [0; 8]).is_ok()
            });
        }
    }
}

/// Asks and takes answers, until it is over and all is answered.
pub fn exchange(slots: &[Slot], is_over: &AtomicBool) {
    loop {
        let was_over = is_over.load(Relaxed);
        let mut any = false;
        for slot in slots {
            any |= slot.turn(!was_over);
        }
        if was_over && slots.iter().all(|slot| slot.account().under_way.is_empty()) {
            return;
        }
        if !any {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
