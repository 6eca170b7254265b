//! A made-up record of a dataplane experiment that has every state and every figure. Nothing in it was measured.

use std::collections::BTreeMap;

use nearwire_report::dataplane::record::{
    BackToBack, Cell, DataplaneRecord, Goal, LatencyAt, LatencyBound, LossAt, Method, Part, SCHEMA, SCHEMA_VERSION,
    State, Throughput, Traffic, Trial,
};
use nearwire_report::record::{Reading, Warning};

const SIZES: [(&str, f64); 8] = [
    ("64", 64.0),
    ("128", 128.0),
    ("256", 256.0),
    ("512", 512.0),
    ("1024", 1024.0),
    ("1280", 1280.0),
    ("1514", 1514.0),
    ("imix", 353.8),
];
/// Devices with what they carry of small frames, and what a byte more costs.
const DEVICES: [(&str, f64, f64); 5] = [
    ("wire", 2_400_000.0, 0.2),
    ("io/xdp", 1_420_000.0, 0.15),
    ("l2/xdp", 1_210_000.0, 0.15),
    ("l2/packet", 640_000.0, 0.1),
    ("l2/kernel", 302_000.0, 0.05),
];

/// Every device at every size.
pub fn dataplane_record() -> DataplaneRecord {
    let mut cells = Vec::new();
    for (sizes, mean_bytes) in SIZES {
        for (device, fps, cost) in DEVICES {
            cells.push(cell(device, sizes, mean_bytes, fps / (1.0 + mean_bytes / 1514.0 * cost)));
        }
    }
    states(&mut cells);
    let text = "both ends run on virtual CPUs, which the host may move or stop at any time";
    DataplaneRecord {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        nearwire_version: "0.1.0".to_owned(),
        started_at: "2026-03-14T15:09:26Z".to_owned(),
        command: ["nearwire", "dataplane", "--json", "out.json"].map(str::to_owned).to_vec(),
        interrupted: false,
        topology: "port-host-port".to_owned(),
        cable: "virtual cables".to_owned(),
        method: Method::MlrSearch,
        traffic: Traffic { ip_version: 4, flows: 1, vlan: None },
        goals: vec![goal("NDR", 0.0), goal("PDR", 0.005)],
        cells,
        environment: BTreeMap::from([
            ("cpu.governor".to_owned(), Reading::Value { value: "performance".to_owned() }),
            ("boot.isolcpus".to_owned(), Reading::Unsupported),
            ("nic.coalesce.rx-usecs".to_owned(), Reading::Unknown { why: "the interface is gone".to_owned() }),
        ]),
        warnings: vec![Warning {
            code: "virtual-machine".to_owned(),
            text: text.to_owned(),
            advice: "compare devices of one experiment only".to_owned(),
        }],
    }
}

/// Two devices at two sizes, with every state.
pub fn small_dataplane_record() -> DataplaneRecord {
    let mut record = dataplane_record();
    record.cells.retain(|cell| {
        ["l2/xdp", "l2/packet", "l2/kernel"].contains(&cell.device.as_str()) && ["64", "1514"].contains(&&*cell.sizes)
    });
    record.cells[5].throughput[1].state = State::GeneratorLimited;
    record
}

/// One size of the record.
pub fn one_size_record() -> DataplaneRecord {
    let mut record = dataplane_record();
    record.cells.retain(|cell| cell.sizes == "64");
    record
}

fn goal(name: &str, loss_ratio: f64) -> Goal {
    Goal {
        name: name.to_owned(),
        loss_ratio,
        latency: (loss_ratio > 0.0).then_some(LatencyBound { percentile: 99.0, at_most_ns: 5_000_000 }),
        initial_trial_ns: 50_000_000,
        final_trial_ns: 1_000_000_000,
        duration_sum_ns: 21_000_000_000,
        exceed_ratio: 0.5,
        width: 0.005,
    }
}

fn part(name: &str, detail: &str, interfaces: &[&str], cpus: &[u32], place: &str) -> Part {
    Part {
        name: name.to_owned(),
        detail: detail.to_owned(),
        interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
        cpus: cpus.to_vec(),
        place: place.to_owned(),
    }
}

fn parts(device: &str) -> Vec<Part> {
    let mut parts = vec![
        part("generator", "AF_XDP generic on nw0", &["nw0"], &[0], "namespace of the tester"),
        part("sink", "AF_XDP generic on nw3", &["nw3"], &[0], "namespace of the sink"),
    ];
    let detail = match device {
        "wire" => return parts,
        "l2/kernel" => part("bridge", "the kernel's bridge br0", &["nw1", "nw2"], &[], "namespace of the device"),
        _ => part(&format!("forwarder {device}"), "our forwarder", &["nw1", "nw2"], &[1], "namespace of the device"),
    };
    parts.insert(1, detail);
    parts
}

fn found(goal: &str, fps: f64) -> Throughput {
    Throughput {
        goal: goal.to_owned(),
        state: State::Found,
        lower_fps: Some(fps),
        upper_fps: Some(fps * 1.03),
        conditional_fps: Some(fps * 0.999),
    }
}

