//! Filters in the maps that the XDP program looks at.
//!
//! A table belongs to a port and to those that share its queues: each has a handle, which adds and removes what is its own. A filter
//! is in the maps as long as somebody has it. The lock is for the control plane; a signal handler may run in the middle of what
//! it guards, in the same thread, so it is waited for with an end.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use nearwire_sys::bpf::{Map, MapKind, Program};

use super::credits::{Counting, CreditMap, CreditWords};
use super::filter::{FLOW_KEY_BYTES, FRAME_KEY_BYTES, Filter, FilterError, FlowFilter, FrameFilter, Key};
use super::ports::{PORT_WORD_BYTES, PORTS, Ports};
use super::program::{self, CLASSES_WORD_BYTES, Capacity, Maps};
use super::set::FilterSet;
use super::shares::{SHARES_MOST, Shares};
use crate::PortError;
use crate::xdp::stamps::{DeviceClock, Stamps};

/// Flow filters that fit, 10 000 sockets on six addresses: 1 MiB of kernel memory for the buckets, and 88 bytes for each
/// that is there.
const FLOWS_MOST: u32 = 1 << 16;
/// Frame filters that fit.
const FRAMES_MOST: u32 = 1024;
/// What a filter's key leads to: the word of [`Shares`] that have it.
const VALUE_BYTES: u32 = 4;
/// A change takes some microseconds: whoever has the lock for longer cannot go on.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// What one port adds to and removes from the filters of a port and of all that share its queues, kept in step with the
/// kernel's maps.
#[derive(Debug)]
pub struct SteeringTable {
    table: Arc<Table>,
    /// Whose handle it is.
    share: u32,
}

#[derive(Debug)]
struct Table {
    interface: String,
    maps: Maps,
    capacity: Capacity,
    state: Mutex<State>,
}

/// Invariant: the word of classes in use has a bit for every filter that is in a map, so that the program looks for it;
/// a bit without filters, between two steps or after a refused one, costs a look-up and decides nothing.
#[derive(Debug, Default)]
struct State {
    set: FilterSet,
    ports: Ports,
    /// The word of classes that the program sees.
    shown: [u8; CLASSES_WORD_BYTES as usize],
    /// The program is told of no class: it takes nothing.
    is_paused: bool,
    /// It writes times in front of frames, where it can.
    is_stamped: bool,
}

impl SteeringTable {
    /// An empty table, for messages about `interface`. Frames that the port's buffers cannot hold stay with the
    /// kernel.
    ///
    /// # Errors
    /// The kernel refused the maps, most often for want of CAP_BPF.
    pub fn new(interface: &str, capacity: impl Into<Capacity>) -> Result<SteeringTable, PortError> {
        SteeringTable::with(interface, capacity.into(), None)
    }

    /// The same, where the kernel gets the frames of so many places of the map of sockets for which there is no room.
    pub(crate) fn with_credits(
        interface: &str,
        capacity: impl Into<Capacity>,
        places: u32,
        counting: Counting,
    ) -> Result<SteeringTable, PortError> {
        let refused = |source: io::Error| PortError::refused("make the map of credits", interface, source);
        let credits = CreditMap::create(places, counting).map_err(refused)?;
        SteeringTable::with(interface, capacity.into(), Some(credits))
    }

    fn with(interface: &str, capacity: Capacity, credits: Option<CreditMap>) -> Result<SteeringTable, PortError> {
        let refused = |source: io::Error| PortError::refused("make the maps of filters", interface, source);
        let hash = |kind, name, key_bytes: usize, most| Map::create(kind, name, key_bytes as u32, VALUE_BYTES, most);
        let maps = Maps {
            classes: Map::create(MapKind::Array, "nw_classes", 4, CLASSES_WORD_BYTES, 1).map_err(refused)?,
            ports: Map::create(MapKind::Array, "nw_ports", 4, PORT_WORD_BYTES, PORTS).map_err(refused)?,
            flows: hash(MapKind::SparseHash, "nw_flows", FLOW_KEY_BYTES, FLOWS_MOST).map_err(refused)?,
            frames: hash(MapKind::Hash, "nw_frames", FRAME_KEY_BYTES, FRAMES_MOST).map_err(refused)?,
            credits,
        };
        let (interface, state) = (interface.to_owned(), Mutex::default());
        Ok(SteeringTable { table: Arc::new(Table { interface, maps, capacity, state }), share: 0 })
    }

