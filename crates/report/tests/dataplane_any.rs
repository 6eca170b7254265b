//! Dataplane records from strangers: whatever is in one, it is shown without a panic, without numbers that are none, and
//! without markup of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::dataplane::dataplane_record;
use nearwire_report::dataplane::record::{
    BackToBack, Cell, DataplaneRecord, LatencyAt, LossAt, Method, Part, State, Throughput, Trial,
};
use nearwire_report::record::{Reading, Warning};
use nearwire_report::{TableOptions, render_dataplane_csv, render_dataplane_html, render_dataplane_table};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

const EVIL: &str = "</script><b onclick='x'>&\"\u{1b}[2J";

fn text() -> impl Strategy<Value = String> {
    let texts = ["l2/xdp", "l2/kernel", "wire", "64", "60+590", "imix", "NDR", "PDR", "", EVIL, "a long text of words"];
    prop_oneof![select(texts.to_vec()).prop_map(str::to_owned), select(vec!["x", "線"]).prop_map(|one| one.repeat(300))]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::num::f64::ANY,
        0.0..1e8,
        select(vec![0.0, 1e308, 1e-308, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])
    ]
}

fn frames() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..10_000u64]
}

fn throughput() -> impl Strategy<Value = Throughput> {
    let states = vec![State::Found, State::AtLeast, State::Lossy, State::NotConverged, State::GeneratorLimited];
    let bounds = (option::of(number()), option::of(number()), option::of(number()));
    (text(), select(states), bounds).prop_map(|(goal, state, (lower_fps, upper_fps, conditional_fps))| Throughput {
        goal,
        state,
        lower_fps,
        upper_fps,
        conditional_fps,
    })
}

fn latency() -> impl Strategy<Value = LatencyAt> {
    let share = prop_oneof![Just(0.5), number()];
    (share, number(), frames(), option::of(number()), option::of(number())).prop_map(
        |(share, rate_fps, frames, one_ns, other_ns)| LatencyAt {
            share,
            rate_fps,
            frames,
            lost_frames: frames,
            p50_ns: one_ns,
            p99_ns: other_ns,
            p999_ns: one_ns,
            max_ns: other_ns,
            pdv_p999_ns: one_ns,
            ipdv_p99_ns: other_ns,
        },
    )
}

