//! Tests of the page in a real browser: at desktop and phone widths, in light and dark, with and without scripts.
//!
//! They check that there is something to see, that it fits, and that the page's policy holds. Invariant: the browser
//! has a profile of its own and reaches nothing but this server.

mod devtools;

use super::{Admin, AdminResponse};
use devtools::Browser;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use tokio::sync::oneshot;
use tokrate_core::Span;
use tokrate_gateway::sample::{SampleGateway, row};
use tokrate_gateway::telemetry::Setting;
use tokrate_net::Clock;
use tokrate_net::server::{AccessConfig, AccessSettings, ConnectionLimits, Connections, Listener};
use tokrate_record::{Attempt as Row, Sample};

const PHONE_PX: u32 = 390;
const SMALL_PHONE_PX: u32 = 360;
const DESKTOP_PX: u32 = 1200;
const WIDE_PX: u32 = 1400;

/// The admin side of a sample gateway, served on loopback until this is dropped.
struct TestServer {
    address: SocketAddr,
    sample: SampleGateway,
    _end: oneshot::Sender<()>,
}

/// A new folder for the log.
fn log_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("tokrate-admin-log-{}-{number}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

fn serve() -> TestServer {
    let now_unix_ms = Clock::monotonic().wall_nanos() / 1_000_000;
    let folder = log_folder();
    let sample =
        SampleGateway::with_traffic(now_unix_ms).with_log(&folder.join("log.db"), &SampleGateway::hour(now_unix_ms));
    let setting = |key: &str, value: &str| Setting {
        key: format!("gateway.{key}"),
        value: value.to_owned(),
        origin: "tokrate.toml, line 3".to_owned(),
    };
    let settings =
        [("listen", "127.0.0.1:8411"), ("limits.total", "10 min"), ("lanes.groq", "groq/gpt-oss-120b, key ***")];
    sample.observer().report_settings(settings.map(|(key, value)| setting(key, value)).into());
    let (end, ended) = oneshot::channel::<()>();
    let (address_sender, address) = channel();
    let observer = sample.observer();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let settings = AccessSettings { host: "", origin: None, key: "" };
            let access = AccessConfig { hosts: &[], origins: &[], requires_key: false, settings: &settings };
            let connections = Connections::new(ConnectionLimits::without_keys());
            let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let listener = Listener::bind(here, &access, &connections).await.expect("a port");
            address_sender.send(listener.address()).expect("the test waits");
            let clock = observer.clock();
            let admin = Admin::new(observer);
            let end = async move { drop(ended.await) };
            listener.serve(Rc::new(admin), clock, end, Span::from_secs(1)).await;
        });
    });
    TestServer { address: address.recv().expect("it listens"), sample, _end: end }
}

/// Where screenshots are kept for people to look at.
fn screenshot_path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/admin-pictures");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder.join(name)
}

/// Elements that overflow the window, and text too small to read.
const MEASURE: &str = "(() => {
  const root = document.documentElement, style = getComputedStyle;
  const scrolls = (element) => {
    for (let at = element; at && at !== root; at = at.parentElement) {
      if (['auto', 'scroll', 'hidden'].includes(style(at).overflowX)) return true;
    }
    return false;
  };
  const visible = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height > 8);
  const wide = visible('body *').filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(e));
  const small = visible('p, dd, dt, td, th, h1, h2, h3, summary, span, time').filter((e) => parseFloat(style(e).fontSize) < 11);
  return { wide: wide.map((e) => e.outerHTML.slice(0, 90)), small: small.map((e) => e.outerHTML.slice(0, 90)),
    charts: visible('svg.tk').length, ink: style(document.body).color, paper: style(document.body).backgroundColor,
    pulse: document.getElementById('pulse')?.textContent };
})()";

/// Every page but the overview, with the name of its screenshots.
const PAGES: [(&str, &str); 7] = [
    ("lane", "/lane?lane=groq"),
    ("lane-of-a-key", "/lane?lane=openai&key=ada&since=24h"),
    ("calls", "/calls?end=failed&sort=longest"),
    ("call", "/call?call=18a3f0c2d4e5f607-"),
    ("keys", "/keys"),
    ("settings", "/settings"),
    ("error", "/calls?sort=up"),
];

/// Opens the overview in a window and takes a screenshot of all of it.
fn open_and_check(browser: &mut Browser, server: &TestServer, window: (u32, &str, bool)) -> Value {
    let (seen, bytes) = open_page(browser, server, ("overview", "/"), window);
    assert!(bytes > 60_000, "{bytes} bytes: there is next to nothing on it at {window:?}");
    seen
}

/// Opens a page in a window, takes a screenshot of all of it, and says what is to be seen and how large the picture is.
fn open_page(
    browser: &mut Browser,
    server: &TestServer,
    (name, path): (&str, &str),
    (width, scheme, scripts): (u32, &str, bool),
) -> (Value, usize) {
    browser.window(width, 900, scheme, scripts);
    browser.open(&format!("http://{}{path}", server.address));
    let (content_width, height) = browser.content();
    assert!(content_width <= f64::from(width), "{path} must be scrolled sideways at {width} px: {content_width} px");
    let name = format!("{name}-{width}-{scheme}{}.png", if scripts { "" } else { "-without-scripts" });
    let png = browser.picture(width, height);
    let bytes = png.len();
    std::fs::write(screenshot_path(&name), png).expect("the target folder can be written");
    (if scripts { browser.ask(MEASURE) } else { Value::Null }, bytes)
}

