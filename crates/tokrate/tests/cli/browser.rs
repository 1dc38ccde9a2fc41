//! The report in a real browser, at the width of a desk and of a phone.
//!
//! It does not judge taste: it says whether there is something to see and whether it fits. Invariant: the browser runs
//! with a profile of its own and fetches nothing.

use crate::folder::Folder;
use crate::tool::{Finished, finish, run, start};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokrate_host::{Host, HostConfig};
use tokrate_sim::Law;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const PHONE: u32 = 390;
const DESK: u32 = 1200;
/// Where figures stand side by side.
const WIDE: u32 = 1400;
/// Pictures are not taken of more than this.
const HEIGHT_MOST: u32 = 12_000;

/// The browser; without one this test cannot say anything, so it fails.
fn browser() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no Chromium on PATH; run `cargo xtask test`, which installs it"))
}

/// Opens a page and lets the browser do one thing with it.
fn open(folder: &Folder, page: &str, (width, height): (u32, u32), action: &str) -> Finished {
    let mut command = Command::new(browser());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]);
    command.args(["--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars"]);
    // Frames of files may be looked into; the report itself runs no script.
    command.args(["--disable-breakpad", "--disable-dev-shm-usage", "--allow-file-access-from-files"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("--window-size={width},{height}")).arg(action);
    command.arg(format!("file://{}", folder.join(page).display()));
    command.current_dir(folder.path()).env("HOME", folder.path());
    let finished = finish(start(&mut command));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished
}

/// The report of a sweep, with requests of every level.
fn report() -> Folder {
    let folder = Folder::new("browser");
    let arguments = "bench --duration 600ms --concurrency 1,2,4,8,40 --output-tokens 36 --html report.html";
    let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    folder
}

/// Where pictures are kept for people to look at.
fn gallery(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-pictures");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder.join(name)
}

/// Measures every frame once its report is there, and says so in the page's title.
const MEASURE: &str = "
const seen = [];
for (const frame of document.querySelectorAll('iframe')) frame.onload = () => {
  const inner = frame.contentDocument, root = inner.documentElement, style = frame.contentWindow.getComputedStyle;
  const scrolls = (element) => {
    for (let at = element; at && at !== root; at = at.parentElement) {
      if (['auto', 'scroll', 'hidden'].includes(style(at).overflowX)) return true;
    }
    return false;
  };
  const visible = (selector) => [...inner.querySelectorAll(selector)].filter((e) => e.getBoundingClientRect().height > 20);
  const wide = visible('body *').filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(e));
  const small = visible('p, dd, td, th, h1, h2, h3, summary').filter((e) => parseFloat(style(e).fontSize) < 11);
  seen.push({
    width: root.clientWidth, content: root.scrollWidth, height: root.scrollHeight, charts: visible('svg').length,
    beside: visible('figure').filter((e) => e.getBoundingClientRect().left > root.clientWidth / 2).length,
    cut: visible('.scroll').filter((e) => !e.closest('details:not([open])') && e.scrollWidth > e.clientWidth + 1)
      .map((e) => e.outerHTML.slice(0, 200)),
    wide: wide.map((e) => e.outerHTML.slice(0, 80)), small: small.map((e) => e.outerHTML.slice(0, 80)),
  });
  document.title = encodeURIComponent(JSON.stringify(seen));
  frame.style.height = root.scrollHeight + 'px';
};";

/// Writes a page with the report in frames of these widths.
fn frames(folder: &Folder, name: &str, widths: &[u32]) {
    let frame = |width: &u32| {
        format!("<iframe src=report.html style='border:0;display:block;width:{width}px;height:800px'></iframe>")
    };
    let frames: String = widths.iter().map(frame).collect();
    folder.write(
        name,
        &format!("<!doctype html><title>-</title><body style='margin:0'>{frames}<script>{MEASURE}</script>"),
    );
}

/// What the frames measured, by width.
fn measured(folder: &Folder) -> Vec<Value> {
    frames(folder, "all.html", &[PHONE, DESK, WIDE]);
    let dom = open(folder, "all.html", (WIDE, 900), "--dump-dom").stdout;
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).expect("a title");
    let json: Vec<u8> = decoded(title);
    let mut seen: Vec<Value> = serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{error}: {title}"));
    seen.sort_by_key(|frame| frame["width"].as_u64());
    seen
}

