//! How a connection is made: the client makes the memory and says where all is, and the server checks and maps it.
//!
//! ```text
//! server                         client
//!   HELLO  ------------------->         versions, how many regions and rings
//!          <-------------------  INIT   interface, secret             (ACK)
//!          <-------------------  ADD_REGION, with its file            (ACK)
//!          <-------------------  ADD_RING, with an eventfd, twice     (ACK each)
//!          <-------------------  CONNECT
//!   CONNECTED ---------------->
//! ```
//!
//! Source: DPDK `drivers/net/memif/memif_socket.c` (`memif_msg_receive`), VPP `src/plugins/memif/socket.c`.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use super::control::{Control, Deadline};
use super::error::MemifError;
use super::layout::{Buffers, Layout};
use super::message::{AddRing, Direction, Hello, Init, MODE_ETHERNET, Message, NAME_BYTES, VERSION, padded};
use super::region::{REGIONS_MOST, Region, Regions};
use super::ring::{RingView, SIZE_LOG2_MOST};
use super::{MemifConfig, MemifRole};

/// A connection that was made.
#[derive(Debug)]
pub(super) struct Joined {
    pub control: Control,
    pub sending: RingView,
    pub receiving: RingView,
    /// Interrupts the peer, should it want that when frames were sent.
    pub kick: Option<OwnedFd>,
    /// A client's own buffers: those it sends from, and those it receives in.
    pub buffers: Option<[Buffers; 2]>,
}

fn own_name() -> [u8; NAME_BYTES] {
    padded(concat!("nearwire ", env!("CARGO_PKG_VERSION")).as_bytes())
}

/// The next message, unless it is the peer's refusal.
fn receive(
    control: &Control,
    deadline: Deadline,
    wanted: &'static str,
) -> Result<(Message, Option<OwnedFd>), MemifError> {
    match control.receive(deadline, wanted)? {
        (Message::Disconnect { code, reason }, _) => Err(MemifError::Refused { code, reason }),
        received => Ok(received),
    }
}

fn unexpected(message: &Message, wanted: &'static str) -> MemifError {
    MemifError::UnexpectedMessage { found: message.kind(), wanted }
}

/// Makes the connection. A peer that broke the protocol is told so.
///
/// # Errors
/// The peer refuses, breaks the protocol, or says nothing in time.
pub(super) fn join(control: Control, config: &MemifConfig, deadline: Deadline) -> Result<Joined, MemifError> {
    let joined = match config.role {
        MemifRole::Client => join_as_client(&control, config, deadline),
        MemifRole::Server => Offered::default().collect(&control, config, deadline),
    };
    match joined {
        Ok(Parts { sending, receiving, kick, buffers }) => Ok(Joined { control, sending, receiving, kick, buffers }),
        Err(error) => {
            control.disconnect(&error.to_string());
            Err(error)
        }
    }
}

struct Parts {
    sending: RingView,
    receiving: RingView,
    kick: Option<OwnedFd>,
    buffers: Option<[Buffers; 2]>,
}

fn join_as_client(control: &Control, config: &MemifConfig, deadline: Deadline) -> Result<Parts, MemifError> {
    let ask = |message: &Message, descriptor: Option<&OwnedFd>| {
        control.send(message, descriptor.map(AsFd::as_fd))?;
        match receive(control, deadline, "an acknowledgement")? {
            (Message::Ack, _) => Ok(()),
            (other, _) => Err(unexpected(&other, "an acknowledgement")),
        }
    };
    let layout = Layout::new(accepted_size_log2(control, config, deadline)?, config.buffer_bytes);
    let (region, file) = Region::create(layout.region_bytes())?;
    let mut regions = Regions::default();
    regions.add(0, region)?;
    let regions = Arc::new(regions);
    let secret = config.secret_field();
    ask(&Message::Init(Init { version: VERSION, id: config.id, mode: MODE_ETHERNET, secret, name: own_name() }), None)?;
    ask(&Message::AddRegion { number: 0, length_bytes: layout.region_bytes() as u64 }, Some(&file))?;
    let add_ring = |direction| {
        let ring = RingView::new(&regions, (0, layout.ring_offset_bytes(direction)), layout.size_log2, direction)?;
        layout.fill(&ring, direction);
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| MemifError::kernel("make an eventfd", errno))?;
        ask(&Message::AddRing(layout.add_ring(direction)), Some(&event))?;
        Ok::<_, MemifError>((ring, event))
    };
    let (sending, event) = add_ring(Direction::ClientToServer)?;
    let (receiving, _) = add_ring(Direction::ServerToClient)?;
    receiving.mask_interrupts();
    control.send(&Message::Connect { name: own_name() }, None)?;
    match receive(control, deadline, "CONNECTED")? {
        (Message::Connected { .. }, _) => {}
        (other, _) => return Err(unexpected(&other, "CONNECTED")),
    }
    let buffers = [Direction::ClientToServer, Direction::ServerToClient].map(|direction| layout.buffers(direction));
    Ok(Parts { sending, receiving, kick: Some(event), buffers: Some(buffers) })
}

