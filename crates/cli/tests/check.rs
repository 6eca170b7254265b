//! `nearwire check` as people and scripts use it. Needs no privileges and changes nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROFILE: &str = r#"
purpose = "A test"

[[wish]]
setting = "vm.swappiness"
at-most = 10
reason = "Swapping takes milliseconds."
source = "a test"
weight = "high"

[[wish]]
setting = "boot.isolcpus"
equal = "2-3"
reason = "They are the program's."
source = "a test"

[[wish]]
setting = "nic.mtu"
at-most = 1500
reason = "Long frames keep short ones waiting."
source = "a test"
"#;

fn check(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearwire")).arg("check").args(args).output().expect("the program starts")
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a file in a directory")).expect("make a directory");
    fs::write(path, text).expect("write a file");
}

/// A host with one interface, and the profile beside it.
fn host(swappiness: &str, command_line: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("make a directory");
    let root = directory.path();
    write(root, "proc/sys/vm/swappiness", swappiness);
    write(root, "proc/cmdline", command_line);
    write(root, "sys/class/net/eth4/ifindex", "2\n");
    write(root, "sys/class/net/eth4/mtu", "1500\n");
    write(root, "sys/class/net/eth4/device/vendor", "0x8086\n");
    write(root, "sys/class/net/br0/ifindex", "3\n");
    write(root, "sys/devices/system/cpu/online", "0-3\n");
    write(root, "profile.toml", PROFILE);
    directory
}