fn trial() -> impl Strategy<Value = Trial> {
    (option::of(number()), prop::array::uniform7(frames()), option::of(number())).prop_map(
        |(rate_fps, [duration_ns, sent, unsent, received, duplicated, reordered, corrupted], p50_ns)| Trial {
            rate_fps,
            duration_ns,
            sent_frames: sent,
            unsent_frames: unsent,
            received_frames: received,
            duplicated_frames: duplicated,
            reordered_frames: reordered,
            corrupted_frames: corrupted,
            p50_ns,
            p99_ns: p50_ns,
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    let texts = (text(), text(), text());
    (texts, prop::collection::vec(text(), 0..4), prop::collection::vec(0..3u32, 0..4))
        .prop_map(|((name, detail, place), interfaces, cpus)| Part { name, detail, interfaces, cpus, place })
}

fn bursts() -> impl Strategy<Value = BackToBack> {
    (any::<u32>(), number(), frames(), option::of(number())).prop_map(
        |(repetitions, mean_frames, frames, buffer_ns)| BackToBack {
            repetitions,
            mean_frames,
            least_frames: frames,
            most_frames: frames,
            deviation_frames: mean_frames,
            buffer_ns,
        },
    )
}

fn cell() -> impl Strategy<Value = Cell> {
    let name = (text(), text(), number());
    let found = (prop::collection::vec(throughput(), 0..4), prop::collection::vec(latency(), 0..4));
    let loss = (number(), number()).prop_map(|(rate_fps, loss_ratio)| LossAt { rate_fps, loss_ratio });
    let others = (prop::collection::vec(loss, 0..3), option::of(bursts()), option::of(frames()));
    let beds = (prop::collection::vec(part(), 0..8), prop::collection::vec(trial(), 0..4));
    let rest = (prop::collection::btree_map(text(), frames(), 0..3), option::of(text()));
    (name, found, others, beds, rest).prop_map(
        |((device, sizes, mean_bytes), (throughput, latency), (frame_loss, back_to_back, reset_ns), beds, rest)| Cell {
            device,
            sizes,
            mean_bytes,
            parts: beds.0,
            throughput,
            latency,
            frame_loss,
            back_to_back,
            reset_ns,
            trials: beds.1,
            drops: rest.0,
            failure: rest.1,
        },
    )
}

fn record() -> impl Strategy<Value = DataplaneRecord> {
    let goals = prop::collection::vec((text(), number(), frames()), 0..4);
    (prop::collection::vec(cell(), 1..5), goals, text(), any::<bool>()).prop_map(|(cells, goals, text, interrupted)| {
        let mut record = dataplane_record();
        let of = record.goals[1].clone();
        record.goals = goals
            .into_iter()
            .map(|(name, number, ns)| {
                let mut goal = of.clone();
                (goal.name, goal.loss_ratio, goal.width, goal.exceed_ratio) = (name, number, number, number);
                goal.final_trial_ns = ns;
                goal
            })
            .collect();
        (record.cells, record.interrupted) = (cells, interrupted);
        (record.topology, record.cable, record.command) = (text.clone(), text.clone(), vec![text.clone()]);
        record.method = if interrupted { Method::Rfc2544 } else { Method::MlrSearch };
        record.environment.insert(text.clone(), Reading::Unknown { why: text.clone() });
        record.warnings.push(Warning { code: text.clone(), text: text.clone(), advice: text });
        record
    })
}

/// Words that are numbers only where something was divided by nothing.
fn assert_numbers(text: &str) {
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        assert!(!["NaN", "inf", "nan", "Infinity"].contains(&word), "{word} in {text}");
    }
}

fn show(record: &DataplaneRecord) {
    for (width, colour) in [(120, false), (40, true)] {
        let table = render_dataplane_table(record, TableOptions { width, colour, intervals: false });
        assert_numbers(&table);
        assert!(colour || table.chars().all(|c| c == '\n' || !c.is_control()), "{table}");
    }
    assert_numbers(&render_dataplane_csv(record));
    let page = render_dataplane_html(&[record.clone(), dataplane_record()]).unwrap();
    let (shown, records) = page.split_once("<script type=\"application/json\"").unwrap();
    assert_numbers(shown.split_once("<body>").unwrap().1);
    assert!(!shown.contains("<b onclick") && !shown.contains("<script"), "markup got through");
    assert_eq!(records.matches("</script").count(), 2, "no text ends the element of a record");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_record_is_shown(record in record()) {
        show(&record);
    }
}

#[test]
fn hostile_names_are_escaped() {
    let mut record = dataplane_record();
    let evil = || EVIL.to_owned();
    (record.topology, record.cable, record.started_at, record.nearwire_version) = (evil(), evil(), evil(), evil());
    record.command = vec![evil()];
    record.goals[1].name = evil();
    record.environment.insert(evil(), Reading::Value { value: evil() });
    record.warnings[0] = Warning { code: evil(), text: evil(), advice: evil() };
    for cell in &mut record.cells {
        cell.device.push_str(EVIL);
        cell.sizes.push_str(EVIL);
        cell.throughput.iter_mut().skip(1).for_each(|found| found.goal = evil());
        cell.drops.insert(evil(), 1);
        for part in &mut cell.parts {
            (part.name, part.detail, part.place, part.interfaces) = (evil(), evil(), evil(), vec![evil(), evil()]);
        }
    }
    record.cells[0].failure = Some(evil());
    show(&record);
    let page = render_dataplane_html(&[record]).unwrap();
    assert!(page.contains("&lt;b onclick=&#39;x&#39;&gt;&amp;&quot;"), "the text is there");
}
