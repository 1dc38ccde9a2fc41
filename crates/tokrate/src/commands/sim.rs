//! `tokrate sim`: simulated engines as a server, until Ctrl-C.

use super::Verdict;
use crate::config::sim::{Resolved, resolve};
use crate::flags::sim::Flags;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use tokrate_bench::Stop;
use tokrate_host::{Addresses, Host, Provider, Summary};
use tokrate_sim::Persona;

/// Serves until interrupted; then prints how much was served and how late the engine's own writes were.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let Resolved { config, key_variables, engine } = resolve(flags)?;
    let stop = Stop::default();
    super::interrupt::watch(stop.clone())?;
    let (providers, is_fleet) = (config.providers.clone(), flags.personas.is_some());
    let logged = flags.truth_log.clone();
    let ready = move |addresses: &Addresses| {
        match is_fleet {
            true => anstream::print!("{}", fleet_text(&providers, addresses, &key_variables)),
            false => anstream::print!("{}", engine_text(&providers[0], addresses.first())),
        }
        if let Some(engine) = engine {
            anstream::println!("{engine}");
        }
        if let Some(path) = logged {
            anstream::println!("truth log: {}", path.display());
        }
    };
    tokrate_net::server::raise_open_files();
    let summary = Host::run(config, ready, async move { stop.wait().await })?;
    anstream::println!("{}", closing_line(&summary));
    if let Some(error) = summary.log_error {
        anyhow::bail!("write the truth log to its end: {error}");
    }
    Ok(Verdict::Good)
}

fn engine_text(provider: &Provider, address: SocketAddr) -> String {
    let model = &provider.model;
    format!(
        "serving model `{model}` at http://{address}/v1 (Ctrl-C ends)\n\
         try: tokrate bench --url http://{address}/v1 --model {model} --concurrency 1,4 --requests 20\n"
    )
}

/// The providers, and how to measure each of them.
fn fleet_text(providers: &[Provider], addresses: &Addresses, key_variables: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let main = addresses.first();
    let count = providers.len();
    let noun = if count == 1 { "provider" } else { "providers" };
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "serving {count} {noun} at http://{main}/v1, each by the name before the slash (Ctrl-C ends)");
    for (provider, own) in providers.iter().zip(&addresses.own) {
        let (persona, model) = (&provider.persona, &provider.model);
        let name = &persona.name;
        let (url, asked) = match own {
            Some(own) => (format!("http://{own}/v1"), model.clone()),
            None => (format!("http://{main}/v1"), format!("{name}/{model}")),
        };
        let place = own.map_or_else(String::new, |own| format!(", or `{model}` at http://{own}/v1"));
        let key = key_variables.get(name).map_or_else(String::new, |variable| format!(" --key-env {variable}"));
        let _ = writeln!(text, "\n{name}: model `{name}/{model}`{place}");
        let _ = writeln!(text, "  {}", persona_line(persona));
        let _ = writeln!(text, "  tokrate bench --url {url} --model {asked}{key} --concurrency 1,4 --requests 20");
    }
    text
}

/// A persona in a line.
fn persona_line(persona: &Persona) -> String {
    let law = &persona.law;
    let mut parts = vec![
        format!("{} tok/s alone", law.stream_tokens_per_second),
        format!("{} before the first token", law.base_delay),
        format!("{} slots", law.slots),
    ];
    let mut add = |is_so: bool, part: String| parts.extend(is_so.then_some(part));
    add(law.reasoning_tokens > 0, format!("{} reasoning tokens", law.reasoning_tokens));
    let others = persona.background.streams;
    add(others > 0.0, format!("{others} other users"));
    let changes = persona.timetable.changes.len();
    add(changes > 0, format!("{changes} change{} over time", if changes == 1 { "" } else { "s" }));
    let curves = persona.timetable.speed.is_some() || persona.background.curve.is_some();
    add(curves, "a curve over time".to_owned());
    add(persona.time_scale != 1.0, format!("time goes {} times as fast", persona.time_scale));
    for (limit, what) in [
        (persona.limits.requests_per_minute, "requests a minute"),
        (persona.limits.tokens_per_minute, "tokens a minute"),
    ] {
        add(limit.is_some(), format!("{} {what}", limit.unwrap_or_default()));
    }
    add(persona.faults != Default::default(), "faults".to_owned());
    let (input, output) = (persona.price.input.as_usd(), persona.price.output.as_usd());
    add(input > 0.0 || output > 0.0, format!("${input} in and ${output} out per million tokens"));
    parts.join(", ")
}

fn closing_line(summary: &Summary) -> String {
    let lateness = |q| {
        summary
            .lateness
            .quantile(q)
            .map_or_else(|| "-".to_owned(), |lag| tokrate_core::Span::from_nanos(lag).to_string())
    };
    let dropped = match summary.rows_dropped {
        0 => String::new(),
        rows => format!("; the truth log lacks {rows} rows, the disk was too slow"),
    };
    format!(
        "{} writes; lateness of the engine's own writes: p50 {}, p99 {}, max {}{dropped}",
        summary.lateness.count(),
        lateness(0.5),
        lateness(0.99),
        lateness(1.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::personas::Personas;

    #[test]
    fn the_providers_are_listed_with_how_to_measure_them() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/personas.toml");
        let mut personas = Personas::read(example.as_ref()).expect("the example needs no key");
        // One without a port of its own, and one with a key.
        personas.providers[1].address = None;
        personas.key_variables.insert("crowded".to_owned(), "CROWDED_KEY".to_owned());
        let own = personas.providers.iter().map(|provider| provider.address).collect();
        let addresses = Addresses { main: personas.listen, own };
        insta::assert_snapshot!("fleet", fleet_text(&personas.providers, &addresses, &personas.key_variables));
    }
}
