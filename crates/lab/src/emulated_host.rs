//! A whole Linux host in software emulation, for what no namespace can show: NUMA nodes, boot options, interrupts of real
//! drivers, a reboot, a power cut. With [`Accelerator::KvmIfPossible`] it is a guest as hypervisors have them.
//!
//! QEMU translates every instruction unless that is asked for, so the host is the same everywhere, needs no privilege, and is some
//! thirty times slower than this machine: it shows what happens, never how fast. It boots the distribution's stock kernel with
//! busybox and the programs under test; `crates/lab/emulated-host/init` says what its init does.
//!
//! Nothing leaks: disk, initramfs and console are files without a name in this process, and the kernel kills QEMU when this
//! process ends. Interfaces lead to each other inside QEMU or to an anonymous namespace, never to this machine's network.

mod arguments;
mod channel;
mod cpio;
mod elf;
mod error;
mod hardware;
mod machine;
mod memory_file;
mod own_tests;
mod segments;
mod states;
mod system;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use arguments::SOONER;
pub use channel::HostOutput;
pub use error::EmulatedHostError;
pub use hardware::{Accelerator, HostHardware, HostNic, NicKind, PciePort, SmbiosTable};
pub use own_tests::{OwnTests, StockKernel, is_everything_wanted, is_inside, kernel_inside};
pub use states::{FileChange, FileStates};
pub use system::HostSystem;

use arguments::{Files, arguments};
use channel::{Channel, NoAnswer};
pub use machine::HostPlace;
use machine::Machine;
use memory_file::MemoryFile;
use system::{empty_disk, prepare};

use crate::Namespace;

/// For a boot and for a command: many times what they take on an idle machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Lines of the console that an error carries: what comes before a panic's stack is the cause.
const CONSOLE_LINES: usize = 60;

/// An emulated host with a disk that outlives its reboots. Off and gone when dropped.
#[derive(Debug)]
pub struct EmulatedHost {
    hardware: HostHardware,
    kernel: PathBuf,
    initramfs: MemoryFile,
    disk: MemoryFile,
    console: MemoryFile,
    /// What QEMU itself has to say.
    said: MemoryFile,
    running: Option<Running>,
    boot_time: Duration,
    place: HostPlace,
    has_kvm: bool,
}

#[derive(Debug)]
struct Running {
    // Closed before the process is killed.
    channel: Channel,
    machine: Machine,
}

impl EmulatedHost {
    /// Builds a host with an empty disk and boots it.
    ///
    /// # Errors
    ///
    /// As [`Self::build`] and [`Self::power_on`].
    pub fn boot(hardware: &HostHardware, system: &HostSystem, command_line: &str) -> Result<Self, EmulatedHostError> {
        let mut host = Self::build(hardware, system)?;
        host.power_on(command_line)?;
        Ok(host)
    }

    /// Builds a host with an empty disk, which is off.
    ///
    /// # Errors
    ///
    /// [`EmulatedHostError::MissingKernel`] and [`EmulatedHostError::MissingProgram`] where this machine lacks something,
    /// [`EmulatedHostError::Hardware`], [`EmulatedHostError::Prepare`].
    pub fn build(hardware: &HostHardware, system: &HostSystem) -> Result<Self, EmulatedHostError> {
        hardware.check()?;
        system::program("qemu-system-x86_64", "qemu-system-x86")?;
        let kernel = system.kernel()?;
        let in_memory = |name| MemoryFile::new(name).map_err(|source| prepare("keep a file in memory", source));
        Ok(Self {
            hardware: hardware.clone(),
            kernel,
            initramfs: system.initramfs()?,
            disk: empty_disk()?,
            console: in_memory("console")?,
            said: in_memory("qemu")?,
            running: None,
            boot_time: Duration::ZERO,
            place: HostPlace::default(),
            has_kvm: hardware.has_kvm(),
        })
    }

    /// The same in another place, from when it is powered on next.
    #[must_use]
    pub fn in_place(self, place: HostPlace) -> Self {
        Self { place, ..self }
    }

    /// True when this machine's processor runs the host's instructions (KVM), false when software emulates them.
    #[must_use]
    pub fn has_kvm(&self) -> bool {
        self.has_kvm
    }

