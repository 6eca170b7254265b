//! Programs under test.

use std::ffi::OsStr;
use std::process::Command;

/// A command without the `NEARWIRE_*` variables and the `LD_PRELOAD` of this process: what tests are told by variables is for
/// them alone, and the library refuses those that it does not know. Clients' sockets are accelerated at once: programs of tests
/// have seldom moved as many datagrams as that takes otherwise.
pub fn program_under_test(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let is_of_tests = |name: &OsStr| name == "LD_PRELOAD" || name.as_encoded_bytes().starts_with(b"NEARWIRE_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_tests(name)) {
        command.env_remove(name);
    }
    command.env("NEARWIRE_KERNEL_FIRST", "0");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_tests_do_not_reach_programs() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--ignored", "--exact", "program::tests::environment_of_a_program", "--nocapture"]);
        let told = again.env("NEARWIRE_SCRIPT_FILTER", "fork.").env("OTHER", "stays").output().unwrap().stdout;
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("OTHER=stays") && !told.contains("NEARWIRE_SCRIPT_FILTER"), "{told}");
    }

    #[test]
    #[ignore = "the other test starts it"]
    fn environment_of_a_program() {
        println!("{}", String::from_utf8(program_under_test("env").output().unwrap().stdout).unwrap());
    }
}
