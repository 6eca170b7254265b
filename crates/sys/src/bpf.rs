//! bpf(2): maps, XDP programs, the links that attach them, and runs of a program on a packet of our own.
//!
//! Everything here is an fd that closes itself. A program attached through [`Link`] is detached by the
//! kernel when the last descriptor of the link closes, so a killed process leaves no program behind.
//!
//! Source: bpf(2), `include/uapi/linux/bpf.h`.

mod attr;
pub(crate) mod call;
pub(crate) mod make;
pub mod query;
mod room;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::descriptor::{Request, obtain};
use attr::{Command, zeroed};
use call::{bpf, bpf_fd, fd_u32, program_info};
use make::Refusal;

pub use call::Instruction;
pub use make::{LoadOptions, MapKind, MapSpec, XdpAttach};

/// `enum bpf_link_type`.
const BPF_LINK_TYPE_XDP: u32 = 6;

/// A map; closed (and freed, unless a program still uses it) on drop.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key_size_bytes: usize,
    value_size_bytes: usize,
    kind: MapKind,
    max_entries: u32,
}

impl Map {
    /// `BPF_MAP_CREATE`.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF (or CAP_SYS_ADMIN), `EINVAL` for sizes the kind does not take.
    pub fn create(
        kind: MapKind,
        name: &str,
        key_size_bytes: u32,
        value_size_bytes: u32,
        max_entries: u32,
    ) -> io::Result<Map> {
        let spec = MapSpec { kind, name, key_size_bytes, value_size_bytes, max_entries };
        let fd = obtain(&Request::Map(&spec)).map_err(|refusal| refusal.source)?;
        // The kernel rounds an array's values up to 8 bytes a CPU only for per-CPU maps, which are not offered.
        let (key_size_bytes, value_size_bytes) = (key_size_bytes as usize, value_size_bytes as usize);
        Ok(Map { fd, key_size_bytes, value_size_bytes, kind, max_entries })
    }

    /// A map from queue index to AF_XDP socket.
    ///
    /// # Errors
    /// As [`Map::create`].
    pub fn xskmap(name: &str, max_entries: u32) -> io::Result<Map> {
        Map::create(MapKind::Xskmap, name, 4, 4, max_entries)
    }

    /// Bytes that a process may map: those of all values of a [`MapKind::SharedArray`], 0 of any other kind.
    pub(crate) fn mappable_bytes(&self) -> usize {
        match self.kind {
            MapKind::SharedArray => self.value_size_bytes.next_multiple_of(8) * self.max_entries as usize,
            MapKind::Hash | MapKind::SparseHash | MapKind::Array | MapKind::Xskmap => 0,
        }
    }

    /// Sets the value of `key` (`BPF_ANY`).
    ///
    /// # Errors
    /// `E2BIG` for an index beyond the map; `EINVAL` when a length is not the map's; for an Xskmap `EOPNOTSUPP` when
    /// the value is no AF_XDP socket.
    pub fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check(key, Some(value.len()))?;
        let mut attr = self.elem(key);
        attr.value = value.as_ptr() as u64;
        bpf(Command::MapUpdateElem, &mut attr).map(drop)
    }

    /// Puts an AF_XDP socket at `index` of an Xskmap. The socket leaves the map when it closes.
    ///
    /// # Errors
    /// As [`Map::update`].
    pub fn set_socket(&self, index: u32, socket: impl AsFd) -> io::Result<()> {
        self.update(&index.to_ne_bytes(), &fd_u32(socket.as_fd()).to_ne_bytes())
    }

    /// Reads the value of `key` into `value`; `false` when there is none.
    ///
    /// # Errors
    /// `EINVAL` when a length is not the map's; `EOPNOTSUPP` for kinds that cannot be read (Xskmap).
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        self.check(key, Some(value.len()))?;
        let mut attr = self.elem(key);
        attr.value = value.as_mut_ptr() as u64;
        found(bpf(Command::MapLookupElem, &mut attr))
    }

    /// Deletes `key`; `false` when there was none.
    ///
    /// # Errors
    /// `EINVAL` for an array, whose elements always exist.
    pub fn delete(&self, key: &[u8]) -> io::Result<bool> {
        self.check(key, None)?;
        found(bpf(Command::MapDeleteElem, &mut self.elem(key)))
    }

    /// The kernel reads and writes as many bytes as the map's sizes say, whatever the slices hold.
    fn check(&self, key: &[u8], value_len_bytes: Option<usize>) -> io::Result<()> {
        let fits = key.len() == self.key_size_bytes
            && value_len_bytes.is_none_or(|len_bytes| len_bytes == self.value_size_bytes);
        if fits { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
    }

    fn elem(&self, key: &[u8]) -> attr::MapElem {
        let mut attr: attr::MapElem = zeroed();
        attr.map_fd = fd_u32(self.fd.as_fd());
        attr.key = key.as_ptr() as u64;
        attr
    }
}

