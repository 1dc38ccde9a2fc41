//! Price against speed and TTFT against speed, with the front of those that nothing beats on both.
//!
//! Invariant: one point is one endpoint of the view; endpoints of different models stand in one picture only where all models
//! are shown, and are then named with their model.

use crate::board::Board;
use crate::data::Metric;
use crate::html::{Frame, figure, page};
use crate::links::{Links, Mode, Ranked, Target};
use crate::pages::filters;
use crate::pages::leaderboard::is_of_view;
use crate::view::{Row, View};
use std::fmt::Write as _;
use tokrate_charts::{Axis, ScatterChart, ScatterKind, ScatterPoint};

/// Labels that fit into a picture with room to read; with more points only those of the front are named.
const MAX_LABELLED: usize = 40;

/// The page.
pub(crate) fn render(board: &Board, target: &Target, view: &View, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let rows: Vec<Row<'_>> = board.rows(view).into_iter().filter(|row| !row.summary.fails()).collect();
    let mut out = String::from("<h1>Price, TTFT and speed</h1>\n");
    let _ = writeln!(out, "<p class=\"subtitle\">{}</p>", filters::sentence(&links, view));
    filters::render(&mut out, &links, Ranked::Quadrants, view);
    if view.model.is_none() {
        out.push_str("<p class=\"lead\">Different models are different products: a front across models says what speed costs, not which endpoint to use.</p>\n");
    }
    out.push_str("<section class=\"pair\">");
    figure(&mut out, &by_price(board, view, &rows), "h2");
    figure(&mut out, &by_ttft(board, view, &rows), "h2");
    out.push_str("</section>\n");
    let description = "Output speed against price and against the time to the first text.".to_owned();
    page(&links, &Frame { title: "Price and speed".to_owned(), description, target }, &out)
}

/// The name of a row in a picture: the provider, with the model where there are several.
fn label(board: &Board, view: &View, row: &Row<'_>) -> String {
    match view.model {
        Some(_) => board.providers[row.entry.provider].label.clone(),
        None => board.endpoints[row.entry.endpoint].label.clone(),
    }
}

fn points(
    board: &Board,
    view: &View,
    rows: &[Row<'_>],
    x: impl Fn(&Row<'_>) -> (Option<f64>, Option<(f64, f64)>),
) -> Vec<ScatterPoint> {
    let point = |row: &Row<'_>| {
        let speed = row.summary.median(Metric::OutputSpeed);
        let (x, x_interval) = x(row);
        ScatterPoint {
            label: label(board, view, row),
            x,
            x_interval,
            y: speed.value,
            y_interval: speed.low.zip(speed.high),
            kind: ScatterKind::Measured,
        }
    };
    rows.iter().map(point).collect()
}

/// Output speed against price.
pub(crate) fn by_price(board: &Board, view: &View, rows: &[Row<'_>]) -> ScatterChart {
    let mut points = points(board, view, rows, |row| (board.blended_price(row.entry.endpoint), None));
    points.extend(claims(board, view, rows));
    let x = Axis::linear("Price per million tokens, 3:1", "USD").holding([0.0]);
    chart(points, x, ["price", "cheaper", "cheapest"])
}

/// Output speed against TTFT.
fn by_ttft(board: &Board, view: &View, rows: &[Row<'_>]) -> ScatterChart {
    let points = points(board, view, rows, |row| {
        let ttft = row.summary.median(Metric::Ttft);
        let seconds = |value: f64| value / 1_000.0;
        (ttft.value.map(seconds), ttft.low.zip(ttft.high).map(|(low, high)| (seconds(low), seconds(high))))
    });
    chart(points, Axis::linear("Time to first text", "s").holding([0.0]), ["TTFT", "sooner", "first to start"])
}

fn chart(points: Vec<ScatterPoint>, x: Axis, [what, better, best]: [&str; 3]) -> ScatterChart {
    let chart = ScatterChart {
        title: String::new(),
        description: format!(
            "Faster is higher, {better} is further left; bars are 95 % intervals. Endpoints that fail in more than 5 % of requests are left out."
        ),
        x,
        y: Axis::linear("Output speed of one request, median", "tok/s"),
        points,
        only_front_labelled: false,
    };
    let front: Vec<String> = chart.front_labels().into_iter().map(str::to_owned).collect();
    let the = if best.contains(' ') { "" } else { "the " };
    let title = match front.as_slice() {
        [] => format!("Speed and {what}: nothing to compare yet"),
        [one] => format!("{one} is both {best} and fastest"),
        [first, .., last] => format!("From {first}, {the}{best}, to {last}, the fastest"),
    };
    let only_front_labelled = chart.points.len() > MAX_LABELLED;
    ScatterChart { title, only_front_labelled, ..chart }
}

/// Claims about endpoints whose price is known.
fn claims(board: &Board, view: &View, rows: &[Row<'_>]) -> Vec<ScatterPoint> {
    let of = |claim: &&crate::data::Claim| {
        let shown = |row: &Row<'_>| board.models[row.entry.model].full == claim.model;
        claim.metric == Metric::OutputSpeed
            && claim.value.is_finite()
            && is_of_view(claim, board, view)
            && rows.iter().any(shown)
    };
    let point = |claim: &crate::data::Claim| {
        let endpoint = board.endpoints.index(&claim.endpoint)?;
        let named = rows.iter().find(|row| row.entry.endpoint == endpoint)?;
        Some(ScatterPoint {
            label: format!(
                "{}, {}",
                label(board, view, named),
                if claim.computed.is_some() { "computed" } else { "claimed" }
            ),
            x: board.blended_price(endpoint),
            y: Some(claim.value),
            kind: ScatterKind::Claim,
            ..ScatterPoint::default()
        })
    };
    board.data.claims.iter().filter(of).filter_map(point).collect()
}
