//! Times a board of 200 endpoints: `cargo run --release -p tokrate-board --example large`. Its numbers are invented.
//!
//! A year of three workloads, eight times a day, is 1.75 million points; a board keeps the last 30 days of them.

#![allow(clippy::disallowed_methods, reason = "an example has no clock handed in")]

#[path = "../tests/fleet/mod.rs"]
mod fleet;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;
use tokrate_board::{BoardData, Site};
use tokrate_core::Rng;

const ENDPOINTS: usize = 200;
const MODELS: usize = 40;
const ROUNDS: usize = 300;

fn data() -> BoardData {
    let rng = Rng::root(20);
    let base = fleet::personas();
    let personas: Vec<fleet::Persona> = (0..ENDPOINTS)
        .map(|index| {
            let mut persona = base[index % base.len()].clone();
            persona.model = format!("model-{:02}", index % MODELS);
            persona.provider = format!("provider-{:02}", index / MODELS * 7 + index % 6);
            persona.speed *= 0.8 + 0.4 * (index as f64 * 0.37).fract();
            persona
        })
        .collect();
    let mut series = Vec::new();
    for persona in &personas {
        series.extend(fleet::WORKLOADS.iter().map(|workload| fleet::series(persona, workload, "fra", 365, 8, &rng)));
    }
    let (events, prices) = (fleet::events(&personas), fleet::prices(&personas));
    BoardData { series, events, prices, ..fleet::data() }
}

fn main() -> std::io::Result<()> {
    let data = data();
    let points: usize = data.series.iter().map(|series| series.points.len()).sum();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ENDPOINTS} endpoints, {MODELS} models, {} series, {points} points", data.series.len())?;
    let start = Instant::now();
    let site = Site::new(data);
    writeln!(out, "work out all windows and ranks: {:.0} ms", millis(start))?;
    for query in ["", "model=model-07", "window=30d", "sort=ttft&window=24h"] {
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                std::hint::black_box(site.route("/", query));
                millis(start)
            })
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        let page = site.route("/", query).map(|page| page.body).unwrap_or_default();
        writeln!(
            out,
            "leaderboard ?{query}: p50 {:.2} ms, p99 {:.2} ms, {} kB, {} kB gz",
            times[ROUNDS / 2 - 1],
            times[ROUNDS * 99 / 100 - 1],
            page.len() / 1_000,
            gzipped(&page)? / 1_000
        )?;
    }
    let start = Instant::now();
    let (mut files, mut bytes) = (0, 0);
    let mut kinds: std::collections::BTreeMap<String, (usize, f64)> = std::collections::BTreeMap::new();
    let mut last = Instant::now();
    let folder = std::env::args().nth(1).map(std::path::PathBuf::from);
    for (path, content) in site.files() {
        files += 1;
        let kind = path.split_once('/').map_or("top", |(folder, _)| folder).to_owned();
        let of_kind = kinds.entry(kind).or_default();
        *of_kind = (of_kind.0 + 1, of_kind.1 + millis(last));
        bytes += content.len();
        if let Some(folder) = &folder {
            let path = folder.join(path);
            path.parent().map(std::fs::create_dir_all).transpose()?;
            std::fs::write(path, content)?;
        }
        last = Instant::now();
    }
    for (kind, (count, time)) in kinds {
        writeln!(out, "  {kind}: {count} files in {time:.0} ms")?;
    }
    let written = if folder.is_some() { "written" } else { "made" };
    writeln!(out, "static export: {files} files, {} MB {written} in {:.0} ms", bytes / 1_000_000, millis(start))
}

fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn gzipped(bytes: &[u8]) -> std::io::Result<usize> {
    let mut child = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().expect("piped");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let size = child.wait_with_output()?.stdout.len();
    writer.join().expect("writes")?;
    Ok(size)
}
