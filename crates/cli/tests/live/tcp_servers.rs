//! Servers that many use, with TCP under `nearwire run`: what their clients get is what was there, and their connections are adopted.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nearwire_lab::{Cable, VirtualCableOptions};
use rustix::process::{Pid, Signal, kill_process};

use crate::by_agent::status_of;
use crate::common::accelerated::Bed;
use crate::common::children_of;
use crate::jumbo::is_kernel_since;
use crate::tcp_programs::{Policy, await_listener, end, start, text};

/// As those of pairs, and the kernel alone last.
const WAYS: [(Policy, Policy); 4] =
    [(Some("auto"), Some("auto")), (Some("eager"), None), (None, Some("eager")), (None, None)];

/// A server, and what uses it one after the other. `ADDRESS`, `PORT` and `DIRECTORY` stand for these.
pub(crate) struct Served<'a> {
    pub(crate) server: &'a [&'a str],
    pub(crate) clients: &'a [Client<'a>],
    /// Its connections are adopted, in processes that are there until it ends.
    pub(crate) is_adopted: bool,
    /// What ends it, with success.
    pub(crate) ends_by: Signal,
}

pub(crate) struct Client<'a> {
    pub(crate) words: &'a [&'a str],
    /// What it says.
    pub(crate) says: &'a str,
    pub(crate) is_adopted: bool,
}

/// A file with bytes that are not the same anywhere.
fn random_file(path: &Path, bytes: usize) {
    let mut state = bytes as u64 | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let all: Vec<u8> = words.take(bytes.div_ceil(8)).flatten().take(bytes).collect();
    std::fs::write(path, all).unwrap();
}

/// Where a program is; `None`: the test is skipped.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.exists());
    if found.is_none() {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs {name}");
        println!("SKIP no {name}");
    }
    found
}

impl Served<'_> {
    /// In each way; `after` is given each one's port.
    pub(crate) fn run(&self, bed: &Bed, port: u16, after: impl Fn(&str)) {
        for (port, (server, client)) in (port..).zip(WAYS) {
            let port = port.to_string();
            self.run_once(bed, &port, server, client);
            after(&port);
        }
    }

    fn run_once(&self, bed: &Bed, port: &str, server: Policy, client: Policy) {
        let far = bed.cable.far();
        let child = self.begin(bed, port, server);
        for Client { words, says, is_adopted } in self.clients {
            let done = end(start(bed, far, &with_values(words, bed, port), client));
            let said = text(&done);
            let what = format!("{words:?} server {server:?} client {client:?}\n{said}");
            assert!(done.status.success() && said.contains(says), "{what}");
            // By `auto` the kernel has a connection until its port is open, and many a client is done by then.
            let is_certain = *is_adopted && client == Some("eager");
            assert!(!is_certain || said.contains("connections adopted"), "{what}");
        }
        if server.is_some() && self.is_adopted {
            assert!(adopted_by(child.id()) > 0, "{:?} {server:?} {client:?}", self.server);
        }
        stop(child, self.ends_by);
    }

    fn begin(&self, bed: &Bed, port: &str, server: Policy) -> Child {
        let near = bed.cable.near();
        let mut child = start(bed, near, &with_values(self.server, bed, port), server);
        await_listener(near, port, &mut child);
        child
    }

    /// With a client that has nothing to say; `looks` is given the server while it runs.
    pub(crate) fn run_while(&self, bed: &Bed, port: &str, ways: (Policy, Policy), client: &[&str], looks: fn(u32)) {
        let child = self.begin(bed, port, ways.0);
        let client = start(bed, bed.cable.far(), &with_values(client, bed, port), ways.1);
        looks(child.id());
        let done = end(client);
        assert!(done.status.success(), "{}", text(&done));
        stop(child, self.ends_by);
    }
}

fn with_values(words: &[&str], bed: &Bed, port: &str) -> Vec<String> {
    let (address, directory) = (bed.cable.near().ipv4.to_string(), bed.directory.path().display().to_string());
    let value = |word: &&str| word.replace("ADDRESS", &address).replace("PORT", port).replace("DIRECTORY", &directory);
    words.iter().map(value).collect()
}

/// How many connections a process and its descendants have adopted.
fn adopted_by(pid: u32) -> u64 {
    let own = status_of(&pid.to_string())["counters"]["connections_adopted"].as_u64().unwrap_or(0);
    own + children_of(pid).unwrap_or_default().into_iter().map(adopted_by).sum::<u64>()
}

