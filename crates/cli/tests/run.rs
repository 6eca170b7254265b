//! `nearwire run`: what is started, what is refused and why.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{NEARWIRE, assert_says, code, copy_program, errors, may_run, text};
use nearwire_lab::program_under_test;
use nearwire_socket::program::Program;
use tempfile::TempDir;

/// Longest start of a program that does nothing, in a debug build on a busy machine. The aim is 30 ms.
const START_MAX: Duration = Duration::from_millis(300);
/// `nobody` on Debian.
const NOBODY: u32 = 65534;

/// A shared library that this very process has loaded, so that it can be preloaded anywhere here and changes nothing.
fn harmless_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut files = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    files.find(|file| file.contains("libgcc_s.so")).expect("Rust programs load libgcc_s").into()
}

/// A directory for others to read, with the command and the library of its run.
struct Installed {
    directory: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(&directory.path().join("nearwire"));
        fs::copy(harmless_library(), directory.path().join("libnearwire_preload.so")).unwrap();
        Installed { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `nearwire run` without what the tests' own environment says.
    fn command(&self, args: &[&str]) -> Command {
        // A dry run opens ports on the interfaces that are there: in a namespace without any.
        let is_apart = args.contains(&"--dry-run") && rustix::process::geteuid().is_root();
        let mut command = program_under_test(if is_apart { PathBuf::from("unshare") } else { self.path("nearwire") });
        if is_apart {
            command.args(["--net", "--"]).arg(self.path("nearwire"));
        }
        command.arg("run").args(args).current_dir(self.directory.path());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A file of the directory that may be executed. As with [`copy_program`], another process writes it.
    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let (path, draft) = (self.path(name), self.path(&format!("{name}.draft")));
        fs::write(&draft, bytes).unwrap();
        assert!(Command::new("cp").arg(&draft).arg(&path).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A program of this host with some of its bytes changed.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = fs::read("/bin/true").unwrap();
        change(&mut bytes);
        self.write(name, &bytes)
    }
}

/// The places of program headers of a kind in a 64-bit file: header, offset.
fn segments(bytes: &[u8], kind: u32) -> Vec<(usize, usize)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
    let headers = (0..count).map(|number| word(32) + 56 * number);
    headers.filter(|at| bytes[*at..*at + 4] == kind.to_le_bytes()).map(|at| (at, word(at + 8))).collect()
}

fn make_static(bytes: &mut [u8]) {
    for (at, _) in segments(bytes, 3) {
        bytes[at..at + 4].fill(0);
    }
}

#[test]
fn program_run_sees_the_library_before_others_and_its_configuration() {
    let installed = Installed::new();
    fs::write(installed.path("f.toml"), "mode = \"generic\"\nspin = \"1ms\"\n").unwrap();
    let other = harmless_library();
    let script = "echo $LD_PRELOAD; echo $NEARWIRE_CONFIG; echo spin=$NEARWIRE_SPIN stats=$NEARWIRE_STATS; exit 7";
    let mut command =
        installed.command(&["--config", "f.toml", "--profile", "latency", "--stats", "--", "sh", "-c", script]);
    let output = command.env("LD_PRELOAD", &other).output().unwrap();
    assert_eq!(code(&output), Some(7), "{}", errors(&output));
    let directory = installed.directory.path().canonicalize().unwrap();
    let [library, file] = ["libnearwire_preload.so", "f.toml"].map(|name| directory.join(name));
    let expected = format!("{}:{}\n{}\nspin= stats=true\n", library.display(), other.display(), file.display());
    assert_eq!(text(&output), expected, "the file counts more than the profile, and is named absolutely");
    assert!(errors(&output).contains("calls that wait spin for 1ms, then sleep"), "{}", errors(&output));
}

#[test]
fn quiet_run_of_a_run_says_nothing_and_preloads_once() {
    let installed = Installed::new();
    let nearwire = installed.path("nearwire");
    let inner = [nearwire.to_str().unwrap(), "run", "--quiet", "--", "printenv", "LD_PRELOAD"];
    let output = installed.run(&[&["--quiet", "--"][..], &inner].concat());
    assert_eq!((code(&output), errors(&output).as_str()), (Some(0), ""));
    assert_eq!(text(&output).matches("libnearwire_preload.so").count(), 1, "{}", text(&output));
}

#[test]
fn program_missing_or_not_executable_ends_as_with_env() {
    let installed = Installed::new();
    assert_says(&installed.run(&["--", "nw-none"]), 127, &["run nw-none: not found in PATH="]);
    assert_says(&installed.run(&["--", "./nw-none"]), 127, &["./nw-none: not found"]);
    assert_says(&installed.run(&["--", "/"]), 126, &["it is a directory"]);
    fs::write(installed.path("plain"), "#!/bin/sh\n").unwrap();
    assert_says(&installed.run(&["--", "./plain"]), 126, &["not executable"]);
    let orphan = installed.write("orphan", b"#!/nonexistent/sh\n");
    assert_says(&installed.run(&["--", &orphan]), 127, &["/nonexistent/sh: not found", "the interpreter that"]);
    assert_says(&installed.run(&[]), 2, &["PROGRAM"]);
}

#[test]
fn scripts_run_by_their_interpreters() {
    let installed = Installed::new();
    let script = installed.write("script", b"#!/bin/sh\necho $0 $1 ${LD_PRELOAD:+preloaded}\n");
    let output = installed.run(&["--", &script, "one"]);
    assert_eq!(text(&output), format!("{script} one preloaded\n"), "{}", errors(&output));
    let bare = installed.write("bare", b"echo bare ${LD_PRELOAD:+preloaded}\n");
    assert_eq!(text(&installed.run(&["--", &bare])), "bare preloaded\n");
    let said = text(&installed.run(&["--dry-run", "--", &script]));
    assert!(said.contains("interpreted by /bin/sh"), "{said}");
}

#[test]
fn programs_that_cannot_be_preloaded_are_refused_with_the_reason() {
    let installed = Installed::new();
    let fixed = installed.changed("fixed", |bytes| make_static(bytes));
    let go = installed.changed("go", |bytes| {
        make_static(bytes);
        let (_, note) = segments(bytes, 4)[0];
        bytes[note..note + 16].copy_from_slice(b"\x04\0\0\0\x10\0\0\0\x04\0\0\0Go\0\0");
    });
    let foreign = installed.changed("foreign", |bytes| bytes[18..20].copy_from_slice(&22_u16.to_le_bytes()));
    let short = installed.changed("short", |bytes| bytes[4] = 1);
    let musl = installed.changed("musl", |bytes| {
        let (_, at) = segments(bytes, 3)[0];
        bytes[at..at + 22].copy_from_slice(b"/lib/ld-musl-x86.so.1\0");
    });
    let of_musl = installed.write("of-musl", format!("#!{musl}\n").as_bytes());
    for (program, words) in [
        (&fixed, &["cannot be preloaded", "statically linked"][..]),
        (&go, &["static Go program"]),
        (&foreign, &["64-bit S390", "the library is"]),
        (&short, &["cannot be preloaded"]),
        (&musl, &["another C library"]),
        (&of_musl, &["the interpreter of", "another C library"]),
    ] {
        assert_says(&installed.run(&["--", program]), 3, words);
        let dry = installed.run(&["--dry-run", "--", program]);
        assert_eq!(code(&dry), Some(3));
        assert!(text(&dry).contains("REFUSED: ") && text(&dry).contains("would execute  nothing"), "{}", text(&dry));
    }
}

#[test]
fn dynamic_go_program_runs_with_a_warning() {
    let installed = Installed::new();
    let go = installed.changed("go", |bytes| {
        let (_, note) = segments(bytes, 4)[0];
        bytes[note..note + 16].copy_from_slice(b"\x04\0\0\0\x10\0\0\0\x04\0\0\0Go\0\0");
    });
    let output = installed.run(&["--dry-run", "--", &go]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(text(&output).contains("CAREFUL: ") && text(&output).contains("built by Go"), "{}", text(&output));
}

#[test]
fn strict_refuses_programs_whose_sockets_cannot_be_reached() {
    let installed = Installed::new();
    let go = installed.changed("go", |bytes| {
        let (_, note) = segments(bytes, 4)[0];
        bytes[note..note + 16].copy_from_slice(b"\x04\0\0\0\x10\0\0\0\x04\0\0\0Go\0\0");
    });
    let io_uring = installed.changed("io-uring", |bytes| {
        let text = segments(bytes, 1).into_iter().find(|(header, _)| bytes[header + 4] & 1 == 1).unwrap().1;
        bytes[text..text + 7].copy_from_slice(&[0xb8, 0xa9, 1, 0, 0, 0x0f, 0x05]);
    });
    for (program, why) in [(&go, "is a Go program"), (&io_uring, "uses io_uring")] {
        assert_says(&installed.run(&["--strict", "--", program]), 3, &["strict refuses", why]);
        let dry = installed.run(&["--strict", "--dry-run", "--", program]);
        assert!(text(&dry).contains("REFUSED, as strict is set: ") && text(&dry).contains(why), "{}", text(&dry));
        assert_eq!(code(&dry), Some(3));
        let careful = text(&installed.run(&["--dry-run", "--", program]));
        assert!(careful.contains("CAREFUL: ") && careful.contains(why), "{careful}");
    }
}

#[test]
fn set_user_program_is_refused_for_a_normal_user_and_run_for_root() {
    if !may_run() {
        return;
    }
    let installed = Installed::new();
    let program = installed.changed("set-user", |_| ());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    if Program::look(Path::new(&program)).unwrap().privileges.is_nosuid {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "set TMPDIR to a directory that is not mounted nosuid");
        println!("SKIP the directory for temporary files is mounted nosuid");
        return;
    }
    assert_eq!(code(&installed.run(&["--", &program])), Some(0));
    let said = text(&installed.run(&["--dry-run", "--", &program]));
    assert!(said.contains("set-user-ID of user 0, which gives this caller nothing new"), "{said}");
    let output = installed.command(&["--", &program]).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert_says(&output, 3, &["set-user-ID of user 0", "ignores LD_PRELOAD"]);
}

#[test]
fn normal_user_is_told_what_is_missing_and_refused_where_strict() {
    if !may_run() {
        return;
    }
    let installed = Installed::new();
    let output = installed.command(&["--", "echo", "ran"]).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert_says(&output, 0, &["sockets stay with the kernel, because", "CAP_NET_ADMIN", "AmbientCapabilities"]);
    assert_eq!(text(&output), "ran\n");
    let output = installed.command(&["--strict", "--", "echo", "ran"]).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert_says(&output, 3, &["strict refuses", "CAP_BPF"]);
    assert_eq!(text(&output), "");
}

#[test]
fn interface_that_cannot_be_used_is_a_reason() {
    let installed = Installed::new();
    let run = |interface: &str, args: &[&str]| {
        let mut command = installed.command(args);
        command.env("NEARWIRE_INTERFACES", interface).output().unwrap()
    };
    assert_says(&run("nw-none", &["--", "true"]), 0, &["no interface can be used", "nw-none", "nearwire port"]);
    assert_says(&run("nw-none", &["--strict", "--", "true"]), 3, &["nw-none"]);
    let dry = run("lo", &["--dry-run", "--", "true"]);
    assert!(text(&dry).contains("lo: no: lo is the loopback interface"), "{}", text(&dry));
    assert!(text(&dry).contains("interfaces = [\"lo\"]  (NEARWIRE_INTERFACES)"), "{}", text(&dry));
}

#[test]
fn mistakes_of_the_configuration_are_usage_errors_with_their_place() {
    let installed = Installed::new();
    let mut command = installed.command(&["--", "true"]);
    assert_says(&command.env("NEARWIRE_SPINN", "1").output().unwrap(), 2, &["NEARWIRE_SPINN: no key 'spinn'"]);
    fs::write(installed.path("f.toml"), "spin = \"1ms\"\n[[rule]]\nuses = \"kernel\"\n").unwrap();
    assert_says(&installed.run(&["--config", "f.toml", "--", "true"]), 2, &["f.toml:3: no key 'uses'"]);
    assert_says(&installed.run(&["--config", "none.toml", "--", "true"]), 2, &["read the configuration", "none.toml"]);
    assert_says(&installed.run(&["--profile", "fast", "--", "true"]), 2, &["latency", "shared", "sleep"]);
}

#[test]
fn later_layers_count_more_and_are_named() {
    let installed = Installed::new();
    fs::write(installed.path("f.toml"), "mode = \"native\"\nspin = \"9us\"\n[[rule]]\nuse = \"kernel\"\nport = 7\n")
        .unwrap();
    let mut command = installed.command(&["--dry-run", "--profile", "sleep", "--stats", "--", "true"]);
    let output = command.env("NEARWIRE_CONFIG", "f.toml").env("NEARWIRE_MODE", "generic").output().unwrap();
    let said = text(&output);
    for part in [
        "spin = \"9us\"  (/",
        "mode = \"generic\"  (NEARWIRE_MODE)",
        "strict = false  (default)",
        "stats = true  (--stats)",
        "rule 1: use = \"kernel\", port = \"7\"  (/",
        "rule 3: use = \"nearwire\"  (default)",
        "NEARWIRE_CONFIG=/",
    ] {
        assert!(said.contains(part), "{part} in:\n{said}{}", errors(&output));
    }
    let said = text(&installed.run(&["--dry-run", "--profile", "sleep", "--", "true"]));
    assert!(said.contains("spin = \"0\"  (profile sleep)") && said.contains("NEARWIRE_SPIN=0 "), "{said}");
    assert!(said.contains("calls that wait sleep at once"), "{said}");
}

#[test]
fn library_is_looked_for_near_the_command() {
    let installed = Installed::new();
    fs::create_dir(installed.path("bin")).unwrap();
    fs::create_dir_all(installed.path("lib/nearwire")).unwrap();
    let nearwire = installed.path("bin/nearwire");
    copy_program(&nearwire);
    let run =
        || program_under_test(&nearwire).args(["run", "--quiet", "--", "printenv", "LD_PRELOAD"]).output().unwrap();
    assert_says(
        &run(),
        3,
        &["no library to preload", "bin/../lib/nearwire/libnearwire_preload.so", "cargo build --release"],
    );
    fs::rename(installed.path("libnearwire_preload.so"), installed.path("lib/nearwire/libnearwire_preload.so"))
        .unwrap();
    assert!(text(&run()).ends_with("/lib/nearwire/libnearwire_preload.so\n"), "{}", errors(&run()));

    let named = |library: &str| {
        let args = ["run", "--quiet", "--library", library, "--", "true"];
        program_under_test(NEARWIRE).args(args).current_dir(installed.directory.path()).output().unwrap()
    };
    assert_says(&named("none.so"), 3, &["find the library none.so"]);
    fs::write(installed.path("text.so"), "text").unwrap();
    assert_says(&named("text.so"), 3, &["text.so", "it has no ELF header"]);
    fs::copy(harmless_library(), installed.path("with space.so")).unwrap();
    assert_says(&named("with space.so"), 3, &["a colon, a space"]);
}

#[test]
fn start_takes_little_time() {
    let installed = Installed::new();
    let times = (0..5).map(|_| {
        let begin = Instant::now();
        assert_eq!(code(&installed.run(&["--quiet", "--", "true"])), Some(0));
        begin.elapsed()
    });
    let best = times.min().unwrap();
    println!("nearwire run -- true takes {best:?}");
    assert!(best <= START_MAX, "{best:?}");
}

#[test]
fn manual_names_each_option_and_key_and_passes_the_checker() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/man/nearwire-run.1");
    let text = fs::read_to_string(page).unwrap().replace('\\', "");
    let help =
        String::from_utf8(Command::new(common::NEARWIRE).args(["run", "--help"]).output().unwrap().stdout).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words = help.split(|c| !is_name(c)).filter(|word| word.starts_with("--") || word.starts_with("NEARWIRE_"));
    for word in words.filter(|word| word.len() > 2 && *word != "--help" && *word != "--ip") {
        assert!(text.contains(word), "{word} is not in {page}");
    }
    let lint = Command::new("mandoc").args(["-T", "lint", "-W", "warning", page]).output();
    match lint {
        Ok(lint) => assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout)),
        Err(error) => {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: mandoc: {error}");
            println!("SKIP mandoc: {error}");
        }
    }
}
