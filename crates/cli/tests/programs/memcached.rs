//! memcached: several datagrams make one answer.

use rustix::process::Signal;
use serde_json::Value;

use crate::bed::{Accelerated, Bed, Side, found_or_skip, source_file};

const PORT: u16 = 11311;

/// `nobody` of Debian.
const NOBODY: u64 = 65_534;

/// By the agent's file, which names that user, or by the pass of root who started it, where the file names another.
#[test]
fn memcached_that_binds_as_root_and_serves_as_another_user_is_accelerated_as_that_user() {
    let Some([memcached, python]) = found_or_skip(["memcached", "python3"]) else { return };
    for named in [NOBODY, NOBODY - 1] {
        let bed = Bed::lay(Accelerated::FAR);
        bed.start_agent_for(Side::Far, named);
        let address = bed.address(Side::Far);
        let server = bed.start(Side::Far, &memcached, &format!("-u nobody -t 2 -l {address} -p {PORT} -U {PORT}"));
        bed.wait_for_port(Side::Far, PORT);
        let script = source_file("memcached.py");
        let told = bed.run(Side::Near, &python, &format!("{} {address} {PORT} 200", script.display()));
        assert_eq!(told, "200 right, 0 wrong\n");
        let sockets = bed.sockets_at(Side::Far, PORT);
        let is_used = |socket: &&Value| socket["reason"] != "NotUsed";
        let used: Vec<_> = sockets.iter().filter(is_used).collect();
        assert!(!used.is_empty() && used.iter().all(|socket| socket["accelerated"] == true), "{sockets:#?}");
        assert_eq!(bed.users_with_shares(Side::Far), [NOBODY]);
        server.stop(Signal::INT);
        bed.assert_paths(400);
    }
}

#[test]
fn memcached_gives_back_what_it_was_given() {
    let Some([memcached, python]) = found_or_skip(["memcached", "python3"]) else { return };
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        let bed = Bed::lay(accelerated);
        let address = bed.address(Side::Far);
        let server = bed.start(Side::Far, &memcached, &format!("-u root -t 2 -l {address} -p {PORT} -U {PORT}"));
        bed.wait_for_port(Side::Far, PORT);
        let script = source_file("memcached.py");
        let told = bed.run(Side::Near, &python, &format!("{} {address} {PORT} 200", script.display()));
        assert_eq!(told, "200 right, 0 wrong\n");
        server.stop(Signal::INT);
        bed.assert_paths(400);
    }
}
