//! Which `.link` file counts for an interface, against what udev says of the same files.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::process::Command;

use nearwire_host::Root;
use nearwire_host::export::{Exported, State, verify};

use common::{run, skip};

const INSIDE: &str = "NEARWIRE_TEST_INSIDE";
const PREPARE: &str = "mount -t sysfs none /sys
mount -t tmpfs none /etc/systemd/network
ip link add nw0 type veth peer name nw1
ip link set nw0 address 02:0a:0b:0c:0d:0e";
const DIRECTORY: &str = "/etc/systemd/network";
const OURS: &str = "/etc/systemd/network/90-nearwire-nw0.link";
/// What is in front of our file, one at a time.
const CONDITIONS: [&str; 24] = [
    "",
    "OriginalName=*",
    "OriginalName=nw0",
    "OriginalName=en* nw[0-3]",
    "OriginalName=nw[!0-3]",
    "OriginalName=!nw0",
    "OriginalName=!en* wl*",
    "OriginalName=nw0\nOriginalName=\nOriginalName=en*",
    "MACAddress=02:0a:0b:0c:0d:0e",
    "MACAddress=00:00:00:00:00:01 02-0A-0B-0C-0D-0E",
    "MACAddress=020a.0b0c.0d0e",
    "MACAddress=02:0a:0b:0c:0d:0f",
    "Path=*",
    "Path=*-usb-*",
    "Driver=veth",
    "Driver=ice ve?h",
    "Driver=!veth",
    "Driver=!ice",
    "Type=ether",
    "Type=!ether",
    "Type=loopback",
    "Kind=veth\nType=ether",
    "Kind=bond",
    "KernelCommandLine=!nearwire.test.word\nDriver=veth",
];

/// The file that udev would read for the interface.
fn by_udev() -> String {
    let output =
        Command::new("udevadm").args(["test-builtin", "net_setup_link", "/sys/class/net/nw0"]).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let file = text.lines().find_map(|line| line.strip_prefix("ID_NET_LINK_FILE="));
    file.unwrap_or_else(|| panic!("udev names no file: {text}")).to_owned()
}

/// The earlier file that is said to keep ours from being read.
fn by_us() -> Option<String> {
    let ours = Exported { path: OURS.to_owned(), text: fs::read_to_string(OURS).unwrap() };
    match verify(&Root::live().unwrap(), &[ours]).remove(0).state {
        State::NotInForce { cause, .. } => cause.split_once(" comes before ").map(|(earlier, _)| earlier.to_owned()),
        state => panic!("{state:?}"),
    }
}

#[test]
fn link_file_that_counts_is_that_of_udev() {
    if std::env::var_os(INSIDE).is_none() {
        if Command::new("udevadm").arg("--version").output().is_err() {
            return skip("udevadm(8) is not installed");
        }
        let Some(mut command) = common::test_alone_in_namespaces("link_file_that_counts_is_that_of_udev", PREPARE)
        else {
            return;
        };
        command.env(INSIDE, "1");
        return run(command);
    }
    let ours = "# Made by nearwire from the profile x: y.\n[Match]\nOriginalName=nw0\n[Link]\n\
                # nic.tx-queue-length[nw0] = 77 -- a test\nTransmitQueueLength=77\n";
    fs::write(OURS, ours).unwrap();
    let earlier = format!("{DIRECTORY}/50-earlier.link");
    for condition in CONDITIONS {
        fs::write(&earlier, format!("[Match]\n{condition}\n[Link]\nMTUBytes=1500\n")).unwrap();
        assert_eq!(by_us().unwrap_or_else(|| OURS.to_owned()), by_udev(), "{condition}");
        // udev has done what our file says.
        let reset = Command::new("ip").args(["link", "set", "nw0", "txqueuelen", "1000"]).status().unwrap();
        assert!(reset.success());
    }
    // A drop-in adds to the conditions, and an empty file of an earlier directory hides one.
    fs::write(&earlier, "[Match]\nOriginalName=nw0\n").unwrap();
    fs::create_dir(format!("{earlier}.d")).unwrap();
    fs::write(format!("{earlier}.d/x.conf"), "[Match]\nOriginalName=\nOriginalName=en*\n").unwrap();
    assert_eq!((by_us(), by_udev()), (None, OURS.to_owned()));
}
