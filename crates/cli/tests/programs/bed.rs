//! A cable with programs at its ends, each with the library or without.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, CableEnd, Namespace, VirtualCable, VirtualCableOptions};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

const NEARWIRE: &str = env!("CARGO_BIN_EXE_nearwire");
/// Where programs are looked for, behind `PATH`: servers are no commands of a normal user.
const MORE_PLACES: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
/// A program that has not ended, or not opened its port, by now hangs.
const TIMEOUT: Duration = Duration::from_secs(15);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Calls spin for a while and then sleep: both are tested, and tests that run at once share the CPUs.
const SPIN: &str = "50us";
/// Of the datagrams of an accelerated end, one in so many may pass by the kernel, and [`KERNEL_DATAGRAMS_MIN`] in any case:
/// what came before the first socket was accelerated, and what the stack leaves to it. A program that sends by a clock goes on while
/// a socket is opened, for as long as a busy machine needs: [`Bed::count_from_here`] leaves that time out.
const KERNEL_SHARE: u64 = 50;
const KERNEL_DATAGRAMS_MIN: u64 = 8;

/// An end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Near,
    Far,
}

/// The ends whose programs run with the library, and how long its calls look for frames before they sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accelerated {
    near: bool,
    far: bool,
    spin: &'static str,
}

impl Accelerated {
    pub const NONE: Self = Self { near: false, far: false, spin: SPIN };
    pub const BOTH: Self = Self { near: true, far: true, ..Self::NONE };
    pub const NEAR: Self = Self { near: true, ..Self::NONE };
    pub const FAR: Self = Self { far: true, ..Self::NONE };
    pub const EACH: [Self; 3] = [Self::BOTH, Self::NEAR, Self::FAR];
    /// Those, and both ends with calls that sleep at once and that never do.
    pub const EACH_AND_BY_SPIN: [Self; 5] =
        [Self::BOTH, Self::NEAR, Self::FAR, Self { spin: "0", ..Self::BOTH }, Self { spin: "forever", ..Self::BOTH }];

    pub fn spins_forever(self) -> bool {
        self.spin == "forever"
    }

    pub fn at(self, side: Side) -> bool {
        match side {
            Side::Near => self.near,
            Side::Far => self.far,
        }
    }
}

/// A program that was found.
#[derive(Clone, Debug)]
pub struct Found(PathBuf);

/// The programs of these names. `None` where one is missing or this user may not make namespaces, unless nothing may be
/// skipped.
pub fn found_or_skip<const COUNT: usize>(names: [&str; COUNT]) -> Option<[Found; COUNT]> {
    let missing = names.iter().find(|name| look_for(name).is_none()).map(|name| format!("no program {name}"));
    let may_run = Namespace::new().and_then(|namespace| namespace.enter(|| ()));
    if let Some(missing) = may_run.err().map(|error| error.to_string()).or(missing) {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {missing}");
        println!("SKIP {missing}");
        return None;
    }
    Some(names.map(|name| Found(look_for(name).unwrap())))
}

fn look_for(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(MORE_PLACES.map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

/// A program of this folder in another language, compiled once.
pub fn compiled(compiler: &Found, source: &str) -> Found {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let source = source_file(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().unwrap());
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    if changed(&program) <= changed(&source) {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unfinished = program.with_extension(format!("unfinished-{}-{number}", std::process::id()));
        let mut command = Command::new(&compiler.0);
        command.args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&unfinished);
        let output = command.arg(&source).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::rename(unfinished, &program).unwrap();
    }
    Found(program)
}

/// A file of this folder.
pub fn source_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Datagrams that the kernel counted in a namespace, of both IP versions.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    received: u64,
    sent: u64,
}

/// A cable, and a directory for what programs read and write.
pub struct Bed {
    cable: VirtualCable,
    directory: TempDir,
    accelerated: Accelerated,
    library: PathBuf,
    configuration: Option<PathBuf>,
    started: AtomicU32,
    /// What the kernels of the near and of the far end had counted when the test began to count.
    counted_before: Cell<[Counted; 2]>,
}

