//! Writes a page with every chart, drawn from invented numbers (every title says so): `cargo run --example gallery --
//! OUT.html`.
//!
//! With `--terminal` it prints the curve as a terminal plot; with `--svg` it writes the first chart as a stand-alone file.

use std::io::Write as _;

use tokrate_charts::{
    Align, Axis, Band, Bar, BarChart, Block, BoxChart, BoxRow, Chart, Column, Direction, DistributionChart,
    DistributionKind, Figure, HeatMap, Level, LineChart, Mark, Notice, Outcome, Page, Point, Sample, Section, Series,
    SeriesStyle, Table, TimelineChart, TimelineRow, terminal,
};
use tokrate_core::Rng;

fn main() -> std::io::Result<()> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "gallery.html".to_owned());
    let mut stdout = std::io::stdout().lock();
    match argument.as_str() {
        "--terminal" => {
            for (width, unicode) in [(100, true), (60, true), (80, false)] {
                writeln!(stdout, "{}", terminal::plot(&degradation(), width, 26, unicode))?;
            }
            let values: Vec<Option<f64>> = (0..24).map(|i| (i != 9).then(|| 40.0 + 9.0 * f64::from(i % 7))).collect();
            writeln!(stdout, "{}\n{}", terminal::sparkline(&values, true), terminal::sparkline(&values, false))?;
            writeln!(stdout, "{}|\n{}|", terminal::bar(0.437, 40, true), terminal::bar(0.437, 40, false))
        }
        "--svg" => writeln!(stdout, "{}", degradation().svg()),
        path => std::fs::write(path, page().html()),
    }
}

fn page() -> Page {
    Page {
        title: "example-70b on a made-up endpoint".to_owned(),
        subtitle: "Gallery of invented numbers. Nothing on this page was measured.".to_owned(),
        notices: vec![
            Notice { level: Level::Warning, text: "1.4 % of requests failed (18 of 1,280): speeds describe only the requests that were answered.".to_owned() },
            Notice { level: Level::Info, text: "The provider reported 3 % more tokens than o200k_base counts. Both are in the record; o200k_base is shown.".to_owned() },
            Notice { level: Level::Good, text: "The client's own error is small: 0.08 ms added to TTFT (p99) at the same rate of events.".to_owned() },
        ],
        headline: headline(),
        sections: vec![
            Section {
                title: "Under load".to_owned(),
                intro: "How fast one request is answered while others are in flight, and what all of them get together.".to_owned(),
                blocks: vec![Block::chart(&degradation()), Block::chart(&ttft_curve()), Block::chart(&heat())],
            },
            Section {
                title: "Time to first text".to_owned(),
                intro: String::new(),
                blocks: vec![Block::chart(&distribution(DistributionKind::Cumulative)), Block::chart(&distribution(DistributionKind::Histogram)), Block::chart(&boxes())],
            },
            Section {
                title: "The run".to_owned(),
                intro: String::new(),
                blocks: vec![Block::chart(&timeline(24, "Twenty-four requests")), Block::chart(&timeline(4000, "A long run")), Block::chart(&bars())],
            },
            Section { title: "Hard cases".to_owned(), intro: "What must not break a picture.".to_owned(), blocks: hard_cases() },
            Section { title: "Conditions".to_owned(), intro: "A number means nothing without them.".to_owned(), blocks: conditions() },
        ],
        footer: "tokrate gallery. Times in UTC. Numbers are invented.".to_owned(),
    }
}

fn headline() -> Vec<Figure> {
    let figure = |label: &str, value: &str, unit: &str, interval: &str, note: &str| Figure {
        label: label.to_owned(),
        value: value.to_owned(),
        unit: unit.to_owned(),
        interval: interval.to_owned(),
        note: note.to_owned(),
    };
    vec![
        figure("Output speed of one request, alone", "104", "tok/s", "95 % interval 101 to 107", "median, n = 64"),
        figure("Time to first text, alone", "312", "ms", "95 % interval 298 to 331", "median, n = 64"),
        figure(
            "Throughput, all requests together",
            "1,154",
            "tok/s",
            "95 % interval 1,120 to 1,188",
            "at 31 in flight",
        ),
        figure("More in flight stops paying at", "31", "in flight", "95 % interval 27 to 36", "both fits agree"),
    ]
}