fn stop(child: Child, by: Signal) {
    kill_process(Pid::from_child(&child), by).unwrap();
    let ended = end(child);
    assert!(ended.status.success(), "{}", text(&ended));
}

fn same(one: &Path, other: &Path) {
    let compared = Command::new("diff").arg("-r").args([one, other]).output().unwrap();
    assert!(compared.status.success(), "{}", text(&compared));
}

/// Sets and gets values of many sizes in long pipelines, and compares them.
const VALUES: &str = "
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
answers = connection.makefile('rb')
def call(*words): return b'*%d\\r\\n' % len(words) + b''.join(b'$%d\\r\\n%s\\r\\n' % (len(word), word) for word in words)
def answer():
    line = answers.readline()
    return answers.read(int(line[1:]) + 2)[:-2] if line[:1] == b'$' else line[1:-2]
same = 0
for turn in range(20):
    values = [(b'%d.%d' % (turn, at), bytes((turn + at + byte) % 251 for byte in range((1, 10, 1000, 20000)[at % 4]))) for at in range(40)]
    connection.sendall(b''.join(call(b'SET', *value) for value in values))
    assert all(answer() == b'OK' for _ in values)
    connection.sendall(b''.join(call(b'GET', key) for key, _ in values))
    same += sum(answer() == value for _, value in values)
print('same', same)
";

/// The server is another name of a program that comes with its tools, which have no service.
#[test]
fn redis_with_pipelines_saves_and_many_clients() {
    let Some((bed, redis)) = Bed::lay().zip(program("redis-check-rdb")) else { return };
    std::os::unix::fs::symlink(redis, bed.directory.path().join("redis-server")).unwrap();
    let benchmark = ["redis-benchmark", "-h", "ADDRESS", "-p", "PORT", "-q", "-r", "100000", "-t", "set,get,incr"];
    let load = |clients, pipeline, count| [&benchmark[..], &["-c", clients, "-P", pipeline, "-n", count]].concat();
    let (few, many) = (load("50", "1", "5000"), load("500", "16", "20000"));
    let save = ["redis-cli", "-h", "ADDRESS", "-p", "PORT", "bgsave"];
    let client = |words, says, is_adopted| Client { words, says, is_adopted };
    Served {
        server: &[
            "DIRECTORY/redis-server",
            "--bind",
            "ADDRESS",
            "--port",
            "PORT",
            "--protected-mode",
            "no",
            "--dir",
            "DIRECTORY",
            "--appendonly",
            "yes",
            "--appenddirname",
            "of-PORT",
            "--save",
            "",
        ],
        clients: &[
            client(&few, "INCR: ", true),
            client(&save, "Background saving started", false),
            client(&many, "INCR: ", true),
            client(&["python3", "-c", VALUES, "ADDRESS", "PORT"], "same 800", true),
        ],
        is_adopted: true,
        ends_by: Signal::TERM,
    }
    .run(&bed, 7400, |_| {});
}

const NGINX: &str = "
daemon off; user USER; worker_processes WORKERS; pid DIRECTORY/pid; error_log DIRECTORY/errors;
events { worker_connections 512; }
http {
    access_log off; sendfile SENDFILE; keepalive_timeout KEPT; keepalive_requests 1000000; client_max_body_size 100m;
    client_body_temp_path DIRECTORY/body; proxy_temp_path DIRECTORY/t1; fastcgi_temp_path DIRECTORY/t2; uwsgi_temp_path DIRECTORY/t3; scgi_temp_path DIRECTORY/t4;
    server {
        listen ADDRESS:PORT TLS; root DIRECTORY/www;
        location /up { dav_methods PUT; create_full_put_path on; alias DIRECTORY/up; }
    }
}
";

