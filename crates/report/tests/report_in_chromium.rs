//! The report page in a real browser, light and dark.
//!
//! Needs `chromium` in the search path. Without `NEARWIRE_REQUIRE=all` in the environment a machine without it
//! skips, loudly; with it, that is a failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use nearwire_report::{render_dataplane_html, render_html};

/// Appended to the page so that the dumped document tells what the browser made of it: among others the text with the
/// least contrast to what lies behind it, and how many of the elements that tell more show it once they have the focus.
const PROBE: &str = "<script>addEventListener('load', () => {\
    document.querySelectorAll('details').forEach(details => details.open = true);\
    const cut = [...document.querySelectorAll('svg text')].filter(text => {\
        const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;\
        return box.x < -0.5 || box.x + box.width > view.width + 0.5;\
    }).map(text => text.textContent);\
    const channels = colour => colour.match(/[0-9.]+/g).map(Number);\
    const luminance = ([red, green, blue]) => [red, green, blue].map(value => value / 255)\
        .map(share => share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4)\
        .reduce((sum, share, index) => sum + share * [0.2126, 0.7152, 0.0722][index], 0);\
    const behind = element => {\
        for (let at = element; at; at = at.parentElement) {\
            const ground = channels(getComputedStyle(at).backgroundColor);\
            if (ground.length === 3 || ground[3] === 1) return ground;\
        }\
        return [255, 255, 255];\
    };\
    const contrast = element => {\
        const style = getComputedStyle(element), inPicture = element.namespaceURI.endsWith('svg');\
        const text = luminance(channels(inPicture ? style.fill : style.color)), ground = luminance(behind(element));\
        return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);\
    };\
    const writes = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());\
    const texts = [...document.querySelectorAll('body *')].filter(element => writes(element)\
        && !element.closest('script, title') && element.getClientRects().length);\
    const least = texts.map(element => [contrast(element), element]).sort((a, b) => a[0] - b[0])[0];\
    const spots = [...document.querySelectorAll('[data-tip]')];\
    const silent = spots.filter(spot => {\
        spot.focus({preventScroll: true});\
        const shown = getComputedStyle(spot, '::after');\
        return document.activeElement !== spot || shown.position !== 'fixed' || !shown.content.includes(' ');\
    });\
    document.activeElement.blur();\
    const probe = document.createElement('p');\
    probe.id = 'probe';\
    probe.textContent = 'ground=' + getComputedStyle(document.body).backgroundColor\
        + ';svgs=' + document.querySelectorAll('svg').length\
        + ';overflow=' + (document.documentElement.scrollWidth > innerWidth)\
        + ';cut=' + cut.slice(0, 3).join('|')\
        + ';texts=' + texts.length\
        + ';contrast=' + least[0].toFixed(2) + ' ' + least[1].tagName + ' ' + least[1].textContent.slice(0, 30).replace(';', ',')\
        + ';spots=' + spots.length\
        + ';silent=' + silent.length\
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

/// Text has a contrast of 4.5 or more, and what tells more does so with the focus.
fn assert_readable(document: &str, least_spots: u32) {
    let least = probed(document, "contrast");
    assert!(least.split(' ').next().unwrap().parse::<f64>().unwrap() >= 4.5, "{least}");
    assert!(probed(document, "texts").parse::<u32>().unwrap() > 300);
    assert!(probed(document, "spots").parse::<u32>().unwrap() > least_spots);
    assert_eq!(probed(document, "silent"), "0", "they cannot take the focus or show nothing");
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
        assert_readable(&document, 100);
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
    let frame = "<iframe src=\"phone.html\" style=\"width:360px;height:2500px;border:0\"></iframe>";
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
    let records = [common::sample_record(), common::pages::slower_record(1.08)];
    let html = render_html(&records).unwrap();
    fs::write(&page, html.replace("</body>", PROBE)).unwrap();
    if chromium().is_none() {
        return;
    }
    for dark in [false, true] {
        let document = run_chromium(&page, dark, 1280, &["--dump-dom".to_owned()]);
        assert!(probed(&document, "svgs").parse::<u32>().unwrap() >= 80);
        assert_eq!(probed(&document, "cut"), "");
        assert_eq!(probed(&document, "overflow"), "false");
        assert_readable(&document, 100);
    }
    let picture = folder().join("several.png");
    run_chromium(&page, false, 1280, &[format!("--screenshot={}", picture.display())]);
}

#[test]
fn pages_of_other_workloads_are_readable() {
    for (name, record) in [("load", common::load_record()), ("stream", common::pages::stream_record())] {
        let page = folder().join(format!("{name}.html"));
        fs::write(&page, render_html(&[record]).unwrap().replace("</body>", PROBE)).unwrap();
        if chromium().is_none() {
            return;
        }
        let document = run_chromium(&page, true, 1280, &["--dump-dom".to_owned()]);
        let least = probed(&document, "contrast");
        assert!(least.split(' ').next().unwrap().parse::<f64>().unwrap() >= 4.5, "{name}: {least}");
        assert_eq!((probed(&document, "cut"), probed(&document, "silent")), ("", "0"), "{name}");
    }
}

#[test]
fn dataplane_pages_are_readable_and_fit_their_windows() {
    let mut hostile = common::dataplane::one_size_record();
    for cell in &mut hostile.cells {
        cell.device.push_str(&"-Long_name".repeat(9));
        cell.parts.iter_mut().for_each(|part| part.detail = "A long detail of this part, ".repeat(20));
    }
    let records = [
        ("dataplane", common::dataplane::dataplane_record()),
        ("dataplane-one", common::dataplane::one_size_record()),
        ("dataplane-wide", hostile),
    ];
    for (name, record) in records {
        let page = folder().join(format!("{name}.html"));
        fs::write(&page, render_dataplane_html(&[record]).unwrap().replace("</body>", PROBE)).unwrap();
        if chromium().is_none() {
            return;
        }
        for dark in [false, true] {
            let document = run_chromium(&page, dark, 1280, &["--dump-dom".to_owned()]);
            assert_eq!(probed(&document, "cut"), "", "{name}: labels reach out of their pictures");
            assert_eq!(probed(&document, "overflow"), "false", "{name}: the page is wider than its window");
            assert_eq!(probed(&document, "resources"), "0", "{name}: the page asked for something");
            assert_readable(&document, 50);
        }
        let document = run_chromium(&page, false, 500, &["--dump-dom".to_owned()]);
        assert_eq!(probed(&document, "overflow"), "false", "{name}: on a narrow window");
        let picture = folder().join(format!("{name}.png"));
        run_chromium(&page, false, 1280, &[format!("--screenshot={}", picture.display())]);
    }
}