fn speed(n: f64) -> f64 {
    107.0 / (1.0 + 0.031 * (n - 1.0) + 0.0006 * n * (n - 1.0))
}

fn degradation() -> LineChart {
    let mut rng = Rng::root(7);
    let levels = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let measured = levels.map(|n| {
        let y = speed(n) * (0.97 + 0.06 * rng.unit());
        Point { x: n, y: Some(y), low: Some(y * 0.94), high: Some(y * 1.05), ..Point::default() }
    });
    let fitted = (0..=70).map(|i| {
        let n = 2f64.powf(f64::from(i) / 10.0);
        Point { x: n, y: Some(speed(n)), low: Some(speed(n) * 0.95), high: Some(speed(n) * 1.05), ..Point::default() }
    });
    let reference = levels.map(|n| Point { x: n, y: Some(42.0), ..Point::default() });
    let band =
        |from: f64, to: f64, name: &str| Band { direction: Direction::Horizontal, from, to, name: name.to_owned() };
    LineChart {
        title: "Output speed of one request falls as more are in flight".to_owned(),
        description: "Median output speed (invented) with 95 % intervals. Beyond 31 in flight, one more request costs the others more than it adds.".to_owned(),
        x: Axis::log("Requests in flight", ""),
        y: Axis::linear("Output speed of one request", "tok/s"),
        series: vec![
            Series { name: "measured".to_owned(), points: measured.to_vec(), style: SeriesStyle::Measured },
            Series { name: "scalability law, fitted".to_owned(), points: fitted.collect(), style: SeriesStyle::Fit },
            Series { name: "last week, alone".to_owned(), points: reference.to_vec(), style: SeriesStyle::Reference },
        ],
        marks: vec![Mark { direction: Direction::Vertical, at: 31.0, low: Some(27.0), high: Some(36.0), label: "knee at 31 (27 to 36)".to_owned() }],
        bands: vec![band(0.0, 10.0, "slow"), band(10.0, 15.0, "hesitant"), band(15.0, 30.0, "comfortable to read"), band(30.0, 50.0, "fluid"), band(50.0, f64::INFINITY, "faster than reading")],
    }
}