#[test]
fn every_page_fits_every_window_and_keeps_to_its_policy() {
    let server = serve();
    let mut browser = Browser::start();
    for page in PAGES {
        for window in [(WIDE_PX, "light", true), (PHONE_PX, "dark", true)] {
            let (seen, _) = open_page(&mut browser, &server, page, window);
            assert_eq!(seen["wide"], json!([]), "elements stick out: {page:?} {window:?}");
            assert_eq!(seen["small"], json!([]), "text too small to read: {page:?} {window:?}");
        }
    }
    // One call, found by its name; a page that is refused is said so on the browser's console.
    browser.window(WIDE_PX, 900, "light", true);
    browser.open(&format!("http://{}/calls", server.address));
    browser.follow("document.querySelector('.grid tbody th a').click()");
    assert_eq!(browser.ask("document.querySelectorAll('svg.fall').length"), json!(2));
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|complaint| complaint.contains("status of 400")), "{complaints:?}");
}

#[test]
fn filters_and_ranges_work_as_forms_and_links() {
    let server = serve();
    let mut browser = Browser::start();
    browser.window(WIDE_PX, 900, "light", true);
    browser.open(&format!("http://{}/", server.address));
    browser.follow("document.querySelector('.ranges a[href*=\"24h\"]').click()");
    let choose = "document.querySelector('.filters select[name=key]').value = 'ada';
                  document.querySelector('.filters button').click()";
    browser.follow(choose);
    let address = browser.ask("location.search");
    assert_eq!(address, "?since=24h&key=ada&alias=");
    browser.follow("document.querySelector('.tabs a[href^=\"/calls\"]').click()");
    assert_eq!(browser.ask("location.pathname + location.search"), "/calls?since=24h&key=ada");
    let find =
        "document.getElementById('find').value = document.querySelector('.grid tbody th a').href.split('call=')[1];
                document.querySelector('.search button').click()";
    browser.follow(find);
    assert_eq!(browser.ask("location.pathname"), "/call");
    assert!(
        browser
            .ask("document.querySelector('h1').textContent")
            .as_str()
            .is_some_and(|head| head.starts_with("Call 18a3"))
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_fits_every_window_and_keeps_to_its_policy() {
    let server = serve();
    let mut browser = Browser::start();
    let windows = [
        (DESKTOP_PX, "light", true),
        (DESKTOP_PX, "dark", true),
        (PHONE_PX, "light", true),
        (PHONE_PX, "dark", true),
        (SMALL_PHONE_PX, "light", true),
    ];
    for window in windows {
        let seen = open_and_check(&mut browser, &server, window);
        assert_eq!(seen["wide"], json!([]), "elements stick out: {window:?}");
        assert_eq!(seen["small"], json!([]), "text too small to read: {window:?}");
        assert!(seen["charts"].as_u64() >= Some(6), "{seen}");
        assert_eq!(seen["pulse"], "live");
        let dark = window.1 == "dark";
        assert_eq!(seen["paper"] == "rgb(20, 23, 28)", dark, "{seen}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new(), "what the browser refused or the script threw");
}

#[test]
fn the_page_is_whole_without_scripts() {
    let server = serve();
    let mut browser = Browser::start();
    for width in [DESKTOP_PX, PHONE_PX] {
        open_and_check(&mut browser, &server, (width, "light", false));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Resolves once a text is on the page, with which details were open and where in the window the reader's place is: what stands above
/// it may have grown.
const AWAIT_UPDATE: &str = "new Promise((done) => {
  const state = () => ({ place: Math.round(document.getElementById('ttft-0-head').getBoundingClientRect().top), open: document.getElementById('ttft-0').open,
    focused: document.activeElement.id, scripts: window.stolen || 'none' });
  const check = () => { if (document.getElementById('calls').textContent.includes('the-news')) done(state()); };
  new MutationObserver(check).observe(document.getElementById('live'), { childList: true, subtree: true });
  check();
})";

#[test]
fn updates_arrive_by_themselves_and_keep_the_readers_place() {
    let server = serve();
    let mut browser = Browser::start();
    browser.window(DESKTOP_PX, 900, "light", true);
    browser.open(&format!("http://{}/", server.address));
    let opened = "document.getElementById('ttft-0-head').click(); document.getElementById('ttft-0-head').focus();
                  window.scrollTo(0, document.getElementById('lane-0').offsetTop);
                  Math.round(document.getElementById('ttft-0-head').getBoundingClientRect().top)";
    let place = browser.ask(opened);
    assert!(place.as_f64() < Some(900.0), "it is in the window: {place}");
    let hostile = "<img src=x onerror=\"window.stolen='yes'\">".to_owned();
    let started_unix_ms = Clock::monotonic().wall_nanos() / 1_000_000;
    let news = Row {
        alias: "the-news".to_owned(),
        sample: Sample { model_answered: Some(hostile), started_unix_ms, ..row(99, "openai").sample },
        ..row(99, "openai")
    };
    server.sample.record(&Row {
        sample: Sample { provider: "openai".to_owned(), model: "gpt-5.2-mini".to_owned(), ..news.sample },
        ..news
    });
    let after = browser.ask(AWAIT_UPDATE);
    let (_, height) = browser.content();
    std::fs::write(screenshot_path("1200-opened.png"), browser.picture(DESKTOP_PX, height))
        .expect("the target folder can be written");
    assert_eq!(after, json!({ "place": place, "open": true, "focused": "ttft-0-head", "scripts": "none" }));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn no_other_page_can_frame_it() {
    let response = AdminResponse::text(http::StatusCode::OK, "x").into_response();
    assert_eq!(response.headers()["x-frame-options"], "DENY");
    let policy = response.headers()["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
}
