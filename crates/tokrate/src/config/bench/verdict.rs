//! What the result is held against: resolved from flags and settings file.

use crate::config::file::File;
use crate::flags::bench as flags;
use anyhow::{Context, Result};
use tokrate_meter::Slo;

pub(super) fn slos(flags: &flags::Verdict, file: &File) -> Result<Vec<Slo>> {
    let in_file = file.bench.slo.as_deref().unwrap_or_default();
    let (origin, texts) =
        if flags.slos.is_empty() { (file.key("slo"), in_file) } else { ("--slo".to_owned(), flags.slos.as_slice()) };
    texts.iter().map(|text| Slo::parse(text).with_context(|| format!("read {origin}"))).collect()
}
