//! Tests that run themselves again inside emulated hosts, on the distribution's stock kernels.
//!
//! The test program copies itself, with the libraries, programs and files it names, and runs tests of its own there by name.
//! Files have the paths that they have on this machine, so that what was compiled in holds. There is no compiler inside: a
//! test compiles first and names what came of it.
//!
//! | variable | meaning |
//! |---|---|
//! | `NEARWIRE_KERNELS=6.1,newest` | only these kernels, of 6.1, 6.12 and newest; empty: none |
//! | `NEARWIRE_KERNEL_TESTS=all` | all tests of the program instead of the chosen ones |
//! | `NEARWIRE_KERNEL_TESTS=TEXT` | those whose names contain the text |
//!
//! Other variables that begin with `NEARWIRE_` hold inside too.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::system::prepare;
use super::{EmulatedHost, EmulatedHostError, HostHardware, HostSystem, SOONER, quoted};
use crate::made_or_skip;

/// Set inside, to the kernel's version. The library under test takes unknown variables that begin as its own for mistakes.
const INSIDE: &str = "ON_STOCK_KERNEL";
const KERNELS: &str = "NEARWIRE_KERNELS";
const TESTS: &str = "NEARWIRE_KERNEL_TESTS";
const EVERYTHING: &str = "all";
/// The distribution's: another one in PATH may be a script.
const PYTHON: &str = "/usr/bin/python3";
/// In the names of tests that start an emulated host: they do not run inside.
const STARTING: &str = "on_stock_kernel";
/// Where files of this machine lie inside; links lead there from the paths that they have here.
const KEPT: &str = "/own";
/// What the chosen tests may take together: they took 336 s on a slow machine on which nothing else ran.
const LIMIT: Duration = Duration::from_secs(600);
/// What everything may take.
const LIMIT_OF_ALL: Duration = Duration::from_secs(3000);
/// Of a process: more than any test opens. The kernel's first limit is 1024.
const OPEN_FILES: u32 = 65_536;
/// For the answer to come once the tests were ended.
const ANSWER: Duration = Duration::from_secs(20);

/// A kernel that the distribution has and `make test` fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StockKernel {
    /// Debian 12's own.
    Linux6_1,
    /// Its backported one, which is Debian 13's.
    Linux6_12,
    /// The newest that Debian has backported to a later release.
    Newest,
}

impl StockKernel {
    /// All of them, the oldest first.
    pub const ALL: [StockKernel; 3] = [StockKernel::Linux6_1, StockKernel::Linux6_12, StockKernel::Newest];