/// Serves files as `settings` say, which are put into [`NGINX`], by curl and wrk.
fn nginx(settings: [(&str, &str); 5], scheme: &str, port: u16) {
    let Some((bed, _)) = Bed::lay().zip(program("nginx").and(program("wrk")).and(program("curl"))) else { return };
    let directory = bed.directory.path();
    ["www", "up"].iter().for_each(|name| std::fs::create_dir(directory.join(name)).unwrap());
    // For workers of another user.
    ["", "up"].iter().for_each(|name| set_permissions(directory.join(name), Permissions::from_mode(0o777)).unwrap());
    [("small", 600), ("large", 5_000_000)]
        .iter()
        .for_each(|(name, bytes)| random_file(&directory.join("www").join(name), *bytes));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=near"])
        .args(["-keyout", "key", "-out", "certificate"])
        .current_dir(directory)
        .output();
    assert!(made.unwrap().status.success());
    let text = settings.iter().fold(NGINX.to_owned(), |text, (key, value)| text.replace(key, value));
    for port in (port..).take(WAYS.len()) {
        let written = with_values(&[&text], &bed, &port.to_string()).remove(0);
        std::fs::write(directory.join(format!("nginx-{port}")), written).unwrap();
    }
    let address = |file: &str| format!("{scheme}://ADDRESS:PORT/{file}");
    let (small, large, up) = (address("small"), address("large"), address("up/large-PORT"));
    let client = |words, says, is_adopted| Client { words, says, is_adopted };
    Served {
        server: &["nginx", "-p", "DIRECTORY", "-c", "DIRECTORY/nginx-PORT"],
        clients: &[
            client(&["wrk", "-t", "1", "-c", "20", "-d", "1s", &small], "Requests/sec", settings[2].1 != "0"),
            client(&["curl", "-sSk", "-o", "DIRECTORY/got-PORT", &large], "", false),
            client(&["curl", "-sSk", "-T", "DIRECTORY/www/large", &up], "", false),
        ],
        is_adopted: true,
        ends_by: Signal::QUIT,
    }
    .run(&bed, port, |port| {
        let served = directory.join("www/large");
        same(&served, &directory.join(format!("got-{port}")));
        same(&served, &directory.join(format!("up/large-{port}")));
    });
}

#[test]
fn nginx_with_one_worker_and_connections_that_are_kept() {
    nginx([("WORKERS", "1"), ("SENDFILE", "off"), ("KEPT", "60"), ("TLS", ""), ("USER", "root")], "http", 7410);
}

/// As distributions have it: what may bind to the port is the process that listens, and the workers have no capability.
#[test]
fn nginx_whose_workers_may_not_bind_to_its_port() {
    nginx([("WORKERS", "2"), ("SENDFILE", "on"), ("KEPT", "60"), ("TLS", ""), ("USER", "nobody nogroup")], "http", 80);
}

#[test]
fn nginx_with_four_workers_tls_and_a_connection_each() {
    let tls = "ssl; ssl_certificate DIRECTORY/certificate; ssl_certificate_key DIRECTORY/key";
    nginx([("WORKERS", "4"), ("SENDFILE", "on"), ("KEPT", "0"), ("TLS", tls), ("USER", "root")], "https", 7420);
}

/// Answers what comes, one connection after the other. Once it listens it may not bind to its port again, as another user, and neither bind nor connect TCP
/// sockets where Landlock forbids that (Linux 6.7).
const CONFINED: &str = "
import ctypes, os, signal, socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
libc = ctypes.CDLL(None, use_errno=True)
CREATE_RULESET, RESTRICT_SELF, VERSION, BIND_AND_CONNECT = 444, 446, 1, 3
if libc.syscall(CREATE_RULESET, None, 0, VERSION) >= 4:
    handled = (ctypes.c_uint64 * 2)(0, BIND_AND_CONNECT)
    rules = libc.syscall(CREATE_RULESET, ctypes.byref(handled), 16, 0)
    assert rules >= 0 and libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT_SELF, rules, 0) == 0
    try:
        socket.create_server((sys.argv[1], 0))
        sys.exit('it is not confined')
    except PermissionError:
        pass
os.setgid(65534)
os.setuid(65534)
try:
    socket.create_server((sys.argv[1], 99))
    sys.exit('it may bind to ports of root')
except PermissionError:
    pass
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
while True:
    connection = listener.accept()[0]
    while data := connection.recv(1000): connection.sendall(data)
";

/// So many turns that by `auto`, too, the port is open before the end, beside other load.
const ASKS_AND_COMPARES: &str = "
import socket, sys
connection, same = socket.create_connection((sys.argv[1], int(sys.argv[2]))), 0
for turn in range(12000):
    connection.sendall(b'%d' % turn)
    same += connection.recv(1000) == b'%d' % turn
print('same', same)
";

