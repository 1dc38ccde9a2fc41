//! Alternative spellings of a metric and its statistic: `ttft_p95`, `p95_ttft_ms`, `p95(ttft)`, `median_tpot_ms`.
//!
//! Invariant: both parts must be known, and the result is the canonical spelling of the same value.

use super::lookup::subject_of;
use crate::expression::milliseconds_in;
use tokrate_record::Metric;

/// The canonical spelling (`ttft_ms.p95`) of a left side; `None` if it is canonical already or not recognised.
pub(crate) fn canonical_spelling(left: &str) -> Option<String> {
    let lower = left.trim().to_lowercase().replace("p99.9", "p99_9");
    let name = lower.split('.').next().unwrap_or_default();
    let bare = name.rsplit_once('_').filter(|(_, unit)| milliseconds_in(unit).is_some()).map_or(name, |(bare, _)| bare);
    if lower.contains('.') && subject_of(name).or_else(|| subject_of(bare)).is_some() {
        return None;
    }
    let mut words: Vec<&str> = lower.split(['_', '(', ')', '.', ' ', '-']).filter(|word| !word.is_empty()).collect();
    if let Some(at) = words.windows(2).position(|pair| pair == ["p99", "9"]) {
        words.remove(at + 1);
        words[at] = "p99_9";
    }
    let unit = words.pop_if(|word| milliseconds_in(word).is_some());
    for at in [0, words.len().checked_sub(1)?] {
        let mut name = words.clone();
        let statistic = name.remove(at);
        let unit = unit.or_else(|| name.pop_if(|word| milliseconds_in(word).is_some()));
        if let Some(plain) = plain(&name.join("_"), statistic, unit) {
            return Some(plain);
        }
    }
    None
}

fn plain(name: &str, statistic: &str, unit: Option<&str>) -> Option<String> {
    let foreign = Metric::from_other_tools_name(name).map(Metric::name);
    let subject = subject_of(name).or_else(|| subject_of(foreign?))?;
    let statistic = subject.statistic(statistic).unwrap_or(statistic);
    let is_percentile =
        statistic.strip_prefix('p').is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    if !is_percentile && !subject.statistics().contains(&statistic) {
        return None;
    }
    let unit = unit.filter(|_| subject.is_time()).map_or_else(String::new, |unit| format!("_{unit}"));
    Some(format!("{}{unit}.{statistic}", subject.name()))
}