/// The size of rings that the server and this configuration allow.
fn accepted_size_log2(control: &Control, config: &MemifConfig, deadline: Deadline) -> Result<u8, MemifError> {
    match receive(control, deadline, "HELLO")? {
        (Message::Hello(hello), _) if (hello.least_version..=hello.most_version).contains(&VERSION) => {
            Ok(config.ring_size_log2.min(hello.ring_size_log2))
        }
        (Message::Hello(Hello { least_version: least, most_version: most, .. }), _) => {
            Err(MemifError::Version { least, most })
        }
        (other, _) => Err(unexpected(&other, "HELLO")),
    }
}

/// What a client has offered so far.
#[derive(Default)]
struct Offered {
    regions: Regions,
    /// By direction; an eventfd with each, if there was one.
    rings: [Option<(AddRing, Option<OwnedFd>)>; 2],
}

impl Offered {
    fn collect(mut self, control: &Control, config: &MemifConfig, deadline: Deadline) -> Result<Parts, MemifError> {
        const WANTED: &str = "ADD_REGION, ADD_RING or CONNECT";
        let hello = Hello {
            name: own_name(),
            least_version: VERSION,
            most_version: VERSION,
            last_region: REGIONS_MOST as u16 - 1,
            last_s2c_ring: 0,
            last_c2s_ring: 0,
            ring_size_log2: SIZE_LOG2_MOST,
        };
        control.send(&Message::Hello(hello), None)?;
        match receive(control, deadline, "INIT")? {
            (Message::Init(init), _) => check_init(&init, config)?,
            (other, _) => return Err(unexpected(&other, "INIT")),
        }
        loop {
            control.send(&Message::Ack, None)?;
            match receive(control, deadline, WANTED)? {
                (Message::AddRegion { number, length_bytes }, file) => {
                    self.add_region(number, length_bytes, file, config)?;
                }
                (Message::AddRing(ring), event) => self.add_ring(ring, event)?,
                (Message::Connect { .. }, _) => break,
                (other, _) => return Err(unexpected(&other, WANTED)),
            }
        }
        let parts = self.parts()?;
        control.send(&Message::Connected { name: own_name() }, None)?;
        Ok(parts)
    }

    fn add_region(
        &mut self,
        number: u16,
        length_bytes: u64,
        file: Option<OwnedFd>,
        config: &MemifConfig,
    ) -> Result<(), MemifError> {
        self.regions.check_next(number)?;
        let file = file.ok_or(MemifError::NoRegionFile { region: number })?;
        let region = Region::open(&file, number, length_bytes, config.trusts_unsealed_memory)?;
        self.regions.add(number, region)
    }

    fn add_ring(&mut self, ring: AddRing, event: Option<OwnedFd>) -> Result<(), MemifError> {
        let direction = ring.direction.in_words();
        let known = &mut self.rings[place_of(ring.direction)];
        if ring.number != 0 || known.is_some() {
            return Err(MemifError::RingNumber { found: ring.number, direction });
        }
        if ring.private_header_bytes != 0 {
            return Err(MemifError::PrivateHeader { found_bytes: ring.private_header_bytes });
        }
        if event.as_ref().is_some_and(|event| !is_eventfd(event)) {
            return Err(MemifError::NoEvent { direction });
        }
        *known = Some((ring, event));
        Ok(())
    }

    fn parts(self) -> Result<Parts, MemifError> {
        let Offered { regions, rings: [client_to_server, server_to_client] } = self;
        let regions = Arc::new(regions);
        let view = |offered: Option<(AddRing, Option<OwnedFd>)>, direction: Direction| {
            let (ring, event) = offered.ok_or(MemifError::RingMissing { direction: direction.in_words() })?;
            let view = RingView::new(&regions, (ring.region, ring.offset_bytes), ring.size_log2, direction)?;
            view.check_cookie()?;
            Ok::<_, MemifError>((view, event))
        };
        let (receiving, _) = view(client_to_server, Direction::ClientToServer)?;
        let (sending, kick) = view(server_to_client, Direction::ServerToClient)?;
        receiving.mask_interrupts();
        if let Some(kick) = &kick {
            rustix::io::ioctl_fionbio(kick, true)
                .map_err(|errno| MemifError::kernel("make an eventfd not wait", errno))?;
        }
        Ok(Parts { sending, receiving, kick, buffers: None })
    }
}

const fn place_of(direction: Direction) -> usize {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}

fn check_init(init: &Init, config: &MemifConfig) -> Result<(), MemifError> {
    if init.version != VERSION {
        return Err(MemifError::Version { least: init.version, most: init.version });
    }
    if init.id != config.id {
        return Err(MemifError::InterfaceId { found: init.id, wanted: config.id });
    }
    if init.mode != MODE_ETHERNET {
        return Err(MemifError::Mode { found: init.mode });
    }
    // As long for a secret that is nearly right as for any other.
    let differs = init.secret.iter().zip(config.secret_field()).fold(0, |differs, (a, b)| differs | (a ^ b));
    if config.secret.is_some() && differs != 0 { Err(MemifError::Secret) } else { Ok(()) }
}

/// Whether a descriptor of the peer's is an eventfd(2): to write to anything else could have any effect.
fn is_eventfd(descriptor: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}