fn found(result: io::Result<i32>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Why a program did not load.
#[derive(Debug, thiserror::Error)]
#[error("load XDP program {name}: {source}{}", separated(log))]
pub struct LoadError {
    /// The program's name.
    pub name: String,
    /// What the kernel said.
    pub source: io::Error,
    /// What the verifier said; empty when it was not reached.
    pub log: String,
}

fn separated(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; the verifier said: {}", refusal_in(log)) }
}

/// The line of the verifier's log that has the reason, and its instruction: the last lines before the totals. The thousands of lines
/// before show how the verifier got there.
fn refusal_in(log: &str) -> String {
    let said: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let end = said.iter().rposition(|line| line.starts_with("processed ")).unwrap_or(said.len());
    let is_instruction = |line: &str| line.split_once(": (").is_some_and(|(at, _)| at.parse::<u32>().is_ok());
    let Some((last, before)) = said[..end].split_last() else { return log.trim().to_owned() };
    match before.iter().rev().find(|line| is_instruction(line)) {
        Some(instruction) if !is_instruction(last) => format!("{last} (at {instruction})"),
        _ => (*last).to_owned(),
    }
}

/// A loaded XDP program; unloaded on drop unless it is attached.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    /// The interface whose driver it asks.
    bound_to: Option<u32>,
}

/// What a program did with a packet in [`Program::test_run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The program's return value (an XDP action).
    pub retval: u32,
    /// The packet afterwards.
    pub data_out: Vec<u8>,
    /// Mean duration of one run.
    pub duration_ns: u32,
}

/// The ids of all BPF programs in the kernel, ascending.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn program_ids() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    let mut attr: attr::NextId = zeroed();
    loop {
        match bpf(Command::ProgGetNextId, &mut attr) {
            Ok(_) => ids.push(attr.next_id),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(ids),
            Err(error) => return Err(error),
        }
        attr.start_id = attr.next_id;
    }
}

/// The name that a program was loaded with, cut to 15 characters.
///
/// # Errors
/// `ENOENT`: there is none with this id; `EPERM` without CAP_SYS_ADMIN.
pub fn program_name(id: u32) -> io::Result<String> {
    let mut attr: attr::NextId = zeroed();
    attr.start_id = id;
    let program = bpf_fd(Command::ProgGetFdById, &mut attr)?;
    let name = program_info(program.as_fd())?.name;
    let len_bytes = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..len_bytes]).into_owned())
}

impl Program {
    /// `BPF_PROG_LOAD` of an XDP program.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_NET_ADMIN; `EACCES` or `EINVAL` with the verifier's log when it was rejected.
    pub fn load_xdp(name: &str, instructions: &[Instruction]) -> Result<Program, LoadError> {
        Program::load_xdp_with(name, instructions, LoadOptions::default())
    }

    /// As [`Program::load_xdp`], for what `options` say.
    ///
    /// # Errors
    /// As [`Program::load_xdp`]; `EOPNOTSUPP` or `EINVAL` where driver or kernel has none of it.
    pub fn load_xdp_with(name: &str, instructions: &[Instruction], options: LoadOptions) -> Result<Program, LoadError> {
        match obtain(&Request::Program { name, instructions, options }) {
            Ok(fd) => Ok(Program { fd, bound_to: options.bound_to }),
            Err(Refusal { source, log }) => Err(LoadError { name: name.to_owned(), log, source }),
        }
    }

