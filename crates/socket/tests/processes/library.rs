//! The engines of a process, and which thread's a socket is of: what the preload library does (`preload/src/engines.rs`, `state.rs`, `timer.rs`),
//! in a process with one thread that says in whose place it calls.

use std::collections::HashMap;
use std::time::Duration;

use nearwire_socket::config::Config;
use nearwire_socket::{Component, FirstUse, Moved, SocketId, Sockets, Wish};

use crate::host::Remote;

pub const ENGINES: usize = 3;
const FIRST: usize = 0;

/// What the library knows of an fd.
#[derive(Clone, Copy, Debug)]
struct Mark {
    engine: usize,
    is_epoll: bool,
    is_unclaimed: bool,
    is_unused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Waits,
    Sends,
}

/// See the module.
pub struct Library {
    pub host: Remote,
    engines: [Option<Sockets<Remote>>; ENGINES],
    /// The thread of each; 0: none.
    owners: [u64; ENGINES],
    marks: HashMap<i32, Mark>,
    socket_engines: HashMap<SocketId, usize>,
    has_timer: bool,
    timer_hears_agent: bool,
    pub thread: u64,
}

impl Library {
    pub fn new(host: Remote, engines: u32) -> Library {
        let config = Config { kernel_first: 0, engines: Some(engines), ..Config::default() };
        let first = Sockets::new(host.clone(), config, "simulation");
        Library {
            host,
            engines: [Some(first), None, None],
            owners: [0; ENGINES],
            marks: HashMap::new(),
            socket_engines: HashMap::new(),
            has_timer: false,
            timer_hears_agent: false,
            thread: 1,
        }
    }

    pub fn is_followed(&self, fd: i32) -> bool {
        self.marks.contains_key(&fd)
    }

    fn engine_of(&self, fd: i32) -> usize {
        self.marks.get(&fd).map_or(FIRST, |mark| mark.engine)
    }

    fn is_unclaimed(&self, fd: i32) -> bool {
        self.marks.get(&fd).is_some_and(|mark| mark.is_unclaimed)
    }

    fn is_unused(&self, fd: i32) -> bool {
        self.marks.get(&fd).is_some_and(|mark| mark.is_unused)
    }

    /// Runs something on the sockets of an engine that there is.
    pub fn with<R>(&mut self, engine: usize, work: impl FnOnce(&mut Sockets<Remote>) -> R) -> R {
        let sockets = self.engines[engine].as_mut().expect("it is there");
        sockets.enter();
        let result = work(sockets);
        let wish = sockets.take_wish();
        self.grant(wish, engine);
        result
    }

    /// The same on the engine that serves an fd.
    pub fn with_fd<R>(&mut self, fd: i32, work: impl FnOnce(&mut Sockets<Remote>) -> R) -> R {
        self.with(self.engine_of(fd), work)
    }

    pub fn with_each(&mut self, mut work: impl FnMut(&mut Sockets<Remote>)) {
        for engine in 0..ENGINES {
            if self.engines[engine].is_some() {
                self.with(engine, &mut work);
            }
        }
    }

    pub fn is_accelerated(&self, fd: i32) -> bool {
        let sockets = self.engines[self.engine_of(fd)].as_ref();
        self.is_followed(fd) && sockets.is_some_and(|sockets| sockets.is_accelerated(fd))
    }

    pub fn follow(&mut self, fd: i32, is_epoll: bool) {
        self.marks.insert(fd, Mark { engine: FIRST, is_epoll, is_unclaimed: true, is_unused: true });
    }

    pub fn closing(&mut self, fd: i32) {
        if self.is_followed(fd) {
            self.with_fd(fd, |sockets| sockets.closing(fd));
            self.marks.remove(&fd);
        }
    }

    pub fn about_to_wait(&mut self, fd: i32) {
        if self.is_unclaimed(fd) {
            self.first_use(fd, Use::Waits);
        }
    }

    pub fn about_to_send(&mut self, fd: i32) {
        if self.is_unused(fd) {
            self.first_use(fd, Use::Sends);
        }
    }

    fn first_use(&mut self, fd: i32, how: Use) {
        self.with(FIRST, |first| first.open_ports_for(&[fd]));
        let Some((engine, component)) = self.choose(fd, how) else {
            return self.with(FIRST, |first| first.used(&[fd]));
        };
        self.engines.iter_mut().flatten().for_each(Sockets::enter);
        if !self.move_out(engine, &component) {
            self.stays(fd, how);
            self.with(FIRST, |first| first.used(&[fd]));
        }
        self.grant_all();
    }