impl Bed {
    pub fn lay(accelerated: Accelerated) -> Self {
        let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
        assert!(library.exists(), "cargo builds the library before these tests, but there is no {}", library.display());
        Self {
            cable: VirtualCable::lay(VirtualCableOptions::default()).unwrap(),
            directory: tempfile::Builder::new().prefix("nearwire-programs-").tempdir().unwrap(),
            accelerated,
            library,
            configuration: None,
            started: AtomicU32::new(0),
            counted_before: Cell::default(),
        }
    }

    /// The same with a configuration file.
    pub fn with_configuration(mut self, text: &str) -> Self {
        self.configuration = Some(self.write("nearwire.toml", text));
        self
    }

    /// Puts a file where programs run.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A file where programs run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The IPv4 address of an end.
    pub fn address(&self, side: Side) -> String {
        self.end(side).ipv4.to_string()
    }

    /// The IPv6 address of an end.
    pub fn address_v6(&self, side: Side) -> String {
        self.end(side).ipv6.to_string()
    }

    /// The interface of an end.
    pub fn interface(&self, side: Side) -> &str {
        &self.end(side).interface
    }

    fn end(&self, side: Side) -> &CableEnd {
        match side {
            Side::Near => self.cable.near(),
            Side::Far => self.cable.far(),
        }
    }

    /// Starts a program with arguments that are separated by spaces.
    pub fn start(&self, side: Side, program: &Found, arguments: &str) -> Running {
        self.start_with_input(side, program, arguments, b"")
    }

    /// The same by a profile, which says how calls wait.
    pub fn start_by_profile(&self, side: Side, program: &Found, arguments: &str, profile: &str) -> Running {
        let mut command = self.command(side, program, &["--profile", profile]);
        command.env_remove("NEARWIRE_SPIN");
        self.start_command(side, program, command, arguments, b"")
    }

    /// The same, with a file as its standard input.
    pub fn start_with_input(&self, side: Side, program: &Found, arguments: &str, input: &[u8]) -> Running {
        self.start_command(side, program, self.command(side, program, &[]), arguments, input)
    }

    fn start_command(
        &self,
        side: Side,
        program: &Found,
        mut command: Command,
        arguments: &str,
        input: &[u8],
    ) -> Running {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let input = self.write(&format!("in-{number}"), input);
        let [out, err] = ["out", "err"].map(|name| self.path(&format!("{name}-{number}")));
        command.args(arguments.split_ascii_whitespace()).current_dir(self.directory.path()).process_group(0);
        command.stdin(File::open(input).unwrap());
        command.stdout(Stdio::from(File::create(&out).unwrap())).stderr(Stdio::from(File::create(&err).unwrap()));
        let child = self.end(side).namespace.enter(|| command.spawn()).unwrap().unwrap();
        Running {
            child,
            what: format!("{side:?} {} {arguments} ({:?})", program.0.display(), self.accelerated),
            out,
            err,
        }
    }

    /// Runs a program to its end, which has to be a success, and gives what it printed.
    pub fn run(&self, side: Side, program: &Found, arguments: &str) -> String {
        self.start(side, program, arguments).succeed()
    }

    /// With further options of `nearwire run` where the end is accelerated.
    fn command(&self, side: Side, program: &Found, options: &[&str]) -> Command {
        let mut command = if self.accelerated.at(side) {
            let mut command = Command::new(NEARWIRE);
            command.args(["run", "--quiet", "--library"]).arg(&self.library).args(options);
            if let Some(file) = &self.configuration {
                command.arg("--config").arg(file);
            }
            command.arg("--").arg(&program.0);
            command
        } else {
            Command::new(&program.0)
        };
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LC_ALL", "C")
            .env("NEARWIRE_SPIN", self.accelerated.spin);
        command
    }

