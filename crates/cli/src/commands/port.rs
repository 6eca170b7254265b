//! `nearwire port`: shows an interface, its features and its dropped frames.

use std::fmt::Write as _;

use anyhow::anyhow;
use nearwire_frames::PortError;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_host::{Reading, Root, catalogue, read_settings};
use nearwire_sys::netdev::{XdpReceiveMetadata, xdp_receive_metadata};
use serde_json::{Value, json};

use super::settings::reading_in_json;
use crate::args::PortArgs;
use crate::exit::{CANNOT, Failure, OrExit, Outcome, USAGE};
use crate::output;

/// The settings that are shown, with their labels. Name, address, queues, program and drops come from `InterfaceFacts`.
const SHOWN: [(&str, &str); 9] = [
    ("driver", "nic.driver"),
    ("version", "nic.driver.version"),
    ("firmware", "nic.firmware"),
    ("bus", "nic.bus-info"),
    ("speed, Mbit/s", "nic.speed-mbps"),
    ("module", "nic.module"),
    ("XDP", "nic.xdp-features"),
    ("timestamping", "nic.timestamping"),
    ("errors", "nic.errors"),
];

/// One interface.
struct Port {
    facts: InterfaceFacts,
    /// The driver reports to XDP programs when the device received a frame. `None`: the kernel does not say.
    device_times: Option<bool>,
    /// One for each row of [`SHOWN`].
    readings: Vec<Reading>,
}

pub fn run(args: &PortArgs) -> Outcome {
    let names = match &args.interface {
        Some(name) => vec![name.clone()],
        None => {
            let all = nearwire_lab::interfaces().or_exit(CANNOT)?;
            all.into_iter().map(|facts| facts.name).filter(|name| name != "lo").collect()
        }
    };
    let root = Root::live().or_exit(CANNOT)?;
    let ports = names.iter().map(|name| Port::read(&root, name)).collect::<Result<Vec<_>, _>>()?;
    let text = if args.json {
        format!("{:#}\n", Value::from(ports.iter().map(Port::in_json).collect::<Vec<_>>()))
    } else {
        ports.iter().map(Port::in_words).collect::<Vec<_>>().join("\n")
    };
    output::print(&text)
}

impl Port {
    fn read(root: &Root, name: &str) -> Result<Port, Failure> {
        let facts = InterfaceFacts::read(name).map_err(|error| {
            let code = if matches!(error, PortError::NoSuchInterface { .. }) { USAGE } else { CANNOT };
            Failure { code, error: Some(anyhow!(error).context(format!("look at {name}"))) }
        })?;
        let settings: Vec<_> = SHOWN.iter().filter_map(|(_, id)| catalogue::setting(id)).collect();
        let readings = read_settings(root, &settings, &[name.to_owned()]);
        let tells = xdp_receive_metadata(facts.ifindex).ok();
        let device_times = tells.map(|tells| tells.contains(XdpReceiveMetadata::TIMESTAMP));
        Ok(Port { facts, device_times, readings: readings.into_iter().map(|(_, reading)| reading).collect() })
    }

    fn in_words(&self) -> String {
        let InterfaceFacts { name, rx_queues, tx_queues, mtu_bytes, .. } = &self.facts;
        let mut text = format!("{name}\n");
        let mut line = |label: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {label:<14} {value}");
        };
        line(
            "state",
            &format!("{}, {}", word(self.facts.up, "up", "down"), word(self.facts.carrier, "link", "no link")),
        );
        line("MAC", &self.mac());
        line("MTU, bytes", &mtu_bytes.to_string());
        line("queues", &format!("{rx_queues} to receive, {tx_queues} to send"));
        for ((label, _), reading) in SHOWN.iter().zip(&self.readings) {
            line(label, &reading.in_words());
        }
        let program = self
            .facts
            .program
            .map_or_else(|| "none".to_owned(), |program| format!("id {} in {} mode", program.program_id, program.mode));
        line("XDP program", &program);
        line("receive times", self.receive_times());
        line("dropped", &format!("{} frames", self.facts.receive_dropped_frames));
        text
    }

    fn in_json(&self) -> Value {
        let xdp = SHOWN.iter().zip(&self.readings).find(|((_, id), _)| *id == "nic.xdp-features");
        let xdp = xdp.and_then(|(_, reading)| reading.as_value());
        let has = |word: &str| xdp.map(|words| words.split(' ').any(|found| found == word));
        let readings = SHOWN.iter().zip(&self.readings).map(|((_, id), reading)| reading_in_json(id, reading));
        json!({
            "interface": self.facts.name,
            "mac": self.mac(),
            "up": self.facts.up,
            "link": self.facts.carrier,
            "mtu_bytes": self.facts.mtu_bytes,
            "rx_queues": self.facts.rx_queues,
            "tx_queues": self.facts.tx_queues,
            // Generic mode is part of the kernel and works with any driver. The others are null where the kernel does not report them.
            "xdp": {
                "generic": true,
                "native": has("basic"),
                "zero_copy": has("xsk-zerocopy"),
                "device_times": self.device_times,
            },
            "xdp_program": self.facts.program.map(|found| json!({"id": found.program_id, "mode": found.mode})),
            "dropped_frames": self.facts.receive_dropped_frames,
            "settings": readings.collect::<Vec<_>>(),
        })
    }

    /// Which receive times a program can have through XDP. For the kernel's sockets, see "timestamping".
    fn receive_times(&self) -> &'static str {
        match self.device_times {
            Some(true) => "by the kernel; by the device in native and zero-copy mode, for frames that it stamps",
            Some(false) => "by the kernel; the driver reports no device times to XDP programs",
            None => "by the kernel; this kernel does not say whether the driver reports device times",
        }
    }

    fn mac(&self) -> String {
        self.facts.mac.map(|byte| format!("{byte:02x}")).join(":")
    }
}

fn word(is_so: bool, yes: &'static str, no: &'static str) -> &'static str {
    if is_so { yes } else { no }
}
