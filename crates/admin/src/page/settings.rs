//! The page of settings in force: every one with its value and where it is from.
//!
//! Invariant: it shows what whoever started the gateway reported, secrets as marks, and reads no file.

use super::grid::{Grid, Head, Html};
use super::moment;
use super::shell::{Names, Shell, Tab};
use super::view::View;
use std::fmt::Write as _;
use tokrate_gateway::telemetry::{Setting, Snapshot};

/// The groups, by the beginning of their keys; what is in none of them comes first.
const GROUPS: [(&str, &str); 6] = [
    ("gateway.limits.", "Limits"),
    ("gateway.breaker.", "Breaker"),
    ("gateway.lanes.", "Lanes"),
    ("gateway.aliases.", "Aliases"),
    ("gateway.keys.", "Keys"),
    ("gateway.otel.", "Export to OpenTelemetry"),
];

/// The whole page.
pub(crate) fn settings(snapshot: &Snapshot, view: &View) -> String {
    let shell = Shell {
        title: "Settings",
        tab: Tab::Settings,
        view: Some(view),
        has_range: false,
        path: "/settings",
        more: &[],
        is_live: false,
        has_filters: false,
        names: Names::default(),
        version: snapshot.version,
        json: "/api/settings".to_owned(),
    };
    shell.document(&content(snapshot))
}

fn content(snapshot: &Snapshot) -> String {
    let in_force = &snapshot.settings;
    let mut out = String::new();
    if in_force.settings.is_empty() {
        out.push_str(
            "<h1>Settings in force</h1><p class=\"none\">Whoever started this gateway has not told it where its settings are from.</p>\n",
        );
        return out;
    }
    let read = moment(in_force.read_at_unix_ms, snapshot.now_unix_ms);
    let _ = write!(
        out,
        concat!(
            "<h1>Settings in force <span>read at {} UTC</span></h1><p class=\"intro\">Keys are those of tokrate.toml; secrets are shown ",
            "as ***. SIGHUP reads the file again.</p>\n"
        ),
        read
    );
    let is_in = |setting: &Setting, start: &str| setting.key.starts_with(start);
    let rest = in_force.settings.iter().filter(|setting| !GROUPS.iter().any(|(start, _)| is_in(setting, start)));
    group(&mut out, "Gateway", "gateway.", rest);
    for (start, name) in GROUPS {
        group(&mut out, name, start, in_force.settings.iter().filter(|setting| is_in(setting, start)));
    }
    out
}

fn group<'s>(out: &mut String, name: &str, start: &str, settings: impl Iterator<Item = &'s Setting>) {
    let row = |setting: &Setting| {
        let key = setting.key.strip_prefix(start).unwrap_or(&setting.key);
        vec![Html::text(key), Html::text(&setting.value), Html::text(&setting.origin)]
    };
    let rows: Vec<Vec<Html>> = settings.map(row).collect();
    if rows.is_empty() {
        return;
    }
    let _ = write!(out, "<section class=\"settings\"><h2>{name}</h2>");
    let heads = [Head::words("setting"), Head::words("value"), Head::words("from")];
    Grid { caption: name, heads: &heads, rows, sorting: None }.render(out);
    out.push_str("</section>\n");
}
