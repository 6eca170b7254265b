//! A program on an interface, for as long as a value lives.
//!
//! Invariant: a program that is already there is never replaced. It is looked for first, so that the message can name
//! it, and the kernel refuses the link when one comes in between. The link is a file descriptor: a killed process
//! leaves nothing attached.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use nearwire_sys::bpf::{Link, LoadOptions, Program, XdpAttach};

use super::programs;
use crate::PortError;
use crate::interface::InterfaceFacts;

/// Where in the receive path a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachMode {
    /// In the driver.
    Native,
    /// On socket buffers, any driver. Faster than native on veth, slower on real NICs.
    Generic,
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
        })
    }
}

/// An attached program; detached on drop.
#[derive(Debug)]
pub struct XdpAttachment {
    link: Link,
    /// Of the program and of the one before or, while it changes, of the one that comes: a question meanwhile finds either.
    program_ids: [AtomicU32; 2],
    /// Which of them is the program's.
    now: AtomicUsize,
}

impl XdpAttachment {
    /// Attaches `program` to the interface.
    ///
    /// # Errors
    /// The interface has a program ([`PortError::ProgramPresent`]), the driver refuses, or a capability is missing.
    pub fn attach(program: &Program, interface: &InterfaceFacts, mode: AttachMode) -> Result<XdpAttachment, PortError> {
        refuse_if_present(interface)?;
        let attach = match mode {
            AttachMode::Native => XdpAttach::Driver,
            AttachMode::Generic => XdpAttach::Skb,
        };
        let link =
            Link::attach_xdp(program, interface.ifindex, attach).map_err(|source| refusal(interface, mode, source))?;
        let program_id = program
            .id()
            .map_err(|source| PortError::refused("read the attached XDP program's id", &interface.name, source))?;
        let program_ids = [program_id, 0].map(AtomicU32::new);
        Ok(XdpAttachment { link, program_ids, now: AtomicUsize::new(0) })
    }

    /// The kernel's id of the program.
    #[must_use]
    pub fn program_id(&self) -> u32 {
        self.program_ids[self.now.load(Ordering::Relaxed) & 1].load(Ordering::Relaxed)
    }

    /// Whether the program is still there: an administrator may detach it, and it goes with the interface. One system call.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        // An error says nothing about the program.
        let Ok(program) = self.link.attached_program() else { return true };
        program.is_some_and(|program| self.program_ids.iter().any(|ours| ours.load(Ordering::Acquire) == program))
    }

    /// Puts another program into the place of the attached one; refused, that stays. One at a time.
    pub(crate) fn change_program(&self, program: &Program) -> std::io::Result<()> {
        let next = 1 - (self.now.load(Ordering::Relaxed) & 1);
        self.program_ids[next].store(program.id()?, Ordering::Release);
        self.link.update(program)?;
        self.now.store(next, Ordering::Relaxed);
        Ok(())
    }

    /// Gives up the copy that a fork made, see [`Link::close_copy`].
    pub(crate) fn close_copy(self) {
        self.link.close_copy();
    }
}

/// Fails when the interface carries a program.
pub(crate) fn refuse_if_present(interface: &InterfaceFacts) -> Result<(), PortError> {
    interface.program.map_or(Ok(()), |program| {
        Err(PortError::ProgramPresent {
            interface: interface.name.clone(),
            program_id: program.program_id,
            mode: program.mode,
        })
    })
}

fn refusal(facts: &InterfaceFacts, mode: AttachMode, source: std::io::Error) -> PortError {
    let interface = facts.name.clone();
    match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            // One came after the facts were read: read again for its name.
            let program = InterfaceFacts::read(&interface).ok().and_then(|now| now.program);
            let (program_id, mode) = program.map_or((0, "unknown"), |found| (found.program_id, found.mode));
            PortError::ProgramPresent { interface, program_id, mode }
        }
        Some(libc::EOPNOTSUPP | libc::ERANGE | libc::EINVAL | libc::ENOSPC) => PortError::AttachRefused {
            interface,
            mode,
            driver: facts.driver.clone(),
            mtu_bytes: facts.mtu_bytes,
            source,
        },
        _ => PortError::refused("attach an XDP program", &interface, source),
    }
}

/// Attaches a program that gives every frame to the kernel: on veth this turns on NAPI, and with it the kernel's busy
/// polling, at 0.1 to 0.35 us a message.
///
/// # Errors
/// As [`XdpAttachment::attach`].
pub fn attach_pass(interface: &str, mode: AttachMode) -> Result<XdpAttachment, PortError> {
    let facts = InterfaceFacts::read(interface)?;
    refuse_if_present(&facts)?;
    let options = LoadOptions { multi_buffer: facts.is_jumbo(), ..LoadOptions::default() };
    let program = programs::pass_with(options).map_err(|source| rejected(interface, source))?;
    XdpAttachment::attach(&program, &facts, mode)
}

/// A program that did not load: for want of a capability, or because the verifier said no.
pub(crate) fn rejected(interface: &str, error: nearwire_sys::bpf::LoadError) -> PortError {
    match error.source.raw_os_error() {
        Some(libc::EPERM) => PortError::refused("load an XDP program", interface, error.source),
        _ => PortError::ProgramRejected { interface: interface.to_owned(), source: Box::new(error) },
    }
}
