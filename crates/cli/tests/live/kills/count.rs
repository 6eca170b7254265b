//! What there is of an interface that programs share by an agent: counted by taking all of it, as a program would.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nearwire_agent::client::{Client, OpenedShare};
use nearwire_frames::Port;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::XdpPort;
use nearwire_lab::Cable;

use crate::by_agent::wait_until;
use crate::common::accelerated::Bed;
use crate::common::command;

/// Ports that nothing else has.
const PORT: u16 = 7600;
/// So many flows of the far end, that frames come to every queue.
const SENDERS: u16 = 32;
/// A send is on its way for less than this.
const SENT_WITHIN: Duration = Duration::from_secs(5);
/// What waits to be closed is closed sooner, also beside load.
const SAME_FOR: Duration = Duration::from_millis(400);
/// When so many shares are open, the next one may leave no more unread than each may for certain, however many were opened before these.
const LARGE_ROOMS: usize = 32;

/// What could be taken, and what the agent has besides.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// Programs, the shares that they have, and those that there were beside them.
    programs: usize,
    shares: usize,
    free_shares: usize,
    /// Flows of all.
    flows: u32,
    /// Receive buffers of all queues: frames that waited at the same time.
    receive_buffers: usize,
    /// Send buffers of each free share.
    send_buffers: Vec<usize>,
    /// Descriptors of the agent by what they are of, those in its epoll set, and bytes of its BPF maps, whose entries count.
    descriptors: BTreeMap<String, usize>,
    watched: usize,
    map_bytes: u64,
}

/// The XDP program of the near end's interface.
pub fn program_of(bed: &Bed) -> Option<u32> {
    let near = bed.cable.near();
    let facts = near.namespace.enter(|| InterfaceFacts::read(&near.interface)).unwrap().unwrap();
    facts.program.map(|program| program.program_id)
}

/// A share that nothing comes to: the agent keeps the port as long as there is one. How many frames the other shares may leave unread in
/// all depends on how many it may: it is always one of the smallest.
pub struct Keeper {
    client: RefCell<Client>,
}

impl Keeper {
    /// At the agent that there is.
    pub fn new(bed: &Bed) -> Keeper {
        let near = bed.cable.near();
        let mut client = near.namespace.enter(|| Client::connect("keeper")).unwrap().unwrap();
        // Their descriptors are closed at once.
        let large: Vec<_> = (0..LARGE_ROOMS).map(|_| client.open_share(&near.interface, 0).unwrap().share).collect();
        client.open_share(&near.interface, 0).unwrap();
        large.into_iter().for_each(|share| client.close_share(share).unwrap());
        Keeper { client: RefCell::new(client) }
    }

    /// At an agent that is started for it.
    pub fn start(bed: &Bed) -> Keeper {
        // Its standard output ends when the agent is ready.
        let start = || command(&["agent", "--background"]).output().unwrap();
        assert!(bed.cable.near().namespace.enter(start).unwrap().status.success());
        Keeper::new(bed)
    }

    /// The agent's process.
    pub fn agent(&self) -> u32 {
        self.client.borrow().agent().pid
    }

    /// Programs of the agent, with this one.
    pub fn programs(&self) -> usize {
        self.client.borrow_mut().status().unwrap().len()
    }
}

struct Taken {
    share: OpenedShare,
    port: XdpPort,
    _sockets: Vec<UdpSocket>,
}

/// Takes all shares that are free, where only the keeper has one.
pub fn counted(bed: &Bed, keeper: &Keeper) -> Left {
    let near = bed.cable.near();
    let mut client = keeper.client.borrow_mut();
    let programs = client.status().unwrap();
    let shares = programs.iter().map(|program| program.shares.len()).sum();
    let flows = programs.iter().flat_map(|program| &program.shares).map(|share| share.flows).sum();
    let mut taken = Vec::new();
    while let Ok(mut share) = client.open_share(&near.interface, 0) {
        let fds = std::mem::take(&mut share.descriptors);
        let port = XdpPort::from_handed(&share.description, fds).unwrap();
        taken.push(Taken { share, port, _sockets: Vec::new() });
    }
    let send_buffers = taken.iter_mut().map(|taken| burst(&mut taken.port)).collect();
    let receive_buffers = fill_all(bed, &mut client, &mut taken);
    let free_shares = taken.len();
    for Taken { share, port, .. } in taken {
        drop(port);
        client.close_share(share.share).unwrap();
    }
    let files = AgentFiles::of(client.agent().pid);
    Left {
        programs: programs.len(),
        shares,
        free_shares,
        flows,
        receive_buffers,
        send_buffers,
        descriptors: files.descriptors,
        watched: files.watched,
        map_bytes: files.map_bytes,
    }
}

