//! A cable with a peer at its far end, and programs that run at the near end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_frames::xdp::attach_pass;
use nearwire_lab::emulated_host::is_inside;
use nearwire_lab::{Cable, CableEnd, LoopbackCable, Namespace, VirtualCable, VirtualCableOptions};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use tempfile::TempDir;

use crate::programs::Programs;
use crate::surroundings::{Beyond, Elsewhere, NIC_ENDS, Vlan, forget_paths, has_shares, name_nics, takes_tags_off};
use crate::trace;
use crate::ways::{Run, USES_FIRST, number_of};

/// A program that has not ended by now hangs: on a machine with other work, ports of many programs that open and close at
/// once wait for grace periods of the kernel, together for more than ten seconds once.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Ports that one program may use (`PORTS` of `peer.h`).
const PORTS: u16 = 16;
/// Ports below are the peer's, those above are given out by the kernel.
const FIRST_PORT: u16 = 5000;
const LAST_PORT: u16 = 32_000;
/// Every refused datagram is answered: without these an ICMP error of one script would depend on those before.
/// An IPv6 address outlives its link's going down, as an IPv4 address does.
const SYSCTLS: [(&str, &str); 5] = [
    ("/proc/sys/net/ipv4/icmp_ratelimit", "0"),
    ("/proc/sys/net/ipv6/icmp/ratelimit", "0"),
    ("/proc/sys/net/ipv4/icmp_msgs_per_sec", "1000000"),
    ("/proc/sys/net/ipv4/icmp_msgs_burst", "1000000"),
    ("/proc/sys/net/ipv6/conf/all/keep_addr_on_down", "1"),
];

/// How the library calls the counter.
const FRAMES_RECEIVED: &str = "frames received";

/// How it calls a port of which it has a share.
const BY_AGENT: &str = ", by the agent)";
/// What an agent prints. The harness that it runs in prints too, after 60 s, and ends at once where nobody can read it.
type Printed = Lines<BufReader<ChildStdout>>;
/// The reasons that an interface or a socket has where the agent did not answer in time.
const AGENT_WAS_LATE: [&str; 2] = ["the agent has not done it within", "the agent that had the interface has ended"];
const AGAIN_MOST: usize = 4;
/// How it calls the counter of connections.
const CONNECTIONS_ADOPTED: &str = "connections adopted";

/// In the trace of a program that did not end by itself.
pub const HUNG: &str = "[end] hung";

/// A cable, its peer, and a directory for what programs write.
pub struct Bed<'a> {
    programs: &'a Programs,
    // Before the cable, whose interfaces leave their namespaces.
    vlan: Option<Vlan>,
    cable: Box<dyn Cable>,
    /// The device takes the tags of VLANs out of frames, so the interface is the kernel's.
    takes_tags_off: bool,
    directory: TempDir,
    next_port: u16,
    /// The far end, and the host beyond it. They end when their inputs close.
    peers: [(Child, ChildStdin); 2],
    agent: Option<(Child, Printed)>,
    _beyond: Beyond,
    elsewhere: Elsewhere,
}

impl<'a> Bed<'a> {
    pub fn lay(programs: &'a Programs, number: usize) -> Self {
        Self::with_mtu(programs, number, VirtualCableOptions::default().mtu_bytes)
    }

    pub fn with_mtu(programs: &'a Programs, number: usize, mtu_bytes: u32) -> Self {
        // One queue: several keep no order among sources, on the kernel either.
        let options = VirtualCableOptions { queues: 1, mtu_bytes, ..VirtualCableOptions::default() };
        Self::on(Box::new(VirtualCable::lay(options).unwrap()), false, false, programs, number)
    }

    /// With VLAN interfaces, over devices of an emulated host: veth hands tags over beside the frames, where only the kernel
    /// sees them.
    pub fn with_vlan(programs: &'a Programs, number: usize) -> Self {
        name_nics();
        let [near, far] = NIC_ENDS;
        let takes_tags_off = takes_tags_off(near);
        Self::on(Box::new(LoopbackCable::lay(near, far).unwrap()), true, takes_tags_off, programs, number)
    }