    /// The kernel's id of the program, as `ip link` and `bpftool prog` show it.
    ///
    /// # Errors
    /// Reading the program's information failed.
    pub fn id(&self) -> io::Result<u32> {
        program_info(self.fd.as_fd()).map(|info| info.id)
    }

    /// Runs the program once on `packet`, as if it came in on queue 0 of the loopback interface.
    ///
    /// A redirect to a socket that is in the map says `XDP_REDIRECT` and goes nowhere.
    ///
    /// # Errors
    /// `EINVAL` for a packet shorter than an Ethernet header or longer than a page, `EPERM` without CAP_BPF.
    pub fn test_run(&self, packet: &[u8]) -> io::Result<TestRun> {
        self.run(packet, None, 1)
    }

    /// As [`Program::test_run`], as if the packet came in on `rx_queue` of an interface, which must have that queue.
    ///
    /// # Errors
    /// As [`Program::test_run`]; `EINVAL` for a queue the interface does not have.
    pub fn test_run_on(&self, packet: &[u8], ifindex: u32, rx_queue: u32) -> io::Result<TestRun> {
        self.run(packet, Some((ifindex, rx_queue)), 1)
    }

    /// As [`Program::test_run_on`], so many times one after the other: what a run takes in the mean is measured.
    ///
    /// # Errors
    /// As there.
    pub fn test_run_repeated(&self, packet: &[u8], ifindex: u32, rx_queue: u32, runs: u32) -> io::Result<TestRun> {
        self.run(packet, Some((ifindex, rx_queue)), runs)
    }

    fn run(&self, packet: &[u8], ingress: Option<(u32, u32)>, runs: u32) -> io::Result<TestRun> {
        let mut data_out = vec![0; packet.len() + 256];
        let (ingress_ifindex, rx_queue_index) = ingress.unwrap_or_default();
        let data_end = packet.len() as u32;
        let context =
            attr::XdpMd { data: 0, data_end, data_meta: 0, ingress_ifindex, rx_queue_index, egress_ifindex: 0 };
        let mut attr: attr::ProgTestRun = zeroed();
        attr.prog_fd = fd_u32(self.fd.as_fd());
        attr.data_size_in = packet.len() as u32;
        attr.data_in = packet.as_ptr() as u64;
        attr.data_size_out = data_out.len() as u32;
        attr.data_out = data_out.as_mut_ptr() as u64;
        attr.repeat = runs;
        if ingress.is_some() {
            attr.ctx_in = (&raw const context) as u64;
            attr.ctx_size_in = size_of::<attr::XdpMd>() as u32;
        }
        bpf(Command::ProgTestRun, &mut attr)?;
        data_out.truncate(attr.data_size_out as usize);
        Ok(TestRun { retval: attr.retval, data_out, duration_ns: attr.duration })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An attached program; detached when this is dropped or the process ends.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    ifindex: u32,
    attach: XdpAttach,
}

impl Drop for Link {
    /// Detaches by command. Closing the fd does too, but only once no copy is left, and a process that another
    /// thread is just starting holds one until its `exec`.
    fn drop(&mut self) {
        let mut attr: attr::LinkDetach = zeroed();
        attr.link_fd = fd_u32(self.fd.as_fd());
        // Fails when the interface is gone, and the program with it.
        let _ = bpf(Command::LinkDetach, &mut attr);
    }
}

impl Link {
    /// `BPF_LINK_CREATE`: attaches `program` to an interface, and never replaces another.
    ///
    /// # Errors
    /// `EBUSY` or `EEXIST` when the interface has a program, `EOPNOTSUPP` when the driver has no XDP, `EPERM` without
    /// CAP_NET_ADMIN, `ENODEV` for no such interface, `ERANGE` or `EINVAL` when the driver refuses (MTU, queues).
    pub fn attach_xdp(program: &Program, ifindex: u32, attach: XdpAttach) -> io::Result<Link> {
        let fd =
            obtain(&Request::Link { program: program.as_fd(), ifindex, attach }).map_err(|refusal| refusal.source)?;
        Ok(Link { fd, ifindex, attach })
    }

