//! The page as markup: what can be reached without a mouse, tables that tell what their cells are, links to cells, latency
//! over time, two records compared, and records that can be had back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::dataplane::{dataplane_record, one_size_record};
use common::pages::{disturbed_record, slower_record, stream_record};
use nearwire_report::record::Record;
use nearwire_report::{DataplaneRecord, read_dataplane_record, read_record, render_dataplane_html, render_html};

fn page(records: &[Record]) -> String {
    // The template writes a slash as a reference.
    render_html(records).unwrap().replace("&#x2f;", "/")
}

fn dataplane_page(records: &[DataplaneRecord]) -> String {
    render_dataplane_html(records).unwrap().replace("&#x2f;", "/")
}

/// The page without the records' JSON.
fn shown(page: &str) -> &str {
    page.split("<script type=\"application/json\"").next().unwrap()
}

/// One page of each kind, with its name.
fn pages() -> Vec<(&'static str, String)> {
    let sample = common::sample_record();
    vec![
        ("ping-pong", page(std::slice::from_ref(&sample))),
        ("forward", page(&[common::forward_record()])),
        ("load", page(&[common::load_record()])),
        ("stream", page(&[stream_record()])),
        ("two", page(&[sample.clone(), slower_record(1.08)])),
        ("two streams", page(&[stream_record(), stream_record()])),
        ("three", page(&[sample.clone(), slower_record(1.08), sample])),
        ("of several kinds", page(&[common::load_record(), stream_record()])),
        ("dataplane", dataplane_page(&[dataplane_record()])),
        ("dataplane of one size", dataplane_page(&[one_size_record()])),
        ("two dataplanes", dataplane_page(&[dataplane_record(), one_size_record()])),
    ]
}

/// The tags of these elements, as `<th scope="col"`.
fn tags<'a>(page: &'a str, element: &str) -> Vec<&'a str> {
    let begin = format!("<{element}");
    let tags = page.match_indices(&begin).map(|(at, _)| page[at..].split_inclusive('>').next().unwrap());
    tags.filter(|tag| tag[begin.len()..].starts_with([' ', '>'])).collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()
}

#[test]
fn what_tells_more_takes_the_focus_and_has_words_for_readers_that_speak() {
    for (name, page) in pages() {
        let page = shown(&page);
        assert!(!page.contains(" title=\""), "{name}: only a mouse shows a title attribute");
        let told: Vec<&str> = tags(page, "span").into_iter().filter(|tag| tag.contains("data-tip")).collect();
        assert!(told.len() > 3, "{name}: {}", told.len());
        for tag in told {
            let is_row = attribute(tag, "tabindex") == Some("-1") && tag.contains("class=\"spot\"");
            let is_spoken = attribute(tag, "tabindex") == Some("0") && attribute(tag, "aria-label").is_some();
            assert!(is_row || is_spoken, "{name}: {tag}");
            assert!(!attribute(tag, "data-tip").unwrap().is_empty(), "{name}: {tag}");
        }
        // A row has the focus by its link.
        let rows = page.matches("tabindex=\"-1\"").count();
        let links = tags(page, "a").into_iter().filter(|tag| attribute(tag, "aria-label").is_some()).count();
        assert_eq!(rows, links, "{name}");
    }
    let page = page(&[common::sample_record()]);
    assert!(page.contains("aria-label=\"udp/spin 64 B, p50 1.95 µs: 95 % interval 1.94 µs to 1.95 µs\""));
}

#[test]
fn page_runs_no_script() {
    for (name, page) in pages() {
        assert!(tags(&page, "script").iter().all(|tag| tag.contains("type=\"application/json\"")), "{name}");
        assert!(!shown(&page).contains(" onclick") && !shown(&page).contains("javascript:"), "{name}");
    }
}

#[test]
fn tables_have_captions_and_their_headings_say_of_what() {
    for (name, page) in pages() {
        let page = shown(&page);
        for table in page.split("<table").skip(1) {
            let inside = table.split_once('>').unwrap().1.trim_start();
            assert!(inside.starts_with("<caption>"), "{name}: {}", &inside[..80]);
        }
        for tag in tags(page, "th") {
            let scope = attribute(tag, "scope").unwrap_or_else(|| panic!("{name}: {tag}"));
            assert!(["col", "row", "rowgroup"].contains(&scope), "{name}: {tag}");
        }
    }
}

