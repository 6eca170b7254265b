//! Filters in the maps that the XDP program looks at.
//!
//! A table belongs to a port and to those that share its queues: each has a handle, which adds and removes what is its own. A filter
//! is in the maps as long as somebody has it. The lock is for the control plane; a signal handler may run in the middle of what
//! it guards, in the same thread, so it is waited for with an end.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use nearwire_sys::bpf::{Map, MapKind, Program};

use super::credits::{Counting, CreditMap, CreditWords};
use super::filter::{
    EXACT_V4_KEY_BYTES, EXACT_V6_KEY_BYTES, ExactFlow, FLOW_KEY_BYTES, FRAME_KEY_BYTES, Filter, FilterError,
    FrameFilter, Key,
};
use super::group::{GROUPS_MOST, Owners};
use super::groups::{Groups, NoneLeft};
use super::owner::{KERNEL, Owner};
use super::ports::{self, Ports};
use super::program::{self, Capacity, EVERYTHING_AT, Maps};
use super::set::FilterSet;
use super::words::{self, WordMaps, Words};
use crate::PortError;
use crate::xdp::stamps::{DeviceClock, Stamps};
use crate::xdp::tags::TagQuestion;

/// Flow filters that fit, 10 000 sockets on six addresses: 1 MiB of kernel memory for the buckets, and 88 bytes for each
/// that is there.
const FLOWS_MOST: u32 = 1 << 16;
/// Exact flows that fit, of each family; the memory is as above.
const EXACT_MOST: u32 = 1 << 16;
/// Frame filters that fit.
const FRAMES_MOST: u32 = 1024;
/// What a filter's key leads to: a verdict.
const VALUE_BYTES: u32 = 4;
/// A change takes some microseconds: a holder that keeps the lock for longer cannot go on.
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
    words: Words,
    capacity: Capacity,
    /// Programs ask for tags that the device took out.
    tags: OnceLock<TagQuestion>,
    state: Mutex<State>,
}

/// Invariant: the word of classes in use has a bit for every filter that is in a map, so that the program looks for it;
/// a bit without filters, between two steps or after a refused one, costs a look-up and decides nothing.
#[derive(Debug, Default)]
struct State {
    set: FilterSet,
    ports: Ports,
    groups: Groups,
    /// The program knows no class: it takes nothing.
    is_paused: bool,
    /// It writes times in front of frames, where it can.
    is_stamped: bool,
}

/// Why a filter is not in its map.
#[derive(Debug)]
enum Refusal {
    Kernel(io::Error),
    NoGroup,
}

impl From<io::Error> for Refusal {
    fn from(source: io::Error) -> Refusal {
        Refusal::Kernel(source)
    }
}

impl SteeringTable {
    /// An empty table of a port that can have `shares_most` shares, for messages about `interface`. Frames that the port's buffers cannot
    /// hold stay with the kernel.
    ///
    /// # Errors
    /// The kernel refused the maps, most often for want of CAP_BPF.
    pub fn new(interface: &str, capacity: impl Into<Capacity>, shares_most: u32) -> Result<SteeringTable, PortError> {
        SteeringTable::with(interface, capacity.into(), shares_most, None)
    }

    /// The same, where the kernel gets the frames for which a share has no room, of so many queues.
    pub(crate) fn with_credits(
        interface: &str,
        capacity: impl Into<Capacity>,
        shares_most: u32,
        queues: u32,
        counting: Counting,
    ) -> Result<SteeringTable, PortError> {
        let refused = |source: io::Error| PortError::refused("make the map of credits", interface, source);
        let credits = CreditMap::create(queues * shares_most, counting).map_err(refused)?;
        SteeringTable::with(interface, capacity.into(), shares_most, Some(credits))
    }

