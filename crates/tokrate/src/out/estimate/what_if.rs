//! Changes and what they do, as a table and as JSON.
//!
//! Invariant: a change that cannot be made says why, and shows no number.

use super::capacity::seconds;
use super::short;
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_estimate::what_if::{Effect, Scenario};

/// A change.
pub struct Row {
    /// In words.
    pub name: String,
    /// What it does, or why it cannot be made.
    pub effect: Result<Effect, String>,
}

/// The base and its changes.
pub struct Shown {
    /// What is changed.
    pub scenario: Scenario,
    /// What it does as it is.
    pub base: Effect,
    /// The changes.
    pub rows: Vec<Row>,
    /// Price of one device, $/hour, where it was given.
    pub price: Option<f64>,
}

impl Shown {
    /// Dollars a million output tokens, lowest and highest.
    fn cost(&self, effect: &Effect) -> Option<(f64, f64)> {
        let (low, high) = self.price.map(|price| (price, price)).or(effect.dollars_hour)?;
        let cost = |hour: f64| hour * effect.devices / (3600.0 * effect.total) * 1e6;
        (effect.total > 0.0).then(|| (cost(low), cost(high)))
    }
}

/// The result for people.
pub fn text(shown: &Shown) -> String {
    let Scenario { asked, lengths, users, .. } = &shown.scenario;
    let named = |name: &Option<String>| name.as_deref().map_or(String::new(), |name| format!(", {name}"));
    let mut text = format!(
        "Computed in virtual time with fitted step times, not measured. {} on {} x {}{}{}; {users} users, prompts of {} tokens, answers of {}.\n\n",
        asked.model,
        asked.n_gpus.unwrap_or(1.0),
        asked.hardware,
        named(&asked.weight_precision),
        named(&asked.engine),
        lengths.isl,
        lengths.osl
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{:<38} {:>16} {:>18} {:>16} {:>7} {:>16}",
        "", "tok/s a user", "TTFT p50", "tok/s in all", "cache", "$/Mtok out"
    );
    let _ = row(&mut text, shown, "as it is", &shown.base);
    for one in &shown.rows {
        let _ = match &one.effect {
            Ok(effect) => row(&mut text, shown, &one.name, effect),
            Err(why) => writeln!(text, "{:<38} {why}", one.name),
        };
    }
    if shown.price.is_none() {
        text.push_str("\nPrices: ranges of on-demand rents from memory, not quotes; --price sets yours.\n");
    }
    text
}

fn row(text: &mut String, shown: &Shown, name: &str, effect: &Effect) -> std::fmt::Result {
    let base = &shown.base;
    let times = |one: f64, other: f64| match one / other {
        ratio if ratio.is_finite() && std::ptr::eq(effect, base) => format!("{:>6}", ""),
        ratio if ratio.is_finite() => format!("x{ratio:<5.2}"),
        _ => format!("{:>6}", ""),
    };
    let cost = shown.cost(effect).map_or("-".to_owned(), |(low, high)| match low == high {
        true => short(low),
        false => format!("{}-{}", short(low), short(high)),
    });
    let line = format!(
        "{name:<38} {:>9} {} {:>11} {} {:>9} {} {:>6.0}% {cost:>16}",
        short(effect.user),
        times(effect.user, base.user),
        seconds(effect.ttft),
        times(effect.ttft, base.ttft),
        short(effect.total),
        times(effect.total, base.total),
        effect.cache_use * 100.0
    );
    writeln!(text, "{}", line.trim_end())
}

/// The result as JSON.
pub fn json(shown: &Shown) -> Json {
    let one = |effect: &Effect| {
        object!({
            "tok_s_user": effect.user,
            "ttft_ms": effect.ttft * 1e3,
            "e2e_ms": effect.e2e * 1e3,
            "tok_s_total": effect.total,
            "cache_use": effect.cache_use,
            "n_gpus": effect.devices,
            "dollars_per_mtok": shown.cost(effect).map(|(low, high)| object!({ "low": low, "high": high })),
        })
    };
    let row = |row: &Row| match &row.effect {
        Ok(effect) => {
            let mut value = one(effect);
            value["change"] = object!(row.name);
            value["speed_ratio"] = object!(effect.user / shown.base.user);
            value
        }
        Err(why) => object!({ "change": row.name, "refused": why }),
    };
    object!({
        "computed": true,
        "model": shown.scenario.asked.model,
        "hardware": shown.scenario.asked.hardware,
        "users": shown.scenario.users,
        "base": one(&shown.base),
        "changes": shown.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
