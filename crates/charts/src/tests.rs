//! Whatever goes in, well-formed and harmless markup comes out.

mod contrast;

use proptest::prelude::*;

use crate::*;

/// Names that models and providers could carry to break a page.
fn hostile_names() -> Vec<String> {
    [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "a & b 'c' \"d\" ]]> <!-- --> &lt;",
        "نموذج لغوي \u{202e}gnp.exe\u{2066}",
        "模型 🦙👩‍👩‍👧‍👦 é\u{301}\u{301}\u{301}",
        "nul\0 esc\u{1b}[31m bell\u{7} del\u{7f} c1\u{9b} \u{fffe}",
        "",
        " ",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(["x".repeat(500), "long words ".repeat(50)])
    .collect()
}

/// Numbers that could break a picture.
const HOSTILE: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    1e199,
    -1e199,
    1e15 + 1.0,
];

/// A checker of well-formedness, strict where browsers forgive: tags nest and close, attributes are quoted and unique,
/// entities are the five of XML (and numeric ones), and no character is one that XML forbids.
fn check_markup(text: &str) -> Result<(), String> {
    if let Some(c) = text.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err(format!("forbidden character {c:?}"));
    }
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.strip_prefix("<!doctype html>").unwrap_or(text);
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at])?;
        let end = rest[at..].find('>').ok_or("unclosed tag")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let expected = open.pop();
            if expected != Some(name) {
                return Err(format!("</{name}> closes {expected:?}"));
            }
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or("");
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("bad tag name in <{tag}>"));
        }
        check_attributes(tag[name.len()..].trim_end_matches('/'))?;
        if name == "style" {
            let end = rest.find("</style>").ok_or("unclosed style")?;
            rest = &rest[end..];
        }
        if !tag.ends_with('/') && !matches!(name, "meta" | "link") {
            open.push(name);
        }
    }
    check_text(rest)?;
    if open.is_empty() { Ok(()) } else { Err(format!("left open: {open:?}")) }
}

fn check_attributes(text: &str) -> Result<(), String> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").ok_or_else(|| format!("attribute without value: {rest}"))?;
        let (value, tail) = value.split_once('"').ok_or("unclosed attribute")?;
        check_text(value)?;
        if names.contains(&name) || name.starts_with("on") || name.contains(char::is_whitespace) {
            return Err(format!("bad attribute {name}"));
        }
        if value.contains("NaN") && name != "aria-label" {
            return Err(format!("{name} is not a number"));
        }
        names.push(name);
        rest = tail.trim_start();
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), String> {
    for piece in text.split('&').skip(1) {
        let entity = piece.split_once(';').map(|(entity, _)| entity);
        if !matches!(entity, Some("amp" | "lt" | "gt" | "quot" | "#39")) {
            return Err(format!("stray ampersand before {piece:.20}"));
        }
    }
    Ok(())
}

/// Tick labels on one baseline must not meet, by the widths the crate itself estimates.
fn check_ticks(svg: &str) -> Result<(), String> {
    let mut placed: Vec<(String, f64, f64)> = Vec::new();
    for piece in svg.split("<text class=\"tick\" x=\"").skip(1) {
        let (x, rest) = piece.split_once("\" y=\"").ok_or("no y")?;
        let (y, rest) = rest.split_once('"').ok_or("no end of y")?;
        let (attributes, rest) = rest.split_once('>').ok_or("no end of tag")?;
        let label = rest.split_once('<').map_or("", |(label, _)| label);
        if !attributes.contains("middle") {
            continue;
        }
        let x: f64 = x.parse().map_err(|e| format!("{x}: {e}"))?;
        let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        let label = named.iter().fold(label.to_owned(), |text, (entity, c)| text.replace(entity, c));
        let half = crate::text::width(&label, 12.0) / 2.0;
        if let Some((_, _, right)) =
            placed.iter().find(|(row, l, r)| row == y && x - half < *r - 0.02 && x + half > *l + 0.02)
        {
            return Err(format!("label {label} at {x} runs into one ending at {right}"));
        }
        placed.push((y.to_owned(), x - half, x + half));
    }
    Ok(())
}