    fn choose(&mut self, fd: i32, how: Use) -> Option<(usize, Component)> {
        let engine = self.engine_of_thread();
        if engine == Some(FIRST) {
            self.owners[FIRST] = self.thread;
        }
        let Some(engine) = engine.filter(|engine| *engine != FIRST) else {
            self.stays(fd, how);
            return None;
        };
        let can_go = |component: &Component| how == Use::Waits || !component.has_sets();
        match self.with(FIRST, |first| first.first_use(&[fd])) {
            FirstUse::Moves(component) if can_go(&component) => return Some((engine, component)),
            FirstUse::Undecided(component) if how == Use::Sends && can_go(&component) => {
                return Some((engine, component));
            }
            FirstUse::Undecided(_) if how == Use::Waits => {}
            FirstUse::Later => self.note_used(fd),
            FirstUse::Moves(_) | FirstUse::Undecided(_) | FirstUse::Stays => self.stays(fd, how),
        }
        None
    }

    fn engine_of_thread(&self) -> Option<usize> {
        let is_used = |engine: usize| self.marks.values().any(|mark| mark.engine == engine && !mark.is_unused);
        let own = (FIRST..ENGINES).find(|engine| self.owners[*engine] == self.thread);
        own.or_else(|| (FIRST..ENGINES).find(|engine| !is_used(*engine)))
    }

    fn stays(&mut self, fd: i32, how: Use) {
        if how == Use::Sends {
            return self.note_used(fd);
        }
        self.with(FIRST, |first| first.settle_here(&[fd]));
        if let Some(mark) = self.marks.get_mut(&fd) {
            (mark.is_unclaimed, mark.is_unused) = (false, false);
        }
    }

    fn note_used(&mut self, fd: i32) {
        if let Some(mark) = self.marks.get_mut(&fd) {
            mark.is_unused = false;
        }
    }

    fn note_moved(&mut self, moved: Vec<Moved>, engine: usize, begins_again: bool) {
        for what in moved {
            match what {
                Moved::Fd(fd) => {
                    if let Some(mark) = self.marks.get_mut(&fd) {
                        let is_new = begins_again;
                        *mark = Mark { engine, is_unclaimed: is_new, is_unused: is_new, ..*mark };
                    }
                }
                Moved::Socket(id) => {
                    self.socket_engines.insert(id, engine);
                }
            }
        }
    }

    fn both(&mut self, engine: usize) -> Option<(&mut Sockets<Remote>, &mut Sockets<Remote>)> {
        let [first, other] = self.engines.get_disjoint_mut([FIRST, engine]).unwrap();
        Some((first.as_mut()?, other.as_mut()?))
    }

    fn move_out(&mut self, engine: usize, component: &Component) -> bool {
        self.end_if(false, engine);
        if self.engines[engine].is_none() {
            let first = self.engines[FIRST].as_mut().unwrap();
            if first.may_try_to_open_branch() {
                self.engines[engine] = first.open_branch(engine as u32);
            }
        }
        let is_moved = self.move_to_branch(engine, component);
        if is_moved {
            self.owners[engine] = self.thread;
        }
        is_moved
    }

    fn move_to_branch(&mut self, engine: usize, component: &Component) -> bool {
        let Some((first, other)) = self.both(engine) else { return false };
        if other.is_spent() || !first.give_ports(other) {
            return false;
        }
        let mut moved = Vec::new();
        first.move_to(other, component, |what| moved.push(what));
        self.note_moved(moved, engine, false);
        self.engines[engine].as_mut().unwrap().use_component(component);
        true
    }

    /// The engine that serves both, after having brought them together.
    pub fn unite(&mut self, fds: [i32; 2]) -> usize {
        let followed: Vec<i32> = fds.into_iter().filter(|fd| self.is_followed(*fd)).collect();
        let Some(engine) = followed.iter().map(|fd| self.engine_of(*fd)).max() else { return FIRST };
        let are_nested = followed.iter().filter(|fd| self.marks[fd].is_epoll).count() > 1;
        if !are_nested && followed.iter().all(|fd| self.engine_of(*fd) == engine) {
            return engine;
        }
        let in_first: Vec<i32> = followed.iter().copied().filter(|fd| self.engine_of(*fd) == FIRST).collect();
        let others_agree = followed.iter().all(|fd| [FIRST, engine].contains(&self.engine_of(*fd)));
        if !are_nested && others_agree && self.join(&in_first, engine) {
            return engine;
        }
        for fd in followed {
            if self.engine_of(fd) != FIRST {
                self.bring_to_first(self.engine_of(fd), &[fd], &[]);
            }
        }
        FIRST
    }

    fn join(&mut self, fds: &[i32], engine: usize) -> bool {
        self.engines.iter_mut().flatten().for_each(Sockets::enter);
        let component = self.engines[FIRST].as_ref().and_then(|first| first.component_of(fds));
        let joined = component.is_some_and(|component| self.move_to_branch(engine, &component));
        self.grant_all();
        joined
    }