    /// A share's handle.
    pub(crate) fn of_share(&self, share: u32) -> SteeringTable {
        SteeringTable { table: Arc::clone(&self.table), share }
    }

    /// The map of credits, for readers in other processes.
    pub(crate) fn credits(&self) -> Option<BorrowedFd<'_>> {
        self.table.maps.credits.as_ref().map(|credits| credits.map.as_fd())
    }

    /// What readers tell the program; `None`: the table has no credits.
    pub(crate) fn credit_words(&self) -> Result<Option<CreditWords>, PortError> {
        let words = self.table.maps.credits.as_ref().map(CreditMap::words).transpose();
        words.map_err(|source| PortError::refused("map the credits", &self.table.interface, source))
    }

    /// Loads the program that gives what the filters match to `sockets`, where the socket of queue `q` and share `s` stands at
    /// `q * SHARES_MOST + s`.
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
        program::steer(&self.table.maps, sockets, self.table.capacity, stamps, true)
    }

    /// The same, with times in front of the frames that come after [`SteeringTable::set_stamped`]. Until then each frame costs one
    /// look at a word more than by [`SteeringTable::program`].
    pub(crate) fn ready_program(
        &self,
        sockets: &Map,
        mark: NonZeroU64,
    ) -> Result<Program, nearwire_sys::bpf::LoadError> {
        let stamps = Some(Stamps { mark, device: DeviceClock::None });
        program::steer(&self.table.maps, sockets, self.table.capacity, stamps, false)
    }

    /// Has a [ready program](SteeringTable::ready_program) write times in front of frames from now on, or no more.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn set_stamped(&self, is_stamped: bool) -> Result<(), PortError> {
        let tried = "have frames stamped";
        let mut state = self.state(tried)?;
        state.is_stamped = is_stamped;
        self.show_classes(&mut state).map_err(|source| PortError::refused(tried, &self.table.interface, source))
    }

    /// A program that returns the place in the map of sockets, more [`program::TOLD`].
    #[cfg(test)]
    pub(super) fn telling_program(&self) -> Result<Program, nearwire_sys::bpf::LoadError> {
        program::tell(&self.table.maps, self.table.capacity)
    }

    /// Adds a filter: frames that come from now on are matched against it. Where another share has it, frames of some
    /// sources are this one's from now on.
    ///
    /// # Errors
    /// The share has it, it can match no frame or does not fit; or the kernel refused it.
    pub fn add(&self, filter: Filter) -> Result<(), PortError> {
        let mut state = self.state("add a filter")?;
        let before = state.set.shares(&filter);
        state.set.add_for(filter, self.share).map_err(|source| self.wrong(source))?;
        let entered = self.enter(&state.set, filter);
        if let (Filter::Flow(flow), None, true) = (filter, before, entered.is_ok()) {
            state.ports.add(flow);
        }
        if let Err(source) = entered.and_then(|()| self.show(&mut state, filter)) {
            // What stays behind in the maps after a refused step the next `add` overwrites; those who had the filter have it still.
            state.set.give(filter, before);
            match (before, filter) {
                (Some(_), _) => drop(self.enter(&state.set, filter).and_then(|()| self.show(&mut state, filter))),
                (None, Filter::Flow(flow)) => state.ports.remove(flow),
                (None, Filter::Frame(_)) => {}
            }
            return Err(self.refused(filter, source));
        }
        Ok(())
    }

    /// Removes a filter: frames that come from now on are the kernel's, unless another share has it or another filter matches
    /// them. Frames that were matched before may still be in the port's ring.
    ///
    /// # Errors
    /// The share does not have it, or the kernel refused.
    pub fn remove(&self, filter: Filter) -> Result<(), PortError> {
        let mut state = self.state("remove a filter")?;
        let rest = self.shares_of(&state, filter)?.without(self.share);
        self.give(&mut state, filter, rest).map_err(|source| self.not_removed(source))
    }

    /// Gives a filter to another share, by one change of what the program looks at: every frame is the one's or the other's. Where
    /// that share has it already, this one only loses it. To a number that no share has now, the kernel gets the frames.
    ///
    /// # Errors
    /// The share does not have it, there can be no share `to`, or the kernel refused.
    pub fn move_to(&self, filter: Filter, to: u32) -> Result<(), PortError> {
        if to >= SHARES_MOST {
            return Err(self.wrong(FilterError::NoSuchShare { filter, share: to, last: SHARES_MOST - 1 }));
        }
        let mut state = self.state("move a filter")?;
        let moved = self.shares_of(&state, filter)?.moved(self.share, to);
        let given = self.give(&mut state, filter, Some(moved));
        given.map_err(|source| PortError::refused("move a filter", &self.table.interface, source))
    }

    /// Takes all filters from a share that is gone, which nobody removes.
    ///
    /// # Errors
    /// The kernel refused one, and the rest are there still.
    pub(crate) fn forget(&self, share: u32) -> Result<(), PortError> {
        let mut state = self.state("remove the filters of a share")?;
        let has = |filter: &&Filter| state.set.shares(filter).is_some_and(|shares| shares.has(share));
        let filters: Vec<Filter> = state.set.iter().filter(has).copied().collect();
        for filter in filters {
            let rest = state.set.shares(&filter).and_then(|shares| shares.without(share));
            self.give(&mut state, filter, rest).map_err(|source| self.not_removed(source))?;
        }
        Ok(())
    }

    /// Has the program take nothing until [`SteeringTable::resume`], by one change whatever the number of filters and shares.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn pause(&self) -> Result<(), PortError> {
        self.set_paused(true)
    }

    /// Ends [`SteeringTable::pause`].
    ///
    /// # Errors
    /// The kernel refused.
    pub fn resume(&self) -> Result<(), PortError> {
        self.set_paused(false)
    }

    fn set_paused(&self, is_paused: bool) -> Result<(), PortError> {
        let tried = "pause or resume filters";
        let mut state = self.state(tried)?;
        state.is_paused = is_paused;
        self.show_classes(&mut state).map_err(|source| PortError::refused(tried, &self.table.interface, source))
    }

    /// Takes a filter out of the kernel's map, whoever has it, and leaves it in this table: for a process that has a copy of the
    /// map, as the child of a fork. Whoever keeps the table finds the filter gone when it removes it. Needs no lock, of which a
    /// child has a copy that somebody may have who is not there.
    pub fn withdraw(&self, filter: Filter) {
        let maps = &self.table.maps;
        if let Filter::Flow(FlowFilter { port: port @ 1.., .. }) = filter {
            // What the word of the port may say without the table of flows, it must not say of this one.
            let (place, word) = Ports::undecided(port);
            let _ = maps.ports.update(&place, &word);
        }
        // Missing, where the keeper was faster; there is nobody to tell of anything else.
        let _ = self.leave(filter);
    }

    /// Puts a filter of this table into the kernel's map again, after somebody else withdrew it there.
    pub fn restore(&self, filter: Filter) {
        let Ok(state) = self.state("restore a filter") else { return };
        if !state.set.contains(&filter) {
            return;
        }
        // It fitted before, and what it finds there is itself.
        let _ = self.enter(&state.set, filter);
        // Refused, the program goes on asking the table of flows, which takes longer.
        let _ = self.show_port(&state, filter);
    }

    /// A copy of the filters, with those of all shares.
    ///
    /// # Errors
    /// Somebody has the table and does not go on.
    pub fn filters(&self) -> Result<FilterSet, PortError> {
        Ok(self.state("read the filters")?.set.clone())
    }

    /// The lock.
    fn state(&self, tried: &'static str) -> Result<MutexGuard<'_, State>, PortError> {
        let mut until = None;
        loop {
            match self.table.state.try_lock() {
                Ok(state) => return Ok(state),
                // Who panicked left a state that the next change puts in order.
                Err(TryLockError::Poisoned(state)) => return Ok(state.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            if Instant::now() > *until.get_or_insert_with(|| Instant::now() + LOCK_PATIENCE) {
                return Err(PortError::refused(tried, &self.table.interface, io::ErrorKind::WouldBlock));
            }
            std::thread::yield_now();
        }
    }

    #[cfg(test)]
    pub(super) fn while_held<R>(&self, work: impl FnOnce() -> R) -> R {
        let _state = self.state("hold the table");
        work()
    }

    /// Who has a filter that this share has.
    fn shares_of(&self, state: &State, filter: Filter) -> Result<Shares, PortError> {
        let shares = state.set.shares(&filter).filter(|shares| shares.has(self.share));
        shares.ok_or_else(|| self.wrong(FilterError::Missing { filter }))
    }

    /// Gives a filter that is there to these shares, or takes it out.
    fn give(&self, state: &mut State, filter: Filter, to: Option<Shares>) -> io::Result<()> {
        match to {
            Some(to) => self.write(filter, to)?,
            None => self.leave(filter)?,
        }
        state.set.give(filter, to);
        if let (Filter::Flow(flow), None) = (filter, to) {
            state.ports.remove(flow);
        }
        self.show(state, filter)
    }

    /// Puts a filter of the set into its map.
    fn enter(&self, set: &FilterSet, filter: Filter) -> io::Result<()> {
        set.shares(&filter).map_or(Ok(()), |shares| self.write(filter, shares))
    }

    fn write(&self, filter: Filter, shares: Shares) -> io::Result<()> {
        let value = shares.word().to_ne_bytes();
        match filter.key() {
            Key::Flow(key) => self.table.maps.flows.update(&key, &value),
            Key::Frame(key) => self.table.maps.frames.update(&key, &value),
            // Its shares stand in the word of classes.
            Key::Everything => Ok(()),
        }
    }

    fn leave(&self, filter: Filter) -> io::Result<()> {
        match filter.key() {
            Key::Flow(key) => self.table.maps.flows.delete(&key).map(drop),
            Key::Frame(key) => self.table.maps.frames.delete(&key).map(drop),
            Key::Everything => Ok(()),
        }
    }

    fn show(&self, state: &mut State, filter: Filter) -> io::Result<()> {
        self.show_port(state, filter)?;
        self.show_classes(state)
    }

    fn show_port(&self, state: &State, filter: Filter) -> io::Result<()> {
        let Filter::Flow(FlowFilter { port: port @ 1.., .. }) = filter else { return Ok(()) };
        let (place, word) = state.ports.word(port, |flow| state.set.shares(&Filter::Flow(*flow)));
        self.table.maps.ports.update(&place, &word)
    }

    fn show_classes(&self, state: &mut State) -> io::Result<()> {
        let stamped = if state.is_stamped { program::STAMPED } else { 0 };
        // Without filters the program is to find nothing at once.
        let is_idle = state.is_paused || state.set.classes() == 0;
        let classes = if is_idle { 0 } else { state.set.classes() | stamped };
        let everything = state.set.shares(&Filter::Frame(FrameFilter::default())).map_or(0, Shares::word);
        let mut word = [0; CLASSES_WORD_BYTES as usize];
        word[..4].copy_from_slice(&classes.to_ne_bytes());
        word[program::EVERYTHING_SHARES as usize..].copy_from_slice(&everything.to_ne_bytes());
        if word != state.shown {
            self.table.maps.classes.update(&0_u32.to_ne_bytes(), &word)?;
            state.shown = word;
        }
        Ok(())
    }

    fn wrong(&self, source: FilterError) -> PortError {
        PortError::Filter { interface: self.table.interface.clone(), source }
    }

    fn not_removed(&self, source: io::Error) -> PortError {
        PortError::refused("remove a filter", &self.table.interface, source)
    }

    fn refused(&self, filter: Filter, source: io::Error) -> PortError {
        let most = if matches!(filter, Filter::Flow(_)) { FLOWS_MOST } else { FRAMES_MOST };
        match source.raw_os_error() {
            Some(libc::E2BIG | libc::ENOMEM) => self.wrong(FilterError::Full { filter, most }),
            _ => PortError::refused("add a filter", &self.table.interface, source),
        }
    }
}
