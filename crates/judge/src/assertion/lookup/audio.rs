//! Values of sound: how many words of transcripts are wrong.

use super::{Lookup, maybe};
use tokrate_record::run::PhaseResult;

/// Words that are missing, wrong or too many, of all phases together.
pub(super) fn find_errors(phases: &[&PhaseResult], statistic: &str) -> Lookup {
    let words: u64 = phases.iter().map(|phase| phase.audio.words).sum();
    let errors: u64 = phases.iter().map(|phase| phase.audio.word_errors).sum();
    let figure = match statistic {
        "share" => errors as f64 / words as f64,
        "count" => errors as f64,
        _ => words as f64,
    };
    maybe(
        (words > 0).then_some(figure),
        "nobody said what was said in the sound; put a .txt beside each .wav of --audio",
    )
}