    fn with(
        interface: &str,
        capacity: Capacity,
        shares_most: u32,
        credits: Option<CreditMap>,
    ) -> Result<SteeringTable, PortError> {
        let make = || -> io::Result<(Maps, Words)> {
            let hash =
                |kind, name, key_bytes: usize, most| Map::create(kind, name, key_bytes as u32, VALUE_BYTES, most);
            let maps = Maps {
                words: WordMaps::create()?,
                exact_v4: hash(MapKind::SparseHash, "nw_exact_v4", EXACT_V4_KEY_BYTES, EXACT_MOST)?,
                exact_v6: hash(MapKind::SparseHash, "nw_exact_v6", EXACT_V6_KEY_BYTES, EXACT_MOST)?,
                flows: hash(MapKind::SparseHash, "nw_flows", FLOW_KEY_BYTES, FLOWS_MOST)?,
                frames: hash(MapKind::Hash, "nw_frames", FRAME_KEY_BYTES, FRAMES_MOST)?,
                shares_most,
                credits,
            };
            let words = maps.words.map()?;
            Ok((maps, words))
        };
        let (maps, words) =
            make().map_err(|source| PortError::refused("make the maps of filters", interface, source))?;
        let (interface, tags, state) = (interface.to_owned(), OnceLock::new(), Mutex::default());
        Ok(SteeringTable { table: Arc::new(Table { interface, maps, words, capacity, tags, state }), share: 0 })
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
    /// `q * shares_most + s`.
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
        let tags = self.table.tags.get().copied();
        program::steer(&self.table.maps, sockets, self.table.capacity, (stamps, tags), true)
    }

    /// The same, with times in front of the frames that come after [`SteeringTable::set_stamped`]. Until then each frame costs one
    /// look at a word more than by [`SteeringTable::program`].
    pub(crate) fn ready_program(
        &self,
        sockets: &Map,
        mark: NonZeroU64,
    ) -> Result<Program, nearwire_sys::bpf::LoadError> {
        self.asking_program(sockets, mark, None)
    }

    /// The same, and frames whose tag the device took out are the kernel's.
    pub(crate) fn asking_program(
        &self,
        sockets: &Map,
        mark: NonZeroU64,
        tags: Option<TagQuestion>,
    ) -> Result<Program, nearwire_sys::bpf::LoadError> {
        let stamps = Some(Stamps { mark, device: DeviceClock::None });
        program::steer(&self.table.maps, sockets, self.table.capacity, (stamps, tags), false)
    }

    /// The program in force asks, and those that take its place are to.
    pub(crate) fn set_asking(&self, tags: TagQuestion) {
        // Set once, when the port is opened.
        let _ = self.table.tags.set(tags);
    }

    /// Frames whose tag the device took out are the kernel's.
    pub(crate) fn asks_for_tags(&self) -> bool {
        self.table.tags.get().is_some()
    }

    /// Has a [ready program](SteeringTable::ready_program) write times in front of frames from now on, or no more.
    ///
    /// # Errors
    /// Somebody has the table and does not go on.
    pub(crate) fn set_stamped(&self, is_stamped: bool) -> Result<(), PortError> {
        let mut state = self.state("have frames stamped")?;
        state.is_stamped = is_stamped;
        self.show_classes(&state);
        Ok(())
    }

    /// A program that returns the place in the map of sockets, more [`program::TOLD`].
    #[cfg(test)]
    pub(super) fn telling_program(&self) -> Result<Program, nearwire_sys::bpf::LoadError> {
        program::tell(&self.table.maps, self.table.capacity)
    }

    /// Adds a filter of this share: frames that come from now on are matched against it. Where others own it too, frames of some
    /// sources are this share's from now on.
    ///
    /// # Errors
    /// As [`SteeringTable::add_for`].
    pub fn add(&self, filter: Filter) -> Result<(), PortError> {
        self.add_for(filter, Owner::Share(self.share))
    }

    /// Removes a filter of this share, as [`SteeringTable::remove_for`].
    ///
    /// # Errors
    /// As [`SteeringTable::remove_for`].
    pub fn remove(&self, filter: Filter) -> Result<(), PortError> {
        self.remove_for(filter, Owner::Share(self.share))
    }