fn check_host(host: &tempfile::TempDir, args: &[&str]) -> Output {
    let root = host.path().to_str().expect("a path in UTF-8");
    let profile = host.path().join("profile.toml");
    check(&[&["--sysroot", root, "--profile", profile.to_str().expect("a path in UTF-8")], args].concat())
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[test]
fn host_that_is_right_exits_with_0() {
    let host = host("1\n", "isolcpus=2,3\n");
    let output = check_host(&host, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("3 wishes: 0 differ, 3 ok."), "{}", stdout(&output));
}

#[test]
fn differences_are_told_worst_first_with_reason_and_fix_and_exit_with_1() {
    let host = host("60\n", "quiet\n");
    let output = check_host(&host, &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at("vm.swappiness") < at("boot.isolcpus"));
    for part in ["found    60", "wanted   at most 10", "Swapping takes milliseconds.", "a test"] {
        at(part);
    }
    at("vm.swappiness = 10 in a file of /etc/sysctl.d");
    at("isolcpus=2-3 on the kernel's command line");
    assert!(!text.contains("nic.mtu"), "{text}");
    assert!(stdout(&check_host(&host, &["--all"])).contains("nic.mtu[eth4]"));
}

#[test]
fn worst_difference_gives_the_exit_code_that_was_asked_for() {
    // vm.swappiness weighs high and boot.isolcpus medium.
    let (both, medium, none) = (host("60\n", "quiet\n"), host("1\n", "quiet\n"), host("1\n", "isolcpus=2,3\n"));
    for (codes, of_both, of_medium) in [
        ("medium=10,low=0", 1, 10),
        ("medium=0", 1, 0),
        ("high=20", 20, 1),
        ("low=30", 1, 1),
        ("high=9,medium=9,medium=0", 9, 0),
    ] {
        let code = |host| check_host(host, &["--exit-code", codes]).status.code();
        assert_eq!((code(&both), code(&medium), code(&none)), (Some(of_both), Some(of_medium), Some(0)), "{codes}");
        let said = stdout(&check_host(&medium, &["--exit-code", codes]));
        assert!(said.contains("boot.isolcpus"), "{codes}: {said}");
    }
    let fleet = |codes: &str| {
        let [both, medium] = [&both, &medium].map(|host| host.path().to_str().unwrap());
        check(&["--profile", &format!("{both}/profile.toml"), "--exit-code", codes, both, medium]).status.code()
    };
    assert_eq!((fleet("high=20"), fleet("high=0")), (Some(20), Some(0)));
    for wrong in ["medium", "medium=", "medium=3", "medium=130", "middle=10", "=1"] {
        let output = check_host(&both, &["--exit-code", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains("--exit-code"), "{}", stderr(&output));
    }
}

#[test]
fn json_has_every_finding_and_the_counts() {
    let host = host("60\n", "isolcpus=2-3\n");
    let output = check_host(&host, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let page: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(page["counts"]["differs"], 1);
    assert_eq!(page["counts"]["ok"], 2);
    assert_eq!(page["interfaces"], serde_json::json!(["eth4"]));
    let first = &page["findings"][0];
    assert_eq!(first["id"], "vm.swappiness");
    assert_eq!(first["outcome"], "differs");
    assert_eq!(first["found"], "60");
    assert_eq!(first["value"], "10");
}

#[test]
fn interface_without_device_counts_only_when_it_is_named() {
    let host = host("1\n", "isolcpus=2-3\n");
    let named = check_host(&host, &["--nic", "br0", "--all"]);
    assert!(stdout(&named).contains("nic.mtu[br0]"), "{}", stdout(&named));
    let unknown = check_host(&host, &["--nic", "eth9"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no interface 'eth9'") && stderr(&unknown).contains("br0, eth4"));
}

/// What `sos report` gathers of an interface is what ethtool printed.
#[test]
fn report_of_sos_is_judged_by_what_ethtool_printed() {
    let outputs = include_str!("../../host/src/read/nic/outputs/fixtures/mlx5.txt");
    let directory = tempfile::tempdir().expect("make a directory");
    let root = directory.path();
    write(root, "sos_reports/sos.txt", "x");
    write(root, "proc/cmdline", "ro\n");
    write(root, "proc/net/dev", "Inter-| Receive\n face |bytes\n  eth0: 1 2\n");
    write(root, "sos_commands/kernel/sysctl_-a", "net.core.busy_poll = 0\nvm.swappiness = 60\n");
    for part in outputs.split("# ").filter(|part| !part.is_empty()) {
        let (command, output) = part.split_once('\n').expect("a command and its output");
        write(root, &format!("sos_commands/networking/{}", command.replace(' ', "_")), output);
    }
    let output = check(&["--sysroot", root.to_str().expect("a path in UTF-8"), "--profile", "latency"]);
    let page = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{page}{}", stderr(&output));
    let finding = |id: &str| page.split("DIFFERS").find(|part| part.contains(id)).unwrap_or_default().to_owned();
    for (id, found) in [
        ("nic.coalesce.adaptive-rx", "found    on"),
        ("nic.coalesce.rx-usecs", "found    8"),
        ("nic.private-flags.rx-cqe-compress", "found    on"),
        ("vm.swappiness", "found    60"),
    ] {
        assert!(finding(id).contains(found), "{id}: {}\n{page}", finding(id));
    }
    assert!(page.contains("Interfaces: eth0"), "{page}");
}

#[test]
fn mistake_in_a_profile_is_told_with_its_line() {
    let host = host("1\n", "quiet\n");
    write(host.path(), "profile.toml", "purpose = \"x\"\n\n[[wish]]\nsetting = \"vm.swapiness\"\nat-most = 10\n");
    let output = check_host(&host, &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("profile.toml:4") && text.contains("vm.swappiness"), "{text}");

    let output = check(&["--profile", "fast"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no profile 'fast'") && stderr(&output).contains("raw-frame"));
}

#[test]
fn probe_of_a_copied_host_is_refused() {
    let host = host("1\n", "quiet\n");
    let output = check_host(&host, &["--probe", "clock"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--probe"));
}

#[test]
fn probed_host_tells_what_was_measured() {
    let output = check(&["--probe", "noise,memory", "--probe-time", "50ms", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let page: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let noise = page["probes"]["noise"].as_array().unwrap();
    assert!(!noise.is_empty() && noise.iter().all(|noise| noise["window_ns"].as_u64().unwrap() > 45_000_000));
    assert!(page["probes"]["memory"][0]["bytes_per_s"].as_u64().unwrap() > 50_000_000);
}

#[test]
fn live_host_is_checked_with_every_built_in_profile_in_time() {
    for profile in ["raw-frame", "socket-bypass", "busy-poll", "mpi", "nfv", "bulk", "as-printed/vma"] {
        let start = Instant::now();
        let output = check(&["--profile", profile]);
        let took = start.elapsed();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{profile}: {}", stderr(&output));
        // The limit is 300 ms for the release build on a quiet host; a test build among other
        // tests gets more.
        assert!(took < Duration::from_secs(3), "{profile} took {took:?}");
    }
}

/// The noise of this host was taken for that of the host in the snapshot.
#[test]
fn probe_of_a_snapshot_is_refused() {
    let output = check(&["--snapshot", "host.tar.zst", "--probe", "noise"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--probe") && stderr(&output).contains("--snapshot"), "{}", stderr(&output));
    let output = check(&["--probe", "noise", "--probe-time", "0s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the time is zero"), "{}", stderr(&output));
}

/// Nothing was found out of an empty directory, and the exit code said that all is right.
#[test]
fn directory_without_a_host_is_refused() {
    let directory = tempfile::tempdir().expect("make a directory");
    let output = check(&["--sysroot", directory.path().to_str().expect("a path in UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("neither proc nor sys"), "{}", stderr(&output));
}

#[test]
fn snapshot_and_sysroot_exchanged_are_told_apart() {
    let host = host("1\n", "quiet\n");
    let root = host.path().to_str().expect("a path in UTF-8");
    let output = check(&["--snapshot", root]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no tar archive"), "{}", stderr(&output));
    let file = host.path().join("profile.toml");
    let output = check(&["--sysroot", file.to_str().expect("a path in UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("as the root of a host"), "{}", stderr(&output));
}

#[test]
fn first_line_is_the_summary_and_a_weight_leaves_lighter_differences_out() {
    let host = host("1\n", "quiet\n");
    let output = check_host(&host, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("1 medium.\n"), "{}", stdout(&output));
    let output = check_host(&host, &["--min-weight", "high"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with("nothing differs.\n") && text.contains("1 more differ and weigh less"), "{text}");
    assert_eq!(check_host(&host, &["--min-weight", "heavy"]).status.code(), Some(2));
}

#[test]
fn waived_difference_exits_with_0_and_is_told() {
    let host = host("60\n", "isolcpus=2-3\n");
    let waiver = "[[waiver]]\nsetting = \"vm.swappiness\"\nvalue = \"60\"\nreason = \"the vendor asks for it\"\n\
                  owner = \"dba\"\nuntil = 9999-12-31\n";
    write(host.path(), "waivers.toml", waiver);
    let file = host.path().join("waivers.toml");
    let output = check_host(&host, &["--waivers", file.to_str().expect("a path in UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let text = stdout(&output);
    assert!(text.starts_with("nothing differs and 1 waived.\n"), "{text}");
    assert!(text.contains("vm.swappiness  60, until 9999-12-31, dba: the vendor asks for it"), "{text}");
}

/// Three hosts: the second differs from the profile, and the third is alike to the first.
fn fleet() -> (tempfile::TempDir, [tempfile::TempDir; 3]) {
    let hosts = [("1\n", "isolcpus=2-3\n"), ("60\n", "isolcpus=2-3\n"), ("1\n", "isolcpus=2-3\n")];
    (host("1\n", "quiet\n"), hosts.map(|(swappiness, command_line)| host(swappiness, command_line)))
}

fn check_fleet((profile, hosts): &(tempfile::TempDir, [tempfile::TempDir; 3]), args: &[&str]) -> Output {
    let path = |directory: &tempfile::TempDir| directory.path().to_str().expect("a path in UTF-8").to_owned();
    let profile = format!("{}/profile.toml", path(profile));
    let hosts: Vec<String> = hosts.iter().map(path).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    check(&[&["--profile", &profile], &hosts[..], args].concat())
}

#[test]
fn fleet_checked_tells_by_setting_which_hosts_differ() {
    let fleet = fleet();
    let page = fleet.0.path().join("fleet.html");
    let output = check_fleet(&fleet, &["--json", "--report", page.to_str().expect("a path in UTF-8")]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["hosts"].as_array().map(Vec::len), Some(3));
    let setting = &json["settings"][0];
    assert_eq!((setting["id"].as_str(), setting["differing"].as_u64()), (Some("vm.swappiness"), Some(1)));
    assert_eq!(setting["values"][0]["hosts"], serde_json::json!([json["hosts"][1]["name"]]));
    assert_eq!(json["settings"].as_array().map(Vec::len), Some(1));
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("<td class=\"differs\" title=\"differs\">60</td>"), "{html}");
    let text = stdout(&check_fleet(&fleet, &[]));
    assert!(
        text.starts_with("3 hosts, profile ") && text.contains("1 settings differ from it, 1 are not alike."),
        "{text}"
    );
}

#[test]
fn host_of_a_fleet_that_cannot_be_read_is_named_and_the_others_are_told() {
    let output = check_fleet(&fleet(), &["/nowhere/db7.tar.zst"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nowhere/db7.tar.zst"), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("not checked") && stdout(&output).contains("vm.swappiness"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn baseline_of_a_fleet_is_what_the_others_are_compared_with() {
    let fleet = fleet();
    let baseline = fleet.1[1].path().to_str().expect("a path in UTF-8").to_owned();
    let text = stdout(&check_fleet(&fleet, &["--baseline", &baseline]));
    assert!(text.contains("(baseline)") && text.contains("2 hosts unlike the baseline"), "{text}");
}
