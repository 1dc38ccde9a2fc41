//! A badge: the output speed of an endpoint, its interval and what changed, as a small picture for other pages.
//!
//! Invariant: a picture of its own: no outside style, no link, no script; it says when there is nothing to say.

use crate::board::Board;
use crate::data::{ChangeKind, Metric};
use crate::html::interval;
use crate::window::Window;
use tokrate_charts::{escape, format};

/// Width of a letter at 11 pixels: wide, so that no text leaves its box.
const LETTER: f64 = 6.6;
const MAX_LABEL: usize = 40;

/// The picture.
pub(crate) fn render(board: &Board, endpoint: usize) -> String {
    let label = tokrate_core::one_line(&board.endpoints[endpoint].label, MAX_LABEL);
    let main = board.main_entry(endpoint);
    let speed =
        main.and_then(|entry| Some(entry.summary(entry.usual_load(), Window::ThreeDays)?.median(Metric::OutputSpeed)));
    let words = match speed.map(|speed| (speed.value, speed.low.zip(speed.high))) {
        Some((Some(value), Some((low, high)))) => {
            format!("{} tok/s ({})", format::number(value), interval(Metric::OutputSpeed, low, high))
        }
        _ => "not enough samples".to_owned(),
    };
    let is_worse = main
        .and_then(|entry| board.main_change(entry))
        .is_some_and(|change| change.kind == ChangeKind::Regression && change.until.is_none());
    let (colour, words) = match (speed.and_then(|speed| speed.value), is_worse) {
        (None, _) => ("#5b6472", words),
        (Some(_), true) => ("#b01616", format!("{words}, slower")),
        (Some(_), false) => ("#0f7a48", words),
    };
    let (left, right) = (width(&label), width(&words));
    let (whole, title) = (left + right, format!("{label}: {words}"));
    format!(
        concat!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole}\" height=\"20\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>",
            "<rect width=\"{left}\" height=\"20\" fill=\"#2b2f3c\"/><rect x=\"{left}\" width=\"{right}\" height=\"20\" fill=\"{colour}\"/>",
            "<g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\" text-anchor=\"middle\">",
            "<text x=\"{x1}\" y=\"14\" textLength=\"{l1}\" lengthAdjust=\"spacingAndGlyphs\">{label}</text>",
            "<text x=\"{x2}\" y=\"14\" textLength=\"{l2}\" lengthAdjust=\"spacingAndGlyphs\">{words}</text></g></svg>\n"
        ),
        whole = whole,
        title = escape(&title),
        left = left,
        right = right,
        colour = colour,
        x1 = left / 2.0,
        x2 = left + right / 2.0,
        l1 = left - 12.0,
        l2 = right - 12.0,
        label = escape(&label),
        words = escape(&words),
    )
}

fn width(text: &str) -> f64 {
    (text.chars().count() as f64 * LETTER + 12.0).round()
}
