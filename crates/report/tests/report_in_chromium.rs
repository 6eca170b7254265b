//! The report page in a real browser, light and dark.
//!
//! Needs `chromium` in the search path. Without `NEARWIRE_REQUIRE=all` in the environment a machine without it
//! skips, loudly; with it, that is a failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use nearwire_report::render_html;

/// Appended to the page so that the dumped document tells what the browser made of it.
const PROBE: &str = "<script>addEventListener('load', () => {\
    document.querySelectorAll('details').forEach(details => details.open = true);\
    const cut = [...document.querySelectorAll('svg text')].filter(text => {\
        const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;\
        return box.x < -0.5 || box.x + box.width > view.width + 0.5;\
    }).map(text => text.textContent);\
    const probe = document.createElement('p');\
    probe.id = 'probe';\
    probe.textContent = 'ground=' + getComputedStyle(document.body).backgroundColor\
        + ';svgs=' + document.querySelectorAll('svg').length\
        + ';overflow=' + (document.documentElement.scrollWidth > innerWidth)\
        + ';cut=' + cut.slice(0, 3).join('|')\
        + ';resources=' + performance.getEntriesByType('resource').length + ';';\
    document.body.append(probe);\
});</script></body>";

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report-page");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The browser's arguments, or `None` when it may be and is missing.
fn chromium() -> Option<()> {
    let required = env::var("NEARWIRE_REQUIRE").is_ok_and(|value| value == "all");
    let found = Command::new("chromium").arg("--version").output();
    match (found, required) {
        (Ok(output), true) if output.status.success() => Some(()),
        (_, false) => {
            eprintln!("SKIP report_in_chromium: set NEARWIRE_REQUIRE=all to run it (needs chromium)");
            None
        }
        (found, true) => panic!("NEARWIRE_REQUIRE=all but chromium does not run: {found:?}"),
    }
}

fn run_chromium(page: &Path, dark: bool, width: u32, what: &[String]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let scheme = if dark { 0 } else { 1 };
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg("--hide-scrollbars")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--window-size={width},2600"))
        .args(what)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn probed<'a>(document: &'a str, name: &str) -> &'a str {
    let probe = document.rsplit("id=\"probe\">").next().unwrap();
    let value = probe.split(&format!("{name}=")).nth(1).expect(name);
    value.split(';').next().unwrap()
}

#[test]
fn page_in_light_and_dark_has_charts_and_no_requests() {
    let page = folder().join("report.html");
    let html = render_html(&[common::sample_record()]).unwrap();
    fs::write(&page, html.replace("</body>", PROBE)).unwrap();
    if chromium().is_none() {
        return;
    }
    let mut grounds = Vec::new();
    let mut pictures = Vec::new();
    for (name, dark) in [("light", false), ("dark", true)] {
        let document = run_chromium(&page, dark, 1280, &["--dump-dom".to_owned()]);
        assert!(probed(&document, "svgs").parse::<u32>().unwrap() >= 40, "charts are there");
        assert_eq!(probed(&document, "cut"), "", "labels reach out of their pictures");
        assert_eq!(probed(&document, "resources"), "0", "the page asked for something");
        assert_eq!(probed(&document, "overflow"), "false", "the page is wider than its window");
        grounds.push(probed(&document, "ground").to_owned());
        let picture = folder().join(format!("{name}.png"));
        run_chromium(&page, dark, 1280, &[format!("--screenshot={}", picture.display())]);
        pictures.push(fs::read(&picture).unwrap());
    }
    assert_ne!(grounds[0], grounds[1], "one background for both schemes");
    assert_ne!(pictures[0], pictures[1], "one picture for both schemes");
    assert!(pictures.iter().all(|png| png.starts_with(b"\x89PNG") && png.len() > 20_000));
}

#[test]
fn page_on_a_phone_does_not_overflow() {
    let page = folder().join("phone.html");
    let html = render_html(&[common::sample_record()]).unwrap();
    fs::write(&page, html.replace("</body>", PROBE)).unwrap();
    if chromium().is_none() {
        return;
    }
    // Headless windows are at least 500 wide, so the phone is a frame in a page of its own.
    let shell = folder().join("phone-shell.html");
    let script = "<script>addEventListener('load', () => {\
        const inner = document.querySelector('iframe').contentDocument;\
        document.body.append(inner.getElementById('probe'));\
    });</script>";
    let frame = "<iframe src=\"phone.html\" style=\"width:400px;height:2500px;border:0\"></iframe>";
    fs::write(&shell, format!("<body style=\"margin:0\">{frame}{script}")).unwrap();
    let allow = "--allow-file-access-from-files".to_owned();
    let document = run_chromium(&shell, false, 500, &[allow.clone(), "--dump-dom".to_owned()]);
    assert_eq!(probed(&document, "overflow"), "false");
    let picture = folder().join("phone.png");
    run_chromium(&shell, false, 500, &[allow, format!("--screenshot={}", picture.display())]);
    assert!(fs::metadata(&picture).unwrap().len() > 10_000);
}

#[test]
fn several_records_are_sections_of_one_page() {
    let page = folder().join("several.html");
    let mut second = common::sample_record();
    second.started_at = "2026-03-15T09:00:00Z".to_owned();
    for run in &mut second.runs {
        run.latency_ns.p50 = run.latency_ns.p50.map(|p50_ns| p50_ns * 1.08);
    }
    let html = render_html(&[common::sample_record(), second]).unwrap();
    fs::write(&page, html.replace("</body>", PROBE)).unwrap();
    if chromium().is_none() {
        return;
    }
    let document = run_chromium(&page, false, 1280, &["--dump-dom".to_owned()]);
    assert!(probed(&document, "svgs").parse::<u32>().unwrap() >= 80);
    assert_eq!(probed(&document, "cut"), "");
    let picture = folder().join("several.png");
    run_chromium(&page, false, 1280, &[format!("--screenshot={}", picture.display())]);
}
