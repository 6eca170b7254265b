//! Filters in the maps that the XDP program looks at.

use std::io;

use nearwire_sys::bpf::{Map, MapKind, Program};

use super::filter::{FLOW_KEY_BYTES, FRAME_KEY_BYTES, Filter, FilterError, FlowFilter, Key};
use super::ports::{PORT_WORD_BYTES, PORTS, Ports};
use super::program::{self, Maps};
use super::set::FilterSet;
use crate::PortError;
use crate::xdp::stamps::Stamps;

/// Flow filters that fit, 10 000 sockets on six addresses: 1 MiB of kernel memory for the buckets, and 88 bytes for each
/// that is there.
const FLOWS_MOST: u32 = 1 << 16;
/// Frame filters that fit.
const FRAMES_MOST: u32 = 1024;
/// What a filter's key leads to: that it is there says all.
const VALUE_BYTES: u32 = 4;
const PRESENT: [u8; VALUE_BYTES as usize] = 1_u32.to_ne_bytes();

/// The filters of one port, kept in step with the kernel's maps.
///
/// Invariant: the word of classes in use has a bit for every filter that is in a map, so that the program looks for it;
/// a bit without filters, between two steps or after a refused one, costs a look-up and decides nothing.
#[derive(Debug)]
pub struct SteeringTable {
    interface: String,
    set: FilterSet,
    ports: Ports,
    maps: Maps,
    /// The word of classes that the program sees.
    shown: u32,
    /// Longer frames stay with the kernel.
    frame_most_bytes: u32,
    /// The program is told of no class: it takes nothing.
    is_paused: bool,
}

impl SteeringTable {
    /// An empty table, for messages about `interface`. Frames of more than `frame_most_bytes`, which the port's buffers
    /// cannot hold, stay with the kernel: the MTU may grow while the port is open.
    ///
    /// # Errors
    /// The kernel refused the maps, most often for want of CAP_BPF.
    pub fn new(interface: &str, frame_most_bytes: u32) -> Result<SteeringTable, PortError> {
        let refused = |source: io::Error| PortError::refused("make the maps of filters", interface, source);
        let hash = |kind, name, key_bytes: usize, most| Map::create(kind, name, key_bytes as u32, VALUE_BYTES, most);
        let maps = Maps {
            classes: Map::create(MapKind::Array, "nw_classes", 4, 4, 1).map_err(refused)?,
            ports: Map::create(MapKind::Array, "nw_ports", 4, PORT_WORD_BYTES, PORTS).map_err(refused)?,
            flows: hash(MapKind::SparseHash, "nw_flows", FLOW_KEY_BYTES, FLOWS_MOST).map_err(refused)?,
            frames: hash(MapKind::Hash, "nw_frames", FRAME_KEY_BYTES, FRAMES_MOST).map_err(refused)?,
        };
        let (interface, set, ports) = (interface.to_owned(), FilterSet::new(), Ports::default());
        Ok(SteeringTable { interface, set, ports, maps, shown: 0, frame_most_bytes, is_paused: false })
    }

