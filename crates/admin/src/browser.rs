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
use std::sync::mpsc::channel;
use tokio::sync::oneshot;
use tokrate_core::Span;
use tokrate_gateway::sample::{SampleGateway, row};
use tokrate_net::Clock;
use tokrate_net::server::{AccessConfig, AccessSettings, ConnectionLimits, Connections, Listener};
use tokrate_record::{Attempt as Row, Sample};

const PHONE_PX: u32 = 390;
const SMALL_PHONE_PX: u32 = 360;
const DESKTOP_PX: u32 = 1200;

/// The admin side of a sample gateway, served on loopback until this is dropped.
struct TestServer {
    address: SocketAddr,
    sample: SampleGateway,
    _end: oneshot::Sender<()>,
}

fn serve() -> TestServer {
    let now_unix_ms = Clock::monotonic().wall_nanos() / 1_000_000;
    let sample = SampleGateway::with_traffic(now_unix_ms);
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
  const visible = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.getBoundingClientRect().height > 8);
  const wide = visible('body *').filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(e));
  const small = visible('p, dd, dt, td, th, h1, h2, h3, summary, span, time').filter((e) => parseFloat(style(e).fontSize) < 11);
  return { wide: wide.map((e) => e.outerHTML.slice(0, 90)), small: small.map((e) => e.outerHTML.slice(0, 90)),
    charts: visible('svg.tk').length, ink: style(document.body).color, paper: style(document.body).backgroundColor,
    pulse: document.getElementById('pulse').textContent };
})()";

/// Opens the page in a window and takes a screenshot of all of it.
fn open_and_check(browser: &mut Browser, server: &TestServer, (width, scheme, scripts): (u32, &str, bool)) -> Value {
    browser.window(width, 900, scheme, scripts);
    browser.open(&format!("http://{}/", server.address));
    let (content_width, height) = browser.content();
    assert!(content_width <= f64::from(width), "it must be scrolled sideways at {width} px: {content_width} px");
    let name = format!("{width}-{scheme}{}.png", if scripts { "" } else { "-without-scripts" });
    let png = browser.picture(width, height);
    assert!(png.len() > 60_000, "{} bytes: there is next to nothing on {name}", png.len());
    std::fs::write(screenshot_path(&name), png).expect("the target folder can be written");
    if scripts { browser.ask(MEASURE) } else { Value::Null }
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

/// Resolves once a text is on the page, with which details were open and where the page was scrolled.
const AWAIT_UPDATE: &str = "new Promise((done) => {
  const state = () => ({ scroll: window.scrollY, open: document.getElementById('ttft-0').open,
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
                  window.scrollTo(0, 640); window.scrollY";
    let scroll = browser.ask(opened);
    assert!(scroll.as_f64() > Some(300.0), "{scroll}");
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
    assert_eq!(after, json!({ "scroll": scroll, "open": true, "focused": "ttft-0-head", "scripts": "none" }));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn no_other_page_can_frame_it() {
    let response = AdminResponse::text(http::StatusCode::OK, "x").into_response();
    assert_eq!(response.headers()["x-frame-options"], "DENY");
    let policy = response.headers()["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
}
