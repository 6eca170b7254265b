//! memcached: several datagrams make one answer.

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Side, found_or_skip, source_file};

const PORT: u16 = 11311;

#[test]
fn memcached_gives_back_what_it_was_given() {
    let Some([memcached, python]) = found_or_skip(["memcached", "python3"]) else { return };
    for accelerated in Accelerated::EACH {
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