/// A frame that nobody takes: to a hardware address that nobody has.
fn nobodys() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 99, 2, 0, 0, 0, 0, 98, 0x88, 0xb5]);
    frame
}

/// How many frames a share can have under way at most.
fn burst(port: &mut XdpPort) -> usize {
    let most = port.config().tx_frames as usize;
    let until = Instant::now() + SENT_WITHIN;
    let mut count = 0;
    // More than once around, so that every buffer has its turn.
    let mut sent = 0;
    while (count < most || sent < 3 * most) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
        port.flush().unwrap();
        count = 0;
        while port.queue(&nobodys()).unwrap() {
            count += 1;
        }
        sent += count;
    }
    port.flush().unwrap();
    count
}

/// Has frames wait in the rings of all shares until there is no buffer, and takes them.
fn fill_all(bed: &Bed, client: &mut Client, taken: &mut [Taken]) -> usize {
    let near = bed.cable.near();
    let senders: Vec<UdpSocket> = (0..SENDERS).map(|_| bed.far_at(0)).collect();
    for (at, taken) in taken.iter_mut().enumerate() {
        let port = PORT + at as u16;
        let socket = near.namespace.enter(|| UdpSocket::bind((near.ipv4, port))).unwrap().unwrap();
        client.open_flow(taken.share.share, None, &socket).unwrap();
        // Twice what the rings of both queues hold: what finds no room is the kernel's.
        for _ in 0..128 {
            for sender in &senders {
                sender.send_to(b"x", (near.ipv4, port)).unwrap();
            }
        }
        taken._sockets.push(socket);
    }
    let mut count = 0;
    for taken in taken.iter_mut() {
        while taken.port.receive(|_| ()).unwrap().is_some() {
            count += 1;
        }
    }
    count
}

/// What `/proc` tells of the agent.
struct AgentFiles {
    descriptors: BTreeMap<String, usize>,
    watched: usize,
    map_bytes: u64,
}

impl AgentFiles {
    fn of(agent: u32) -> AgentFiles {
        // Descriptors of sockets are closed by threads of the agent, and each close waits for all CPUs.
        let mut last = usize::MAX;
        let count = || std::fs::read_dir(format!("/proc/{agent}/fd")).unwrap().count();
        wait_until("the agent's descriptors stay the same", || {
            std::thread::sleep(SAME_FOR);
            std::mem::replace(&mut last, count()) == last
        });
        let mut descriptors = BTreeMap::new();
        for link in std::fs::read_dir(format!("/proc/{agent}/fd")).unwrap() {
            let Ok(of) = std::fs::read_link(link.unwrap().path()) else { continue };
            // Sockets and pipes have numbers behind their kind.
            let kind = of.to_string_lossy().split(":[").next().unwrap_or_default().to_owned();
            *descriptors.entry(kind).or_insert(0) += 1;
        }
        let infos = std::fs::read_dir(format!("/proc/{agent}/fdinfo")).unwrap();
        let infos: Vec<String> = infos.filter_map(|info| std::fs::read_to_string(info.unwrap().path()).ok()).collect();
        let lines = || infos.iter().flat_map(|info| info.lines());
        let maps = infos.iter().filter(|info| info.contains("map_type:"));
        let bytes = |info: &String| {
            let line = info.lines().find_map(|line| line.strip_prefix("memlock:")).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        AgentFiles {
            descriptors,
            watched: lines().filter(|line| line.starts_with("tfd:")).count(),
            map_bytes: maps.map(bytes).sum(),
        }
    }
}
