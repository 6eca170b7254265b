//! A cpuset partition: a control group whose CPUs the scheduler leaves alone.
//!
//! ```text
//! none -> mkdir -> cpuset.cpus -> cpuset.cpus.exclusive -> cpuset.cpus.partition=isolated -> 2-3
//! 2-3  -> cpuset.cpus.partition=member -> rmdir -> none
//! ```
//!
//! The kernel takes the word `isolated` and may say behind it that it could not be done, so the
//! value is what is in effect (`Documentation/admin-guide/cgroup-v2.rst`, `kernel/cgroup/cpuset.c`).
//! No process is moved: those that are to run on these CPUs are put into the group by whoever
//! starts them, or pin themselves there.

use rustix::io::Errno;

use super::{HostError, Target};
use crate::read::one_line;
use crate::{CpuSet, Root};

/// Where control groups of version 2 are mounted.
const TOP: &str = "/sys/fs/cgroup";
/// The group whose CPUs Nearwire isolates.
pub(super) const GROUP: &str = "/sys/fs/cgroup/nearwire.isolated";
/// Which controllers the groups below the top have.
pub(super) const ENABLED_CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.subtree_control";
/// The controller that a partition needs.
pub(super) const CONTROLLER: &str = "cpuset";

const ISOLATED: &str = "isolated";
const MEMBER: &str = "member";
/// What a copy of a host has of a group, as far as it is written here.
const FILES_OF_A_COPY: [(&str, &str); 2] = [("cpuset.cpus", ""), ("cpuset.cpus.partition", MEMBER)];

/// Whether this host can have partitions.
pub(super) fn is_possible(root: &Root) -> bool {
    let controllers = root.text(&format!("{TOP}/cgroup.controllers"));
    controllers.is_ok_and(|names| names.split_whitespace().any(|name| name == CONTROLLER))
}

/// Whether a word is neither `none` nor a list of CPUs: only a write that was broken off, or a
/// kernel that gave the partition up, leaves the group so.
pub(super) fn is_halfway(word: &str) -> bool {
    word != "none" && CpuSet::from_list(word).is_err()
}

/// The CPUs that are isolated, `none` without a group, or the kernel's own words.
pub(super) fn read(root: &Root, target: &Target, group: &str) -> Result<String, HostError> {
    let state = match root.text(&format!("{group}/cpuset.cpus.partition")) {
        Ok(state) => one_line(&state),
        Err(Errno::NOENT | Errno::NODEV) if root.has(group) => return Ok(MEMBER.to_owned()),
        Err(Errno::NOENT) => return Ok("none".to_owned()),
        Err(errno) => return Err(HostError::kernel("read", target, errno)),
    };
    if state != ISOLATED {
        return Ok(state);
    }
    // CPUs that are offline stay isolated, and only the first file has them.
    let names = ["cpuset.cpus.exclusive.effective", "cpuset.cpus.effective", "cpuset.cpus"];
    let list = names.iter().find_map(|name| root.text(&format!("{group}/{name}")).ok()).unwrap_or_default();
    match CpuSet::from_list(&list) {
        Ok(cpus) if cpus.is_empty() => Ok(state),
        Ok(cpus) => Ok(cpus.to_string()),
        Err(error) => Err(HostError::says("read", target, error.to_string())),
    }
}

/// Makes the partition of these CPUs, or gives its CPUs back.
pub(super) fn write(root: &Root, target: &Target, group: &str, word: &str) -> Result<(), HostError> {
    match word {
        "none" => remove(root, target, group),
        list if !is_halfway(list) => make(root, target, group, list),
        word => Err(HostError::says("write", target, format!("{word} is a state, not a value that can be written"))),
    }
}

/// Whether [`write()`] would be let through.
pub(super) fn probe(root: &Root, target: &Target, group: &str) -> Result<(), HostError> {
    let now = read(root, target, group)?;
    if is_halfway(&now) {
        let why = format!(
            "the group is there and says '{now}': end an apply that was broken off with nearwire tune revert, or remove \
             the group with rmdir {group}"
        );
        return Err(HostError::says("write", target, why));
    }
    root.probe(ENABLED_CONTROLLERS).map_err(|errno| HostError::kernel("write", target, errno))
}

