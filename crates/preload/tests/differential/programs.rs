//! The C programs, compiled once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use nearwire_lab::Namespace;
use nearwire_lab::emulated_host::{OwnTests, is_inside};

/// Where the sources are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
/// Options of every file.
const OPTIONS: [&str; 7] = ["-c", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"];
/// Options of one file besides.
const OWN_OPTIONS: [(&str, &[&str]); 2] = [
    // Calls go to __recv_chk and its relatives.
    ("fortified.c", &["-O2", "-D_FORTIFY_SOURCE=2"]),
    // Calls go to fcntl64, sendfile64 and their relatives.
    ("large_files.c", &["-D_FILE_OFFSET_BITS=64", "-D_LARGEFILE64_SOURCE"]),
];
/// What is no script.
const PEER: &str = "peer.c";

/// The programs, ready to run.
pub struct Programs {
    /// All scripts.
    pub scripts: PathBuf,
    /// The far end.
    pub peer: PathBuf,
    /// The library under test.
    pub library: PathBuf,
}

impl Programs {
    /// Compiles what is not yet. `None` where this user may not make namespaces or there is no compiler, unless nothing may
    /// be skipped.
    pub fn compiled_or_skip() -> Option<Self> {
        static COMPILING: OnceLock<Result<(), String>> = OnceLock::new();
        let outcome = COMPILING.get_or_init(|| {
            Namespace::new().and_then(|namespace| namespace.enter(|| ())).map_err(|error| error.to_string())?;
            // There is no compiler inside; what was compiled outside is there.
            if is_inside() {
                return Ok(());
            }
            let compiler = Command::new("cc").arg("--version").output();
            compiler.map_err(|error| format!("no C compiler: cc: {error}"))?;
            compile_all();
            Ok(())
        });
        if let Err(missing) = outcome {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {missing}");
            println!("SKIP {missing}");
            return None;
        }
        let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
        assert!(library.exists(), "cargo builds the library before its tests, but there is no {}", library.display());
        Some(Self { scripts: built("scripts"), peer: built("peer"), library })
    }

    /// Tests of this program, with all that scripts need on another kernel.
    pub fn own_tests(&self, tests: &[&str]) -> OwnTests {
        // What exec'ed scripts find in PATH.
        let own = OwnTests::new(tests).with_programs(&["ip", "sh", "env"]);
        [&self.scripts, &self.peer, &self.library].into_iter().fold(own, |own, file| own.with_file(file))
    }

    /// The names of all scripts.
    pub fn list(&self) -> Vec<String> {
        let output = Command::new(&self.scripts).arg("--list").output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("socket-scripts")
}

fn built(name: &str) -> PathBuf {
    directory().join(name)
}

fn compile_all() {
    fs::create_dir_all(directory()).unwrap();
    let files = fs::read_dir(SOURCES).unwrap().map(|file| file.unwrap().path());
    let (sources, headers): (Vec<_>, Vec<_>) = files.partition(|path| path.extension().is_some_and(|is| is == "c"));
    let newest_header = headers.iter().map(|path| changed(path)).max().unwrap();
    let queue = Mutex::new(sources.clone());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(source) = { queue.lock().unwrap().pop() } {
                    compile(&source, newest_header);
                }
            });
        }
    });
    let is_peer = |path: &&PathBuf| path.ends_with(PEER);
    link("peer", sources.iter().filter(is_peer));
    link("scripts", sources.iter().filter(|path| !is_peer(path)));
}

fn changed(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn object(source: &Path) -> PathBuf {
    directory().join(source.with_extension("o").file_name().unwrap())
}

fn compile(source: &Path, newest_header: SystemTime) {
    let object = object(source);
    if changed(&object) > changed(source).max(newest_header) {
        return;
    }
    let own = OWN_OPTIONS.iter().find(|(name, _)| source.ends_with(name)).map_or(&[][..], |(_, options)| options);
    whole(&object, |unfinished| run(Command::new("cc").args(OPTIONS).args(own).arg(source).arg("-o").arg(unfinished)));
}

/// A file that another test or an interrupted one must not find half written.
fn whole(path: &Path, write: impl FnOnce(&Path)) {
    let unfinished = path.with_extension(format!("unfinished-{}", std::process::id()));
    write(&unfinished);
    fs::rename(unfinished, path).unwrap();
}

fn link<'a>(name: &str, sources: impl Iterator<Item = &'a PathBuf>) {
    let objects = sources.map(|path| object(path));
    whole(&built(name), |unfinished| run(Command::new("cc").args(objects).args(["-pthread", "-o"]).arg(unfinished)));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}