fn ttft_curve() -> LineChart {
    let series = |name: &str, base: f64, slope: f64| Series {
        name: name.to_owned(),
        points: [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
            .map(|n: f64| {
                let y = base + slope * n.powf(1.4);
                Point {
                    x: n,
                    y: (n != 16.0 || name != "p95").then_some(y),
                    low: Some(y * 0.85),
                    high: Some(y * 1.2),
                    ..Point::default()
                }
            })
            .to_vec(),
        style: SeriesStyle::Measured,
    };
    LineChart {
        title: "Time to first text grows without bound".to_owned(),
        description: "Invented. p95 at 16 in flight is missing: too few samples.".to_owned(),
        x: Axis::log("Requests in flight", ""),
        y: Axis::log("Time to first text", "s"),
        series: vec![series("median", 0.28, 0.0021), series("p95", 0.61, 0.0064)],
        marks: vec![Mark {
            direction: Direction::Horizontal,
            at: 1.0,
            low: None,
            high: None,
            label: "objective: 1 s".to_owned(),
        }],
        bands: Vec::new(),
    }
}

fn heat() -> HeatMap {
    let row = |name: &str, base: f64| {
        (name.to_owned(), (0..6).map(|i| (i != 5 || base > 60.0).then(|| base / (1.0 + 0.3 * f64::from(i)))).collect())
    };
    HeatMap {
        title: "Output speed by prompt length and load".to_owned(),
        description: "Median output speed of one request, invented.".to_owned(),
        label: "Output speed of one request".to_owned(),
        from_lowest: false,
        unit: "tok/s".to_owned(),
        columns: ["1", "2", "4", "8", "16", "32"].map(str::to_owned).to_vec(),
        rows: vec![row("100 / 300", 104.0), row("1k / 1k", 93.0), row("10k / 1.5k", 61.0), row("100k / 2k", 22.0)],
    }
}

/// Log-normal values around `median` seconds.
fn times(rng: &mut Rng, n: usize, median: f64, spread: f64) -> Vec<f64> {
    (0..n).map(|_| median * (spread * rng.normal()).exp()).collect()
}

fn distribution(kind: DistributionKind) -> DistributionChart {
    let mut rng = Rng::root(11);
    let sample = |rng: &mut Rng, level: &str, n: usize, median: f64, failed: usize| Sample {
        name: format!("{level} in flight"),
        values: times(rng, n, median, 0.32),
        failed,
    };
    let title = match kind {
        DistributionKind::Cumulative => "How many had their first text by when",
        DistributionKind::Histogram => "Where the times lie",
    };
    DistributionChart {
        title: title.to_owned(),
        description: "Time to first text at four levels of load (invented).".to_owned(),
        x: Axis::log("Time to first text", "s"),
        kind,
        samples: vec![
            sample(&mut rng, "1", 96, 0.31, 0),
            sample(&mut rng, "8", 700, 0.42, 0),
            sample(&mut rng, "32", 900, 0.95, 4),
            sample(&mut rng, "128", 800, 3.1, 61),
        ],
    }
}

fn boxes() -> BoxChart {
    let row = |label: &str, m: f64, n: u64| BoxRow {
        label: label.to_owned(),
        values: (n > 100).then(|| [0.62, 0.83, 1.0, 1.24, 1.9].map(|f| f * m)),
        n,
    };
    BoxChart {
        title: "Spread of the time to first text".to_owned(),
        description: "Invented.".to_owned(),
        axis: Axis::log("Time to first text", "s"),
        rows: vec![
            row("1 in flight", 0.31, 20),
            row("8 in flight", 0.42, 700),
            row("32 in flight", 0.95, 904),
            row("128 in flight", 3.1, 861),
        ],
        ..BoxChart::default()
    }
}

fn timeline(n: usize, title: &str) -> TimelineChart {
    let mut rng = Rng::root(5);
    let lanes = if n < 100 { 4 } else { 64 };
    let mut free = vec![0.0; lanes];
    let rows = (0..n).map(|i| {
        let start: f64 = free[i % lanes];
        let first = start + 0.2 + 0.6 * rng.unit();
        let failed = rng.unit() < if n < 100 { 0.1 } else { 0.005 };
        let end = if failed { start + 0.5 } else { first + 2.0 + 2.5 * rng.unit() };
        free[i % lanes] = end + 0.02;
        let kind = if i % 3 == 0 { "timeout" } else { "rate limited" };
        TimelineRow {
            label: if n < 100 { format!("request {}", i + 1) } else { String::new() },
            start,
            first: (!failed).then_some(first),
            end,
            outcome: if failed { Outcome::Failed(kind.to_owned()) } else { Outcome::Good },
        }
    });
    TimelineChart {
        title: title.to_owned(),
        description: "Each bar is one request (invented).".to_owned(),
        rows: rows.collect(),
    }
}

fn bars() -> BarChart {
    let bar = |label: &str, value: Option<f64>, note: &str| Bar {
        label: label.to_owned(),
        value,
        low: value.map(|v| v * 0.95),
        high: value.map(|v| v * 1.06),
        note: note.to_owned(),
    };
    BarChart {
        title: "Throughput by endpoint".to_owned(),
        description: "All requests together, invented, with 95 % intervals.".to_owned(),
        axis: Axis::linear("Throughput, all requests together", "tok/s"),
        bars: vec![
            bar("endpoint-one", Some(1154.0), ""),
            bar("endpoint-two/example-70b-instruct-with-a-very-long-name-indeed", Some(872.5), ""),
            bar("模型端点 <b>three</b> & co", Some(301.2), "client limited"),
            bar("endpoint-four", None, "rate-limited throughout"),
        ],
    }
}

fn hard_cases() -> Vec<Block> {
    let long = "a-very-long-model-name-without-any-break-".repeat(6);
    let names = ["<script>alert('no')</script> & \"co\"", "نموذج لغوي كبير", long.as_str(), "🦙 llama", "e", "f", "g"];
    let series = |(i, name): (usize, &&str)| Series {
        name: (*name).to_owned(),
        points: (0..12)
            .map(|k| Point { x: f64::from(k), y: Some(50.0 + (i as f64) * 0.8 - f64::from(k)), ..Point::default() })
            .collect(),
        style: SeriesStyle::Measured,
    };
    let mark = |at: f64, label: &str| Mark {
        direction: Direction::Vertical,
        at,
        low: None,
        high: None,
        label: label.to_owned(),
    };
    let axes = (Axis::linear("Hours since the start", "h"), Axis::linear("Output speed of one request", "tok/s"));
    let crowded = LineChart {
        title: format!("Seven close lines and {long}"),
        description: "Labels must keep apart.".to_owned(),
        x: axes.0.clone(),
        y: axes.1.clone(),
        series: names.iter().enumerate().map(series).collect(),
        marks: vec![
            mark(4.0, "a change was found here"),
            mark(4.6, "and another one just here"),
            mark(11.0, "and at the edge"),
        ],
        bands: Vec::new(),
    };
    let single = LineChart {
        title: "One point and one that is not a number".to_owned(),
        x: axes.0.clone(),
        y: axes.1.clone(),
        series: vec![Series {
            name: String::new(),
            points: vec![
                Point { x: 1.0, y: Some(3.0), ..Point::default() },
                Point { x: 2.0, y: Some(f64::NAN), ..Point::default() },
            ],
            style: SeriesStyle::Measured,
        }],
        ..LineChart::default()
    };
    let empty = LineChart { title: "Nothing".to_owned(), x: axes.0, y: axes.1, ..LineChart::default() };
    let bar = |label: &str, value: f64| Bar {
        label: label.to_owned(),
        value: Some(value),
        low: Some(value - 2.0),
        high: Some(value + 3.0),
        note: String::new(),
    };
    let change = BarChart {
        title: "Change since last week".to_owned(),
        axis: Axis::linear("Change of output speed", "%"),
        bars: vec![bar(&long, -7.25), bar("نموذج لغوي كبير", 4.5), bar("🦙 llama", 0.3)],
        ..BarChart::default()
    };
    vec![
        Block::chart(&crowded),
        Block::chart(&single),
        Block::chart(&empty),
        Block::chart(&change),
        Block::Paragraph(long),
    ]
}

fn conditions() -> Vec<Block> {
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let rows = [
        ["1", "104.2", "101.4 to 107.0", "312", "0"],
        ["8", "82.9", "80.1 to 85.8", "421", "0"],
        ["32", "40.6", "38.9 to 42.2", "948", "4"],
        ["128", "8.1", "7.4 to 8.9", "3,104", "61"],
    ];
    vec![
        Block::DefinitionList(vec![pair("Model", "example-70b (asked), example-70b-0613 (echoed)"), pair("Endpoint", "api.invented.example/v1, chat completions"), pair("Prompt and output", "1,000 and 1,000 tokens, unique prompt per request"), pair("Arrivals", "closed loop, 1 to 128 in flight"), pair("Tokens", "o200k_base over the visible output")]),
        Block::Paragraph("The same run again:".to_owned()),
        Block::Code("tokrate bench https api.invented.example --model example-70b \\\n    --in-flight 1,2,4,8,16,32,64,128 --out run.json".to_owned()),
        Block::Table(Table {
            caption: "By level".to_owned(),
            columns: vec![Column { label: "in flight".to_owned(), unit: String::new(), align: Align::Right }, Column::numbers("output speed of one request", "tok/s"), Column::numbers("95 % interval", "tok/s"), Column::numbers("time to first text, median", "ms"), Column::numbers("failed", "")],
            rows: rows.iter().map(|r| r.map(str::to_owned).to_vec()).collect(),
            notes: vec!["Invented numbers.".to_owned()],
        }),
    ]
}