    fn on(cable: Box<dyn Cable>, has_vlan: bool, takes_tags_off: bool, programs: &'a Programs, number: usize) -> Self {
        let directory = tempfile::Builder::new().prefix(&format!("nearwire-bed{number}-")).tempdir().unwrap();
        for end in [cable.near(), cable.far()] {
            end.namespace.enter(|| SYSCTLS.iter().for_each(|(path, value)| set_sysctl(path, value))).unwrap();
        }
        let beyond = Beyond::lay(cable.near(), cable.far());
        let elsewhere = Elsewhere::lay(cable.near(), cable.far());
        let vlan = has_vlan.then(|| Vlan::lay(cable.near(), cable.far()));
        let (far, door) = (cable.far(), |name: &str| directory.path().join(name));
        let peers = [
            start_peer(programs, &*cable, &far.namespace, &far.interface, door("peer")),
            start_peer(programs, &*cable, &beyond.namespace, Beyond::INTERFACE, door("beyond")),
        ];
        let next_port = FIRST_PORT;
        Self {
            programs,
            vlan,
            cable,
            takes_tags_off,
            directory,
            next_port,
            peers,
            agent: None,
            _beyond: beyond,
            elsewhere,
        }
    }

    /// The same with an agent at the near end: programs have shares of its ports.
    pub fn with_agent(mut self) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.args([crate::AGENT, "--exact", "--ignored", "--nocapture"]).env(crate::AGENT, "yes");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut agent = self.near().namespace.enter(|| command.spawn()).unwrap().unwrap();
        let mut printed = BufReader::new(agent.stdout.take().unwrap()).lines();
        let mut lines = printed.by_ref().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(crate::AGENT_READY)), "the agent did not start");
        self.agent = Some((agent, printed));
        self
    }

    pub fn has_vlan(&self) -> bool {
        self.vlan.is_some()
    }

    /// Runs a script and gives its trace.
    pub fn run_script(&mut self, script: &str, run: Run) -> String {
        self.run_with(script, run, number_of(script), &[])
    }

    /// Runs the script that runs a sequence, the text in a file, and gives its trace.
    pub fn run_sequence(&mut self, interpreter: &str, run: Run, seed: u32) -> String {
        self.run_with(interpreter, run, seed, &[])
    }

    /// Asserts that the library receives frames for programs on this cable: where it leaves all to the kernel, every trace is
    /// that of the kernel. Beside an agent it receives them by a share, where the kernel has shares. Over a device that takes tags of VLANs
    /// off it receives none.
    pub fn assert_accelerated(&mut self, script: &str, run: Run) {
        let told = self.run_counted(script, run, &[USES_FIRST]);
        let frames = told.lines().find(|line| line.trim_end().ends_with(FRAMES_RECEIVED));
        let frames = frames.and_then(|line| line.split_whitespace().find_map(|word| word.parse::<u64>().ok()));
        let receives = frames.unwrap_or(0) > 0;
        assert_eq!(receives, !self.takes_tags_off, "{script} ({}): the library received frames:\n{told}", run.name());
        let is_by_agent = told.lines().any(|line| line.contains(BY_AGENT));
        let has_share = self.agent.is_some() && has_shares();
        assert_eq!(is_by_agent, has_share, "{script} ({}): by shares of the agent:\n{told}", run.name());
    }

    /// Asserts that connections of a script are adopted on this cable.
    pub fn assert_adopted(&mut self, script: &str, run: Run) {
        let told = self.run_counted(script, run, &[]);
        let is_adopted = told.lines().any(|line| line.trim_end().ends_with(CONNECTIONS_ADOPTED));
        assert!(is_adopted, "{script} ({}): no connection was adopted:\n{told}", run.name());
    }

    /// Runs a script and gives its counters too. In emulation, the processor of which others may want as well, it may take the agent longer
    /// to open its port than a program waits for it: then again.
    fn run_counted(&mut self, script: &str, run: Run, more: &[(&str, &str)]) -> String {
        let more = [&[("NEARWIRE_STATS", "true")], more].concat();
        let is_late = |told: &str| is_inside() && AGENT_WAS_LATE.iter().any(|words| told.contains(words));
        let mut told = self.run_with(script, run, number_of(script), &more);
        for _ in 0..AGAIN_MOST {
            if !is_late(&told) {
                break;
            }
            told = self.run_with(script, run, number_of(script), &more);
        }
        told
    }

    /// Runs a script and gives what it wrote and how it ended. What it says on standard error is part of that: the library prints nothing
    /// unless it is asked for counters.
    fn run_with(&mut self, script: &str, run: Run, number: u32, more: &[(&str, &str)]) -> String {
        let file = |name: &str| self.directory.path().join(name);
        let trace_file = trace::make_file(&file("trace"));
        let mut command = Command::new(&self.programs.scripts);
        command.arg(script).env_clear().current_dir(self.directory.path()).process_group(0);
        command.env("PATH", "/usr/bin:/bin").env("SCRIPT_TRACE", file("trace")).env("SCRIPT_PEER", file("peer"));
        command
            .env("SCRIPT_BEYOND", file("beyond"))
            .env("SCRIPT_OTHER_NAMESPACE", self.elsewhere.path())
            .env("SCRIPT_PORT", self.next_port.to_string())
            .envs(run.variables().iter().copied())
            .envs(run.mode(number).map(|mode| ("NEARWIRE_MODE", mode)))
            .envs(more.iter().copied());
        if is_inside() {
            command.env("SCRIPT_EMULATED", "yes");
        }
        if run.is_of_library() {
            command.env("LD_PRELOAD", &self.programs.library);
        }
        if let (Run::Spinning, Some(spin)) = (run, std::env::var_os("NEARWIRE_SCRIPT_SPIN")) {
            command.env("NEARWIRE_SPIN", spin);
        }
        command
            .stdin(Stdio::null())
            .stdout(File::create(file("out")).unwrap())
            .stderr(File::create(file("err")).unwrap());
        // Other ports each time: what is late from one run does not reach the next.
        self.next_port += PORTS;
        if self.next_port + PORTS > LAST_PORT {
            self.next_port = FIRST_PORT;
            // Addresses behind the router go with the ports.
            forget_paths(&self.near().namespace);
        }
        let attach = |mode| attach_pass(&self.near().interface, mode).unwrap();
        let _program = match run {
            Run::KernelBehindProgram(mode) => Some(self.near().namespace.enter(|| attach(mode)).unwrap()),
            _ => None,
        };
        let child = self.near().namespace.enter(|| command.spawn()).unwrap().unwrap();
        let end = wait(child);
        if let Some((agent, _)) = &mut self.agent {
            assert_eq!(agent.try_wait().unwrap(), None, "the agent ended before {script} did");
        }
        let printed = |name: &str| String::from_utf8_lossy(&fs::read(file(name)).unwrap()).into_owned();
        format!("{}[end] {end}\n[stdout]\n{}[stderr]\n{}", trace::text(&trace_file), printed("out"), printed("err"))
    }

    /// Puts a file where programs run.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    fn near(&self) -> &CableEnd {
        self.cable.near()
    }
}

