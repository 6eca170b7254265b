//! Who may get each datagram, as the kernel decides it: an open file that is connected to the sender, else one that is
//! connected to nobody, of those bound to the port.
//!
//! Two exceptions, both of files that share their port by SO_REUSEPORT. The kernel (6.18) gives what comes from the peer of a file that was
//! connected once more, to another peer, to files that are connected to nobody. And what waits in a process goes to the kernel by a packet
//! when it executes or closes, or another process reads the file: the kernel chooses anew among those that are bound to the port then.

use std::collections::{BTreeMap, BTreeSet};

/// An open file: processes may share it.
#[derive(Debug)]
struct File {
    port: usize,
    peer: Option<usize>,
    is_shared: bool,
    /// It was connected to one peer, and then to another.
    is_reconnected: bool,
    holders: BTreeSet<usize>,
}

/// A datagram on its way to the near end.
#[derive(Debug)]
struct Incoming {
    candidates: BTreeSet<usize>,
    port: usize,
    /// Whoever is bound to the port may have got it back from a process that had it.
    is_anybodys: bool,
    /// One that it may have come to is gone: it comes, or it does not.
    is_doomed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Model {
    files: Vec<File>,
    numbers: u32,
    incoming: BTreeMap<u32, Incoming>,
    /// Those for the far end: which of its sockets, and from which port.
    outgoing: BTreeMap<u32, (usize, usize)>,
}

impl Model {
    pub fn next_file(&self) -> usize {
        self.files.len()
    }

    pub fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    pub fn all_open(&self) -> Vec<usize> {
        (0..self.files.len()).filter(|at| !self.files[*at].holders.is_empty()).collect()
    }

    pub fn files_open(&self) -> usize {
        self.all_open().len()
    }

    pub fn held_by(&self, process: usize) -> Vec<usize> {
        (0..self.files.len()).filter(|at| self.files[*at].holders.contains(&process)).collect()
    }

    pub fn holders_of(&self, file: usize) -> Vec<usize> {
        self.files[file].holders.iter().copied().collect()
    }

    pub fn peer_of(&self, file: usize) -> Option<usize> {
        self.files[file].peer
    }

    /// Whether bind(2) succeeds.
    pub fn may_bind(&self, port: usize, is_shared: bool) -> bool {
        let others = self.all_open();
        others
            .iter()
            .map(|at| &self.files[*at])
            .filter(|file| file.port == port)
            .all(|file| file.is_shared && is_shared)
    }

    pub fn opened(&mut self, process: usize, port: usize, is_shared: bool) {
        self.files.push(File {
            port,
            peer: None,
            is_shared,
            is_reconnected: false,
            holders: BTreeSet::from([process]),
        });
    }

    pub fn connected(&mut self, file: usize, peer: usize) {
        let before = self.files[file].peer.replace(peer);
        self.files[file].is_reconnected |= before.is_some_and(|before| before != peer);
    }

    pub fn closed(&mut self, process: usize, file: usize) {
        self.given_back(file);
        self.files[file].holders.remove(&process);
        if self.files[file].holders.is_empty() {
            self.doom(file);
        }
    }

    pub fn forked(&mut self, process: usize, child: usize) {
        for file in self.held_by(process) {
            self.files[file].holders.insert(child);
        }
    }

    /// What waits in a process goes to the kernel.
    pub fn gives_back(&mut self, process: usize) {
        self.held_by(process).into_iter().for_each(|file| self.given_back(file));
    }

    /// A process is about to read a file: if others have it too, they give back what waits with them.
    pub fn is_about_to_read(&mut self, file: usize) {
        if self.files[file].holders.len() > 1 {
            self.given_back(file);
        }
    }

    fn given_back(&mut self, file: usize) {
        if self.files[file].is_shared {
            let its = self.incoming.values_mut().filter(|incoming| incoming.candidates.contains(&file));
            its.for_each(|incoming| incoming.is_anybodys = true);
        }
    }

    /// What a process that was killed had taken from its rings is lost, also of files that others have.
    pub fn ended(&mut self, process: usize, is_killed: bool) {
        for file in self.held_by(process) {
            self.closed(process, file);
            if is_killed {
                self.doom(file);
            }
        }
    }

    fn doom(&mut self, file: usize) {
        for incoming in self.incoming.values_mut().filter(|incoming| incoming.candidates.contains(&file)) {
            incoming.is_doomed = true;
        }
    }

    /// The far end's socket `from` sent to a port.
    pub fn sent_in(&mut self, number: u32, from: usize, port: usize) {
        let of = |peer: Option<usize>| -> BTreeSet<usize> {
            let fits = |at: &usize| self.files[*at].port == port && self.files[*at].peer == peer;
            self.all_open().into_iter().filter(fits).collect()
        };
        let mut candidates = of(Some(from));
        if candidates.iter().all(|at| self.files[*at].is_shared && self.files[*at].is_reconnected) {
            candidates.extend(of(None));
        }
        if !candidates.is_empty() {
            self.incoming.insert(number, Incoming { candidates, port, is_anybodys: false, is_doomed: false });
        }
    }

    pub fn read(&mut self, file: usize, number: u32) {
        let incoming = self.incoming.remove(&number);
        let is_its = incoming.as_ref().is_some_and(|incoming| {
            incoming.candidates.contains(&file) || incoming.is_anybodys && incoming.port == self.files[file].port
        });
        assert!(is_its, "{file} got {number}, which is: {incoming:?} (nothing: another had it, or nobody may)");
    }

    pub fn sent_out(&mut self, number: u32, to: usize, file: usize) {
        self.outgoing.insert(number, (to, self.files[file].port));
    }

    /// The far end's socket `at` got it from a port.
    pub fn read_far(&mut self, number: u32, at: usize, port: usize) {
        if let Some(expected) = self.outgoing.remove(&number) {
            assert_eq!((at, port), expected, "{number} came to another, or from another");
        }
    }

    /// Nothing is missing.
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.values().all(|incoming| incoming.is_doomed)
    }

    pub fn missing(&self) -> String {
        let incoming: Vec<_> = self.incoming.iter().filter(|(_, incoming)| !incoming.is_doomed).collect();
        format!("to the near end {incoming:?}, to the far end {:?}, of {:#?}", self.outgoing, self.files)
    }
}