    /// Loads the program that gives what the filters match to `sockets`.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn program(&self, sockets: &Map) -> Result<Program, nearwire_sys::bpf::LoadError> {
        self.stamped_program(sockets, None)
    }

    /// The same, with times in front of the frames.
    pub(crate) fn stamped_program(
        &self,
        sockets: &Map,
        stamps: Option<Stamps>,
    ) -> Result<Program, nearwire_sys::bpf::LoadError> {
        program::steer(&self.maps, sockets, self.frame_most_bytes, stamps)
    }

    /// Adds a filter: frames that come from now on are matched against it.
    ///
    /// # Errors
    /// It is there, can match no frame, or does not fit; or the kernel refused it.
    pub fn add(&mut self, filter: Filter) -> Result<(), PortError> {
        self.set.add(filter).map_err(|source| self.wrong(source))?;
        let entered = match filter.key() {
            Key::Flow(key) => self.maps.flows.update(&key, &PRESENT),
            Key::Frame(key) => self.maps.frames.update(&key, &PRESENT),
            Key::Everything => Ok(()),
        };
        if let (Filter::Flow(flow), true) = (filter, entered.is_ok()) {
            self.ports.add(flow);
        }
        if let Err(source) = entered.and_then(|()| self.show_port(filter)).and_then(|()| self.show_classes()) {
            // A key that stays behind after a refused word is one the next `add` overwrites.
            let _ = self.set.remove(filter);
            if let Filter::Flow(flow) = filter {
                self.ports.remove(flow);
            }
            return Err(self.refused(filter, source));
        }
        Ok(())
    }

    /// Removes a filter: frames that come from now on are the kernel's, unless another one matches them. Frames that were
    /// matched before may still be in the port's ring.
    ///
    /// # Errors
    /// It is not there, or the kernel refused.
    pub fn remove(&mut self, filter: Filter) -> Result<(), PortError> {
        if !self.set.contains(&filter) {
            return Err(self.wrong(FilterError::Missing { filter }));
        }
        let left = match filter.key() {
            Key::Flow(key) => self.maps.flows.delete(&key),
            Key::Frame(key) => self.maps.frames.delete(&key),
            Key::Everything => Ok(true),
        };
        left.map_err(|source| PortError::refused("remove a filter", &self.interface, source))?;
        self.set.remove(filter).map_err(|source| self.wrong(source))?;
        if let Filter::Flow(flow) = filter {
            self.ports.remove(flow);
        }
        let shown = self.show_port(filter).and_then(|()| self.show_classes());
        shown.map_err(|source| PortError::refused("remove a filter", &self.interface, source))
    }

    /// Has the program take nothing until [`SteeringTable::resume`], by one change whatever the number of filters.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn pause(&mut self) -> Result<(), PortError> {
        self.set_paused(true)
    }

    /// Ends [`SteeringTable::pause`].
    ///
    /// # Errors
    /// The kernel refused.
    pub fn resume(&mut self) -> Result<(), PortError> {
        self.set_paused(false)
    }

    fn set_paused(&mut self, is_paused: bool) -> Result<(), PortError> {
        self.is_paused = is_paused;
        self.show_classes().map_err(|source| PortError::refused("pause or resume filters", &self.interface, source))
    }

    /// Takes a filter out of the kernel's map and leaves it in this table: for a process that has a copy of the map, as
    /// the child of a fork. Whoever keeps the table finds the filter gone when it removes it.
    pub fn withdraw(&self, filter: Filter) {
        if let Filter::Flow(FlowFilter { port: port @ 1.., .. }) = filter {
            // What the word of the port may say without the table of flows, it must not say of this one.
            let (place, word) = Ports::undecided(port);
            let _ = self.maps.ports.update(&place, &word);
        }
        // Missing, where the keeper was faster; there is nobody to tell of anything else.
        let _ = match filter.key() {
            Key::Flow(key) => self.maps.flows.delete(&key),
            Key::Frame(key) => self.maps.frames.delete(&key),
            Key::Everything => Ok(true),
        };
    }

    /// Puts a filter of this table into the kernel's map again, after somebody else withdrew it there.
    pub fn restore(&self, filter: Filter) {
        if !self.set.contains(&filter) {
            return;
        }
        // It fitted before, and what it finds there is itself.
        let _ = match filter.key() {
            Key::Flow(key) => self.maps.flows.update(&key, &PRESENT),
            Key::Frame(key) => self.maps.frames.update(&key, &PRESENT),
            Key::Everything => Ok(()),
        };
        // Refused, the program goes on asking the table of flows, which takes longer.
        let _ = self.show_port(filter);
    }

    /// The filters.
    #[must_use]
    pub fn filters(&self) -> &FilterSet {
        &self.set
    }

    fn show_port(&self, filter: Filter) -> io::Result<()> {
        let Filter::Flow(FlowFilter { port: port @ 1.., .. }) = filter else { return Ok(()) };
        let (place, word) = self.ports.word(port);
        self.maps.ports.update(&place, &word)
    }

    fn show_classes(&mut self) -> io::Result<()> {
        let classes = if self.is_paused { 0 } else { self.set.classes() };
        if classes != self.shown {
            self.maps.classes.update(&0_u32.to_ne_bytes(), &classes.to_ne_bytes())?;
            self.shown = classes;
        }
        Ok(())
    }

    fn wrong(&self, source: FilterError) -> PortError {
        PortError::Filter { interface: self.interface.clone(), source }
    }

    fn refused(&self, filter: Filter, source: io::Error) -> PortError {
        let most = if matches!(filter, Filter::Flow(_)) { FLOWS_MOST } else { FRAMES_MOST };
        match source.raw_os_error() {
            Some(libc::E2BIG | libc::ENOMEM) => self.wrong(FilterError::Full { filter, most }),
            _ => PortError::refused("add a filter", &self.interface, source),
        }
    }
}