impl Drop for Bed<'_> {
    fn drop(&mut self) {
        let peers = self.peers.iter_mut().map(|(peer, _)| peer);
        let agents = self.agent.iter_mut().map(|(agent, _)| agent);
        for child in peers.chain(agents) {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn set_sysctl(path: &str, value: &str) {
    match fs::write(path, value) {
        // This kernel has no such limit for each namespace.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        outcome => outcome.unwrap_or_else(|error| panic!("write {path}: {error}")),
    }
}

fn start_peer(
    programs: &Programs,
    cable: &dyn Cable,
    namespace: &Namespace,
    interface: &str,
    door: PathBuf,
) -> (Child, ChildStdin) {
    let (near, far) = (cable.near(), cable.far());
    let mut command = Command::new(&programs.peer);
    command.arg(door).arg(interface).arg(near.ipv4.to_string()).arg(near.ipv6.to_string());
    command.arg(far.ipv4.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut peer = namespace.enter(|| command.spawn()).unwrap().unwrap();
    let mut line = String::new();
    BufReader::new(peer.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "the peer's first words");
    let input = peer.stdin.take().unwrap();
    (peer, input)
}

/// Where its threads are, by whatever command `NEARWIRE_ON_HANG` names.
fn look_at_hung(number: u32) {
    if let Some(command) = std::env::var_os("NEARWIRE_ON_HANG") {
        let outcome = Command::new(command).arg(number.to_string()).status();
        println!("a program hangs; the command for that: {outcome:?}");
    }
}

/// How a program ended. One that hangs is ended, with all that it started.
fn wait(mut child: Child) -> String {
    let deadline = Instant::now() + PROGRAM_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().map_or_else(
                || format!("by signal {}", status.signal().unwrap_or_default()),
                |code| format!("with {code}"),
            );
        }
        if Instant::now() > deadline {
            look_at_hung(child.id());
            let group = Pid::from_child(&child);
            kill_process_group(group, Signal::KILL).unwrap();
            child.wait().unwrap();
            return "hung".to_owned();
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}