#[test]
fn server_that_may_neither_bind_nor_connect() {
    let Some(bed) = Bed::lay() else { return };
    Served {
        server: &["python3", "-c", CONFINED, "ADDRESS", "PORT"],
        clients: &[Client {
            words: &["python3", "-c", ASKS_AND_COMPARES, "ADDRESS", "PORT"],
            says: "same 12000",
            is_adopted: true,
        }],
        // Before, no program has a share of the agent's port, and opens none without capabilities.
        is_adopted: is_kernel_since(6, 4),
        ends_by: Signal::TERM,
    }
    .run(&bed, 90, |_| {});
}

/// One thread answers sixteen connections by an edge-triggered set, another thread one more: then `auto` gives all to the kernel at once, while they are busy.
const BY_EDGE: &str = "
import select, signal, socket, sys, threading
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
def answer(connection):
    while data := connection.recv(1000): connection.sendall(data)
edges, connections = select.epoll(), {}
for _ in range(16):
    connection = listener.accept()[0]
    connection.setblocking(False)
    connections[connection.fileno()] = connection
    edges.register(connection, select.EPOLLIN | select.EPOLLET)
threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
while True:
    for fd, _ in edges.poll():
        try:
            while data := connections[fd].recv(1000): connections[fd].sendall(data)
            edges.unregister(fd)
        except BlockingIOError:
            pass
";

/// Each connection asks as soon as it was answered, for a while. How many of them were answered each time.
const ASKS_BY_ALL: &str = "
import selectors, socket, sys, threading, time
connect = lambda: socket.create_connection((sys.argv[1], int(sys.argv[2])))
all, until = selectors.DefaultSelector(), time.time() + 2
for _ in range(16): all.register(connect(), selectors.EVENT_READ)
def other(connection):
    while time.time() < until:
        connection.sendall(b'other')
        connection.recv(10)
thread = threading.Thread(target=other, args=(connect(),))
thread.start()
asking = [key.fileobj for key in all.get_map().values()]
waiting = set(asking)
for connection in asking: connection.sendall(b'asks')
while waiting and (ready := all.select(2)):
    for key, _ in ready:
        key.fileobj.recv(10)
        if time.time() < until: key.fileobj.sendall(b'asks')
        else: waiting.remove(key.fileobj)
thread.join()
print('answered', 16 - len(waiting))
";

#[test]
fn edges_are_told_of_busy_connections_that_are_given_back_together() {
    let Some(bed) = Bed::lay() else { return };
    Served {
        server: &["python3", "-c", BY_EDGE, "ADDRESS", "PORT"],
        clients: &[Client {
            words: &["python3", "-c", ASKS_BY_ALL, "ADDRESS", "PORT"],
            says: "answered 16",
            is_adopted: false,
        }],
        is_adopted: true,
        ends_by: Signal::TERM,
    }
    .run(&bed, 7490, |_| {});
}

/// Twelve threads set and get values, and compare them.
const CACHED: &str = "
import socket, sys, threading
same = []
def one(thread):
    connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    answers = connection.makefile('rb')
    for turn in range(15):
        values = [(b'%d.%d.%d' % (thread, turn, at), bytes((turn * 7 + at + byte) % 251 for byte in range((1, 100, 3000, 60000)[(at + turn) % 4]))) for at in range(8)]
        connection.sendall(b''.join(b'set %s 0 0 %d\\r\\n%s\\r\\n' % (key, len(value), value) for key, value in values))
        assert all(answers.readline() == b'STORED\\r\\n' for _ in values)
        connection.sendall(b'get ' + b' '.join(key for key, _ in values) + b'\\r\\n')
        for key, value in values:
            words = answers.readline().split()
            same.append(words[1] == key and answers.read(int(words[3]) + 2) == value + b'\\r\\n')
        assert answers.readline() == b'END\\r\\n'
threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print('same', sum(same))
";

#[test]
fn memcached_with_four_threads() {
    let Some((bed, _)) = Bed::lay().zip(program("memcached")) else { return };
    Served {
        server: &["memcached", "-u", "root", "-t", "4", "-l", "ADDRESS", "-p", "PORT", "-U", "0"],
        clients: &[Client {
            words: &["python3", "-c", CACHED, "ADDRESS", "PORT"],
            says: "same 1440",
            is_adopted: true,
        }],
        is_adopted: true,
        ends_by: Signal::INT,
    }
    .run(&bed, 7430, |_| {});
}

