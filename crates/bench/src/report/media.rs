//! Pictures and sound in a report: the time until the first token by how many pictures a request has, and what the server counts for them.
//!
//! Invariant: every group of requests is shown with its n.

use super::tables::{MISSING, number, quantile};
use tokrate_charts::{
    Axis, Bar, BarChart, Block, Column, LineChart, Point, Section, Series, SeriesStyle, Table, format,
};
use tokrate_record::run::{MediaGroup, MediaSummary, Slope};
use tokrate_record::{PhaseResult, Record};
use tokrate_stats::Distribution;

/// The section, if requests brought pictures or sound.
pub(super) fn section(record: &Record) -> Option<Section> {
    let phases: Vec<(&PhaseResult, &MediaSummary)> =
        record.phases.iter().filter_map(|phase| Some((phase, phase.media.as_ref()?))).collect();
    if phases.is_empty() {
        return None;
    }
    let chart = chart(&phases);
    let tables = [groups(&phases), rates(&phases)].map(Block::Table);
    Some(Section {
        title: "Images and sound".to_owned(),
        intro: match record.conditions.task.as_str() {
            "images" => format!("Every request asks for images {}.", record.conditions.media),
            _ => format!(
                "Every request brings {}. The server has to encode them before it can write.",
                record.conditions.media
            ),
        },
        blocks: chart.into_iter().chain(tables).collect(),
    })
}

/// The time until the first token; E2E where answers came in one piece.
fn delay(group: &MediaGroup) -> &Distribution {
    if group.ttft.is_empty() { &group.e2e } else { &group.ttft }
}

/// Over the images of a request, a line for each level; bars by level where all requests have as many.
fn chart(phases: &[(&PhaseResult, &MediaSummary)]) -> Option<Block> {
    let of_images = phases.iter().any(|(phase, _)| phase.conditions.task == "images");
    let title = if of_images { "Time of a request" } else { "Time until the first token" };
    let of = "Medians over requests with their intervals.".to_owned();
    if phases.iter().all(|(_, media)| media.groups.len() < 2) {
        let bar = |(phase, media): &(&PhaseResult, &MediaSummary)| {
            let p50 = &delay(media.groups.first()?).p50;
            let (low, high) = (p50.low, p50.high);
            Some(Bar { label: phase.name.clone(), value: p50.nearest_rank(), low, high, ..Bar::default() })
        };
        let bars = phases.iter().filter_map(bar).collect();
        let axis = Axis::linear("Since sent", "ms");
        return Some(Block::chart(&BarChart { title: title.to_owned(), description: of, axis, bars }));
    }
    let point = |group: &MediaGroup| {
        let p50 = &delay(group).p50;
        let (x, y) = (group.images as f64, p50.nearest_rank());
        Point { x, y, low: p50.low, high: p50.high, ..Point::default() }
    };
    let series = phases.iter().map(|(phase, media)| Series {
        name: phase.name.clone(),
        points: media.groups.iter().filter(|group| !delay(group).is_empty()).map(point).collect(),
        style: SeriesStyle::Measured,
    });
    let at = phases.iter().flat_map(|(_, media)| media.groups.iter().map(|group| group.images as f64));
    Some(Block::chart(&LineChart {
        title: format!("{title}, by images of a request"),
        description: of,
        x: Axis::linear("Images of a request", "").labelled_at(at.collect::<Vec<f64>>()),
        y: Axis::linear("Since sent", "ms").holding([0.0]),
        series: series.collect(),
        ..LineChart::default()
    }))
}

fn groups(phases: &[(&PhaseResult, &MediaSummary)]) -> Table {
    let rows = phases.iter().flat_map(|(phase, media)| {
        media.groups.iter().map(|group| {
            vec![
                phase.name.clone(),
                format::count(group.images),
                format::count(group.n),
                number(Some(group.pixels / 1e6)),
                quantile(&group.ttft.p50),
                quantile(&group.ttft.p95),
                quantile(&group.e2e.p50),
                number(group.input_reported),
            ]
        })
    });
    Table {
        caption: "By images of a request".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers("images", ""),
            Column::numbers("n", ""),
            Column::numbers("megapixels", ""),
            Column::numbers("TTFT p50", "ms"),
            Column::numbers("TTFT p95", "ms"),
            Column::numbers("E2E p50", "ms"),
            Column::numbers("prompt tokens by the server", ""),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

fn rates(phases: &[(&PhaseResult, &MediaSummary)]) -> Table {
    let slope = |slope: Option<Slope>| {
        slope.map_or_else(
            || MISSING.to_owned(),
            |slope| format!("{} ± {}", format::number(slope.value), format::number(slope.error)),
        )
    };
    let rows = phases.iter().map(|(phase, media)| {
        vec![
            phase.name.clone(),
            number(media.images_per_second),
            number(media.megapixels_per_second),
            number(media.sound_per_second),
            slope(media.per_image_ms),
            slope(media.per_megapixel_ms),
            slope(media.tokens_per_image),
        ]
    });
    Table {
        caption: "How many, and what one more adds".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers("images", "1/s"),
            Column::numbers("megapixels", "1/s"),
            Column::numbers("sound", "s/s"),
            Column::words("one more image until the first token (ms)"),
            Column::words("one more megapixel (ms)"),
            Column::words("one more image in prompt tokens"),
        ],
        rows: rows.collect(),
        notes: vec![
            "What one more adds is the slope of a straight line through the measured requests, ± its standard error; it is stated where \
             requests differ."
                .to_owned(),
        ],
    }
}
