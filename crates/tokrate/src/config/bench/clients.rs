//! Clients with rates and lengths of their own: their files, and the requests that are drawn from them.
//!
//! Invariant: what cannot be read is named by its file, line and column.

use super::texts::{refused, text_of};
use super::{OPEN_LEVEL, pick_text};
use crate::config::file::File;
use crate::config::quantity;
use crate::flags::bench::Flags;
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_bench::clients::{Clients, Excerpt};
use tokrate_bench::trace::Trace;
use tokrate_core::{Rng, Span};

/// The ends of the names of ServeGen's files.
const ENDS: [&str; 2] = ["-trace.csv", "-dataset.json"];

/// The requests that the clients of a file or folder send in the time of the level.
pub(super) fn requests(path: &Path, flags: &Flags, file: &File) -> Result<Arc<Trace>> {
    let (load, bench) = (&flags.load, &file.bench);
    let duration = pick_text("--duration", &load.duration, None, file, "duration", &bench.duration)
        .map(|text| text.parse(|text| quantity::span(&text)))
        .transpose()?;
    let from = pick_text("--clients-from", &load.clients_from, None, file, "clients_from", &bench.clients_from)
        .map(|text| text.parse(|text| quantity::span(&text)))
        .transpose()?;
    let is_rate = |rate: f64| rate.is_finite() && (1e-4..=1e6).contains(&rate);
    ensure!(
        load.clients_rate.is_none_or(is_rate),
        "read --clients-rate: it is between 0.0001 and 1,000,000 requests per second"
    );
    // Time that runs faster takes more of the clients' own.
    let speed = load.trace_speed.filter(|speed| speed.is_finite() && *speed > 0.0).unwrap_or(1.0);
    let length = duration.map_or(OPEN_LEVEL, |duration| duration.value).as_secs_f64() * speed;
    let excerpt = Excerpt {
        from: from.map_or(Span::ZERO, |from| from.value),
        length: Span::from_secs_f64(length),
        rate: load.clients_rate.map(|rate| rate / speed),
    };
    ensure!(!excerpt.length.is_zero(), "read --duration: a level needs some time; write for example 30s");
    let clients = if path.is_dir() { servegen(path)? } else { of_file(path)? };
    let seed = load.seed.or(bench.seed).unwrap_or(0);
    let drawn = clients.draw(excerpt, &Rng::root(seed).child("clients"));
    drawn.map(Arc::new).map_err(|reason| anyhow!("read --clients {}: {reason}", path.display()))
}

fn of_file(path: &Path) -> Result<Clients> {
    let name = path.to_string_lossy();
    if ENDS.iter().any(|end| name.ends_with(end)) {
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        return Err(anyhow!(
            "read --clients {}: a client of ServeGen has two files; name their folder, {}",
            path.display(),
            folder.display()
        ));
    }
    Clients::parse(&text_of("--clients", path)?).map_err(|bad| refused("--clients", path, &bad))
}

/// The clients of a folder of ServeGen, in the order of their numbers.
fn servegen(folder: &Path) -> Result<Clients> {
    let place = || format!("read --clients {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(place)?;
    let files =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>().with_context(place)?;
    let mut pairs: BTreeMap<(u64, String), [Option<PathBuf>; 2]> = BTreeMap::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let named = ENDS.iter().enumerate().find_map(|(which, end)| Some((which, name.strip_suffix(end)?.to_owned())));
        let Some((which, client)) = named else { continue };
        let number = client.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(u64::MAX);
        pairs.entry((number, client)).or_default()[which] = Some(file);
    }
    ensure!(
        !pairs.is_empty(),
        "{}: there is no pair of chunk-N-trace.csv and chunk-N-dataset.json in it; name a folder of ServeGen's data, such as data/language/m-large",
        place()
    );
    let mut files = Vec::new();
    for ((_, client), pair) in pairs {
        let [Some(trace), Some(dataset)] = pair else {
            return Err(anyhow!(
                "{}: of {client} there is one file; a client has {client}{} and {client}{}",
                place(),
                ENDS[0],
                ENDS[1]
            ));
        };
        files.extend([trace, dataset]);
    }
    let texts = files.iter().map(|file| text_of("--clients", file)).collect::<Result<Vec<String>>>()?;
    let pairs: Vec<(&str, &str)> = texts.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    Clients::parse_servegen(&pairs).map_err(|(number, bad)| refused("--clients", &files[number], &bad))
}
