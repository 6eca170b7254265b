//! Whether the tools that will read files take them, asked without changing the host.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::io::Errno;

/// What a tool says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes the file.
    Accepted {
        /// The file, as it will be called on a host.
        path: String,
        /// The tool.
        tool: &'static str,
    },
    /// It does not.
    Refused {
        /// The file.
        path: String,
        /// The tool.
        tool: &'static str,
        /// Its words.
        said: String,
    },
    /// It was asked and could not answer.
    NotRun {
        /// The file.
        path: String,
        /// The tool.
        tool: &'static str,
        /// Its words.
        said: String,
    },
    /// Nothing was asked.
    NotChecked {
        /// The file.
        path: String,
        /// Why not: the tool is not installed, or there is none.
        why: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { path, tool } => write!(f, "{path}: {tool} takes it"),
            Self::Refused { path, tool, said } => write!(f, "{path}: {tool} REFUSES it: {said}"),
            Self::NotRun { path, tool, said } => write!(f, "{path}: not checked, {tool} could not run: {said}"),
            Self::NotChecked { path, why } => write!(f, "{path}: not checked, {why}"),
        }
    }
}

/// Asks of each file below a directory that stands for `/`, as
/// [`Export::write_below`](super::Export::write_below) fills it. Nothing is written outside of
/// temporary directories; rules and `.link` files are looked at in a mount namespace, which needs
/// root.
///
/// # Errors
/// Those of reading the directory and of making temporary ones.
pub fn validate(directory: &Path) -> io::Result<Vec<Verdict>> {
    let mut paths = Vec::new();
    walk(directory, &mut paths)?;
    paths.sort();
    paths.iter().map(|path| verdict(directory, path)).collect()
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Which tool reads files of a directory.
type Check = fn(&Path, &Path) -> io::Result<Answer>;
const CHECKS: &[(&str, &str, &str, Check)] = &[
    ("/etc/default/grub.d/", ".cfg", "sh", grub),
    ("/etc/sysctl.d/", ".conf", "sysctl", sysctl),
    ("/etc/tmpfiles.d/", ".conf", "systemd-tmpfiles", tmpfiles),
    ("/etc/nearwire/", ".conf", "systemd-tmpfiles", tmpfiles),
    ("/etc/systemd/system/", ".service", "systemd-analyze", unit),
    ("/etc/systemd/system/", ".slice", "systemd-analyze", unit),
    ("/etc/systemd/system/", ".conf", "systemd-analyze", drop_in),
    ("/etc/systemd/system-preset/", ".preset", "systemctl", preset),
    ("/etc/systemd/network/", ".link", "udevadm", link),
    ("/etc/udev/rules.d/", ".rules", "udevadm", rules),
    ("/etc/modprobe.d/", ".conf", "modprobe", modprobe),
    ("/usr/local/lib/nearwire/", "", "sh", script),
    ("/etc/tuned/", ".conf", "tuned", tuned),
    ("/etc/ansible/", ".yml", "ansible-playbook", ansible),
];

/// What a check found: the words against the file, those of a tool that failed by itself, or why none was asked.
enum Answer {
    Words(String),
    NotRun(String),
    NotAsked(String),
}

fn verdict(directory: &Path, file: &Path) -> io::Result<Verdict> {
    let relative = file.strip_prefix(directory).unwrap_or(file);
    let path = format!("/{}", relative.display());
    let check = CHECKS.iter().find(|(start, end, ..)| path.starts_with(start) && path.ends_with(end));
    let Some((_, _, tool, check)) = check else {
        return Ok(Verdict::NotChecked { path, why: "no tool reads such a file without acting on it".to_owned() });
    };
    Ok(match check(directory, file) {
        Ok(Answer::Words(said)) if said.trim().is_empty() => Verdict::Accepted { path, tool },
        Ok(Answer::Words(said)) => Verdict::Refused { path, tool, said: said.trim().to_owned() },
        Ok(Answer::NotRun(said)) => Verdict::NotRun { path, tool, said: said.trim().to_owned() },
        Ok(Answer::NotAsked(why)) => Verdict::NotChecked { path, why },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Verdict::NotChecked { path, why: format!("{tool} is not installed") }
        }
        // Not executable, or for another machine.
        Err(error)
            if error
                .raw_os_error()
                .is_some_and(|code| matches!(Errno::from_raw_os_error(code), Errno::ACCESS | Errno::NOEXEC)) =>
        {
            Verdict::NotRun { path, tool, said: error.to_string() }
        }
        Err(error) => return Err(error),
    })
}