    /// Gives a filter of this share to another owner, as [`SteeringTable::move_for`].
    ///
    /// # Errors
    /// As [`SteeringTable::move_for`].
    pub fn move_to(&self, filter: Filter, to: Owner) -> Result<(), PortError> {
        self.move_for(filter, Owner::Share(self.share), to)
    }

    /// Adds a filter, or one owner more to a filter that is there: frames that come from now on go to it, or those of some sources.
    ///
    /// # Errors
    /// The owner has it, another owns the exact flow, it can match no frame or does not fit, the port cannot have such a share; or the
    /// kernel refused it.
    pub fn add_for(&self, filter: Filter, owner: Owner) -> Result<(), PortError> {
        self.check_owner(filter, owner)?;
        let mut state = self.state("add a filter")?;
        let owners = state.set.with(filter, owner).map_err(|source| self.wrong(source))?;
        self.give(&mut state, filter, Some(owners)).map_err(|refusal| self.not_added(filter, refusal))
    }

    /// Takes a filter from an owner: frames that come from now on are the other owners', or another filter's, or the kernel's. Frames
    /// that were matched before may still be in the ring of a share.
    ///
    /// # Errors
    /// The owner does not have it, or the kernel refused.
    pub fn remove_for(&self, filter: Filter, owner: Owner) -> Result<(), PortError> {
        let mut state = self.state("remove a filter")?;
        let rest = self.owners_of(&state, filter, owner)?.without(owner);
        self.give(&mut state, filter, rest).map_err(|refusal| self.refused("remove a filter", refusal))
    }

    /// Gives what one owner has of a filter to another, by one change of what the program looks at (for several owners: one for each slot):
    /// every frame is the one's or the other's. Where the other has the filter already, the one only loses it. To a number that no
    /// share has now, the kernel gets the frames.
    ///
    /// # Errors
    /// The owner does not have it, the port cannot have such a share, or the kernel refused.
    pub fn move_for(&self, filter: Filter, from: Owner, to: Owner) -> Result<(), PortError> {
        self.check_owner(filter, to)?;
        let mut state = self.state("move a filter")?;
        let moved = self.owners_of(&state, filter, from)?.moved(from, to);
        self.give(&mut state, filter, Some(moved)).map_err(|refusal| self.refused("move a filter", refusal))
    }

    /// Whether a frame came of an exact flow since it was given to [`Owner::Unheard`], which has it still.
    ///
    /// # Errors
    /// It does not have it, or the kernel refused.
    pub fn has_heard(&self, flow: ExactFlow) -> Result<bool, PortError> {
        let filter = Filter::Exact(flow);
        let state = self.state("look whether a frame came")?;
        self.owners_of(&state, filter, Owner::Unheard)?;
        let (maps, mut verdict) = (&self.table.maps, [0; VALUE_BYTES as usize]);
        let found = match filter.key() {
            Key::ExactV4(key) => maps.exact_v4.lookup(&key, &mut verdict),
            Key::ExactV6(key) => maps.exact_v6.lookup(&key, &mut verdict),
            Key::Flow(_) | Key::Frame(_) | Key::Everything => Ok(false),
        };
        let is_there = found.map_err(|source| self.refused("look whether a frame came", source.into()))?;
        Ok(is_there && u32::from_ne_bytes(verdict) == KERNEL)
    }

    /// Takes all filters from a share that is gone, which nobody removes.
    ///
    /// # Errors
    /// The kernel refused one, and the rest are there still.
    pub(crate) fn forget(&self, share: u32) -> Result<(), PortError> {
        let owner = Owner::Share(share);
        let mut state = self.state("remove the filters of a share")?;
        let has = |filter: &&Filter| state.set.owners(filter).is_some_and(|owners| owners.has(owner));
        let filters: Vec<Filter> = state.set.iter().filter(has).copied().collect();
        for filter in filters {
            let rest = state.set.owners(&filter).cloned().and_then(|owners| owners.without(owner));
            self.give(&mut state, filter, rest).map_err(|refusal| self.refused("remove a filter", refusal))?;
        }
        Ok(())
    }

