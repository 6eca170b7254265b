//! A process that makes the calls that it is told to: a program under `nearwire run`, or a child of one.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use nearwire_lab::Cable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};

use crate::by_agent::{status_of, wait_until};
use crate::common::accelerated::{Bed, Running};

const SCRIPT: &str = include_str!("program.py");
/// A call that takes longer hangs.
const HANGS: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// See the module.
pub struct Process {
    commands: File,
    answers: File,
    paths: [PathBuf; 2],
    pid: Pid,
    /// `None`: a child.
    program: Option<Running>,
}

impl Process {
    pub fn start(bed: &Bed, at: usize) -> Process {
        let (paths, [commands, answers]) = pipes(bed, at);
        let directory = bed.directory.path().to_str().unwrap();
        let script = SCRIPT.replace("DIRECTORY", directory).replace("NAME", &at.to_string());
        let program = bed.run_as(bed.cable.near(), 0, &script);
        let pid = Pid::from_raw(program.child.id() as i32).unwrap();
        let mut process = Process { commands, answers, paths, pid, program: Some(program) };
        assert_eq!(process.answer(), "");
        process
    }

    /// The child that a process forks.
    pub fn forked(bed: &Bed, at: usize, parent: &mut Process) -> Process {
        let (paths, [commands, answers]) = pipes(bed, at);
        parent.tell(&format!("fork {at}"));
        let pid = parent.answer();
        let pid = Pid::from_raw(pid.parse().unwrap_or_else(|_| panic!("fork: {pid}"))).unwrap();
        let mut process = Process { commands, answers, paths, pid, program: None };
        assert_eq!(process.answer(), "");
        process
    }

    /// What it answers to a command.
    pub fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut set = [PollFd::new(&self.answers, PollFlags::IN)];
            assert_eq!(poll(&mut set, Some(&HANGS)), Ok(1), "process {:?} answers", self.pid);
            let mut byte = [0];
            self.answers.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        line.pop();
        String::from_utf8(line).unwrap()
    }

    /// How many of its sockets are accelerated now.
    pub fn accelerated_sockets(&self) -> usize {
        let shown = status_of(&self.pid.to_string());
        let sockets = shown["sockets"].as_array().unwrap();
        sockets.iter().filter(|socket| socket["accelerated"] == true).count()
    }

    /// It exits by itself.
    pub fn quit(mut self) {
        assert_eq!(self.ask("quit"), "");
        self.await_end();
    }

    pub fn kill(mut self) {
        kill_process(self.pid, Signal::KILL).unwrap();
        self.await_end();
    }

    fn await_end(&mut self) {
        match &mut self.program {
            Some(program) => drop(program.child.wait()),
            None => wait_until("a child ends", || rustix::process::test_kill_process(self.pid).is_err()),
        }
    }
}

/// What is left of a sequence that failed.
impl Drop for Process {
    fn drop(&mut self) {
        if self.program.is_none() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        self.paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Two pipes that are open for both, so that to open them waits for nobody.
fn pipes(bed: &Bed, at: usize) -> ([PathBuf; 2], [File; 2]) {
    let paths = ["commands", "answers"].map(|of| bed.directory.path().join(format!("{at}.{of}")));
    let open = |path: &PathBuf| {
        let _ = std::fs::remove_file(path);
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    };
    let files = [open(&paths[0]), open(&paths[1])];
    (paths, files)
}
