//! The profile that a test tunes an emulated host by, and the commands that do it.

use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::FileStates;
use serde_json::Value;

use super::emulated::SETTING_FILES;

/// What an emulated host cannot have, each with the reason.
const IMPOSSIBLE: &[(&str, &str)] = &[
    ("nic.xdp-features", "no emulated NIC has zero copy"),
    (
        "nic.chain",
        "eight queues of vmxnet3 share the two CPUs that a plan for three NICs leaves to interrupts, one of them far",
    ),
    ("noise.kernel-threads", "kswapd and kcompactd of the second node keep to its CPUs, and no file moves them"),
    (
        "irq.on-isolated",
        "the kernel spreads the managed interrupts of the harness's own disk and channel over all CPUs",
    ),
];

/// What the host can have and the built-in profile does not ask for: each kind of write once.
const WISHES: &[&str] = &[
    "setting = 'memory.thp'\nequal = 'never'",
    "setting = 'cpu.pm-qos-resume-latency-us'\nequal = 1\non = '${plan.isolated}'",
    "setting = 'nic.ring.rx'\nat-least = 512\nwhen = { driver = ['e1000e'] }",
    "setting = 'nic.offload.gso'\nequal = false\nwhen = { driver = ['virtio_net'] }",
    "setting = 'nic.rps-cpus'\ncpus-equal = '${plan.irq}'\nwhen = { driver = ['virtio_net'] }",
    "setting = 'nic.xps-cpus'\ncpus-equal = '${plan.housekeeping}'\nwhen = { driver = ['virtio_net'] }",
    "setting = 'net.core.busy_poll'\nequal = 50",
];

/// How the commands say which host is wanted.
pub const WANTED: &str = "--profile /root/emulated.toml --plan /root/plan.json";

/// The journal of the changes in effect.
pub const JOURNAL: &str = "/var/lib/nearwire/journal/journal";

/// The profile's text.
pub fn profile() -> String {
    let without: Vec<_> = IMPOSSIBLE.iter().map(|(id, _)| format!("{id:?}")).collect();
    let mut text = format!("purpose = 'An emulated host'\nextends = 'raw-frame'\nwithout = [{}]\n", without.join(", "));
    for wish in WISHES {
        text += &format!("\n[[wish]]\n{wish}\nreason = 'It is tested.'\nsource = 'a test'\n");
    }
    text
}

/// Puts profile and plan onto the host.
pub fn plan(host: &mut EmulatedHost) {
    host.write_file("/root/emulated.toml", profile().as_bytes()).unwrap();
    host.output_of("nearwire plan --nic nic0 nic1 nic2 --json > /root/plan.json").unwrap();
}

/// Runs a command that has to give this exit status; what it printed.
#[track_caller]
pub fn exits(host: &mut EmulatedHost, command: &str, status: i32) -> String {
    let output = host.run(command).unwrap();
    assert_eq!(output.status, status, "{command}\n{}\n{}", output.text(), output.errors());
    format!("{}\n{}", output.text(), output.errors())
}

/// The findings that `nearwire check` tells, without the commands for now, which need a live host.
pub fn findings(page: &str) -> Vec<Value> {
    let mut page: Value = serde_json::from_str(page).unwrap();
    let Value::Array(mut findings) = page["findings"].take() else { panic!("no findings in {page}") };
    for finding in &mut findings {
        finding.as_object_mut().unwrap().remove("now");
    }
    findings
}

/// The differences among findings, each with what was found and what is wanted.
pub fn differences(findings: &[Value]) -> Vec<String> {
    let is_difference = |finding: &&Value| matches!(finding["outcome"].as_str(), Some("differs" | "owned"));
    let line = |finding: &Value| format!("{}: {} instead of {}", finding["id"], finding["found"], finding["wanted"]);
    findings.iter().filter(is_difference).map(line).collect()
}

/// Files that settings may change.
pub fn files(host: &mut EmulatedHost) -> FileStates {
    host.file_states(&SETTING_FILES).unwrap()
}

/// Does what the files that export wrote say about taking them back; a reboot is left to the caller.
pub fn take_back(host: &mut EmulatedHost) {
    let said = host.output_of("grep -rh '^# To take it back: ' /etc /usr/local | sort -u").unwrap();
    for line in said.lines().filter_map(|line| line.strip_prefix("# To take it back: ")) {
        let steps = line.trim_end_matches('.').split(',').flat_map(|step| step.split(" and "));
        for step in steps.map(|step| step.trim().trim_start_matches("then ").trim()) {
            if step.starts_with("rm ") || step.starts_with("systemctl ") {
                host.output_of(step).unwrap();
            }
        }
    }
}
