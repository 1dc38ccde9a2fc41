//! The report in a real browser, at the width of a desk and of a phone.
//!
//! It refuses to judge taste: it says whether there is something to see and whether it fits. Invariant: the browser runs
//! with a profile of its own and fetches nothing.

use crate::folder::Folder;
use crate::tool::{Finished, finish, run, start};
use std::path::{Path, PathBuf};
use std::process::Command;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const PHONE: u32 = 390;
const DESK: u32 = 1200;

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
fn open(folder: &Folder, page: &Path, (width, height): (u32, u32), action: &str) -> Finished {
    let mut command = Command::new(browser());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]);
    command.args(["--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars"]);
    command.args(["--disable-breakpad", "--disable-dev-shm-usage", "--allow-file-access-from-files"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("--window-size={width},{height}")).arg(action);
    command.arg(format!("file://{}", page.display()));
    command.current_dir(folder.path()).env("HOME", folder.path());
    let finished = finish(start(&mut command));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished
}

/// A report of a sweep with some failures in it.
fn report() -> Folder {
    let folder = Folder::new("browser");
    let arguments = "bench --duration 700ms --concurrency 1,2,4,8,40 --html report.html";
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

/// A page around the report, as wide as a phone or a desk, that says how large the report is in it.
fn frame(folder: &Folder, width: u32) -> PathBuf {
    let script = "const frame = document.getElementById('frame');
frame.onload = () => {
  const inner = frame.contentDocument, root = inner.documentElement;
  const scrolls = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (at !== root && ['auto', 'scroll', 'hidden'].includes(frame.contentWindow.getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  const wide = [...inner.querySelectorAll('body *')].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > root.clientWidth + 1 && !scrolls(element);
  });
  const seen = (selector) => [...inner.querySelectorAll(selector)].filter((e) => e.getBoundingClientRect().height > 20).length;
  frame.style.height = root.scrollHeight + 'px';
  document.title = [root.clientWidth, root.scrollWidth, root.scrollHeight, seen('svg'), wide.length,
    wide.slice(0, 3).map((e) => e.tagName + '.' + e.getAttribute('class')).join('/')].join(' ');
};";
    let page = format!(
        "<!doctype html><title>-</title><body style='margin:0'>\
         <iframe id=frame src=report.html style='border:0;display:block;width:{width}px;height:800px'></iframe>\
         <script>{script}</script>"
    );
    folder.write(&format!("frame-{width}.html"), &page)
}

/// Width, width of the content, height, pictures that are seen, elements that stick out, the first of those.
fn sizes(folder: &Folder, width: u32) -> (Vec<u32>, String) {
    let page = frame(folder, width);
    let dom = open(folder, &page, (DESK, 900), "--dump-dom").stdout;
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).expect("a title");
    let numbers: Vec<u32> = title.split(' ').take(5).map(|word| word.parse().unwrap_or_else(|_| panic!("{title}"))).collect();
    (numbers, title.to_owned())
}

/// Takes a picture and checks that there is something on it.
fn picture(folder: &Folder, width: u32, height: u32, name: &str) {
    let page = frame(folder, width);
    let path = gallery(name);
    let _ = std::fs::remove_file(&path);
    open(folder, &page, (width.max(500), height), &format!("--screenshot={}", path.display()));
    let png = std::fs::read(&path).expect("a picture was taken");
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((number(16), number(20)), (width.max(500), height), "the picture has the size that was asked for");
    assert!(png.len() > 30_000, "{} bytes: the picture is blank", png.len());
}

fn expect_fit(width: u32, name: &str) {
    let folder = report();
    let (sizes, title) = sizes(&folder, width);
    let [client, scroll, height, pictures, wide] = sizes[..] else { panic!("{title}") };
    assert_eq!(client, width);
    assert!(scroll <= width, "the page is {scroll} px wide on a screen of {width} px: {title}");
    assert_eq!(wide, 0, "elements stick out: {title}");
    assert!(pictures >= 4, "{pictures} charts are seen");
    picture(&folder, width, height.min(12_000), name);
}

#[test]
fn the_report_fits_a_phone() {
    expect_fit(PHONE, "phone.png");
}

#[test]
fn the_report_fits_a_desk() {
    expect_fit(DESK, "desk.png");
}

#[test]
fn the_report_holds_what_it_should_and_nothing_from_outside() {
    let folder = report();
    let dom = open(&folder, &folder.join("report.html"), (DESK, 900), "--dump-dom").stdout;
    for heading in ["Degradation with load", "Distributions", "Requests over time", "All levels in numbers", "The client's own error", "Conditions"] {
        assert!(dom.contains(heading), "no {heading}");
    }
    let count = |piece: &str| dom.matches(piece).count();
    assert!(count("<figure") >= 4, "{} figures", count("<figure"));
    assert_eq!(count("<figure"), count("<details"), "each chart has its table");
    assert!(count("<table") > count("<figure"), "{} tables", count("<table"));
    assert_eq!(count("<script"), 0);
    for outside in ["src=\"http", "href=\"http", "url(http", "@import", "NaN", "undefined"] {
        assert_eq!(count(outside), 0, "{outside}");
    }
    assert!(dom.contains("Content-Security-Policy"));
}
