//! Table, page and JSON of a result, word for word. After an intended change `NEARWIRE_WRITE_GOLDEN=1 cargo test -p nearwire-cli measure`
//! writes them again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::PathBuf;

use nearwire_worth::Figure;
use nearwire_worth::estimate::Scale;
use nearwire_worth::result::{Candidate, Measured, OnSubject, Pair, Worth};
use nearwire_worth::store::Kind;
use nearwire_worth::verdict::{Effect, Verdict};

use super::{Told, html, json, text};

fn effect(figure: Figure, [found, change, low, high]: [f64; 4], verdict: Verdict) -> Effect {
    let percent = Some(change / found * 100.0);
    let visible_percent = Some((high - low) / 2.0 / found * 100.0);
    Effect {
        figure,
        found,
        change,
        low,
        high,
        percent,
        visible_percent,
        scale: Scale::Ratio,
        pairs: 16,
        level: 0.002,
        verdict,
    }
}

fn worth(id: &str, from: &str, to: &str, on: Vec<OnSubject>, failure: Option<&str>) -> Worth {
    let candidate = Candidate { id: id.to_owned(), from: from.to_owned(), to: to.to_owned() };
    Worth { candidate, on, failure: failure.map(str::to_owned) }
}

fn on(subject: &str, effects: Vec<Effect>) -> OnSubject {
    OnSubject { subject: subject.to_owned(), effects }
}

fn measured() -> Measured {
    use Figure::{CpuPerMessageNs, P50Ns, P99Ns};
    let governor = vec![
        on(
            "udp/block",
            vec![
                effect(P50Ns, [36_000.0, -4_200.0, -5_000.0, -3_400.0], Verdict::Better),
                effect(P99Ns, [90_000.0, -100.0, -30_000.0, 29_000.0], Verdict::Noise),
            ],
        ),
        on(
            "udp/spin",
            vec![
                effect(P50Ns, [2_000.0, 3.0, -21.0, 27.0], Verdict::NoEffect),
                effect(CpuPerMessageNs, [3_900.0, 11.0, -30.0, 52.0], Verdict::NoEffect),
            ],
        ),
    ];
    let rps = vec![on("udp/spin", vec![effect(P50Ns, [2_000.0, 3_100.0, 2_900.0, 3_300.0], Verdict::Worse)])];
    let more = effect(P50Ns, [2_000.0, 900.0, 700.0, 1_100.0], Verdict::Worse);
    Measured {
        format: 1,
        seed: 7,
        rounds: 8,
        subjects: vec!["udp/block".to_owned(), "udp/spin".to_owned()],
        settings: vec![
            worth("nic.rps-cpus[nw0]", "none", "1", rps, None),
            worth(
                "vm.<odd>",
                "0",
                "a value that is so long that it is cut",
                Vec::new(),
                Some("the kernel does not take it"),
            ),
            worth("cpu.governor", "schedutil", "performance", governor, None),
        ],
        pairs: vec![Pair {
            one: "cpu.governor".to_owned(),
            other: "nic.rps-cpus[nw0]".to_owned(),
            on: vec![on("udp/spin", vec![more])],
        }],
        notes: Vec::new(),
        interrupted: false,
        failure: None,
    }
}

/// Compares a text with its file, or writes it.
#[track_caller]
fn assert_golden(name: &str, found: &str) {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/measure")).join(name);
    if std::env::var_os("NEARWIRE_WRITE_GOLDEN").is_some() {
        fs::write(&file, found).unwrap();
    }
    let golden = fs::read_to_string(&file).unwrap_or_default();
    assert!(golden == found, "{} differs; it is:\n{found}", file.display());
}

#[test]
fn result_is_told_word_for_word_as_text_page_and_json() {
    let left = [("cpu.smt".to_owned(), "it takes CPUs offline that the paths may run on".to_owned())];
    let kind = Kind {
        cpu: "A processor".to_owned(),
        driver: "veth".to_owned(),
        nic: "virtual".to_owned(),
        kernel: "6.12.1".to_owned(),
    };
    let (cable, measured) = (Some("veth nw0 to veth nw1".to_owned()), measured());
    let told = Told { profile: "latency", cable, kind, measured, left: &left };
    assert_golden("table.txt", &text::after(&told));
    let page = html::page(&told);
    assert!(!page.contains("vm.<odd>"), "text of a host is escaped");
    let style = page.find("<style>").unwrap()..page.find("</style>").unwrap();
    assert_golden("page.html", &page.replace(&page[style], ""));
    assert_golden("result.json", &json::page(&told));
}

#[test]
fn table_with_all_figures_fits_120_columns() {
    use Figure::{CpuPerMessageNs, P50Ns, P99Ns, P999Ns};
    let figures = [P50Ns, P99Ns, P999Ns, CpuPerMessageNs];
    let effects = figures.map(|figure| effect(figure, [1e6, -123_456.0, -987_654.0, -120_000.0], Verdict::NoEffect));
    let on_long = vec![on("udp/busy-poll", effects.to_vec()), on("redis-benchmark -p 20777 -t get", effects.to_vec())];
    let long = "a value that is so long that it is cut";
    let settings = vec![worth("nic.coalesce.adaptive-rx[enp129s0f0np0]", long, long, on_long, None)];
    let table = text::table(&Measured { settings, ..measured() });
    let widest = table.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(120), "{widest:?} columns:\n{table}");
    assert_eq!(table.matches("(-987.65 to -120.00)").count(), 8, "{table}");
}