    /// Has the interface of an accelerated end open until the value is dropped. To open it takes 0.04 to 0.25 s, most of it for the first touch of packet
    /// memory, in the first call that sends: what a client that sends at a rate is late by then it sends at once, which may be more than a socket of the
    /// kernel has room for.
    pub fn hold_open(&self, side: Side) -> Option<Running> {
        const PROGRAM: &str = "import socket,time\ns=socket.socket(type=socket.SOCK_DGRAM)\ns.bind(('0.0.0.0',9))\ns.setblocking(False)\n\
                               try:s.recv(1)\nexcept BlockingIOError:time.sleep(600)\n";
        if !self.accelerated.at(side) {
            return None;
        }
        let [python] = found_or_skip(["python3"])?;
        self.write("hold_open.py", PROGRAM);
        let holds = self.start(side, &python, "hold_open.py");
        self.wait_for_port(side, 9);
        Some(holds)
    }

    /// Waits until a UDP port of an end is bound: an accelerated socket has a kernel socket with its address.
    pub fn wait_for_port(&self, side: Side, port: u16) {
        self.wait_for(side, &["udp", "udp6"], port, "");
        self.wait_for_library(side, port);
    }

    /// Waits until the library has decided who serves a port of an accelerated end, at the first call that waits for the socket:
    /// the kernel has it some milliseconds before, on a busy machine a hundred.
    pub fn wait_for_library(&self, side: Side, port: u16) {
        if !self.accelerated.at(side) {
            return;
        }
        let is_undecided = |socket: &Value| ["NotBound", "NotUsed"].iter().any(|reason| socket["reason"] == *reason);
        let is_decided = |sockets: &Vec<Value>| !sockets.is_empty() && !sockets.iter().any(is_undecided);
        let give_up = Instant::now() + TIMEOUT;
        loop {
            let by_process = self.by_process_at(side, &format!(":{port}"));
            if by_process.iter().any(is_decided) {
                return;
            }
            assert!(Instant::now() < give_up, "{side:?}: nobody decides who serves port {port}: {by_process:#?}");
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits until the library serves so many sockets at each accelerated end, and leaves out what its kernel counted up to now.
    pub fn count_from_here(&self, sockets: usize) {
        for side in [Side::Near, Side::Far].into_iter().filter(|side| self.accelerated.at(*side)) {
            let is_accelerated = |socket: &&Value| socket["accelerated"] == true;
            let give_up = Instant::now() + TIMEOUT;
            loop {
                let found = self.by_process_at(side, "").concat();
                if found.iter().filter(is_accelerated).count() >= sockets {
                    break;
                }
                assert!(Instant::now() < give_up, "{side:?}: the library does not serve {sockets} sockets: {found:#?}");
                std::thread::sleep(LOOK_INTERVAL);
            }
        }
        self.counted_before.set([Side::Near, Side::Far].map(|side| self.counted(side)));
    }

    /// What `nearwire status` prints of the sockets at a port of an end.
    pub fn sockets_at(&self, side: Side, port: u16) -> Vec<Value> {
        self.by_process_at(side, &format!(":{port}")).concat()
    }

    /// What it prints of the sockets whose local address ends so, for each process of an end.
    fn by_process_at(&self, side: Side, suffix: &str) -> Vec<Vec<Value>> {
        let is_there = |socket: &&Value| socket["local"].as_str().unwrap_or("").ends_with(suffix);
        let there = |process: &Value| {
            process["sockets"].as_array().unwrap().iter().filter(is_there).cloned().collect::<Vec<_>>()
        };
        self.processes(side).iter().map(there).collect()
    }

    /// How calls wait in the process that has a socket at this port of an end, by `nearwire status`.
    pub fn spin_at(&self, side: Side, port: u16) -> String {
        let suffix = format!(":{port}");
        let is_there = |socket: &Value| socket["local"].as_str().unwrap_or("").ends_with(&suffix);
        let has_it = |process: &&Value| process["sockets"].as_array().unwrap().iter().any(is_there);
        self.processes(side).iter().find(has_it).expect("a process has the port")["spin"].as_str().unwrap().to_owned()
    }

    /// What `nearwire status` prints of each process of an end.
    fn processes(&self, side: Side) -> Vec<Value> {
        let namespace = || fs::read_link("/proc/thread-self/ns/net");
        let namespace = self.end(side).namespace.enter(namespace).unwrap().unwrap();
        let is_ours = |process: &&Value| {
            fs::read_link(format!("/proc/{}/ns/net", process["pid"])).is_ok_and(|other| other == namespace)
        };
        self.status(side)["processes"].as_array().unwrap().iter().filter(is_ours).cloned().collect()
    }

    fn status(&self, side: Side) -> Value {
        let status = || Command::new(NEARWIRE).args(["status", "--json"]).output().unwrap().stdout;
        serde_json::from_slice(&self.end(side).namespace.enter(status).unwrap()).unwrap()
    }

    /// An agent of root at an end, which serves a user too.
    pub fn start_agent_for(&self, side: Side, user: u64) {
        let rights = self.write("agent.toml", format!("[[allow]]\nusers = [{user}]\n"));
        let start = || Command::new(NEARWIRE).args(["agent", "--background", "--rights"]).arg(&rights).output();
        let started = self.end(side).namespace.enter(start).unwrap().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    }

    /// The users whose programs have shares of the agent's ports at an end.
    pub fn users_with_shares(&self, side: Side) -> Vec<u64> {
        let status = self.status(side);
        let programs = status["agent"]["programs"].as_array().unwrap().iter();
        let with_shares = programs.filter(|program| !program["shares"].as_array().unwrap().is_empty());
        with_shares.map(|program| program["uid"].as_u64().unwrap()).collect()
    }

    /// Waits until an end listens at a TCP port.
    pub fn wait_for_listener(&self, side: Side, port: u16) {
        self.wait_for(side, &["tcp", "tcp6"], port, "0A");
    }

    /// A line of these tables is `number: local:port remote:port state …`, in hexadecimal.
    fn wait_for(&self, side: Side, tables: &[&str], port: u16, state: &str) {
        let suffix = format!(":{port:04X}");
        let fits = |line: &str| {
            let mut words = line.split_ascii_whitespace().skip(1);
            words.next().is_some_and(|local| local.ends_with(&suffix)) && words.nth(1).unwrap_or("").starts_with(state)
        };
        self.wait_for_lines(side, tables, fits, 1);
    }

    /// Waits until tables of `/proc/net` have so many lines that fit.
    pub fn wait_for_lines(&self, side: Side, tables: &[&str], fits: impl Fn(&str) -> bool, count: usize) {
        let found = |table: &&str| self.net_file(side, table).lines().filter(|line| fits(line)).count();
        let give_up = Instant::now() + TIMEOUT;
        while tables.iter().map(found).sum::<usize>() < count {
            assert!(Instant::now() < give_up, "{side:?}: what is waited for does not come into {tables:?}");
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Datagrams that the kernel of an end had for its programs and dropped, most for want of room at a socket.
    pub fn dropped_by_kernel(&self, side: Side) -> u64 {
        let snmp = self.net_file(side, "snmp");
        let values = snmp.lines().rfind(|line| line.starts_with("Udp:")).unwrap();
        values.split(' ').nth(3).unwrap().parse().unwrap()
    }

    /// A counter of the library in the running programs of an end.
    pub fn counted_by_library(&self, side: Side, counter: &str) -> u64 {
        self.processes(side).iter().map(|process| process["counters"][counter].as_u64().unwrap()).sum()
    }

    fn net_file(&self, side: Side, name: &str) -> String {
        let path = format!("/proc/thread-self/net/{name}");
        self.end(side).namespace.enter(|| fs::read_to_string(path)).unwrap().unwrap_or_default()
    }

    fn counted(&self, side: Side) -> Counted {
        let (snmp, snmp6) = (self.net_file(side, "snmp"), self.net_file(side, "snmp6"));
        let values = snmp.lines().rfind(|line| line.starts_with("Udp:")).unwrap();
        let v4 = |column: usize| values.split(' ').nth(column).unwrap().parse::<u64>().unwrap();
        let v6 =
            |name: &str| snmp6.lines().find(|line| line.starts_with(name)).map_or(0, |line| number_after(line, name));
        Counted { received: v4(1) + v6("Udp6InDatagrams"), sent: v4(4) + v6("Udp6OutDatagrams") }
    }

    /// The programs of accelerated ends moved their datagrams past the kernel, those of the others by it. `datagrams`: how
    /// many there were at least in each direction.
    #[track_caller]
    pub fn assert_paths(&self, datagrams: u64) {
        self.assert_paths_each_way(datagrams, datagrams);
    }

    /// So many datagrams at least passed by the kernel of one end in each direction.
    #[track_caller]
    pub fn assert_kernel_moved(&self, side: Side, datagrams: u64) {
        let counted = self.counted(side);
        assert!(counted.sent >= datagrams && counted.received >= datagrams, "{counted:?}");
    }

    /// The same as [`Self::assert_paths`], with other numbers from near to far than back.
    #[track_caller]
    pub fn assert_paths_each_way(&self, to_far: u64, to_near: u64) {
        for (side, sent, received) in [(Side::Near, to_far, to_near), (Side::Far, to_near, to_far)] {
            self.assert_path(side, |counted| counted.sent, sent, "sent");
            self.assert_path(side, |counted| counted.received, received, "received");
        }
    }

    /// The same of what one end received.
    #[track_caller]
    pub fn assert_received(&self, side: Side, datagrams: u64) {
        self.assert_path(side, |counted| counted.received, datagrams, "received");
    }

    #[track_caller]
    fn assert_path(&self, side: Side, count: impl Fn(Counted) -> u64, moved: u64, way: &str) {
        let most = (moved / KERNEL_SHARE).max(KERNEL_DATAGRAMS_MIN);
        let by_kernel = count(self.counted(side));
        let before = count(self.counted_before.get()[side as usize]);
        let is_right = if self.accelerated.at(side) { by_kernel - before <= most } else { by_kernel >= moved };
        assert!(
            is_right,
            "{:?}, {side:?}: {by_kernel} ({before} before) of {moved} datagrams {way} by the kernel",
            self.accelerated
        );
    }
}

/// A program that runs; it and what it started ends when this is dropped.
pub struct Running {
    child: Child,
    what: String,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Waits for the end, which has to be a success, and gives what it printed.
    #[track_caller]
    pub fn succeed(mut self) -> String {
        let status = self.wait();
        assert!(status.success(), "{status}, {}", self.told());
        self.printed()
    }

    /// The same, with what it printed on standard error.
    #[track_caller]
    pub fn succeed_and_tell(mut self) -> String {
        let status = self.wait();
        assert!(status.success(), "{status}, {}", self.told());
        self.told()
    }

    /// The same, however it ends.
    pub fn end_and_tell(mut self) -> String {
        self.wait();
        self.told()
    }

    /// Asks it to end by a signal, and gives what it printed. It has to end by itself or by that signal.
    #[track_caller]
    pub fn stop(mut self, signal: Signal) -> String {
        assert!(self.child.try_wait().unwrap().is_none(), "ended too early: {}", self.told());
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let status = self.wait();
        // socat catches the signal and ends as a shell would tell of it.
        let is_by_signal = status.signal() == Some(signal.as_raw()) || status.code() == Some(128 + signal.as_raw());
        assert!(status.success() || is_by_signal, "{status}, {}", self.told());
        self.printed()
    }

    fn wait(&mut self) -> ExitStatus {
        let give_up = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < give_up, "hangs: {}", self.told());
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// What it printed so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.out).unwrap()).into_owned()
    }

    fn told(&self) -> String {
        let errors = String::from_utf8_lossy(&fs::read(&self.err).unwrap()).into_owned();
        format!("{}\n[stdout]\n{}\n[stderr]\n{errors}", self.what, self.printed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that all of them have ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A counter of the library in what a program told at its end, where `stats` is set. It leaves those out that are 0.
pub fn counter_told(told: &str, counter: &str) -> u64 {
    let line = told.lines().find(|line| line.trim_end().ends_with(counter));
    line.map_or(0, |line| line.split_whitespace().find_map(|word| word.parse().ok()).unwrap())
}

/// The number behind the last of these words in a text.
#[track_caller]
pub fn number_after(text: &str, words: &str) -> u64 {
    let (_, rest) = text.rsplit_once(words).unwrap_or_else(|| panic!("no '{words}' in:\n{text}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind '{words}' in:\n{text}"))
}