    fn bring_to_first(&mut self, engine: usize, fds: &[i32], sockets: &[SocketId]) {
        if engine == FIRST {
            return;
        }
        if let Some((first, other)) = self.both(engine) {
            [&mut *first, &mut *other].into_iter().for_each(Sockets::enter);
            let component = other.all_of(fds, sockets);
            let mut moved = Vec::new();
            other.move_back_to(first, &component, |what| moved.push(what));
            self.note_moved(moved, FIRST, false);
        }
        self.end_if(false, engine);
    }

    fn end(&mut self, engine: usize) {
        let Some((first, other)) = self.both(engine) else { return };
        [&mut *first, &mut *other].into_iter().for_each(Sockets::enter);
        let mut moved = Vec::new();
        other.move_all_to(first, |what| moved.push(what));
        self.note_moved(moved, FIRST, true);
        self.end_if(true, engine);
    }

    fn end_if(&mut self, ends: bool, engine: usize) {
        if let Some((first, other)) = self.both(engine)
            && (ends || other.is_spent())
        {
            first.take_back(other);
            self.owners[engine] = 0;
        }
        self.engines[engine].take_if(|sockets| sockets.is_spent());
    }

    /// What was asked for while several engines were at hand.
    fn grant_all(&mut self) {
        for engine in 0..ENGINES {
            if let Some(wish) = self.engines[engine].as_mut().map(Sockets::take_wish) {
                self.grant(wish, engine);
            }
        }
    }

    fn grant(&mut self, wish: Wish, engine: usize) {
        match wish {
            Wish::Nothing => {}
            Wish::FirstEngine => {
                let wanted = self.with(engine, Sockets::take_wanted_in_first);
                for id in wanted {
                    let engine = self.socket_engines.get(&id).copied().unwrap_or(FIRST);
                    self.bring_to_first(engine, &[], &[id]);
                }
            }
            Wish::OnlyFirstEngine => {
                (FIRST + 1..ENGINES).for_each(|engine| self.end(engine));
                self.with(FIRST, Sockets::others_ended);
            }
            Wish::AskSharing => {
                if let Some(question) = self.with(engine, Sockets::take_sharing_question) {
                    let answer = question.ask();
                    self.with(engine, |sockets| sockets.sharing_answered(answer));
                }
            }
            Wish::TimerThread => self.begin_timer(),
            Wish::AllLook => self.with_each(Sockets::look),
        }
    }

    fn begin_timer(&mut self) {
        let Some(bell) = self.with(FIRST, Sockets::bell) else { return };
        bell.ring();
        if !std::mem::replace(&mut self.has_timer, true) {
            self.with(FIRST, |sockets| sockets.answers_children(true));
        }
    }

    /// What the timer thread does when it is woken, until it sleeps.
    pub fn look_as_timer(&mut self) {
        while self.has_timer && self.is_timer_woken() {}
    }

    fn is_timer_woken(&mut self) -> bool {
        let Some(bell) = self.with(FIRST, Sockets::bell) else { return false };
        let agent = if self.timer_hears_agent { self.with(FIRST, |sockets| sockets.agent()) } else { None };
        let woken = bell.wait(agent, Some(Duration::ZERO));
        if woken.other_is_readable {
            self.with_each(Sockets::look);
        }
        if woken.rang {
            let claims = self.with(FIRST, |sockets| sockets.claims());
            self.with_each(Sockets::answer_children);
            self.with(FIRST, |sockets| sockets.answered_children(claims));
            self.timer_hears_agent = true;
        }
        // What no engine takes would wake it again and again.
        woken.rang
    }

    /// fork(2) follows.
    pub fn hold_for_fork(&mut self) {
        self.engines.iter_mut().flatten().for_each(|sockets| {
            sockets.enter();
            sockets.prepare_fork();
        });
    }

    /// In the parent.
    pub fn let_go(&mut self) {
        let mut stayed = false;
        self.engines.iter_mut().flatten().for_each(|sockets| {
            sockets.enter();
            stayed |= sockets.after_fork_in_parent();
        });
        if stayed {
            self.begin_timer();
        }
    }

    /// In the child.
    pub fn become_child(&mut self) {
        (self.has_timer, self.timer_hears_agent) = (false, false);
        self.owners = [0; ENGINES];
        self.owners[FIRST] = self.thread;
        let [first, others @ ..] = &mut self.engines;
        let others: Vec<Sockets<Remote>> = others.iter_mut().filter_map(Option::take).collect();
        let mut moved = Vec::new();
        let first = first.as_mut().unwrap();
        first.enter();
        first.after_fork_in_child(true, others, |what| moved.push(what));
        self.note_moved(moved, FIRST, false);
    }
}