/// Undoes `encodeURIComponent`.
fn decoded(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// Takes a picture and checks that there is something on it.
fn take_picture(folder: &Folder, width: u32, height: u32, name: &str) {
    let page = format!("{name}.html");
    frames(folder, &page, &[width]);
    // A window is never narrower than 500 px; the frame in it is.
    let (path, size) = (gallery(name), (width.max(500), height));
    let _ = std::fs::remove_file(&path);
    open(folder, &page, size, &format!("--screenshot={}", path.display()));
    let png = std::fs::read(&path).expect("a picture was taken");
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((number(16), number(20)), size, "the picture has the size that was asked for");
    // A blank picture of this size has a few thousand bytes.
    assert!(png.len() > 100_000, "{} bytes: there is next to nothing on {name}", png.len());
}

fn expect_content(dom: &str) {
    let headings = ["Degradation with load", "Distributions", "Requests over time", "All levels in numbers"];
    for heading in headings.into_iter().chain(["The client's own error", "Conditions"]) {
        assert!(dom.contains(heading), "no {heading}");
    }
    let count = |piece: &str| dom.matches(piece).count();
    assert!(count("<figure") >= 6, "{} figures", count("<figure"));
    assert_eq!(count("<figure"), count("<details"), "each chart has its table");
    assert!(count("<table") > count("<figure"), "{} tables", count("<table"));
    assert!(dom.contains("Content-Security-Policy"));
    for outside in ["<script", "src=", "href=\"http", "url(http", "@import", "NaN", "undefined"] {
        assert_eq!(count(outside), 0, "{outside}");
    }
}

#[test]
fn the_report_is_whole_and_fits_a_phone_and_desks() {
    let folder = report();
    expect_content(&open(&folder, "report.html", (DESK, 900), "--dump-dom").stdout);
    let seen = measured(&folder);
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!([&seen[0]["beside"], &seen[1]["beside"]], [0, 0], "figures stand one below the other");
    assert!(seen[2]["beside"].as_u64() >= Some(2), "a wide page is used: {}", seen[2]);
    for (frame, width) in [(&seen[0], PHONE), (&seen[2], WIDE)] {
        assert_eq!(frame["cut"], serde_json::json!([]), "no table is cut at {width} px");
    }
    for (frame, (width, name)) in seen.iter().zip([(PHONE, "phone.png"), (DESK, "desk.png"), (WIDE, "wide.png")]) {
        assert_eq!(frame["width"], width);
        assert!(frame["content"].as_u64() <= Some(u64::from(width)), "it must be scrolled sideways: {frame}");
        assert_eq!(frame["wide"], serde_json::json!([]), "elements stick out at {width} px");
        assert_eq!(frame["small"], serde_json::json!([]), "text too small to read at {width} px");
        assert!(frame["charts"].as_u64() >= Some(6), "{frame}");
        let height = frame["height"].as_u64().and_then(|height| u32::try_from(height).ok()).expect("a height");
        take_picture(&folder, width, height.min(HEIGHT_MOST), name);
    }
}

#[test]
fn a_comparison_of_two_is_not_cut_on_a_phone() {
    let folder = Folder::new("browser-scorecard");
    let law = || Law { stream_tokens_per_second: 400.0, ..Law::default() };
    let hosts = [(), ()].map(|()| Host::start(HostConfig { law: law(), ..HostConfig::default() }).expect("it starts"));
    let [one, other] = hosts.each_ref().map(|host| host.address());
    let line = format!(
        "bench vllm@{one}/m sglang@{other}/m -c 1,4 --requests 20 --rounds 1 --output-tokens 40 --calibration off \
         --price-input 1 --price-output 3 --scorecard --html report.html"
    );
    let finished = run(&folder, &line.split_whitespace().collect::<Vec<&str>>());
    for host in hosts {
        host.stop();
    }
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let phone = &measured(&folder)[0];
    assert_eq!((&phone["width"], &phone["wide"]), (&PHONE.into(), &serde_json::json!([])), "elements stick out");
    assert_eq!(phone["cut"], serde_json::json!([]), "tables must be scrolled sideways");
    assert!(phone["content"].as_u64() <= Some(u64::from(PHONE)), "the page must be scrolled sideways: {phone}");
}
