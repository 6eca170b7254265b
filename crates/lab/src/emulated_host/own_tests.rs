//! Tests that run themselves again inside emulated hosts, on the distribution's stock kernels.
//!
//! The test program copies itself, with the libraries, programs and files it names, and runs tests of its own there by name.
//! Files have the paths that they have on this machine, so that what was compiled in holds. There is no compiler inside: a
//! test compiles first and names what came of it.
//!
//! | variable | meaning |
//! |---|---|
//! | `NEARWIRE_KERNELS=6.1,6.12` | only these kernels; empty: none |
//! | `NEARWIRE_KERNEL_TESTS=all` | all tests of the program instead of the chosen ones |
//! | `NEARWIRE_KERNEL_TESTS=TEXT` | those whose names contain the text |
//!
//! Other variables that begin with `NEARWIRE_` hold inside too.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::system::prepare;
use super::{EmulatedHost, EmulatedHostError, HostHardware, HostSystem, quoted};

/// Set inside.
const INSIDE: &str = "NEARWIRE_ON_STOCK_KERNEL";
const KERNELS: &str = "NEARWIRE_KERNELS";
const TESTS: &str = "NEARWIRE_KERNEL_TESTS";
const EVERYTHING: &str = "all";
/// In the names of tests that start an emulated host: they do not run inside.
const STARTING: &str = "on_stock_kernel";
/// Where files of this machine lie inside; links lead there from the paths that they have here.
const KEPT: &str = "/own";
/// What the chosen tests may take together.
const LIMIT: Duration = Duration::from_secs(180);
/// What everything may take.
const LIMIT_OF_ALL: Duration = Duration::from_secs(1500);
/// For the answer to come once the tests were ended.
const ANSWER: Duration = Duration::from_secs(20);

/// A kernel that the distribution has and `make test` fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StockKernel {
    /// Debian 12's own.
    Linux6_1,
    /// Its backported one, which is Debian 13's.
    Linux6_12,
}

impl StockKernel {
    /// All of them, the oldest first.
    pub const ALL: [StockKernel; 2] = [StockKernel::Linux6_1, StockKernel::Linux6_12];

    /// The version, by which `fetch-kernel` knows it and its directory is named.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Linux6_1 => "6.1",
            Self::Linux6_12 => "6.12",
        }
    }

    fn is_wanted(self) -> bool {
        std::env::var(KERNELS).map_or(true, |wanted| wanted.split(',').any(|version| version.trim() == self.version()))
    }
}

impl fmt::Display for StockKernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Linux {}", self.version())
    }
}

/// Tests of the calling program, and what they need.
#[derive(Debug, Clone, Default)]
pub struct OwnTests {
    tests: Vec<String>,
    /// Texts in names of those that are left out.
    left_out: Vec<String>,
    programs: Vec<String>,
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    hardware: HostHardware,
}

impl OwnTests {
    /// Tests whose names contain one of these texts. The test that calls has `on_stock_kernel` in its name.
    #[must_use]
    pub fn new(tests: &[&str]) -> Self {
        Self { tests: tests.iter().map(|&name| name.to_owned()).collect(), ..Self::default() }
    }

    /// Leaves out those whose names contain one of these texts, unless all are wanted: what takes long in emulation and says
    /// nothing about the kernel.
    #[must_use]
    pub fn without(mut self, texts: &[&str]) -> Self {
        self.left_out.extend(texts.iter().map(|&text| text.to_owned()));
        self
    }

    /// Programs of this machine that they call, by name.
    #[must_use]
    pub fn with_programs(mut self, names: &[&str]) -> Self {
        self.programs.extend(names.iter().map(|&name| name.to_owned()));
        self
    }