/// What was said against a file: lines of the error output that name it. A tool that failed and does not name the file
/// failed for a reason of its own.
fn against(file: &Path, output: &Output) -> Answer {
    let said = String::from_utf8_lossy(&output.stderr);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let lines: Vec<_> = said
        .lines()
        .filter(|line| line.contains(&*name) && !line.starts_with("Parsed") && !line.starts_with("Reading"))
        .collect();
    match (lines.is_empty(), output.status.success()) {
        (false, _) => Answer::Words(lines.join("\n")),
        (true, true) => Answer::Words(String::new()),
        (true, false) => Answer::NotRun(format!("{}: {said}", output.status)),
    }
}

/// Read twice, as `grub-mkconfig` sources it, with no program in reach: it must not need one and
/// the second time must change nothing.
fn grub(_: &Path, file: &Path) -> io::Result<Answer> {
    const SOURCE: &str = r#"
        GRUB_CMDLINE_LINUX="quiet a.b=*"; GRUB_CMDLINE_LINUX_DEFAULT=splash
        . "$1"; once="$GRUB_CMDLINE_LINUX|$GRUB_CMDLINE_LINUX_DEFAULT"
        . "$1"; twice="$GRUB_CMDLINE_LINUX|$GRUB_CMDLINE_LINUX_DEFAULT"
        [ "$once" = "$twice" ] || echo "read twice it says $twice and not $once" >&2
    "#;
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().env("PATH", "/nonexistent").args(["-eu", "-c", SOURCE, "sh"]).arg(file);
    all(&shell.output()?)
}

/// Everything that was said counts, of a tool that ran to its end.
fn all(output: &Output) -> io::Result<Answer> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code().is_none() {
        return Ok(Answer::NotRun(format!("{}: {said}", output.status)));
    }
    let failed = if output.status.success() { String::new() } else { format!("{}\n", output.status) };
    Ok(Answer::Words(format!("{failed}{said}")))
}

/// Read without a write. A parameter that this kernel does not have, or that only reads, is no fault
/// of the file.
fn sysctl(_: &Path, file: &Path) -> io::Result<Answer> {
    const OF_THE_HOST: [&str; 3] = ["cannot stat", "permission denied", "setting key"];
    let output = Command::new("sysctl").args(["--dry-run", "-p"]).arg(file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("dry-run") {
        return Ok(Answer::NotAsked("this sysctl cannot try a file without writing; procps 4 can".to_owned()));
    }
    let is_fault = |line: &&str| !OF_THE_HOST.iter().any(|known| line.contains(known));
    Ok(Answer::Words(said.lines().filter(is_fault).collect::<Vec<_>>().join("\n")))
}

/// Run on an empty directory, where there is no file to write.
fn tmpfiles(_: &Path, file: &Path) -> io::Result<Answer> {
    let empty = Scratch::new()?;
    let root = format!("--root={}", empty.0.display());
    Ok(against(file, &Command::new("systemd-tmpfiles").args(["--create", &root]).arg(file).output()?))
}

/// All units at once, as they name each other. Programs of the export are not installed yet.
fn unit(directory: &Path, file: &Path) -> io::Result<Answer> {
    let mut paths = Vec::new();
    walk(&directory.join("etc/systemd/system"), &mut paths)?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "service" || end == "slice"));
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&paths).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_fault = |line: &&str| line.contains(&*name) && !line.contains("/usr/local/lib/nearwire/");
    Ok(Answer::Words(said.lines().filter(is_fault).collect::<Vec<_>>().join("\n")))
}

/// A drop-in is read with a unit, so one is made for it.
fn drop_in(_: &Path, file: &Path) -> io::Result<Answer> {
    let directory = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let Some(unit) = directory.strip_suffix(".d") else {
        return Ok(Answer::NotAsked("it is not a drop-in of a unit".to_owned()));
    };
    let scratch = Scratch::new()?;
    let unit = scratch.0.join(unit);
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n")?;
    let beside = scratch.0.join(&*directory);
    fs::create_dir(&beside)?;
    fs::copy(file, beside.join(file.file_name().unwrap_or_default()))?;
    Ok(against(file, &Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output()?))
}

/// Applied to a unit that no line names, in a directory of its own.
fn preset(_: &Path, file: &Path) -> io::Result<Answer> {
    let root = Scratch::new()?;
    let (presets, units) = (root.0.join("etc/systemd/system-preset"), root.0.join("usr/lib/systemd/system"));
    fs::create_dir_all(&presets)?;
    fs::create_dir_all(&units)?;
    fs::copy(file, presets.join(file.file_name().unwrap_or_default()))?;
    fs::write(units.join("none.service"), "[Service]\nExecStart=/bin/true\n")?;
    let root = format!("--root={}", root.0.display());
    Ok(against(file, &Command::new("systemctl").args([&root, "preset", "none.service"]).output()?))
}

fn link(_: &Path, file: &Path) -> io::Result<Answer> {
    apart(
        "mount --bind \"$1\" /etc/systemd/network",
        "exec udevadm test-builtin net_setup_link /sys/class/net/lo",
        file,
    )
}