fn cell(device: &str, sizes: &str, mean_bytes: f64, fps: f64) -> Cell {
    let slow = 1_400_000.0 / fps;
    let at = |share: f64| LatencyAt {
        share,
        rate_fps: fps * share,
        frames: (fps * share) as u64,
        lost_frames: if share > 0.95 { 12 } else { 0 },
        p50_ns: Some(slow * (11_000.0 + 20_000.0 * share * share)),
        p99_ns: Some(slow * (35_000.0 + 300_000.0 * share.powi(4))),
        p999_ns: (share > 0.1).then_some(slow * (90_000.0 + 900_000.0 * share.powi(4))),
        max_ns: Some(2_100_000.0),
        pdv_p999_ns: Some(80_000.0),
        ipdv_p99_ns: Some(9_000.0),
    };
    Cell {
        device: device.to_owned(),
        sizes: sizes.to_owned(),
        mean_bytes,
        parts: parts(device),
        throughput: vec![found("NDR", fps * 0.9), found("PDR", fps)],
        latency: [0.1, 0.25, 0.5, 0.75, 0.9, 1.0].map(at).to_vec(),
        frame_loss: Vec::new(),
        back_to_back: None,
        reset_ns: None,
        trials: trials(fps),
        drops: BTreeMap::new(),
        failure: None,
    }
}

/// A search that ends at a rate: all the generator can, half of it, then ever nearer.
fn trials(fps: f64) -> Vec<Trial> {
    let factors = [1.9, 1.2, 0.6, 0.8, 0.88, 0.97, 1.05, 1.02, 0.9, 0.93, 1.01, 1.0, 0.905];
    let trial = |(index, factor): (usize, f64)| {
        let rate = fps * factor;
        let duration_ns = 50_000_000 * (index as u64 + 1);
        let due = (rate * duration_ns as f64 / 1e9) as u64;
        let (unsent, loss) = match factor {
            factor if factor > 1.5 => (due / 3, 0.0),
            factor if factor > 1.0 => (0, factor - 1.0),
            factor if factor > 0.9 => (0, 0.003),
            _ => (0, 0.0),
        };
        let sent = due - unsent;
        Trial {
            rate_fps: (index > 0).then_some(rate),
            duration_ns,
            sent_frames: sent,
            unsent_frames: unsent,
            received_frames: sent - (sent as f64 * loss) as u64,
            duplicated_frames: 0,
            reordered_frames: u64::from(index == 3) * 2,
            corrupted_frames: 0,
            p50_ns: Some(20_000.0),
            p99_ns: (index > 2).then_some(70_000.0),
        }
    };
    factors.into_iter().enumerate().map(trial).collect()
}

/// Gives some cells what others do not have.
fn states(cells: &mut [Cell]) {
    let mut change = |device: &str, sizes: &str, with: &dyn Fn(&mut Cell)| {
        let is_it = |cell: &&mut Cell| cell.device == device && cell.sizes == sizes;
        cells.iter_mut().filter(is_it).for_each(with);
    };
    for (sizes, _) in SIZES {
        change("wire", sizes, &|cell| {
            for found in &mut cell.throughput {
                (found.state, found.upper_fps) = (State::GeneratorLimited, None);
            }
        });
    }
    change("io/xdp", "1514", &|cell| {
        (cell.throughput[1].state, cell.throughput[1].upper_fps) = (State::AtLeast, None);
    });
    change("l2/packet", "64", &|cell| {
        cell.throughput[1].state = State::NotConverged;
        cell.throughput[1].upper_fps = Some(1_100_000.0);
        cell.trials[2].duplicated_frames = 5;
        cell.trials[2].corrupted_frames = 1;
        cell.latency[2].p999_ns = None;
        cell.latency[2].p99_ns = None;
    });
    change("l2/kernel", "64", &|cell| {
        let lossy = &mut cell.throughput[0];
        (lossy.state, lossy.lower_fps, lossy.upper_fps, lossy.conditional_fps) =
            (State::Lossy, None, Some(9_000.0), None);
        cell.drops = BTreeMap::from([("full queue".to_owned(), 12_345), ("unknown address".to_owned(), 3)]);
    });
    change("l2/packet", "1514", &|cell| {
        cell.throughput.clear();
        cell.latency.clear();
        cell.trials.clear();
        cell.failure = Some("open a port on nw1: permission denied".to_owned());
    });
    change("l2/xdp", "64", &|cell| {
        let loss = |(factor, loss_ratio): (f64, f64)| LossAt { rate_fps: 1_210_000.0 * factor, loss_ratio };
        cell.frame_loss = [(1.5, 0.33), (1.3, 0.21), (1.1, 0.05), (1.0, 0.0), (0.9, 0.0)].map(loss).to_vec();
        cell.back_to_back = Some(BackToBack {
            repetitions: 50,
            mean_frames: 4_102.4,
            least_frames: 3_970,
            most_frames: 4_180,
            deviation_frames: 31.0,
            buffer_ns: Some(1_250_000.0),
        });
        cell.reset_ns = Some(320_000_000);
    });
}
