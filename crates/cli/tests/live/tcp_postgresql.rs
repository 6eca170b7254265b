//! PostgreSQL, whose master forks a process for each connection that it has accepted, with its own benchmark.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::by_agent::status_while_there;
use crate::common::accelerated::Bed;
use crate::common::children_of;
use crate::tcp_servers::{Client, Served, program};

/// It refuses to serve as root, and that user may not reach where it was unpacked.
const SERVES: &str = "mount --bind \"$0\" /mnt && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
/// It listens before it serves, and tells clients so until it does.
const WHEN_IT_SERVES: [&str; 3] = ["sh", "-c", "for _ in $(seq 50); do \"$0\" \"$@\" && exit; sleep 0.1; done; exit 1"];
const NOBODY: u32 = 65534;
const BIN: &str = "/mnt/lib/postgresql/15/bin";
/// Divides by zero if what the benchmark has booked is not the same in all four tables.
const CHECKS: &str =
    "SELECT 1 / (CASE WHEN (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
    AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
    AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history) THEN 1 ELSE 0 END);
";

#[test]
fn postgresql_with_pgbench() {
    let Some((bed, found)) = Bed::lay().zip(program("pg_resetwal")) else { return };
    let directory = bed.directory.path();
    // DIRECTORY/lib/postgresql/15/bin/pg_resetwal
    let unpacked = found.ancestors().nth(5).unwrap().to_str().unwrap();
    let in_its_place = ["unshare", "--mount", "sh", "-c", SERVES, unpacked];
    make_data(&directory.join("data"), &in_its_place);
    std::fs::write(directory.join("checks"), CHECKS).unwrap();
    let server = format!("{BIN}/postgres");
    let set = ["-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "jit=off"];
    let server = [&in_its_place[..], &[&server, "-D", "DIRECTORY/data", "-h", "ADDRESS", "-p", "PORT"], &set].concat();
    let pgbench = found.with_file_name("pgbench");
    let pgbench = pgbench.to_str().unwrap();
    let words =
        |own: &[&'static str]| [&[pgbench, "-h", "ADDRESS", "-p", "PORT", "-U", "bench"], own, &["postgres"]].concat();
    let (fills, stays) =
        ([&WHEN_IT_SERVES[..], &words(&["-i", "-q"])].concat(), words(&["-n", "-c", "8", "-j", "2", "-t", "100"]));
    let (each, checks) =
        (words(&["-n", "-C", "-c", "4", "-t", "10"]), words(&["-n", "-t", "1", "-f", "DIRECTORY/checks"]));
    let client = |words, says, is_adopted| Client { words, says, is_adopted };
    let served = Served {
        server: &server,
        clients: &[
            client(&fills, "done in", false),
            client(&stays, "actually processed: 800/800", true),
            client(&each, "actually processed: 40/40", false),
            client(&checks, "actually processed: 1/1", false),
        ],
        is_adopted: false,
        ends_by: Signal::INT,
    };
    served.run(&bed, 7470, |_| {});
    served.run_while(
        &bed,
        "7474",
        (Some("auto"), None),
        &[&WHEN_IT_SERVES[..], &words(&["-n", "-c", "2", "-T", "3"])].concat(),
        two_processes_adopt_one_each,
    );
}

fn make_data(data: &Path, in_its_place: &[&str]) {
    std::fs::create_dir(data).unwrap();
    chown(data, Some(NOBODY), Some(NOBODY)).unwrap();
    std::fs::set_permissions(data.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let mut initdb = Command::new(in_its_place[0]);
    initdb.args(&in_its_place[1..]).arg(format!("{BIN}/initdb")).arg("-D").arg(data);
    let made = initdb.args(["--no-locale", "--no-sync", "--username=bench"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::write(data.join("pg_hba.conf"), "host all all all trust\n").unwrap();
}

/// Processes of connections end with them, and what they adopted is not seen afterwards.
fn two_processes_adopt_one_each(server: u32) {
    let adopting = || {
        let adopted_by =
            |child: u32| Some(status_while_there(&child.to_string()).ok()?["counters"]["connections_adopted"].clone());
        children_of(server)
            .unwrap()
            .into_iter()
            .filter(|child| adopted_by(*child).is_some_and(|count| count == 1))
            .count()
    };
    let begun = Instant::now();
    while adopting() != 2 {
        assert!(begun.elapsed() < Duration::from_secs(10), "the processes of two connections adopt none");
    }
}
