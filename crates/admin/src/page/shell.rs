//! What all pages have in common: head, navigation, search, range and filters, foot.
//!
//! Invariant: everything works as links and forms without scripts, and keeps range and filters from page to page.

use super::view::{RANGES, View};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tokrate_charts::escape;

/// How often a browser without scripts reloads (s): long enough to choose from a filter.
const REFRESH_SECONDS: u32 = 15;
/// Names that a filter offers at most.
const MAX_NAMES: usize = 200;

/// A page of the navigation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tab {
    Overview,
    Calls,
    Keys,
    Settings,
}

impl Tab {
    const ALL: [(Tab, &'static str, &'static str); 4] = [
        (Tab::Overview, "/", "Overview"),
        (Tab::Calls, "/calls", "Calls"),
        (Tab::Keys, "/keys", "Keys"),
        (Tab::Settings, "/settings", "Settings"),
    ];
}

/// A page around its content.
pub(super) struct Shell<'a> {
    /// Its title, without the name of the program.
    pub title: &'a str,
    /// Where it stands in the navigation.
    pub tab: Tab,
    /// Range and filters, which links to other pages keep.
    pub view: Option<&'a View>,
    /// Whether the range can be chosen.
    pub has_range: bool,
    /// Its path, and parameters beside those of range and filters.
    pub path: &'a str,
    pub more: &'a [(&'a str, &'a str)],
    /// Whether it changes by itself.
    pub is_live: bool,
    /// Whether key and alias can be chosen.
    pub has_filters: bool,
    /// Names that the filters offer.
    pub names: Names,
    /// Version of tokrate.
    pub version: &'a str,
    /// The same as JSON: a link, escaped.
    pub json: String,
}

/// Names that the filters offer.
#[derive(Default)]
pub(super) struct Names {
    pub keys: BTreeSet<String>,
    pub aliases: BTreeSet<String>,
}