/// `udevadm verify` came with systemd 254; before it a look at a device that no rule names does.
fn rules(_: &Path, file: &Path) -> io::Result<Answer> {
    let verify = Command::new("udevadm").args(["verify", "--help"]).output()?;
    if verify.status.success() {
        return Ok(against(file, &Command::new("udevadm").arg("verify").arg(file).output()?));
    }
    apart(
        "mount --bind \"$1\" /etc/udev/rules.d && mount -t sysfs none /sys",
        "exec udevadm test --action=remove /sys/class/net/lo",
        file,
    )
}

/// What the shell ends with where the file could not be put before the tool; none of udevadm's.
const NOT_SHOWN: i32 = 125;

/// Runs a script in mount and network namespaces of its own, after another one that puts a
/// directory in place, `$1`, which has a copy of the file and nothing else. What udev keeps of this host is hidden, and
/// need not exist: a machine without udevd has no `/run/udev`.
fn apart(place: &str, look: &str, file: &Path) -> io::Result<Answer> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Answer::NotAsked("only root can show it to udevadm without installing it".to_owned()));
    }
    let scratch = Scratch::new()?;
    fs::copy(file, scratch.0.join(file.file_name().unwrap_or_default()))?;
    // Where it is missing the shell would only say so.
    Command::new("udevadm").arg("--version").output()?;
    let script = format!("{{ {place} && mount -t tmpfs none /run && mkdir /run/udev; }} || exit {NOT_SHOWN}\n{look}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", &script, "sh"]).arg(&scratch.0);
    let output = command.output()?;
    if output.status.code() == Some(NOT_SHOWN) {
        let said = String::from_utf8_lossy(&output.stderr);
        return Ok(Answer::NotAsked(format!("it could not be shown to udevadm: {}", said.trim())));
    }
    Ok(against(file, &output))
}

fn modprobe(_: &Path, file: &Path) -> io::Result<Answer> {
    let output = Command::new("modprobe").args(["--showconfig", "--config"]).arg(file).output()?;
    Ok(against(file, &output))
}

fn script(_: &Path, file: &Path) -> io::Result<Answer> {
    all(&Command::new("/bin/sh").arg("-n").arg(file).output()?)
}

/// The loader of tuned itself, without its service.
fn tuned(_: &Path, file: &Path) -> io::Result<Answer> {
    const LOAD: &str = "
import sys
try:
    import tuned.profiles as profiles
    from tuned.profiles.loader import Loader
except ImportError as missing:
    sys.exit('not installed: %s' % missing)
except Exception as broken:
    sys.exit('not run: %s' % broken)
config = Loader(None, None, None, None, None)._load_config_data(sys.argv[1])
profile = profiles.Factory().create('nearwire', config)
assert set(profile.units) == set(config) - {'main'}, 'sections are lost'
";
    let output = Command::new("/usr/bin/python3").args(["-c", LOAD]).arg(file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("not installed") {
        return Ok(Answer::NotAsked("tuned is not installed".to_owned()));
    }
    if let Some(broken) = said.strip_prefix("not run: ") {
        return Ok(Answer::NotRun(broken.to_owned()));
    }
    all(&output)
}

fn ansible(_: &Path, file: &Path) -> io::Result<Answer> {
    let mut command = Command::new("ansible-playbook");
    command.env("LC_ALL", "C.UTF-8").args(["--syntax-check", "--inventory", "localhost,"]).arg(file);
    Ok(against(file, &command.output()?))
}

/// A temporary directory that goes with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nearwire-export-{}-{count}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in the temporary directory is not worth a failure.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    /// A tool that was killed, or that missed a file of its own, was said to refuse the file.
    #[test]
    fn tool_that_failed_by_itself_is_told_from_one_that_refuses_the_file() {
        let said = |code: i32, text: &str| Output {
            status: ExitStatus::from_raw(code),
            stdout: Vec::new(),
            stderr: text.as_bytes().to_vec(),
        };
        let file = Path::new("/tmp/x/90-nearwire.rules");
        let refused = against(file, &said(1 << 8, "/tmp/x/90-nearwire.rules:3 Invalid key"));
        assert!(matches!(&refused, Answer::Words(words) if words.contains("Invalid key")));
        for (code, text) in [(1 << 8, "Failed to connect to bus"), (127 << 8, "not found"), (9, "")] {
            assert!(matches!(against(file, &said(code, text)), Answer::NotRun(_)), "{text}");
        }
        assert!(matches!(all(&said(9, "")).unwrap(), Answer::NotRun(_)));
        assert!(matches!(against(file, &said(0, "")), Answer::Words(words) if words.is_empty()));
    }
}