    /// `BPF_LINK_UPDATE`: puts `program` into the place of the one that is attached, between two frames. Refused, the one
    /// before stays.
    ///
    /// # Errors
    /// `EINVAL` for a program of [`Program::load_xdp_with`] that is for another interface, or where the link is not in the driver;
    /// `ENOLINK` when the link was detached; whatever the driver says.
    pub fn update(&self, program: &Program) -> io::Result<()> {
        // Checked here: of a new link the kernel checks it, of an update it does not, and behind the driver such a program
        // reads memory that is something else.
        let fits = |ifindex| ifindex == self.ifindex && self.attach == XdpAttach::Driver;
        if !program.bound_to.is_none_or(fits) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        update_link(self.fd.as_fd(), program)
    }

    /// The kernel's id of the program that the link holds on its interface; `None` once it was detached, by force or with
    /// the interface.
    ///
    /// # Errors
    /// Reading the link's information failed.
    pub fn attached_program(&self) -> io::Result<Option<u32>> {
        let info = link_info(self.fd.as_fd())?;
        Ok((info.ifindex != 0).then_some(info.prog_id))
    }

    /// Closes the fd without detaching: for the child of a fork, whose copy would keep the program attached when
    /// the parent ends.
    pub fn close_copy(self) {
        let number = ManuallyDrop::new(self).fd.as_raw_fd();
        // SAFETY: the value that owned the descriptor is never dropped, so this is its only owner.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

fn link_info(link: BorrowedFd<'_>) -> io::Result<attr::LinkInfo> {
    let mut info = attr::LinkInfo::default();
    let mut attr: attr::ObjInfo = zeroed();
    attr.bpf_fd = fd_u32(link);
    attr.info_len = size_of::<attr::LinkInfo>() as u32;
    attr.info = (&raw mut info) as u64;
    bpf(Command::ObjGetInfoByFd, &mut attr)?;
    Ok(info)
}

/// Detaches by force the XDP links that hold a program, whoever made them, as an administrator may (`bpftool link
/// detach`). Says how many there were.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn detach_links_of(program_id: u32) -> io::Result<u32> {
    for_links_of(program_id, |link| {
        let mut attr: attr::LinkDetach = zeroed();
        attr.link_fd = fd_u32(link);
        bpf(Command::LinkDetach, &mut attr).map(drop)
    })
}

/// Has the XDP links that hold a program hold another one, whoever made them, as an administrator may. Says how many there were.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; whatever the driver says of the other program.
pub fn replace_in_links_of(program_id: u32, other: &Program) -> io::Result<u32> {
    for_links_of(program_id, |link| update_link(link, other))
}

fn update_link(link: BorrowedFd<'_>, program: &Program) -> io::Result<()> {
    let mut attr: attr::LinkUpdate = zeroed();
    attr.link_fd = fd_u32(link);
    attr.new_prog_fd = fd_u32(program.as_fd());
    bpf(Command::LinkUpdate, &mut attr).map(drop)
}

/// Counts the links on interfaces that hold a program, after `act` on each.
fn for_links_of(program_id: u32, act: impl Fn(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<u32> {
    let mut links = 0;
    let mut next: attr::NextId = zeroed();
    loop {
        match bpf(Command::LinkGetNextId, &mut next) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(links),
            Err(error) => return Err(error),
        }
        next.start_id = next.next_id;
        let mut by_id: attr::NextId = zeroed();
        by_id.start_id = next.next_id;
        let link = match bpf_fd(Command::LinkGetFdById, &mut by_id) {
            Ok(link) => link,
            // Gone since the look, or still being made (`bpf_link_by_id`).
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EAGAIN)) => continue,
            Err(error) => return Err(error),
        };
        let info = link_info(link.as_fd())?;
        if (info.kind, info.prog_id) == (BPF_LINK_TYPE_XDP, program_id) && info.ifindex != 0 {
            act(link.as_fd())?;
            links += 1;
        }
    }
}

#[cfg(test)]
mod tests;