#[test]
fn rsync_of_a_tree_in_both_directions() {
    let Some((bed, _)) = Bed::lay().zip(program("rsync")) else { return };
    let directory = bed.directory.path();
    for at in 0..100 {
        let below = directory.join(format!("tree/{}", at % 7));
        std::fs::create_dir_all(&below).unwrap();
        random_file(&below.join(at.to_string()), [0, 1, 100, 5000, 200_000][at % 5]);
    }
    std::fs::create_dir(directory.join("up")).unwrap();
    let text = "use chroot = no\nuid = root\ngid = root\n[tree]\npath = DIRECTORY/tree\n[up]\npath = DIRECTORY/up\nread only = no\n";
    std::fs::write(directory.join("rsyncd"), with_values(&[text], &bed, "").remove(0)).unwrap();
    let client = |words| Client { words, says: "", is_adopted: true };
    Served {
        server: &[
            "rsync",
            "--daemon",
            "--no-detach",
            "--config",
            "DIRECTORY/rsyncd",
            "--address",
            "ADDRESS",
            "--port",
            "PORT",
        ],
        clients: &[
            client(&["rsync", "-a", "rsync://ADDRESS:PORT/tree/", "DIRECTORY/down-PORT/"]),
            client(&["rsync", "-az", "DIRECTORY/tree/", "rsync://ADDRESS:PORT/up/of-PORT/"]),
        ],
        is_adopted: false,
        ends_by: Signal::TERM,
    }
    .run(&bed, 7440, |port| {
        ["down-PORT", "up/of-PORT"]
            .iter()
            .for_each(|got| same(&directory.join("tree"), &directory.join(got.replace("PORT", port))));
    });
}

/// Gets a file of Python's server, which makes a thread for each connection, and sends it by `write` alone: bulk, of which `auto` adopts nothing.
#[test]
fn http_server_of_python() {
    let Some((bed, _)) = Bed::lay().zip(program("curl")) else { return };
    let directory = bed.directory.path();
    random_file(&directory.join("file"), 3_000_000);
    Served {
        server: &["python3", "-m", "http.server", "-b", "ADDRESS", "-d", "DIRECTORY", "PORT"],
        clients: &[Client {
            words: &["curl", "-sS", "-o", "DIRECTORY/got-PORT", "http://ADDRESS:PORT/file"],
            says: "",
            is_adopted: false,
        }],
        is_adopted: false,
        ends_by: Signal::INT,
    }
    .run(&bed, 7450, |port| same(&directory.join("file"), &directory.join(format!("got-{port}"))));
}

/// The user that sshd has for what it does before somebody has logged in is in no `/etc/passwd` but its own.
const SSHD: &str =
    "mount --bind DIRECTORY/passwd /etc/passwd && mount -t tmpfs none /run && mkdir /run/sshd && exec \"$@\"";

#[test]
fn ssh_with_a_command_and_copies_of_a_file() {
    let Some((bed, sshd)) = Bed::lay().zip(program("sshd").and_then(|sshd| program("scp").and(Some(sshd)))) else {
        return;
    };
    let (directory, near) = (bed.directory.path(), bed.cable.near());
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", key])
            .current_dir(directory)
            .output();
        assert!(made.unwrap().status.success());
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let own = users.lines().filter(|line| !line.starts_with("sshd:")).map(|line| format!("{line}\n"));
    let passwd = own.chain(["sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n".to_owned()]).collect::<String>();
    std::fs::write(directory.join("passwd"), passwd).unwrap();
    std::fs::write(directory.join("known"), "").unwrap();
    random_file(&directory.join("file"), 5_000_000);
    let config = "HostKey DIRECTORY/host\nAuthorizedKeysFile DIRECTORY/user.pub\nPermitRootLogin yes\nStrictModes no\nPidFile none\n\
        UsePAM no\nSubsystem sftp internal-sftp\n";
    std::fs::write(directory.join("sshd"), with_values(&[config], &bed, "").remove(0)).unwrap();
    let options = "-oIdentityFile=DIRECTORY/user -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oBatchMode=yes -oPort=PORT -q";
    let options: Vec<&str> = options.split(' ').collect();
    let ssh = [&["ssh"], &options[..], &["root@ADDRESS", "seq 1 100000 | md5sum"]].concat();
    let up = [&["scp"], &options[..], &["DIRECTORY/file", "root@ADDRESS:DIRECTORY/up-PORT"]].concat();
    let down = [&["scp"], &options[..], &["root@ADDRESS:DIRECTORY/file", "DIRECTORY/down-PORT"]].concat();
    let sshd = sshd.to_str().unwrap();
    let listen = format!("ListenAddress={}", near.ipv4);
    let client = |words, says, is_adopted| Client { words, says, is_adopted };
    Served {
        server: &[
            "unshare",
            "--mount",
            "sh",
            "-c",
            SSHD,
            "sh",
            sshd,
            "-D",
            "-e",
            "-f",
            "DIRECTORY/sshd",
            "-o",
            &listen,
            "-o",
            "Port=PORT",
        ],
        clients: &[client(&ssh, "dea9193b", true), client(&up, "", false), client(&down, "", false)],
        is_adopted: false,
        ends_by: Signal::TERM,
    }
    .run(&bed, 7460, |port| {
        ["up", "down"].iter().for_each(|way| same(&directory.join("file"), &directory.join(format!("{way}-{port}"))));
    });
}

