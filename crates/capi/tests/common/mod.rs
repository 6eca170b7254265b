//! Compiling C programs against the library, and a namespace to run them in.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nearwire_lab::{Namespace, made_or_skip};
use tempfile::TempDir;

/// How a program is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    Shared,
    Static,
}

pub const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where cargo put the library: beside this test.
pub fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// True when this program is there; elsewhere the test says SKIP, or fails where nothing may be skipped.
pub fn has(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).output().is_ok();
    if !found {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, and there is no {program}");
        println!("SKIP no {program}");
    }
    found
}

#[track_caller]
pub fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    said(&output)
}

#[track_caller]
pub fn said(output: &Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}{errors}", output.status);
    out.into_owned()
}

/// A directory with programs and the library under the names that programs look for.
pub struct Built(TempDir);

impl Built {
    /// None without a C compiler.
    pub fn or_skip() -> Option<Built> {
        if !has("cc", "--version") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        for name in ["libnearwire.so", "libnearwire.so.0"] {
            std::os::unix::fs::symlink(libraries().join("libnearwire.so"), directory.path().join(name)).unwrap();
        }
        Some(Built(directory))
    }

    /// Compiles a C program and gives its path.
    #[track_caller]
    pub fn program(&self, file: &str, linking: Linking) -> PathBuf {
        let stem = Path::new(file).file_stem().unwrap().to_str().unwrap();
        let program = self.0.path().join(format!("{stem}-{linking:?}"));
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu99", "-g", "-O1", "-pthread"]).args(WARNINGS).arg("-I").arg(source("include"));
        cc.arg("-o").arg(&program).arg(source(file));
        match linking {
            Linking::Shared => {
                cc.arg("-L").arg(self.0.path()).arg("-lnearwire").arg(format!("-Wl,-rpath,{}", self.0.path().display()))
            }
            Linking::Static => {
                cc.arg(libraries().join("libnearwire.a")).args(["-lgcc_s", "-lutil", "-lrt", "-lm", "-ldl"])
            }
        };
        succeeds(&mut cc);
        program
    }
}

/// A namespace with veth pairs of two queues, all up: nw0 to nw1, nw2 to nw3 and so on. None where this user may not.
pub fn namespace_or_skip(pairs: u32) -> Option<Namespace> {
    let lay = || -> Result<Namespace, String> {
        let namespace = Namespace::new().map_err(|error| error.to_string())?;
        let ip = |line: String| {
            let ran = namespace.enter(|| Command::new("ip").args(line.split(' ')).output());
            let output = ran.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            if output.status.success() { Ok(()) } else { Err(format!("ip {line}: {output:?}")) }
        };
        ip("link set lo up".to_owned())?;
        for pair in 0..pairs {
            let (near, far) = (2 * pair, 2 * pair + 1);
            let queues = "numtxqueues 2 numrxqueues 2";
            ip(format!("link add nw{near} {queues} type veth peer name nw{far} {queues}"))?;
            for end in [near, far] {
                // The kernel's own IPv6 frames would come between those of a test.
                ip(format!("link set nw{end} addrgenmode none"))?;
                ip(format!("link set nw{end} up"))?;
            }
        }
        Ok(namespace)
    };
    made_or_skip(lay())
}