fn check_chart(chart: &impl Chart) -> Result<(), String> {
    for svg in [chart.svg(), chart.panel(Size::Wide), chart.panel(Size::Half), chart.panel(Size::Narrow)] {
        check_markup(&svg).map_err(|e| format!("{e} in {svg:.400}"))?;
        check_ticks(&svg)?;
        if !svg.contains(r#"role="img""#) || !svg.contains("<title>") {
            return Err("not accessible".to_owned());
        }
    }
    let table = chart.table();
    if let Some(row) = table.rows.iter().find(|row| row.len() != table.columns.len()) {
        return Err(format!("{} cells under {} columns", row.len(), table.columns.len()));
    }
    check_markup(&table.html())?;
    if table.text().contains('\u{1b}') {
        return Err("terminal escape".to_owned());
    }
    Ok(())
}

fn line_chart(names: &[String], values: &[f64], logs: (bool, bool)) -> LineChart {
    let axis = |log: bool| if log { Axis::log(&names[0], "s") } else { Axis::linear(&names[0], "tok/s") };
    let at = |i: usize| values.get(i % values.len().max(1)).copied();
    let label = |i: usize| names[i % names.len()].clone();
    let point = |i: usize| Point {
        x: at(i).unwrap_or(0.0),
        y: at(i + 1),
        low: at(i + 2),
        high: at(i + 3),
        label: if i.is_multiple_of(3) { label(i) } else { String::new() },
    };
    let styles = [SeriesStyle::Measured, SeriesStyle::Fit, SeriesStyle::Reference, SeriesStyle::Course];
    let style = |i: usize| styles[i % styles.len()];
    let series = |(i, name): (usize, &String)| Series {
        name: name.clone(),
        points: (0..values.len()).map(|k| point(k + i)).collect(),
        style: style(i),
    };
    let direction = |i: usize| if i.is_multiple_of(2) { Direction::Vertical } else { Direction::Horizontal };
    let mark = |i: usize| Mark {
        direction: direction(i),
        at: at(i).unwrap_or(1.0),
        low: at(i + 1),
        high: at(i + 2),
        label: names[i % names.len()].clone(),
    };
    let band = |i: usize| Band {
        direction: direction(i),
        from: at(i).unwrap_or(0.0),
        to: at(i + 1).unwrap_or(1.0),
        name: names[i % names.len()].clone(),
    };
    LineChart {
        title: names[0].clone(),
        description: names[names.len() - 1].clone(),
        x: axis(logs.0),
        y: axis(logs.1),
        series: names.iter().enumerate().map(series).collect(),
        marks: (0..4).map(mark).collect(),
        bands: (0..4).map(band).collect(),
    }
}

fn check_every_chart(names: &[String], values: &[f64], logs: (bool, bool)) -> Result<(), String> {
    let (title, description) = (names[0].clone(), names[names.len() - 1].clone());
    let line = line_chart(names, values, logs);
    check_chart(&line)?;
    check_terminal(&line)?;
    let x = line.x.clone();
    for kind in [DistributionKind::Cumulative, DistributionKind::Histogram] {
        let sample = |name: &String| Sample { name: name.clone(), values: values.to_vec(), failed: values.len() % 3 };
        let samples = names.iter().map(sample).collect();
        check_chart(&DistributionChart {
            title: title.clone(),
            description: description.clone(),
            x: x.clone(),
            kind,
            samples,
        })?;
    }
    let rows = values.windows(2).enumerate().map(|(i, pair)| TimelineRow {
        label: names[i % names.len()].clone(),
        start: pair[0],
        first: Some(pair[1]),
        end: pair[1],
        outcome: [Outcome::Good, Outcome::Cancelled, Outcome::Failed(names[0].clone())][i % 3].clone(),
    });
    check_chart(&TimelineChart { title: title.clone(), description: description.clone(), rows: rows.collect() })?;
    let bars = names.iter().zip(values).map(|(name, value)| Bar {
        label: name.clone(),
        value: Some(*value),
        low: values.first().copied(),
        high: values.last().copied(),
        note: name.clone(),
    });
    check_chart(&BarChart {
        title: title.clone(),
        description: description.clone(),
        axis: x.clone(),
        bars: bars.collect(),
    })?;
    let five = |i: usize| values.get(i..i + 5).and_then(|v| <[f64; 5]>::try_from(v).ok());
    let rows = names
        .iter()
        .enumerate()
        .map(|(i, name)| BoxRow { label: name.clone(), values: five(i), n: i as u64 })
        .collect();
    check_chart(&BoxChart { title: title.clone(), axis: x, rows, ..BoxChart::default() })?;
    let rows = names.iter().map(|name| (name.clone(), values.iter().copied().map(Some).collect())).collect();
    check_chart(&HeatMap { title, columns: names.to_vec(), rows, ..HeatMap::default() })
}