impl Shell<'_> {
    /// The whole document.
    pub fn document(&self, content: &str) -> String {
        let mut out = String::with_capacity(content.len() + 8 * 1024);
        self.head(&mut out);
        self.header(&mut out);
        if let Some(view) = self.view.filter(|_| self.has_range) {
            self.range(&mut out, view);
        }
        let live = if self.is_live { " data-live" } else { "" };
        let _ = writeln!(out, "<main id=\"live\"{live}>\n{content}</main>");
        let _ = write!(
            out,
            concat!(
                "<footer><p>tokrate {}. For machines: <a href=\"{}\">this page as JSON</a>, <a href=\"/metrics\">/metrics</a>, ",
                "<a href=\"/api/lanes\">/api/lanes</a>, <a href=\"/api/calls\">/api/calls</a>, ",
                "<a href=\"/api/summary?since=24h&amp;by=lane\">/api/summary</a>, ",
                "<a href=\"/api/attempts?limit=20\">/api/attempts</a>.</p>",
                "<p>Times are UTC. Output speed is that of one request after its first chunk; TTFT runs from sent to first output ",
                "text, reasoning included, of streams only; ~ marks too few to say more than what they were.</p></footer>\n",
                "</body>\n</html>\n"
            ),
            escape(self.version),
            self.json
        );
        out
    }

    fn head(&self, out: &mut String) {
        let title = if self.title.is_empty() { String::new() } else { format!("{} · ", escape(self.title)) };
        let _ = write!(
            out,
            concat!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                "<meta name=\"color-scheme\" content=\"light dark\">\n",
                "<title>{}tokrate gateway</title>\n<link rel=\"icon\" href=\"data:,\">\n",
                "<link rel=\"stylesheet\" href=\"/style.css\">\n"
            ),
            title
        );
        if self.is_live {
            let _ = writeln!(
                out,
                "<noscript><meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\"></noscript>\n<script src=\"/live.js\" defer></script>"
            );
        }
        out.push_str("</head>\n<body>\n");
    }

    fn header(&self, out: &mut String) {
        out.push_str(
            "<header><p class=\"brand\">tokrate <span>gateway</span></p><nav aria-label=\"Pages\"><ul class=\"tabs\">",
        );
        for (tab, path, name) in Tab::ALL {
            let current = if tab == self.tab { " aria-current=\"page\"" } else { "" };
            let link = self.view.map_or_else(|| path.to_owned(), |view| view.link(path, &[]));
            let _ = write!(out, "<li><a href=\"{link}\"{current}>{name}</a></li>");
        }
        out.push_str(concat!(
            "</ul></nav><form class=\"search\" action=\"/call\" role=\"search\"><label for=\"find\">Call</label>",
            "<input id=\"find\" name=\"call\" required maxlength=\"256\" autocomplete=\"off\" spellcheck=\"false\" ",
            "placeholder=\"x-tokrate-call\"><button>Find</button></form>"
        ));
        if self.is_live {
            let _ = write!(
                out,
                "<p id=\"pulse\" role=\"status\"><noscript>As of when this page was loaded; it reloads every {REFRESH_SECONDS} s.</noscript></p>"
            );
        }
        out.push_str("</header>\n");
    }

    fn range(&self, out: &mut String, view: &View) {
        out.push_str("<section class=\"choices\" aria-label=\"Range and filters\"><nav aria-label=\"Time range\"><ul class=\"ranges\">");
        for (since, name) in RANGES {
            let is_current = view.until.is_none() && view.since == since;
            let current = if is_current { " aria-current=\"true\"" } else { "" };
            let _ = write!(
                out,
                "<li><a href=\"{}\"{current}>{name}</a></li>",
                view.link_of_range(self.path, since, self.more)
            );
        }
        out.push_str("</ul></nav>");
        self.between(out, view);
        if self.has_filters {
            self.filters(out, view);
        }
        out.push_str("</section>\n");
    }

    fn between(&self, out: &mut String, view: &View) {
        let is_custom = !RANGES.iter().any(|(since, _)| *since == view.since) || view.until.is_some();
        let shown = if is_custom { escape(&view.range_in_words()) } else { "from – to".to_owned() };
        let _ =
            write!(out, "<details class=\"between\"><summary>{shown}</summary><form action=\"{}\">", escape(self.path));
        for (name, words) in [("since", "From (UTC)"), ("until", "to")] {
            let _ = write!(
                out,
                "<label>{words} <input type=\"datetime-local\" name=\"{name}\"{}></label>",
                if name == "since" { " required" } else { "" }
            );
        }
        let kept = view.common().into_iter().filter(|(name, _)| !matches!(*name, "since" | "until"));
        hidden(out, kept.chain(self.more.iter().copied()));
        out.push_str("<button>Show</button></form></details>");
    }

    fn filters(&self, out: &mut String, view: &View) {
        let _ = write!(out, "<form class=\"filters\" action=\"{}\">", escape(self.path));
        let kept = view.common().into_iter().filter(|(name, _)| matches!(*name, "since" | "until"));
        hidden(out, kept.chain(self.more.iter().copied()));
        select(out, "key", "Key", "all keys", &self.names.keys, view.query.key.as_deref());
        select(out, "alias", "Alias", "all aliases", &self.names.aliases, view.query.alias.as_deref());
        out.push_str("<button>Filter</button></form>");
        let chosen = [("key", &view.query.key), ("alias", &view.query.alias)];
        for (name, value) in chosen {
            let Some(value) = value else { continue };
            let _ = write!(
                out,
                "<a class=\"chosen\" href=\"{}\" aria-label=\"Show every {name}\">{name} {} <span aria-hidden=\"true\">×</span></a>",
                view.link_without(name, self.path, self.more),
                escape(value)
            );
        }
    }
}

/// Fields of a form that keep what was chosen elsewhere.
fn hidden<'a>(out: &mut String, fields: impl Iterator<Item = (&'a str, &'a str)>) {
    for (name, value) in fields {
        let _ = write!(out, "<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value));
    }
}

/// A choice among names; without one of them, all.
pub(super) fn select(
    out: &mut String,
    name: &str,
    label: &str,
    all: &str,
    names: &BTreeSet<String>,
    chosen: Option<&str>,
) {
    let _ = write!(out, "<label>{label} <select name=\"{name}\"><option value=\"\">{all}</option>");
    let beside = chosen.filter(|chosen| !names.contains(*chosen));
    for option in names.iter().map(String::as_str).take(MAX_NAMES).chain(beside) {
        let selected = if Some(option) == chosen { " selected" } else { "" };
        let _ = write!(out, "<option value=\"{0}\"{selected}>{0}</option>", escape(option));
    }
    out.push_str("</select></label>");
}