#[test]
fn headings_leave_no_level_out() {
    for (name, page) in pages() {
        let levels = shown(&page).match_indices("<h").filter_map(|(at, _)| {
            let level = page.as_bytes()[at + 2];
            (level.is_ascii_digit()).then(|| level - b'0')
        });
        let levels: Vec<u8> = levels.collect();
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{name}: one title");
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{name}: {levels:?}");
    }
}

#[test]
fn every_cell_has_a_name_and_every_link_leads_to_one() {
    for (name, page) in pages() {
        let page = shown(&page);
        let ids: Vec<&str> = page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "{name}: an id occurs twice");
        for link in page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(unique.contains(link), "{name}: {link} leads nowhere");
        }
    }
    let (sample, load) = (page(&[common::sample_record()]), page(&[common::load_record()]));
    assert!(sample.contains("<tr class=\"f-xdp\" id=\"A-frame-xdp-prepared-in-place-1024B\">"));
    assert!(sample.contains("<b><a href=\"#A-tcp-epoll-busy-poll-64B\">"), "a doubt links to its cell");
    assert!(sample.contains("<a href=\"#A-udp-spin-64B\">udp/spin</a>"), "a row links to itself");
    assert!(load.contains(" id=\"A-udp-spin-64B-10000s\""));
}

