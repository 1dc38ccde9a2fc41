//! Every change that was found, as a page and as a feed.
//!
//! Invariant: the feed is valid Atom (RFC 4287): an entry's id depends on what changed and when, never on how it is worded, so that
//! no reader sees a change twice.

use crate::board::Board;
use crate::data::Change;
use crate::html::{Frame, change_words, kind_words, page, rfc, text};
use crate::links::{Links, Mode, Target};
use crate::names::hash;
use crate::pages::answer;
use crate::pages::endpoint::remarks;
use std::fmt::Write as _;
use tokrate_charts::escape;

/// Changes on the page and in the feed; older ones are counted.
const MAX_LISTED: usize = 200;

/// The page.
pub(crate) fn render(board: &Board, target: &Target, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let mut out = format!(
        "<h1>Changes</h1>\n<p class=\"subtitle\">What the detector found, newest first. {}</p>\n",
        links.link(&Target::Feed, "Atom feed")
    );
    if board.changes.is_empty() {
        out.push_str("<p class=\"none\">Nothing that can be told from chance.</p>\n");
    }
    let shown = &board.changes[..board.changes.len().min(MAX_LISTED)];
    for of_day in shown.chunk_by(|a, b| crate::html::day(a.at) == crate::html::day(b.at)) {
        let _ = write!(out, "<section><h2>{}</h2><ul class=\"changes\">", crate::html::day(of_day[0].at));
        for change in of_day {
            answer::change_line(&mut out, &links, change);
            remarks(&mut out, change);
        }
        out.push_str("</ul></section>\n");
    }
    if board.changes.len() > shown.len() {
        let _ = writeln!(out, "<p class=\"note\">{} older ones are not listed.</p>", board.changes.len() - shown.len());
    }
    let description = "What changed, since when, by how much and how sure that is.".to_owned();
    page(&links, &Frame { title: "Changes".to_owned(), description, target }, &out)
}

/// A name for all time: 128 bits of hash in the form of a UUID of version 8 (RFC 9562).
fn urn(parts: &[&str]) -> String {
    let joined = parts.join("\u{0}");
    let high = hash(joined.as_bytes());
    let low = hash(format!("{joined}\u{0}").as_bytes());
    format!(
        "urn:uuid:{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48 & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

/// A name for a change that stays the same whatever is learned of it later.
pub(crate) fn id(change: &Change) -> String {
    let kind = format!("{:?}", change.kind);
    let times = format!("{} {}", change.at, change.since);
    urn(&[&change.endpoint, &change.workload, &change.place, &change.metric, &kind, &times])
}

/// The feed.
pub(crate) fn feed(board: &Board) -> String {
    let updated = board.changes.first().map_or(board.data.now_unix_ms, |change| change.at);
    let base = board.data.url.trim_end_matches('/');
    let base = crate::html::is_web(base).then_some(base);
    let title = text(&board.data.title);
    let mut out =
        String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n");
    let _ = writeln!(
        out,
        "<title>{title}: changes</title>\n<id>{}</id>\n<updated>{}</updated>\n<author><name>{title}</name></author>\n<generator version=\"{}\">tokrate</generator>",
        urn(&["board", &board.data.title, &board.data.url]),
        rfc(updated),
        env!("CARGO_PKG_VERSION"),
    );
    if let Some(base) = base {
        let base = escape(base);
        let _ = writeln!(
            out,
            "<link rel=\"self\" type=\"application/atom+xml\" href=\"{base}/changes.atom\"/>\n<link rel=\"alternate\" type=\"text/html\" href=\"{base}/changes.html\"/>"
        );
    }
    for change in board.changes.iter().take(MAX_LISTED) {
        entry(&mut out, board, change, base);
    }
    out.push_str("</feed>\n");
    out
}

fn entry(out: &mut String, board: &Board, change: &Change, base: Option<&str>) {
    let (_, word) = kind_words(change.kind);
    let index = board.endpoints.index(&change.endpoint);
    let named = match index {
        Some(index) => escape(&board.endpoints[index].label),
        None if change.endpoint.is_empty() => "all endpoints".to_owned(),
        None => text(&change.endpoint),
    };
    let words = escape(&change_words(change));
    let _ = writeln!(
        out,
        "<entry>\n<title>{named}: {words}</title>\n<id>{}</id>\n<updated>{}</updated>\n<category term=\"{word}\"/>",
        id(change),
        rfc(change.until.unwrap_or(change.at).max(change.at)),
    );
    if let (Some(base), Some(index)) = (base, index) {
        let page = board.path(&Target::Endpoint(index), Mode::Served);
        let _ = writeln!(out, "<link rel=\"alternate\" type=\"text/html\" href=\"{}/{page}\"/>", escape(base));
    }
    let mut summary = format!("{named}, {} from {}: {words}.", text(&change.workload), text(&change.place));
    for remark in change.remarks.iter().take(6) {
        let _ = write!(summary, " {}", text(remark));
    }
    let _ = writeln!(out, "<summary>{summary}</summary>\n</entry>");
}
