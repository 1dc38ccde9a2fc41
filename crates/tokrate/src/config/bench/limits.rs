//! When to give up, and how the client's own error is found: resolved from flags, environment and settings file.

use super::pick_text;
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::config::quantity;
use crate::flags::bench as flags;
use anyhow::{Result, ensure};
use tokrate_bench::{Calibration, Limits};
use tokrate_core::Span;

/// Largest answer that is read (bytes).
const MAX_BODY_BYTES: u64 = 256 * 1024 * 1024;

pub(super) fn limits(flags: &flags::Limits, file: &File) -> Result<Limits> {
    let bench = &file.bench;
    let read = |flag, typed: &Option<String>, key, in_file: &Option<String>, default: Span| -> Result<Span> {
        let found = pick_text(flag, typed, None, file, key, in_file);
        let span = found.map(|text| {
            text.parse(|text| {
                let span = quantity::span(&text)?;
                ensure!(!span.is_zero(), "a limit of no time lets nothing through");
                Ok(span)
            })
        });
        Ok(span.transpose()?.map_or(default, |span| span.value))
    };
    Ok(Limits {
        connect: read(
            "--connect-timeout",
            &flags.connect_timeout,
            "connect_timeout",
            &bench.connect_timeout,
            Span::from_secs(10),
        )?,
        idle: read("--idle-timeout", &flags.idle_timeout, "idle_timeout", &bench.idle_timeout, Span::from_secs(60))?,
        total: read("--timeout", &flags.timeout, "timeout", &bench.timeout, Span::from_secs(600))?,
        wait: read("--max-wait", &flags.max_wait, "max_wait", &bench.max_wait, Span::from_secs(120))?,
        max_body_bytes: MAX_BODY_BYTES,
    })
}

pub(super) fn calibration(flags: &flags::Limits, environment: &Environment) -> Calibration {
    match (flags.calibration.unwrap_or(flags::Calibration::Cached), &environment.cache_folder) {
        (flags::Calibration::Off, _) => Calibration::Off,
        (flags::Calibration::Cached, Some(folder)) => Calibration::Cached(folder.clone()),
        (flags::Calibration::Run | flags::Calibration::Cached, _) => Calibration::Run,
    }
}