    /// The version, by which `fetch-kernel` knows it and its directory is named.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Linux6_1 => "6.1",
            Self::Linux6_12 => "6.12",
            Self::Newest => "newest",
        }
    }

    /// Of these, what is tried on this kernel where each takes seconds: every third, or every second of two, so that on all kernels together all
    /// are tried.
    pub fn share_of<T>(self, all: &[T]) -> impl Iterator<Item = &T> + use<'_, T> {
        let kernels = all.len().clamp(1, Self::ALL.len());
        all.iter().skip(self as usize % kernels).step_by(kernels)
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
    /// Python's, with those that every program begins with.
    modules: Vec<String>,
    directories: Vec<PathBuf>,
    variables: Vec<(String, String)>,
    /// These tests, even where all are wanted.
    is_part: bool,
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

    /// Python, with these modules and what they import.
    #[must_use]
    pub fn with_python(mut self, modules: &[&str]) -> Self {
        self.modules.extend(modules.iter().map(|&name| name.to_owned()));
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

    /// A variable of the environment that holds inside, whatever it is here.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Even where all tests are wanted only those that were named run, with the time that all may take: for a caller that has
    /// all of them run part by part.
    #[must_use]
    pub fn as_part(self) -> Self {
        Self { is_part: true, ..self }
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
            Err(Failure::Host(error)) if error.is_missing_requirement() => drop(made_or_skip::<()>(Err(error))),
            Err(failure) => panic!("{kernel}: {failure}"),
        }
    }

    fn run(&self, kernel: StockKernel) -> Result<String, Failure> {
        let own = std::env::current_exe().map_err(|source| prepare("find this program", source))?;
        let chosen = std::env::var(TESTS).unwrap_or_default();
        // Where all are wanted time does not count.
        let options = if chosen == EVERYTHING { "" } else { SOONER };
        let mut host = EmulatedHost::boot(&self.hardware, &self.system(kernel, &own)?, options)?;
        let booted = host.boot_time();
        let limit = if chosen == EVERYTHING { LIMIT_OF_ALL } else { LIMIT };
        let output = host.run_within(&self.script(kernel, &own, &chosen, limit), &[], limit + ANSWER)?;
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
        let mut programs = programs.collect::<Result<Vec<_>, _>>()?;
        let here = self.files.iter().map(PathBuf::as_path).chain([own]);
        let mut files: Vec<_> = here.map(|path| (path.to_owned(), kept(path))).collect();
        if !self.modules.is_empty() {
            programs.push(PathBuf::from(PYTHON));
            files.extend(modules(&self.modules)?.into_iter().map(|path| (path.clone(), path.display().to_string())));
        }
        Ok(HostSystem { kernel_directory: target.join("emulated-host").join(kernel.version()), programs, files })
    }

    /// Links, directories, variables, and the tests one after another: they share one processor's time.
    fn script(&self, kernel: StockKernel, own: &Path, chosen: &str, limit: Duration) -> String {
        // Of two processes that make the first interface of a kind at once, one would find the module half loaded.
        // The limit of open files is that of a shell of this machine, not the kernel's first one.
        let mut script = format!("modprobe -q -a veth 8021q\nulimit -n {OPEN_FILES}\n");
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
        for (name, value) in &self.variables {
            script += &format!("export {name}={}\n", quoted(value));
        }
        let names: String = match chosen {
            EVERYTHING if !self.is_part => String::new(),
            "" | EVERYTHING => {
                let named = self.tests.iter().map(|name| format!(" {}", quoted(name)));
                named.chain(self.left_out.iter().map(|text| format!(" --skip {}", quoted(text)))).collect()
            }
            text => format!(" {}", quoted(text)),
        };
        // Not captured: of tests that are ended for their time it is seen how far they came.
        let (seconds, exe) = (limit.as_secs(), quoted(&kept(own)));
        script += &format!(
            "export {INSIDE}={} RUST_BACKTRACE=0 PYTHONHOME=/usr\ncd {} && exec timeout -s KILL {seconds} {exe} --test-threads=1 \
             --nocapture --skip {STARTING}{names} 2>&1",
            kernel.version(),
            quoted(&here.to_string_lossy())
        );
        script
    }
}

/// The files of modules of Python and of what they import.
fn modules(names: &[String]) -> Result<Vec<PathBuf>, EmulatedHostError> {
    if !Path::new(PYTHON).exists() {
        return Err(EmulatedHostError::MissingProgram { program: PYTHON.to_owned(), package: "python3" });
    }
    let failed = |source| prepare(format!("ask {PYTHON} for the files of {names:?}"), source);
    let script = format!(
        "import sys, {}\nfor module in sys.modules.values(): print(getattr(module, '__file__', None) or '')",
        names.join(", ")
    );
    let output = Command::new(PYTHON).args(["-I", "-c", &script]).output().map_err(failed)?;
    if !output.status.success() {
        return Err(failed(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let files: BTreeSet<_> = text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect();
    Ok(files.into_iter().collect())
}

/// True inside an emulated host that [`OwnTests`] started.
#[must_use]
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The kernel that runs inside an emulated host that [`OwnTests`] started.
#[must_use]
pub fn kernel_inside() -> Option<StockKernel> {
    let version = std::env::var(INSIDE).ok()?;
    StockKernel::ALL.into_iter().find(|kernel| kernel.version() == version)
}

/// True where all tests are to run on stock kernels, and not the chosen ones alone.
#[must_use]
pub fn is_everything_wanted() -> bool {
    std::env::var(TESTS).is_ok_and(|chosen| chosen == EVERYTHING)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_share_cases_try_some_each_and_all_together() {
        for count in 1..10 {
            let all: Vec<usize> = (0..count).collect();
            let shares = StockKernel::ALL.map(|kernel| kernel.share_of(&all).copied().collect::<Vec<_>>());
            assert!(shares.iter().all(|share| !share.is_empty()), "{shares:?}");
            assert_eq!(BTreeSet::from_iter(shares.concat()).len(), count, "{shares:?}");
        }
    }
}