    /// Has the program take nothing until [`SteeringTable::resume`], by one change whatever the number of filters and shares.
    ///
    /// # Errors
    /// Somebody has the table and does not go on.
    pub fn pause(&self) -> Result<(), PortError> {
        self.set_paused(true)
    }

    /// Ends [`SteeringTable::pause`].
    ///
    /// # Errors
    /// Somebody has the table and does not go on.
    pub fn resume(&self) -> Result<(), PortError> {
        self.set_paused(false)
    }

    fn set_paused(&self, is_paused: bool) -> Result<(), PortError> {
        let mut state = self.state("pause or resume filters")?;
        state.is_paused = is_paused;
        self.show_classes(&state);
        Ok(())
    }

    /// Removes a filter from the kernel's map, whatever its owner, and leaves it in this table: for a process that has a copy of the
    /// map, as the child of a fork. The table's owner finds the filter gone when it removes it. Takes no lock: in a child, the lock may be
    /// held by a thread that exists only in the parent.
    pub fn withdraw(&self, filter: Filter) {
        if let (Filter::Flow(_), Some(place)) = (filter, ports::place_of(&filter)) {
            // What the word of the port may say without the table of flows, it must not say of this one.
            ports::leave_undecided(&self.table.words.ports, place);
        }
        // It is missing where the owner of the table was faster; no other error could be reported to anybody.
        let _ = self.leave(filter);
    }

    /// Puts a filter of this table into the kernel's map again, after somebody else withdrew it there.
    pub fn restore(&self, filter: Filter) {
        let Ok(mut state) = self.state("restore a filter") else { return };
        let State { set, groups, .. } = &mut *state;
        if let Some(owners) = set.owners(&filter) {
            // It fitted before, and what it finds there is itself.
            let _ = self.enter(groups, filter, owners);
            self.show(&state, filter);
        }
    }