    /// A file that they use, or a directory with all in it, under the path that it has here. Of programs and libraries those
    /// that they are loaded with come along.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// An empty directory that they write into, under the path that it has here.
    #[must_use]
    pub fn with_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directories.push(path.into());
        self
    }

    /// The same on other hardware than the default.
    #[must_use]
    pub fn on(self, hardware: HostHardware) -> Self {
        Self { hardware, ..self }
    }

    /// Runs the tests on a kernel. Skips where this machine cannot emulate hosts, unless `NEARWIRE_REQUIRE` says that nothing
    /// may be skipped; and on kernels that `NEARWIRE_KERNELS` leaves out.
    ///
    /// # Panics
    /// A test failed, with all that was printed; or the emulated host did.
    pub fn run_or_skip(&self, kernel: StockKernel) {
        assert!(std::env::var_os(INSIDE).is_none(), "a test that starts a host has '{STARTING}' in its name");
        if !kernel.is_wanted() {
            println!("SKIP {kernel}: {KERNELS} leaves it out");
            return;
        }
        match self.run(kernel) {
            Ok(told) => println!("{told}"),
            Err(Failure::Host(error)) if error.is_missing_requirement() => {
                assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {error}");
                println!("SKIP {error}");
            }
            Err(failure) => panic!("{kernel}: {failure}"),
        }
    }

    fn run(&self, kernel: StockKernel) -> Result<String, Failure> {
        let own = std::env::current_exe().map_err(|source| prepare("find this program", source))?;
        let mut host = EmulatedHost::boot(&self.hardware, &self.system(kernel, &own)?, "")?;
        let booted = host.boot_time();
        let chosen = std::env::var(TESTS).unwrap_or_default();
        let limit = if chosen == EVERYTHING { LIMIT_OF_ALL } else { LIMIT };
        let output = host.run_within(&self.script(&own, &chosen, limit), &[], limit + ANSWER)?;
        let told = output.text();
        let some_ran = told.lines().any(|line| line.starts_with("test ") && !line.ends_with("ignored"));
        if output.status == 0 && some_ran {
            return Ok(format!("{kernel}, booted in {:.1} s\n{told}", booted.as_secs_f64()));
        }
        let console = host.console();
        Err(Failure::Tests { status: output.status, told, errors: output.errors(), console })
    }

    fn system(&self, kernel: StockKernel, own: &Path) -> Result<HostSystem, EmulatedHostError> {
        let target = target_directory(own);
        let programs = self.programs.iter().map(|name| super::system::program_anywhere(name));
        let mut files = vec![own.to_owned()];
        files.extend(self.files.iter().cloned());
        Ok(HostSystem {
            kernel_directory: target.join("emulated-host").join(kernel.version()),
            programs: programs.collect::<Result<_, _>>()?,
            files: files.into_iter().map(|path| (path.clone(), kept(&path))).collect(),
        })
    }

    /// Links, directories, variables, and the tests one after another: they share one processor's time.
    fn script(&self, own: &Path, chosen: &str, limit: Duration) -> String {
        let mut script = String::new();
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        for directory in self.directories.iter().chain([&here]) {
            script += &format!("mkdir -p {}\n", quoted(&directory.to_string_lossy()));
        }
        for path in self.files.iter().map(PathBuf::as_path).chain([own]) {
            let (from, to) = (kept(path), path.to_string_lossy());
            let parent = path.parent().map(Path::to_string_lossy).unwrap_or_default();
            script += &format!("mkdir -p {} && ln -sfn {} {}\n", quoted(&parent), quoted(&from), quoted(&to));
        }
        for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("NEARWIRE_")) {
            script += &format!("export {name}={}\n", quoted(&value));
        }
        let names: String = match chosen {
            EVERYTHING => String::new(),
            "" => {
                let named = self.tests.iter().map(|name| format!(" {}", quoted(name)));
                named.chain(self.left_out.iter().map(|text| format!(" --skip {}", quoted(text)))).collect()
            }
            text => format!(" {}", quoted(text)),
        };
        let (seconds, exe) = (limit.as_secs(), quoted(&kept(own)));
        script += &format!(
            "export {INSIDE}=yes RUST_BACKTRACE=0\ncd {} && exec timeout -s KILL {seconds} {exe} --test-threads=1 \
             --show-output --skip {STARTING}{names} 2>&1",
            quoted(&here.to_string_lossy())
        );
        script
    }
}

/// True inside an emulated host that [`OwnTests`] started.
#[must_use]
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn kept(path: &Path) -> String {
    format!("{KEPT}{}", path.to_string_lossy())
}

/// Of `target/debug/deps/program`, the first directory above that has kernels; without one, the third.
fn target_directory(own: &Path) -> PathBuf {
    let above = own.ancestors().skip(1);
    let has_kernels = |directory: &&Path| directory.join("emulated-host").is_dir();
    above.clone().find(has_kernels).or_else(|| above.clone().nth(2)).unwrap_or(own).to_owned()
}

/// Why tests did not succeed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Host(#[from] EmulatedHostError),
    #[error("tests ended with status {status}:\n{told}\n{errors}\n--- console:\n{console}")]
    Tests { status: i32, told: String, errors: String, console: String },
}

impl From<io::Error> for Failure {
    fn from(source: io::Error) -> Self {
        Self::Host(prepare("run own tests", source))
    }
}
