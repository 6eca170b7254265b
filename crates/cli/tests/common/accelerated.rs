//! Python programs under the library, at the ends of a virtual cable of the test's own.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, program_under_test};

use super::may_run;

/// What each script begins with. `step` says that all before is done, and waits for the test's answer.
const BEGIN: &str = "
import socket, sys, os, errno, time, select
near, far = sys.argv[1], sys.argv[2]
def udp(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# Bound and asked for what there is: from then on frames come to the library.
def bound(address, port):
    made = udp(); made.bind((address, port)); select.select([made], [], [], 0); return made
def shared(address, port):
    made = udp(); made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); made.bind((address, port)); return made
def step():
    print('step', flush=True); sys.stdin.readline()
def error(call, *arguments):
    try: call(*arguments)
    except OSError as failed: return errno.errorcode[failed.errno]
    return 'none'
";

pub struct Bed {
    pub cable: VirtualCable,
    pub directory: tempfile::TempDir,
    library: PathBuf,
}

/// A program of the bed that is running.
pub struct Running {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Bed {
    /// `None` where the test has to be skipped.
    pub fn lay() -> Option<Bed> {
        Bed::lay_with_mtu(VirtualCableOptions::default().mtu_bytes)
    }

    /// The same over a cable with this MTU.
    pub fn lay_with_mtu(mtu_bytes: u32) -> Option<Bed> {
        Bed::lay_with(VirtualCableOptions { mtu_bytes, ..VirtualCableOptions::default() })
    }

    /// The same over a cable of this kind.
    pub fn lay_with(options: VirtualCableOptions) -> Option<Bed> {
        if !may_run() {
            return None;
        }
        if Command::new("python3").arg("-V").output().is_err() {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs python3");
            println!("SKIP no python3");
            return None;
        }
        let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
        assert!(library.exists(), "cargo builds the library before these tests, but there is no {}", library.display());
        let cable = VirtualCable::lay(options).unwrap();
        let bed = Bed { cable, directory: tempfile::tempdir().unwrap(), library };
        // The kernels find each other's hardware address.
        let near = bed.cable.near();
        let greeting = near.namespace.enter(|| UdpSocket::bind((near.ipv4, 0))).unwrap().unwrap();
        greeting.send_to(b"x", (bed.cable.far().ipv4, 9)).unwrap();
        Some(bed)
    }

    pub fn far(&self) -> UdpSocket {
        self.far_at(7100)
    }

    /// A plain socket at a port of the far end; 0: of the kernel's choice.
    pub fn far_at(&self, port: u16) -> UdpSocket {
        let far = self.cable.far();
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            match far.namespace.enter(|| UdpSocket::bind((far.ipv4, port))).unwrap() {
                Ok(socket) => return socket,
                // Of a socket that this test has closed, a child that another test starts has a copy until it executes its program.
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("port {port} of the far end: {error}"),
            }
        }
    }

    /// Starts a script at an end of the cable, with variables besides.
    pub fn start(&self, end: &CableEnd, script: &str, variables: &[(&str, &str)]) -> Running {
        let mut command = program_under_test("python3");
        command.env("LD_PRELOAD", &self.library).env("NEARWIRE_SPIN", "0").env("NEARWIRE_MODE", "generic");
        command.envs(variables.iter().copied());
        self.start_command(end, command, script)
    }

    /// The command and the library, where every user may read them.
    pub fn installed(&self) -> std::path::PathBuf {
        let program = self.directory.path().join("nearwire");
        if !program.exists() {
            std::fs::set_permissions(self.directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            super::copy_program(&program);
            // The command finds it beside itself.
            assert!(Command::new("cp").arg(&self.library).arg(self.directory.path()).status().unwrap().success());
        }
        program
    }

    /// Starts a script by `nearwire run`, as a user: root, or one who has no capability.
    pub fn run_as(&self, end: &CableEnd, user: u32, script: &str) -> Running {
        self.run_as_with(end, user, script, &[])
    }

    /// The same with variables besides.
    pub fn run_as_with(&self, end: &CableEnd, user: u32, script: &str, variables: &[(&str, &str)]) -> Running {
        let mut command = program_under_test(self.installed());
        command.args(["run", "--quiet", "--", "python3"]);
        command.env("NEARWIRE_SPIN", "0").uid(user).gid(user).current_dir("/");
        command.envs(variables.iter().copied());
        self.start_command(end, command, script)
    }

    /// The same as root in a PID namespace of its own, as a container that shares its network namespace with others. What runs is
    /// `unshare`, which has the program as its only child.
    pub fn run_in_pid_namespace(&self, end: &CableEnd, script: &str) -> Running {
        let mut command = program_under_test("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(self.installed());
        command.args(["run", "--", "python3"]).env("NEARWIRE_SPIN", "0").current_dir("/");
        self.start_command(end, command, script)
    }

    /// Starts a script without the library.
    pub fn start_plain(&self, script: &str) -> Running {
        self.start_plain_at(self.cable.near(), script)
    }

    /// The same at an end of the cable.
    pub fn start_plain_at(&self, end: &CableEnd, script: &str) -> Running {
        self.start_command(end, program_under_test("python3"), script)
    }

    fn start_command(&self, end: &CableEnd, mut command: Command, script: &str) -> Running {
        let (near, far) = (self.cable.near(), self.cable.far());
        command.arg("-c").arg(format!("{BEGIN}{script}")).arg(near.ipv4.to_string()).arg(far.ipv4.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = end.namespace.enter(|| command.spawn()).unwrap().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }
}

impl Running {
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Kills it. What it and its children have written to standard error.
    pub fn kill_and_tell(mut self) -> String {
        self.child.kill().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// The only child of what was started.
    pub fn child_pid(&self) -> String {
        let pid = self.child.id();
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap().trim().to_owned()
    }

    /// Waits until the script says `step`.
    #[track_caller]
    pub fn step(&mut self) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        if line != "step\n" {
            let mut said = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{line:?} instead of a step; {said}");
        }
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Has the script go on to its end.
    pub fn end(mut self) -> Output {
        drop(self.child.stdin.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.lines.read_to_end(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        Output { status: self.child.wait().unwrap(), stdout, stderr }
    }
}

/// A test that fails leaves no program behind.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