fn make(root: &Root, target: &Target, group: &str, list: &str) -> Result<(), HostError> {
    let failed = |step: &str, errno: Errno| says(target, step, errno);
    match root.make_directory(group) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed("mkdir", errno)),
    }
    if !root.is_live() {
        for (name, text) in FILES_OF_A_COPY {
            root.make_file(&format!("{group}/{name}"), text).map_err(|errno| failed(name, errno))?;
        }
    }
    let state = format!("{group}/cpuset.cpus.partition");
    // A partition whose CPUs change is not valid in between: it is made anew.
    if root.text(&state).is_ok_and(|state| state != MEMBER) {
        root.write(&state, MEMBER).map_err(|errno| failed("cpuset.cpus.partition", errno))?;
    }
    root.write(&format!("{group}/cpuset.cpus"), list).map_err(|errno| failed("cpuset.cpus", errno))?;
    match root.write(&format!("{group}/cpuset.cpus.exclusive"), list) {
        // The file exists since Linux 6.7. CPUs that another group has too are refused without a
        // word here, and with one by the last step.
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
        Err(errno) => return Err(failed("cpuset.cpus.exclusive", errno)),
    }
    root.write(&state, ISOLATED).map_err(|errno| failed("cpuset.cpus.partition", errno))?;
    let effect = read(root, target, group)?;
    if is_halfway(&effect) {
        let meaning = meaning(&effect);
        return Err(HostError::says("write", target, format!("the kernel says '{effect}' of CPUs {list}{meaning}")));
    }
    Ok(())
}

/// What the kernel's reasons (`perr_strings` of `kernel/cgroup/cpuset.c`) ask for.
fn meaning(effect: &str) -> &'static str {
    const MEANINGS: [(&str, &str); 3] = [
        (
            "housekeeping",
            "; isolcpus= on the kernel's command line has some of them: only a boot with all of them adds the rest",
        ),
        ("not exclusive", "; another control group names some of these CPUs in its cpuset.cpus"),
        ("distribute", "; some CPU must be left to everything else"),
    ];
    MEANINGS.iter().find(|(word, _)| effect.contains(word)).map_or("", |(_, meaning)| meaning)
}

fn remove(root: &Root, target: &Target, group: &str) -> Result<(), HostError> {
    let state = format!("{group}/cpuset.cpus.partition");
    // Without the controller the group has no such file.
    if root.has(&state) {
        root.write(&state, MEMBER).map_err(|errno| says(target, "cpuset.cpus.partition", errno))?;
    }
    if !root.is_live() {
        for (name, _) in FILES_OF_A_COPY {
            match root.remove_file(&format!("{group}/{name}")) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(says(target, name, errno)),
            }
        }
    }
    match root.remove_directory(group) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => {
            let why = format!(
                "the CPUs are given back, and the group stays because processes or groups are in it: end or move those of \
                 {group}/cgroup.procs, then revert again"
            );
            Err(HostError::says("write", target, why))
        }
        Err(errno) => Err(says(target, "rmdir", errno)),
    }
}

/// An error of one of the steps, which the target alone would not tell.
fn says(target: &Target, step: &str, errno: Errno) -> HostError {
    let general = HostError::kernel("write", target, errno);
    let meaning = match (step, errno) {
        ("cpuset.cpus", Errno::INVAL | Errno::RANGE) => "; not all of these CPUs are there",
        _ => general.advice,
    };
    HostError::says("write", target, format!("{step}: {}{meaning}", general.cause))
}

/// The groups beside the partition that use the controller: without it they would lose their CPUs.
pub(super) fn users_of_controller(root: &Root) -> Vec<String> {
    let uses = |name: &String| {
        let is_ours = format!("{TOP}/{name}") == GROUP;
        !is_ours && root.text(&format!("{TOP}/{name}/cpuset.cpus")).is_ok_and(|cpus| !cpus.is_empty())
    };
    root.list(TOP).unwrap_or_default().into_iter().filter(uses).collect()
}
