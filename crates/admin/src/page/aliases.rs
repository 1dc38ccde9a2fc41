//! The section of aliases: what clients ask for, and which lanes the next call would go to.
//!
//! Invariant: an expected time stands with the length of the answer that it is for.

use super::lanes::state_description;
use super::share;
use std::fmt::Write as _;
use tokrate_charts::{escape, format};
use tokrate_gateway::format_race;
use tokrate_gateway::telemetry::AliasStatus;
use tokrate_gateway::telemetry::{LaneState, Snapshot};
use tokrate_route::{LaneSnapshot, Mode};

/// Lanes that are shown of one alias.
const MAX_LANES: usize = 8;
/// The columns; on narrow screens their names stand beside each cell.
const COLUMNS: [&str; 5] =
    ["alias", "objective and mode", "lanes, the next call's first", "calls, last hour", "extra attempts, last hour"];

/// Renders the section.
pub(super) fn render(out: &mut String, snapshot: &Snapshot) {
    let _ = write!(
        out,
        concat!(
            "<section id=\"aliases\"><h2>Aliases</h2><p class=\"intro\">What clients ask for. Lanes are listed in the order in which ",
            "the next call would try them, each with the expected time to the end of an answer of the alias's usual length ",
            "to a prompt of {} tokens.</p>\n"
        ),
        format::count(LaneSnapshot::PROMPT_TOKENS)
    );
    if snapshot.aliases.is_empty() {
        out.push_str("<p class=\"none\">No alias is configured: lanes are called by their own names.</p></section>\n");
        return;
    }
    out.push_str(concat!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Aliases\">",
        "<table class=\"aliases\"><caption>Aliases</caption><thead><tr>"
    ));
    for column in COLUMNS {
        let _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for alias in &snapshot.aliases {
        row(out, snapshot, alias);
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn row(out: &mut String, snapshot: &Snapshot, alias: &AliasStatus) {
    let [_, kind, lanes, calls, extra] = COLUMNS;
    let _ = write!(
        out,
        "<tr><th scope=\"row\">{}</th><td data-name=\"{kind}\">{}; {}</td><td data-name=\"{lanes}\"><ol class=\"order\">",
        escape(&alias.name),
        escape(&alias.policy.to_string()),
        format_race(alias.mode, alias.win),
    );
    for (index, seconds) in alias.lanes.iter().take(MAX_LANES) {
        let Some(lane) = snapshot.lanes.get(*index) else { continue };
        let _ = write!(out, "<li>{}", escape(&lane.name));
        if let Some(seconds) = seconds {
            let _ = write!(out, " <b>{}</b>", escape(&format::seconds(*seconds)));
        }
        if lane.state != LaneState::Ready {
            let (class, description) = state_description(lane.state);
            let _ = write!(out, " <span class=\"state {class}\">{}</span>", escape(&description));
        }
        out.push_str("</li>");
    }
    out.push_str("</ol>");
    if let Some(more) = alias.lanes.len().checked_sub(MAX_LANES).filter(|more| *more > 0) {
        let _ = write!(out, "<p class=\"note\">and {more} more</p>");
    }
    let _ = write!(
        out,
        concat!(
            "<p class=\"note\">answers of {} tokens</p></td>",
            "<td data-name=\"{}\">{}</td><td data-name=\"{}\">{}</td></tr>\n"
        ),
        format::count(alias.output_tokens.round() as u64),
        calls,
        format::count(alias.calls),
        extra,
        escape(&extra_description(alias))
    );
}

/// The share of extra attempts against the budget.
fn extra_description(alias: &AliasStatus) -> String {
    // A client can ask for a race or a hedge by a header even if the alias has none.
    if alias.mode == Mode::Off && alias.extra == 0 {
        return "none: off".to_owned();
    }
    let had = share(alias.extra as f64, alias.calls as f64);
    format!("{had} of calls; at most {}", format::percent(alias.max_extra_share))
}