fn check_terminal(chart: &LineChart) -> Result<(), String> {
    for (width, height, unicode) in [(24, 8, false), (79, 24, false), (30, 10, true), (120, 40, true)] {
        let text = terminal::plot(chart, width, height, unicode);
        if !unicode && !text.is_ascii() {
            return Err(format!("not ASCII: {text}"));
        }
        if let Some(line) = text.lines().find(|l| crate::text::columns(l) > width || l.trim_end() != *l) {
            return Err(format!("line of {} columns in {width}: {line:?}", crate::text::columns(line)));
        }
        if text.chars().any(|c| c.is_control() && c != '\n') {
            return Err("control character".to_owned());
        }
    }
    Ok(())
}

#[test]
fn hostile_names_and_numbers_are_drawn_harmlessly() {
    for logs in [(false, false), (true, false), (false, true), (true, true)] {
        for values in [&HOSTILE[..], &[], &[3.0], &[2.0; 12], &[-5.0, -1.0, 4.0], &[1e-9, 1e9]] {
            check_every_chart(&hostile_names(), values, logs).unwrap();
        }
    }
}

#[test]
fn the_checkers_can_fail() {
    for bad in [
        "<a>",
        "<a></b>",
        "<a b></a>",
        "a & b",
        "<a b=\"1\" b=\"2\"/>",
        "<p>\u{1}</p>",
        "<a onclick=\"x\"/>",
        "<a d=\"MNaN 1\"/>",
    ] {
        assert!(check_markup(bad).is_err(), "{bad}");
    }
    let tick = |x: u32| format!(r#"<text class="tick" x="{x}" y="5" text-anchor="middle">12345</text>"#);
    assert!(check_ticks(&(tick(10) + &tick(30))).is_err());
    assert!(check_ticks(&(tick(10) + &tick(60))).is_ok());
}

#[test]
fn a_page_fetches_nothing_and_runs_nothing() {
    let names = hostile_names();
    let chart = line_chart(&names, &[1.0, 2.0, 3.0, 4.0, 5.0], (false, false));
    let pairs = names.iter().map(|n| (n.clone(), n.clone())).collect();
    let blocks = vec![
        Block::chart(&chart),
        Block::Table(chart.table()),
        Block::Paragraph(names[0].clone()),
        Block::DefinitionList(pairs),
        Block::Code("curl -d '<a>' \"$URL\"\n\tnext & last\u{1b}".to_owned()),
    ];
    let figure = |n: &String| Figure {
        label: n.clone(),
        value: n.clone(),
        unit: n.clone(),
        interval: n.clone(),
        note: n.clone(),
    };
    let levels = [Level::Good, Level::Info, Level::Warning, Level::Bad];
    let page = Page {
        title: names[1].clone(),
        subtitle: names[2].clone(),
        notices: levels.iter().zip(&names).map(|(level, n)| Notice { level: *level, text: n.clone() }).collect(),
        headline: names.iter().map(figure).collect(),
        sections: names
            .iter()
            .map(|n| Section { title: n.clone(), intro: n.clone(), blocks: blocks.clone() })
            .collect(),
        footer: names[3].clone(),
    };
    let html = page.html();
    check_markup(&html).unwrap();
    assert_eq!(html, page.html());
    assert!(html.contains("Content-Security-Policy\" content=\"default-src 'none'"));
    let lower = html.to_lowercase();
    for forbidden in ["http:", "https:", "//", "<script", "<img", "<iframe", "@import", "url(", "src=\"", "javascript:"]
    {
        let allowed = if forbidden == "//" { lower.matches("<!--").count() } else { 0 };
        assert_eq!(lower.matches(forbidden).count(), allowed, "{forbidden}");
    }
    for href in html.split("href=\"").skip(1) {
        assert!(href.starts_with('#') || href.starts_with("data:,\""), "{href:.30}");
    }
}

#[test]
fn what_is_left_out_is_said() {
    let names = ["a".to_owned()];
    let chart = line_chart(&names, &[1.0, f64::NAN, 3.0], (false, false));
    assert!(chart.svg().contains("not drawn: not finite") && chart.table().html().contains("not drawn"));
    let rows =
        (0..9000).map(|i| TimelineRow { start: f64::from(i), end: f64::from(i) + 1.5, ..TimelineRow::default() });
    let chart = TimelineChart { rows: rows.collect(), ..TimelineChart::default() };
    assert!(chart.svg().contains("Every 3rd of 9,000 requests is drawn."), "{}", chart.svg());
    assert!(chart.svg().contains("At most 2 were in flight."));
    assert!(chart.table().html().contains("Every 45th of 9,000 requests is listed."));
    let values = (0..100).map(|i| 1.0 + f64::from(i)).collect();
    let sample = Sample { name: "few".to_owned(), values, failed: 7 };
    let chart = DistributionChart { samples: vec![sample], ..DistributionChart::default() };
    assert!(chart.svg().contains("p99: not enough samples (n = 107, 662 needed)."));
    assert!(chart.svg().contains("7 failed: counted as never finished."));
}

#[test]
fn a_missing_value_is_a_gap() {
    let point = |x: f64, y: Option<f64>| Point { x, y, ..Point::default() };
    let points = vec![point(1.0, Some(2.0)), point(2.0, None), point(3.0, Some(4.0)), point(4.0, Some(1.0))];
    let chart = LineChart { series: vec![Series { points, ..Series::default() }], ..LineChart::default() };
    let svg = chart.svg();
    let line = svg.split(r#"<path class="line thin c0" d=""#).skip(1).map(|p| p.split('"').next().unwrap());
    assert_eq!(line.map(|d| d.matches(['M', 'L']).count()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(chart.table().rows[1][1], "n/a");
}

fn sample_chart() -> LineChart {
    let point = |x: f64, y: f64| Point { x, y: Some(y), low: Some(y * 0.9), high: Some(y * 1.1), ..Point::default() };
    let band =
        |from: f64, to: f64, name: &str| Band { direction: Direction::Horizontal, from, to, name: name.to_owned() };
    LineChart {
        title: "Output speed under load".to_owned(),
        description: "Made-up numbers.".to_owned(),
        x: Axis::log("Requests in flight", ""),
        y: Axis::linear("Output speed of one request", "tok/s"),
        series: vec![Series {
            name: "measured".to_owned(),
            points: vec![point(1.0, 92.0), point(2.0, 88.5), point(4.0, 71.0), point(8.0, 44.0)],
            style: SeriesStyle::Measured,
        }],
        marks: vec![Mark {
            direction: Direction::Vertical,
            at: 5.0,
            low: Some(4.2),
            high: Some(6.1),
            label: "knee at 5".to_owned(),
        }],
        bands: vec![band(0.0, 30.0, "readable"), band(30.0, f64::INFINITY, "fluid")],
    }
}

#[test]
fn points_are_labelled_and_no_label_is_written_over_another() {
    let point = |x: f64, y: f64, label: &str| Point { x, y: Some(y), label: label.to_owned(), ..Point::default() };
    let series = |name: &str, points| Series { name: name.to_owned(), points, style: SeriesStyle::Measured };
    let apart = vec![point(10.0, 900.0, "c = 16"), point(50.0, 100.0, "c = 1")];
    let heaped: Vec<Point> = (2..8).map(|load| point(30.0, 500.0, &format!("heaped {load}"))).collect();
    let chart = LineChart { series: vec![series("a", apart), series("b", heaped)], ..LineChart::default() };
    let svg = chart.svg();
    for label in ["c = 16", "c = 1"] {
        assert!(svg.contains(&format!(">{label}</text>")), "{svg}");
    }
    assert_eq!(svg.matches(">heaped ").count(), 4, "around the point, not over each other");
    let row = chart.table().rows.into_iter().find(|row| row[1] == "30").expect("the heap");
    assert_eq!(row[0], "heaped 2, heaped 3, heaped 4, heaped 5, heaped 6, heaped 7");
}

#[test]
fn no_label_reaches_the_right_edge_even_in_a_wide_font() {
    let names = ["vllm/sim", "sglang/llama-3.3-70b-instruct", "WWWWWWWWWWWW"];
    let series = names.map(|name| Series {
        name: name.to_owned(),
        points: vec![
            Point { x: 1.0, y: Some(5.0), ..Point::default() },
            Point { x: 16.0, y: Some(9.0), ..Point::default() },
        ],
        style: SeriesStyle::Measured,
    });
    let mark =
        Mark { direction: Direction::Vertical, at: 16.0, low: None, high: None, label: "slows beyond 16".to_owned() };
    let line = LineChart { series: series.to_vec(), marks: vec![mark], ..LineChart::default() };
    let bars = BarChart {
        bars: names.map(|name| Bar { label: name.to_owned(), value: Some(120.0), ..Bar::default() }).to_vec(),
        ..BarChart::default()
    };
    for (size, pixels) in [(Size::Wide, 800.0), (Size::Half, 560.0), (Size::Narrow, 360.0)] {
        for panel in [line.panel(size), bars.panel(size)] {
            for text in panel.split("<text class=\"label").skip(1) {
                let (attributes, rest) = text.split_once('>').expect("a tag");
                let words = rest.split_once('<').expect("its end").0;
                let x: f64 =
                    attributes.split(" x=\"").nth(1).and_then(|x| x.split('"').next()?.parse().ok()).expect("x");
                let end = x + crate::text::width(words, crate::sheet::TEXT) * crate::text::WIDEST_FONT;
                assert!(end <= pixels - 4.0, "{words} ends at {end} of {pixels}");
            }
        }
    }
}

#[test]
fn charts_side_by_side_have_one_axis() {
    let axis = Axis::log("TTFT", "s").holding([0.01, f64::NAN, 3.0]);
    let chart = |name: &str, values: Vec<f64>| DistributionChart {
        title: name.to_owned(),
        x: axis.clone(),
        samples: vec![Sample { name: String::new(), values, failed: 0 }],
        ..DistributionChart::default()
    };
    let charts = [chart("c = 1", vec![0.01, 0.012]), chart("c = 8", vec![1.0, 3.0])];
    let ticks = |chart: &DistributionChart| -> Vec<String> {
        let panel = chart.panel(Size::Narrow);
        panel.split(r#"class="tick">"#).skip(1).filter_map(|rest| Some(rest.split_once('<')?.0.to_owned())).collect()
    };
    assert_eq!(ticks(&charts[0]), ticks(&charts[1]));
    let page = Page {
        sections: vec![Section { blocks: vec![Block::multiples("By load", "", &charts)], ..Section::default() }],
        ..Page::default()
    };
    let html = page.html();
    assert!(html.contains("<h4>c = 1</h4>") && html.contains("<h4>c = 8</h4>"), "{html}");
    assert_eq!(html.matches("<table").count(), 2, "the numbers of both");
}

#[test]
fn line_chart_looks_the_same() {
    insta::assert_snapshot!("line_panel", sample_chart().panel(Size::Wide).replace("><", ">\n<"));
    insta::assert_snapshot!("line_table", sample_chart().table().text());
    insta::assert_snapshot!("line_terminal", terminal::plot(&sample_chart(), 72, 22, true));
    insta::assert_snapshot!("line_terminal_ascii", terminal::plot(&sample_chart(), 48, 18, false));
}

#[test]
fn small_page_looks_the_same() {
    let page = Page {
        title: "A page".to_owned(),
        subtitle: "of made-up numbers".to_owned(),
        notices: vec![Notice { level: Level::Warning, text: "1.4 % of requests failed.".to_owned() }],
        headline: vec![Figure {
            label: "Time to first text".to_owned(),
            value: "312".to_owned(),
            unit: "ms".to_owned(),
            interval: String::new(),
            note: "n = 64".to_owned(),
        }],
        sections: vec![Section {
            title: "Conditions".to_owned(),
            intro: String::new(),
            blocks: vec![Block::DefinitionList(vec![("Model".to_owned(), "example".to_owned())])],
        }],
        footer: "tokrate".to_owned(),
    };
    let html = page.html();
    let (head, rest) = html.split_once("<style>").unwrap();
    let (_, body) = rest.split_once("</style>").unwrap();
    insta::assert_snapshot!("page", format!("{head}<style>…</style>{body}"));
}

/// Distance of two colours in CIELAB as someone sees them who lacks one kind of cone (Machado, Oliveira and Fernandes
/// 2009, severity 1; the identity for full vision).
fn distance(a: [f64; 3], b: [f64; 3], vision: &[[f64; 3]; 3]) -> f64 {
    let seen = |c: [f64; 3]| vision.map(|row| row.iter().zip(c).map(|(m, v)| m * v).sum::<f64>().clamp(0.0, 1.0));
    let lab = |c: [f64; 3]| {
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.9505);
        let y = f(0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]);
        let z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    };
    lab(seen(a)).iter().zip(lab(seen(b))).map(|(p, q)| (p - q).powi(2)).sum::<f64>().sqrt()
}

fn linear_light(hex: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

#[test]
fn series_colours_differ_for_every_kind_of_vision_and_from_the_paper() {
    const VISIONS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];
    let (light, dark) = crate::svg::STYLE.split_once("prefers-color-scheme:dark").unwrap();
    for (rules, paper) in [(light, "#ffffff"), (dark, "#14171c")] {
        let colour = |i: usize| rules.split_once(&format!(".box.c{i}{{stroke:")).unwrap().1[..7].to_owned();
        let colours: Vec<[f64; 3]> = (0..6).map(|i| linear_light(&colour(i))).collect();
        let luminance = |c: [f64; 3]| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
        for (i, a) in colours.iter().enumerate() {
            let (p, q) = (luminance(*a), luminance(linear_light(paper)));
            let contrast = (p.max(q) + 0.05) / (p.min(q) + 0.05);
            assert!(contrast >= 3.0, "{} on {paper}: {contrast:.2}", colour(i));
            for (k, b) in colours.iter().enumerate().skip(i + 1) {
                for vision in &VISIONS {
                    let apart = distance(*a, *b, vision);
                    assert!(apart >= 25.0, "{} and {} on {paper}: {apart:.1}", colour(i), colour(k));
                }
            }
        }
    }
}

#[test]
fn values_at_the_limits_of_what_can_be_drawn_are_drawn() {
    let names = ["limit".to_owned()];
    for limit in [1e200, -1e200, 1e-200, 1.078228089420496e-200] {
        for logs in [(false, false), (true, true), (true, false)] {
            for values in [vec![limit], vec![limit, 0.0], vec![0.0, limit, -1.0]] {
                check_every_chart(&names, &values, logs).unwrap_or_else(|e| panic!("{values:?} {logs:?}: {e}"));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_number_is_readable(value in any::<f64>(), other in any::<f64>()) {
        use crate::format::{interval, number, percent, plain, quantity, seconds};
        for text in [number(value), plain(value), seconds(value), percent(value), interval(value, other), quantity(value, "tok")] {
            prop_assert!(!text.is_empty() && text.chars().count() < 64, "{text}");
            prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn every_chart_of_anything_is_well_formed(
        names in prop::collection::vec(any::<String>(), 1..5),
        wild in prop::collection::vec(any::<f64>(), 0..14),
        tame in prop::collection::vec(-10.0..1e4f64, 0..14),
        logs: (bool, bool),
    ) {
        for values in [wild, tame] {
            if let Err(error) = check_every_chart(&names, &values, logs) {
                prop_assert!(false, "{error}");
            }
        }
    }
}

#[test]
fn a_course_has_a_colour_of_its_own_and_shows_a_point_that_stands_alone() {
    let at =
        |x: f64, y| Point { x, y, low: y.map(|y: f64| y - 1.0), high: y.map(|y: f64| y + 1.0), ..Point::default() };
    let course = |name: &str, points| Series { name: name.to_owned(), points, style: SeriesStyle::Course };
    let chart = LineChart {
        title: "Output speed".to_owned(),
        x: Axis::linear("time", "min"),
        y: Axis::linear("output speed", "tok/s"),
        series: vec![
            course("a", vec![at(0.0, Some(5.0)), at(1.0, Some(6.0))]),
            course("b", vec![at(0.0, Some(8.0)), at(1.0, None), at(2.0, Some(9.0)), at(3.0, Some(9.5))]),
        ],
        ..LineChart::default()
    };
    let panel = chart.panel(Size::Half);
    assert!(panel.contains(r#"width="560""#));
    let count = |piece: &str| panel.matches(piece).count();
    assert_eq!((count("area c0"), count("area c1")), (1, 1), "a band each, none for the lone point");
    assert_eq!((count("\"mark c0\""), count("\"mark c1\"")), (0, 1), "a mark for the lone point alone");
    assert_eq!(count("whisker c1"), 1);
}