/// Sends 100 KB for each question.
const SENDS: &str = "
import socket, sys
connection, _ = socket.create_server((sys.argv[1], int(sys.argv[2]))).accept()
while connection.recv(100): connection.sendall(bytes(100_000))
";

/// Asks, and says what the kernel takes the far end's segments for (`tcpi_rcv_mss`).
const ASKS: &str = "
import socket, struct, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
answers = connection.makefile('rb')
for _ in range(10):
    connection.sendall(b'more')
    assert len(answers.read(100_000)) == 100_000
print('segments of', struct.unpack_from('I', connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 20)[0])
";

/// Nobody answered what a connection asked about its path, and its segments were as long as any path takes.
#[test]
fn segments_of_an_adopted_connection_are_as_long_as_the_path_takes() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let mut server =
        start(&bed, near, &with_values(&["python3", "-c", SENDS, "ADDRESS", "PORT"], &bed, "7470"), Some("eager"));
    await_listener(near, "7470", &mut server);
    let done = end(start(&bed, far, &with_values(&["python3", "-c", ASKS, "ADDRESS", "PORT"], &bed, "7470"), None));
    let most = VirtualCableOptions::default().mtu_bytes - 40 - 12;
    assert!(text(&done).contains(&format!("segments of {most}")), "{}", text(&done));
    end(server);
}

/// Sets O_NONBLOCK by ioctl(2), as Python does for each timeout, and asks what waits.
const TIMES_OUT: &str = "
import fcntl, socket, sys, termios
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
for _ in range(10):
    connection.sendall(b'more')
    left = 100_000
    while left:
        fcntl.ioctl(connection, termios.FIONREAD, b'1234')
        left -= len(connection.recv(left))
";

/// ioctl(2) left a connection to the kernel for good.
#[test]
fn connection_with_a_timeout_of_python_is_adopted() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let mut server = start(&bed, near, &with_values(&["python3", "-c", SENDS, "ADDRESS", "PORT"], &bed, "7471"), None);
    await_listener(near, "7471", &mut server);
    let client = with_values(&["python3", "-c", TIMES_OUT, "ADDRESS", "PORT"], &bed, "7471");
    let done = end(start(&bed, far, &client, Some("eager")));
    assert!(done.status.success() && text(&done).contains("connections adopted"), "{}", text(&done));
    end(server);
}

/// Has a socket in use, and then nowhere to write to.
const WRITES_NOWHERE: &str = "
import os, resource, signal, socket, sys
for number in (signal.SIGXFSZ, signal.SIGPIPE): signal.signal(number, signal.SIG_DFL)
socket.create_connection((sys.argv[1], int(sys.argv[2]))).sendall(b'more')
if sys.argv[3] == 'limit':
    os.dup2(os.open(sys.argv[4], os.O_CREAT | os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
else:
    read, write = os.pipe()
    os.dup2(write, 2)
    os.close(read)
";

/// What a program says of itself at its end ended it by SIGXFSZ or SIGPIPE.
#[test]
fn program_that_cannot_write_at_its_end_ends_as_it_would() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    for (port, case) in [("7472", "limit"), ("7473", "pipe")] {
        let server = with_values(&["python3", "-c", SENDS, "ADDRESS", "PORT"], &bed, port);
        let mut server = start(&bed, near, &server, None);
        await_listener(near, port, &mut server);
        let client =
            with_values(&["python3", "-c", WRITES_NOWHERE, "ADDRESS", "PORT", case, "DIRECTORY/errors"], &bed, port);
        let done = end(start(&bed, far, &client, Some("eager")));
        assert!(done.status.success(), "{case}: {:?} {}", done.status, text(&done));
        end(server);
    }
}
