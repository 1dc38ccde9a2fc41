//! Looks up rows.
//!
//! Invariant: a price is found for the exact name of a model or for that name followed by a date, never for another model.

use crate::{ListedPrice, PRICES, PROVIDERS, Provider};
use tokrate_core::edit_distance;

/// Minimum number of digits of a date suffix, as in `-20251001` or `-2026-07-09`.
const MIN_DATE_DIGITS: usize = 6;

/// The provider of this name.
pub fn provider(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|row| row.name == name)
}

/// The price of a model.
pub fn price(provider: &str, model: &str) -> Option<&'static ListedPrice> {
    let of = |row: &&ListedPrice| row.provider == provider;
    let with_date = |row: &&ListedPrice| model.strip_prefix(row.model).is_some_and(is_date);
    PRICES.iter().filter(of).find(|row| row.model == model).or_else(|| PRICES.iter().filter(of).find(with_date))
}

/// Whether a suffix of a model name is a date.
fn is_date(rest: &str) -> bool {
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest.starts_with('-') && digits >= MIN_DATE_DIGITS && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// Names of rows that are spelled like `name`, or host models of that name, the nearest first; at most three.
pub fn nearest(name: &str) -> Vec<&'static str> {
    let name = name.to_lowercase();
    let mut found: Vec<(usize, &'static str)> = PROVIDERS
        .iter()
        .map(|row| {
            let within = name.len() >= 3 && (row.name.contains(&name) || name.contains(row.name));
            // Who hosts a model is asked for by the model's name too: `grok` is xAI's.
            let hosts = PRICES.iter().any(|price| price.provider == row.name && is_family(price.model, &name));
            let is_exact = row.name == name;
            let nearest = if (within || hosts) && !is_exact { 1 } else { edit_distance(&name, row.name) };
            (nearest, row.name)
        })
        .filter(|(distance, row)| *distance <= 1 + row.len() / 4)
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, row)| row).take(3).collect()
}

/// Whether a model's name begins with this word.
fn is_family(model: &str, word: &str) -> bool {
    model.to_lowercase().strip_prefix(word).is_some_and(|rest| !word.is_empty() && rest.starts_with(['-', '.', ' ']))
}