#[test]
fn cells_whose_names_agree_are_numbered() {
    let mut record = common::sample_record();
    record.runs[1].cell.path = "udp\\block".to_owned();
    record.runs[1].cell.size_bytes = 64;
    record.runs[2] = record.runs[0].clone();
    let page = page(&[record]);
    for id in ["A-udp-block-64B", "A-udp-block-64B-2", "A-udp-block-64B-3"] {
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
}

/// The pictures of latency over time.
fn heat_maps(page: &str) -> Vec<&str> {
    page.split("class=\"chart heat\"").skip(1).map(|rest| rest.split("</svg>").next().unwrap()).collect()
}

#[test]
fn disturbance_of_the_machine_is_a_stripe_across_all_rows() {
    let (quiet, disturbed) = (page(&[common::sample_record()]), page(&[disturbed_record(4)]));
    // Level 3 is 1.25 to 1.6 times; the legend has one of each.
    let stripes = |page: &str| heat_maps(page)[0].matches("<path class=\"hs3\"").count();
    assert_eq!((stripes(&quiet), stripes(&disturbed)), (0, 45));
    // All cells are drawn at it from the same place on: the fifth of ten turns.
    let begins = heat_maps(&disturbed)[0].split("<path class=\"hs3\" d=\"M").skip(1);
    let begins: BTreeSet<&str> = begins.map(|rest| rest.split(' ').next().unwrap()).collect();
    assert_eq!(begins.len(), 1, "{begins:?}");
    assert!(disturbed.contains("marks are far from it, the farthest: 1."));
}

#[test]
fn heat_maps_are_of_medians_and_of_99_percent_and_have_some_thousand_marks_at_most() {
    let page = page(&[disturbed_record(4)]);
    let maps = heat_maps(&page);
    assert_eq!(maps.len(), 2);
    for map in maps {
        let marks = map.matches("M").count() + map.matches("<rect").count();
        assert!((45..6_000).contains(&marks), "{marks}");
        for edge in ["0.40", "0.97", "1.03", "2.50"] {
            assert!(map.contains(&format!(">{edge}</text>")), "the legend has no {edge}");
        }
    }
}

#[test]
fn blocks_of_few_cells_are_drawn_at_their_own_times() {
    let mut record = common::sample_record();
    record.runs.truncate(1);
    for round in &mut record.runs[0].rounds {
        (round.started_ns, round.duration_ns) = (u64::from(round.index) * 1_000_000_000, 900_000_000);
    }
    let own = page(&[record]);
    assert!(heat_maps(&own)[0].contains("blocks at their own times"));
    assert!(heat_maps(&page(&[common::sample_record()]))[0].contains("as wide as the turn"));
}

#[test]
fn stream_has_no_latency_over_time() {
    assert!(heat_maps(&page(&[stream_record()])).is_empty());
}

#[test]
fn two_records_are_compared_by_words_signs_and_intervals() {
    let page = page(&[common::sample_record(), slower_record(1.08)]);
    let part = page.split("<section id=\"comparison\">").nth(1).unwrap().split("</section>").next().unwrap();
    for words in [
        "Result: DIFFERENT (figures that differ: ",
        "▲</span> SLOWER",
        "=</span> no difference",
        "Each verdict holds for its figure alone with 95 %",
        "not-interleaved",
        "change of p50 from A to B, percent",
    ] {
        assert!(part.contains(words), "no {words}");
    }
    let row = part.split("A-udp-spin-64B\">udp/spin 64 B</a>").nth(1).unwrap().split("</tr>").next().unwrap();
    let values: Vec<&str> = row.split("<td>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
    assert_eq!(values[..3], ["1.95", "2.10", "1.080"], "{row}");
    assert!(values[3].contains(" to "), "{row}");
}

#[test]
fn other_numbers_of_records_are_not_compared() {
    let record = common::sample_record();
    for records in [vec![record.clone()], vec![record.clone(), record.clone(), record]] {
        assert!(!page(&records).contains("id=\"comparison\""));
    }
}

#[test]
fn records_of_other_latencies_are_not_compared_and_the_page_says_why() {
    let page = page(&[common::sample_record(), common::load_record()]);
    assert!(page.contains("a latency is half RTT in A and response time in B"));
    assert!(!page.contains("<table class=\"verdicts\""));
}

#[test]
fn streams_are_compared_by_loss_and_cpu_time_only() {
    let mut lossy = stream_record();
    for round in &mut lossy.runs[0].rounds {
        round.lost = round.samples / 2;
    }
    lossy.runs[0].lost = lossy.runs[0].rounds.iter().map(|round| round.lost).sum();
    let page = page(&[stream_record(), lossy]);
    assert!(page.contains("▲</span> MORE LOSS"));
    assert!(!page.contains("too few samples a round"));
}

#[test]
fn record_is_had_back_from_the_page_by_the_line_that_it_tells() {
    let mut evil = common::load_record();
    evil.command = vec!["</script><b>".to_owned(), "<!--<script>".to_owned(), "\u{2028}\"\\\n".to_owned()];
    evil.experiment.latency = common::sample_record().experiment.latency;
    let records = [common::sample_record(), evil];
    let folder = tempfile::tempdir().unwrap();
    let html = folder.path().join("PAGE.html");
    std::fs::write(&html, page(&records)).unwrap();
    let text = std::fs::read_to_string(&html).unwrap();
    for (letter, record) in ["A", "B"].iter().zip(&records) {
        let line = format!("sed -n '/^<script.*id=\"record-{letter}\"/{{n;p;}}' PAGE.html > {letter}.json");
        let told = line.replace('<', "&lt;").replace('>', "&gt;");
        assert!(text.contains(&told), "the page does not tell {told}");
        let status = Command::new("sh").args(["-c", &line]).current_dir(folder.path()).status().unwrap();
        assert!(status.success());
        assert_eq!(read_record(folder.path().join(format!("{letter}.json"))).unwrap(), *record);
    }
}

#[test]
fn dataplane_record_is_had_back_from_the_page_by_the_line_that_it_tells() {
    let mut evil = one_size_record();
    evil.command = vec!["</script><b>".to_owned(), "<!--<script>".to_owned(), "\u{2028}\"\\\n".to_owned()];
    let folder = tempfile::tempdir().unwrap();
    let html = dataplane_page(&[dataplane_record(), evil.clone()]);
    std::fs::write(folder.path().join("PAGE.html"), &html).unwrap();
    let line = "sed -n '/^<script.*id=\"record-B\"/{n;p;}' PAGE.html > B.json";
    assert!(html.contains(&line.replace('<', "&lt;").replace('>', "&gt;")), "the page does not tell {line}");
    assert!(Command::new("sh").args(["-c", line]).current_dir(folder.path()).status().unwrap().success());
    assert_eq!(read_dataplane_record(folder.path().join("B.json")).unwrap(), evil);
}