    /// Whether the program gives every frame to the kernel, as there is no filter.
    ///
    /// # Errors
    /// Somebody has the table and does not go on.
    pub fn is_empty(&self) -> Result<bool, PortError> {
        Ok(self.state("read the filters")?.set.is_empty())
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
                // A holder that panicked left a state that the next change puts in order.
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

    /// Who owns a filter that this owner has.
    fn owners_of(&self, state: &State, filter: Filter, owner: Owner) -> Result<Owners, PortError> {
        state.set.owned(filter, owner).map_err(|source| self.wrong(source))
    }

    /// A share's places in the maps end where those of the next queue begin.
    fn check_owner(&self, filter: Filter, owner: Owner) -> Result<(), PortError> {
        match owner {
            Owner::Share(share) if share >= self.table.maps.shares_most => {
                let last = self.table.maps.shares_most - 1;
                Err(self.wrong(FilterError::NoSuchShare { filter, share, last }))
            }
            Owner::Share(_) | Owner::Kernel | Owner::Nobody | Owner::Unheard => Ok(()),
        }
    }

    /// Gives a filter to these owners, or takes it out. Refused, those who had it have it still.
    fn give(&self, state: &mut State, filter: Filter, to: Option<Owners>) -> Result<(), Refusal> {
        let State { set, ports, groups, .. } = state;
        match &to {
            Some(owners) => {
                if let Err(refusal) = self.enter(groups, filter, owners) {
                    if let Some(before) = set.owners(&filter) {
                        let _ = self.enter(groups, filter, before);
                    }
                    self.rest(state, filter);
                    return Err(refusal);
                }
                if !set.contains(&filter) {
                    ports.add(&filter);
                }
            }
            None => {
                self.leave(filter)?;
                ports.remove(&filter);
            }
        }
        set.give(filter, to);
        self.show(state, filter);
        self.rest(state, filter);
        Ok(())
    }

    /// Puts the verdict of a filter into its map.
    fn enter(&self, groups: &mut Groups, filter: Filter, owners: &Owners) -> Result<(), Refusal> {
        let verdict = groups.show(&self.table.words.groups, filter, owners).map_err(|NoneLeft| Refusal::NoGroup)?;
        let (maps, value) = (&self.table.maps, verdict.to_ne_bytes());
        match filter.key() {
            Key::Flow(key) => maps.flows.update(&key, &value)?,
            Key::ExactV4(key) => maps.exact_v4.update(&key, &value)?,
            Key::ExactV6(key) => maps.exact_v6.update(&key, &value)?,
            Key::Frame(key) => maps.frames.update(&key, &value)?,
            // Its verdict stands in the word of classes.
            Key::Everything => {}
        }
        Ok(())
    }

    fn leave(&self, filter: Filter) -> io::Result<()> {
        let maps = &self.table.maps;
        match filter.key() {
            Key::Flow(key) => maps.flows.delete(&key).map(drop),
            Key::ExactV4(key) => maps.exact_v4.delete(&key).map(drop),
            Key::ExactV6(key) => maps.exact_v6.delete(&key).map(drop),
            Key::Frame(key) => maps.frames.delete(&key).map(drop),
            Key::Everything => Ok(()),
        }
    }

    /// Gives back the group of a filter that has no longer several owners, after all that led there was changed.
    fn rest(&self, state: &mut State, filter: Filter) {
        let is_group = state.set.owners(&filter).is_some_and(|owners| owners.slots().is_some());
        if !is_group {
            state.groups.give_back(&filter);
        }
    }

    fn show(&self, state: &State, filter: Filter) {
        self.show_port(state, filter);
        self.show_classes(state);
    }

    fn show_port(&self, state: &State, filter: Filter) {
        let Some(place) = ports::place_of(&filter) else { return };
        let verdict = |flow: &_| {
            let filter = Filter::Flow(*flow);
            state.set.owners(&filter).map(|owners| state.groups.verdict(&filter, owners))
        };
        words::show(&self.table.words.ports[place], state.ports.word(place, verdict));
    }

    fn show_classes(&self, state: &State) {
        let stamped = if state.is_stamped { program::STAMPED } else { 0 };
        // Without filters the program is to find nothing at once.
        let is_idle = state.is_paused || state.set.classes() == 0;
        let classes = if is_idle { 0 } else { state.set.classes() | stamped };
        let everything = state.set.owners(&Filter::Frame(FrameFilter::default()));
        let verdict = everything.filter(|_| !is_idle).map_or(0, |owners| owners.first().verdict());
        let word = u64::from(classes) | u64::from(verdict) << EVERYTHING_AT;
        words::show(&self.table.words.classes[0], word);
    }

    fn wrong(&self, source: FilterError) -> PortError {
        PortError::Filter { interface: self.table.interface.clone(), source }
    }

    fn refused(&self, tried: &'static str, refusal: Refusal) -> PortError {
        let source = match refusal {
            Refusal::Kernel(source) => source,
            // Never: only a filter that gets one owner more wants a group.
            Refusal::NoGroup => io::ErrorKind::OutOfMemory.into(),
        };
        PortError::refused(tried, &self.table.interface, source)
    }

    fn not_added(&self, filter: Filter, refusal: Refusal) -> PortError {
        let most = match filter {
            Filter::Flow(_) => FLOWS_MOST,
            Filter::Exact(_) => EXACT_MOST,
            Filter::Frame(_) => FRAMES_MOST,
        };
        match refusal {
            Refusal::NoGroup => self.wrong(FilterError::GroupsFull { filter, most: GROUPS_MOST }),
            Refusal::Kernel(source) if matches!(source.raw_os_error(), Some(libc::E2BIG | libc::ENOMEM)) => {
                self.wrong(FilterError::Full { filter, most })
            }
            refusal @ Refusal::Kernel(_) => self.refused("add a filter", refusal),
        }
    }
}