    /// Boots a host that is off with these options of the kernel (behind the harness's own: a serial console, no tests of
    /// ciphers and of the timer, and that a panic ends the emulation) and waits until its init serves commands.
    ///
    /// # Errors
    ///
    /// [`EmulatedHostError::Ended`] after a panic, [`EmulatedHostError::TimedOut`] after two minutes.
    pub fn power_on(&mut self, command_line: &str) -> Result<(), EmulatedHostError> {
        self.power_on_within(command_line, TIME_LIMIT)
    }

    /// [`Self::power_on`] with a time limit.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn power_on_within(&mut self, command_line: &str, limit: Duration) -> Result<(), EmulatedHostError> {
        self.power_off_hard();
        let mut place = self.place.clone();
        if place.namespace.is_none() && self.hardware.has_tap() {
            place.namespace = Some(Namespace::new()?);
        }
        let namespace = place.namespace.clone();
        let (initramfs, disk, console) = (self.initramfs.path(), self.disk.path(), self.console.path());
        let files = Files { kernel: &self.kernel, initramfs: &initramfs, disk: &disk, console: &console };
        let start = Instant::now();
        let arguments = arguments(&self.hardware, self.has_kvm, files, command_line);
        let (machine, pipes) = Machine::start(arguments, &self.said, place)?;
        let running = self.running.insert(Running { machine, channel: Channel::new(pipes) });
        let heard = running.channel.hear_ready(start + limit);
        self.answered(heard, &format!("boot with '{command_line}'"), limit)?;
        if let Some(namespace) = namespace {
            segments::join(&namespace, &self.hardware.nics)?;
        }
        self.boot_time = start.elapsed();
        Ok(())
    }

    /// How long the last boot took, from the start of QEMU to the first command.
    #[must_use]
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// Runs a command in a shell (of busybox) as root and waits for it. What it starts in the background goes on; such a
    /// command must not keep the shell's output: `program >/tmp/log 2>&1 &`.
    ///
    /// # Errors
    ///
    /// [`EmulatedHostError::TimedOut`] after two minutes; [`EmulatedHostError::Ended`] when the host went down. A command that
    /// fails is no error: see [`HostOutput::status`].
    pub fn run(&mut self, command: &str) -> Result<HostOutput, EmulatedHostError> {
        self.run_within(command, &[], TIME_LIMIT)
    }

    /// [`Self::run`] with something on the command's standard input, and a time limit.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn run_within(
        &mut self,
        command: &str,
        input: &[u8],
        limit: Duration,
    ) -> Result<HostOutput, EmulatedHostError> {
        let action = || format!("run '{command}'");
        let running = self.running.as_mut().ok_or_else(|| EmulatedHostError::PoweredOff { action: action() })?;
        let output = running.channel.run(command, input, Instant::now() + limit);
        self.answered(output, &action(), limit)
    }

    /// Runs a command that has to work and gives its output as text, without white space around it.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], and [`EmulatedHostError::Command`] for another exit status than 0.
    pub fn output_of(&mut self, command: &str) -> Result<String, EmulatedHostError> {
        let output = self.run(command)?;
        succeeded(format!("run '{command}'"), &output)?;
        Ok(output.text())
    }

    /// Writes a file, and makes the directories above it. It may still be in memory when the power is cut: run `sync`.
    ///
    /// # Errors
    ///
    /// As [`Self::output_of`]. The kernel's refusal to take a value is one too.
    pub fn write_file(&mut self, path: &str, bytes: &[u8]) -> Result<(), EmulatedHostError> {
        // One write of the whole, as files of the kernel want it.
        let script = format!(
            "file={}; [ -d \"${{file%/*}}\" ] || mkdir -p \"${{file%/*}}\"; dd bs={} iflag=fullblock status=none of=\"$file\"",
            quoted(path),
            bytes.len().max(1)
        );
        let output = self.run_within(&script, bytes, TIME_LIMIT)?;
        succeeded(format!("write {path}"), &output)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// As [`Self::output_of`].
    pub fn read_file(&mut self, path: &str) -> Result<Vec<u8>, EmulatedHostError> {
        let output = self.run(&format!("cat {}", quoted(path)))?;
        succeeded(format!("read {path}"), &output)?;
        Ok(output.stdout)
    }

    /// What is in the files of these patterns (of the shell, such as `/proc/irq/*/smp_affinity_list`).
    ///
    /// # Errors
    ///
    /// As [`Self::run`]. A file that cannot be read is no error: see [`FileStates`].
    pub fn file_states(&mut self, patterns: &[&str]) -> Result<FileStates, EmulatedHostError> {
        let output = self.run(&states::script(patterns))?;
        Ok(FileStates::parse(&output.stdout))
    }

    /// The options that `/etc/default/grub` and `/etc/default/grub.d/*.cfg` give a kernel: read by a shell in order of names,
    /// as `grub-mkconfig` reads them.
    ///
    /// # Errors
    ///
    /// As [`Self::output_of`].
    pub fn exported_command_line(&mut self) -> Result<String, EmulatedHostError> {
        self.output_of(
            "for file in /etc/default/grub /etc/default/grub.d/*.cfg; do [ -e $file ] && . $file; done; \
             echo $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT",
        )
    }

    /// Shuts the host down in order and boots it with these options of the kernel.
    ///
    /// # Errors
    ///
    /// As [`Self::run`] and [`Self::power_on`].
    pub fn reboot_with(&mut self, command_line: &str) -> Result<(), EmulatedHostError> {
        let action = || "reboot".to_owned();
        let mut running = self.running.take().ok_or_else(|| EmulatedHostError::PoweredOff { action: action() })?;
        let deadline = Instant::now() + TIME_LIMIT;
        let told = running.channel.tell("sync; mount -o remount,ro /disk; reboot -f", &[], deadline);
        let ended = told.and_then(|()| running.channel.hear_end(deadline));
        self.running = Some(running);
        self.answered(ended, &action(), TIME_LIMIT)?;
        self.power_on(command_line)
    }

    /// Says whether the host is on still, without asking it: takes no time of it.
    ///
    /// # Errors
    ///
    /// [`EmulatedHostError::Ended`] with its last words, [`EmulatedHostError::PoweredOff`] from then on.
    pub fn check(&mut self) -> Result<(), EmulatedHostError> {
        let action = || "run".to_owned();
        let running = self.running.as_ref().ok_or_else(|| EmulatedHostError::PoweredOff { action: action() })?;
        let state = if running.machine.is_over() { Err(NoAnswer::Ended) } else { Ok(()) };
        self.answered(state, &action(), Duration::ZERO)
    }

    /// Cuts the power: what was not yet written to the disk is lost. Nothing happens when the host is off.
    pub fn power_off_hard(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.machine.kill();
        }
    }

    /// What the serial console showed since the last time the host was powered on. Empty unless there was trouble.
    #[must_use]
    pub fn console(&self) -> String {
        self.console.text()
    }

    /// Makes an error of a missing answer; the host is off then.
    fn answered<T>(
        &mut self,
        answer: Result<T, NoAnswer>,
        action: &str,
        limit: Duration,
    ) -> Result<T, EmulatedHostError> {
        let no_answer = match answer {
            Ok(answer) => return Ok(answer),
            Err(no_answer) => no_answer,
        };
        let action = action.to_owned();
        let running = self.running.take();
        if matches!(no_answer, NoAnswer::Ended) {
            let status = running.map_or_else(String::new, |mut running| running.machine.wait());
            let (said, console) = (self.said.tail(CONSOLE_LINES), self.console.tail(CONSOLE_LINES));
            return Err(EmulatedHostError::Ended { action, status, said, console });
        }
        drop(running);
        Err(match no_answer {
            NoAnswer::TimedOut => {
                EmulatedHostError::TimedOut { action, limit, console: self.console.tail(CONSOLE_LINES) }
            }
            NoAnswer::Unintelligible(found) => EmulatedHostError::Unintelligible { action, found },
            NoAnswer::Failed(source) => prepare(action, source),
            NoAnswer::Ended => EmulatedHostError::PoweredOff { action },
        })
    }
}

fn succeeded(action: String, output: &HostOutput) -> Result<(), EmulatedHostError> {
    if output.status == 0 {
        return Ok(());
    }
    Err(EmulatedHostError::Command { action, status: output.status, said: output.errors() })
}

/// One word of a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
