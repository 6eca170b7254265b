//! A machine of the simulation: one interface on the segment, tables that its test changes, and virtual time.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use nearwire_frames::PortError;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::memory::MemoryPort;
use nearwire_frames::steered::SteeredPort;
use nearwire_socket::host::Tables;
use nearwire_socket::kernel_tables::{News, PathErrors, TablesError};
use nearwire_socket::{Clocks, Host, PortWanted};
use nearwire_stack::{InterfaceAddress, Link, LinkKind, Neighbour, NeighbourState, Path, Route, Update};
use nearwire_wire::MacAddress;
use rustix::event::{EventfdFlags, eventfd};

use crate::segment::Segment;
use crate::trace::Trace;

/// Of the counter, a nanosecond.
pub const TICKS_PER_NS: u64 = 3;
pub const IFINDEX: u32 = 2;
const MTU_BYTES: u32 = 1500;

/// The address of a machine.
pub fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number as u8)
}

fn mac(number: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, number as u8])
}

/// What all machines share.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub segment: Rc<RefCell<Segment>>,
    /// Virtual time.
    pub ticks: Rc<Cell<u64>>,
    pub trace: Rc<Trace>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Machine {
    number: usize,
    machines: usize,
    surroundings: Surroundings,
    news: Rc<RefCell<Vec<Update>>>,
    is_up: Rc<Cell<bool>>,
    /// Readable while there is news.
    told: Rc<OwnedFd>,
}

impl Machine {
    /// One of `machines` that know each other.
    pub fn new(number: usize, machines: usize, surroundings: &Surroundings) -> Machine {
        let told = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Machine {
            number,
            machines,
            surroundings: surroundings.clone(),
            news: Rc::default(),
            is_up: Rc::new(Cell::new(true)),
            told: Rc::new(told),
        }
    }

    /// The interface goes down, or comes up.
    pub fn set_up(&self, is_up: bool) {
        self.is_up.set(is_up);
        self.news.borrow_mut().push(Update::NewLink(self.link()));
        if is_up {
            // The kernel drops the routes of a link that goes down, and makes that of the address again.
            self.news.borrow_mut().push(self.route());
        }
        rustix::io::write(&self.told, &1_u64.to_ne_bytes()).unwrap();
    }

    pub fn is_up(&self) -> bool {
        self.is_up.get()
    }

    fn link(&self) -> Link {
        let (ifindex, mac) = (IFINDEX, mac(self.number));
        Link { ifindex, mac, mtu_bytes: MTU_BYTES, is_up: self.is_up.get(), kind: LinkKind::Ethernet }
    }

    fn route(&self) -> Update {
        Update::NewRoute { route: Route::on_link(address(0).into(), 24, IFINDEX), replaces: false }
    }

    fn picture(&self) -> Vec<Update> {
        let own = InterfaceAddress {
            ifindex: IFINDEX,
            address: address(self.number).into(),
            prefix_len: 24,
            broadcast: None,
            is_secondary: false,
            is_deprecated: false,
            is_temporary: false,
            is_tentative: false,
        };
        let neighbour = |number: usize| {
            let (address, mac) = (address(number).into(), mac(number));
            Update::NewNeighbour(Neighbour { ifindex: IFINDEX, address, mac, state: NeighbourState::Permanent })
        };
        let loopback =
            Link { ifindex: 1, mac: MacAddress([0; 6]), mtu_bytes: 65_536, is_up: true, kind: LinkKind::Loopback };
        let fixed = [Update::NewLink(loopback), Update::NewLink(self.link()), Update::NewAddress(own), self.route()];
        let others = (0..self.machines).filter(|number| *number != self.number).map(neighbour);
        fixed.into_iter().chain(others).chain([Update::PolicyRules { present: false }]).collect()
    }
}

impl Host for Machine {
    type Port = SteeredPort<MemoryPort>;
    type Tables = Machine;

    fn open_tables(&self) -> Result<(Machine, Vec<Update>), TablesError> {
        Ok((self.clone(), self.picture()))
    }

    fn open_path_errors(&self) -> PathErrors {
        PathErrors::none()
    }

    fn interface_name(&self, _: u32) -> io::Result<String> {
        Ok("sim0".to_owned())
    }

    fn interface_facts(&self, name: &str) -> Result<InterfaceFacts, PortError> {
        Ok(InterfaceFacts {
            name: name.to_owned(),
            ifindex: IFINDEX,
            mac: mac(self.number).0,
            mtu_bytes: MTU_BYTES,
            up: true,
            carrier: true,
            receive_dropped_frames: 0,
            driver: "simulation".to_owned(),
            rx_queues: 1,
            tx_queues: 1,
            rx_ring_frames: 0,
            program: None,
        })
    }

    fn hides_tags(&self, _: &str, _: bool) -> bool {
        false
    }

    fn stamps_received(&self, _: &str) -> bool {
        false
    }

    fn open_port(&self, facts: &InterfaceFacts, _: PortWanted) -> Result<Self::Port, PortError> {
        Ok(SteeredPort::new(self.surroundings.segment.borrow_mut().connect(self.number), &facts.name))
    }

    fn secret(&self) -> u64 {
        self.number as u64
    }

    fn ticks(&self) -> u64 {
        // Who waits for time to pass sees it pass.
        self.surroundings.ticks.set(self.surroundings.ticks.get() + 100);
        self.surroundings.ticks.get()
    }

    fn clocks(&self) -> Clocks {
        let now_ns = self.surroundings.ticks.get() / TICKS_PER_NS;
        Clocks { monotonic_ns: now_ns, time_of_day_ns: now_ns }
    }
}

impl Tables for Machine {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }

    fn read(&mut self, apply: impl FnMut(Update)) -> Result<News, TablesError> {
        let _ = rustix::io::read(&self.told, &mut [0; 8]);
        let news = std::mem::take(&mut *self.news.borrow_mut());
        let found = if news.is_empty() { News::None } else { News::Applied };
        news.into_iter().for_each(apply);
        Ok(found)
    }

    fn snapshot(&mut self) -> Result<Vec<Update>, TablesError> {
        self.news.borrow_mut().clear();
        Ok(self.picture())
    }

    fn path(&mut self, _: u32, _: IpAddr) -> Result<(Path, Option<Duration>), TablesError> {
        Ok((Path { mtu_bytes: Some(MTU_BYTES), is_mtu_locked: false }, None))
    }

    fn use_neighbour(&mut self, _: u32, _: IpAddr) -> Result<(), TablesError> {
        Ok(())
    }
}
