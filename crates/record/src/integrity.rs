//! Integrity checks: signs that answers are not what they seem (replayed, repetitive, another model, fake streaming). A
//! finding says what was seen in how many answers, not why.
//!
//! Invariant: only answered requests outside the warm-up are checked, and `of` counts those that could show the sign.

use crate::record::ConditionsRow;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_core::FinishReason;
use tokrate_meter::request::{LONG_TEXT_TOKENS, NOT_STREAMED, RequestNumbers};
use tokrate_stats::upper_rank;

/// Above this share of its own 32-byte windows seen before, a text repeats itself. Prose stays below a tenth, tables and
/// code below a third.
const REPETITION_LIMIT: f64 = 0.5;
/// A first chunk with more than this share of the tokens makes the stream one in name only.
const BURST_LIMIT: f64 = 0.5;
/// Fewer tokens at once are no burst: an engine of 2,500 tok/s behind a proxy that holds text back for 60 ms hands over 150.
const MIN_BURST_TOKENS: u64 = 160;
/// Share of answers in which a network may delay a genuine stream from its first chunk on.
const HELD_BACK_SHARE: f64 = 0.05;
/// Probability of a false alarm, where answers may show a sign by chance.
const FALSE_ALARM: f64 = 0.001;
/// Above this relative difference reported and counted tokens are not the same text in two tokenizers any more.
const USAGE_LIMIT: f64 = 0.2;
/// Signs that single answers may show by chance are reported from this share of the answers on.
const NOTABLE_SHARE: f64 = 0.05;

/// A sign that was seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suspicion {
    /// Which sign.
    pub kind: SuspicionKind,
    /// In how many answers it was seen.
    pub count: u64,
    /// In how many it could have been seen.
    pub of: u64,
    /// `count` / `of`.
    pub share: f64,
    /// What was seen and what it could mean.
    pub sentence: String,
}

/// The signs that are looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SuspicionKind {
    /// The same text for different prompts: cached or replayed.
    Replayed,
    /// The same 256 bytes at the beginning for different prompts.
    SharedPrefix,
    /// A text that repeats itself.
    Repetition,
    /// The answer names a model other than the requested one.
    OtherModel,
    /// Shorter or longer than requested.
    LengthNotHonoured,
    /// Most of the text arrived at one tick: fake streaming.
    OneBurst,
    /// Reasoning that is billed and was never streamed.
    ReasoningHidden,
    /// Reported and counted tokens differ by more than tokenizers do.
    UsageDisagrees,
    /// More than half of a prompt that shares nothing was in the server's cache.
    CachedPrompt,
}

impl SuspicionKind {
    /// Every sign, in the order of reporting.
    pub const ALL: [SuspicionKind; 9] = [
        SuspicionKind::Replayed,
        SuspicionKind::SharedPrefix,
        SuspicionKind::Repetition,
        SuspicionKind::OtherModel,
        SuspicionKind::LengthNotHonoured,
        SuspicionKind::OneBurst,
        SuspicionKind::ReasoningHidden,
        SuspicionKind::UsageDisagrees,
        SuspicionKind::CachedPrompt,
    ];

    /// The name used in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            SuspicionKind::Replayed => "replayed",
            SuspicionKind::SharedPrefix => "shared_prefix",
            SuspicionKind::Repetition => "repetition",
            SuspicionKind::OtherModel => "other_model",
            SuspicionKind::LengthNotHonoured => "length_not_honoured",
            SuspicionKind::OneBurst => "one_burst",
            SuspicionKind::ReasoningHidden => "reasoning_hidden",
            SuspicionKind::UsageDisagrees => "usage_disagrees",
            SuspicionKind::CachedPrompt => "cached_prompt",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            SuspicionKind::Replayed => {
                "have the very text of another answer although their prompts differ; they may be cached or replayed"
            }
            SuspicionKind::SharedPrefix => {
                "begin with the same 256 bytes as another although their prompts differ; they may be replayed in part"
            }
            SuspicionKind::Repetition => {
                "repeat themselves in more than half of their text; such text is written faster than thought"
            }
            SuspicionKind::OtherModel => "come from another model than the one asked for, by what they say",
            SuspicionKind::LengthNotHonoured => {
                "are shorter or longer than what was asked for; speeds and costs per answer are those of another length"
            }
            SuspicionKind::OneBurst => {
                "arrived for the most part at one moment; the stream is one in name only, and its output speed means nothing"
            }
            SuspicionKind::ReasoningHidden => {
                "report reasoning tokens that were never streamed; they are billed, and enter no speed here"
            }
            SuspicionKind::UsageDisagrees => {
                "report output tokens more than 20 % off those counted in their text; a speed made of reported tokens would \
                 be off as much"
            }
            SuspicionKind::CachedPrompt => {
                "report that more than half of their prompt was in the server's cache, of what was not to be shared; it was sent before, \
                 and TTFT is that of a prompt that is known"
            }
        }
    }
}

/// Looks for every sign in the measured requests of a phase; those that were seen, in the order of
/// [`SuspicionKind::ALL`].
pub(crate) fn examine(conditions: &ConditionsRow, measured: &[&RequestNumbers]) -> Vec<Suspicion> {
    let examined = SuspicionKind::ALL.into_iter().map(|kind| {
        let (count, of) = match kind {
            SuspicionKind::Replayed => recurring(measured, |request| {
                request.text_hash.as_deref().filter(|_| request.tokens_std >= LONG_TEXT_TOKENS)
            }),
            SuspicionKind::SharedPrefix => recurring(measured, |request| request.text_prefix_hash.as_deref()),
            _ => counted(measured, |request| seen(kind, conditions, request)),
        };
        (kind, count, of)
    });
    let mut found: Vec<Suspicion> = examined
        .filter(|(kind, count, of)| {
            let by_chance = matches!(
                kind,
                SuspicionKind::SharedPrefix | SuspicionKind::UsageDisagrees | SuspicionKind::CachedPrompt
            );
            let improbable = || upper_rank(*of, HELD_BACK_SHARE, FALSE_ALARM).is_some_and(|least| *count >= least);
            *count > 0
                && (!by_chance || *count as f64 >= NOTABLE_SHARE * *of as f64)
                && (*kind != SuspicionKind::OneBurst || improbable())
        })
        .map(|(kind, count, of)| Suspicion::new(kind, count, of))
        .collect();
    // Identical texts share their prefix too; that is not reported twice.
    let replayed = found.iter().find(|it| it.kind == SuspicionKind::Replayed).map_or(0, |it| it.count);
    found.retain(|it| it.kind != SuspicionKind::SharedPrefix || it.count > replayed);
    found
}

impl Suspicion {
    /// The signs of several phases, one for each kind, counted together, in the order of [`SuspicionKind::ALL`].
    pub fn pooled<'s>(found: impl Iterator<Item = &'s Suspicion>) -> Vec<Suspicion> {
        let mut sums: BTreeMap<SuspicionKind, (u64, u64)> = BTreeMap::new();
        for suspicion in found {
            let (count, of) = sums.entry(suspicion.kind).or_default();
            *count += suspicion.count;
            *of += suspicion.of;
        }
        sums.into_iter().map(|(kind, (count, of))| Suspicion::new(kind, count, of)).collect()
    }

    /// Whether it only explains the numbers and does not make them doubtful.
    pub fn is_note(&self) -> bool {
        matches!(self.kind, SuspicionKind::ReasoningHidden | SuspicionKind::UsageDisagrees)
    }

    fn new(kind: SuspicionKind, count: u64, of: u64) -> Suspicion {
        let share = count as f64 / of as f64;
        let sentence = format!("{count} of {of} answers ({:.0} %) {}", share * 100.0, kind.meaning());
        Suspicion { kind, count, of, share, sentence }
    }
}

/// Whether a request shows a sign that needs no other request; `None` if it cannot show it.
fn seen(kind: SuspicionKind, conditions: &ConditionsRow, request: &RequestNumbers) -> Option<bool> {
    match kind {
        SuspicionKind::Replayed | SuspicionKind::SharedPrefix => None,
        SuspicionKind::Repetition => request.repetition.map(|share| share > REPETITION_LIMIT),
        SuspicionKind::OtherModel => {
            let named = request.model.as_deref().filter(|name| !name.is_empty())?;
            let asked = request.adapter.as_ref().unwrap_or(&conditions.model);
            Some(!is_same_model(asked, named) || request.model_changes > 0)
        }
        SuspicionKind::LengthNotHonoured => length_missed(conditions, request),
        SuspicionKind::OneBurst => {
            // An answer in one piece is no stream, and says so where its times would stand.
            let is_stream = conditions.streaming && request.ttft_missing.as_deref() != Some(NOT_STREAMED);
            let long = is_stream && request.tokens_std >= MIN_BURST_TOKENS;
            let first = request.tokens_first_chunk;
            long.then_some(first >= MIN_BURST_TOKENS && first as f64 > BURST_LIMIT * request.tokens_std as f64)
        }
        SuspicionKind::ReasoningHidden => request.reasoning_reported.map(|_| request.reasoning_hidden),
        SuspicionKind::UsageDisagrees => {
            let hidden = if request.reasoning_hidden { request.reasoning_reported.unwrap_or(0) } else { 0 };
            let shown = request.tokens_reported?.saturating_sub(hidden);
            let counted = request.tokens_std;
            (counted >= LONG_TEXT_TOKENS).then(|| shown.abs_diff(counted) as f64 > USAGE_LIMIT * counted as f64)
        }
        SuspicionKind::CachedPrompt => was_cached(conditions, request),
    }
}

/// Whether more than half of a prompt was in the server's cache, of what it does not share with others by its workload. Turns of a
/// session, traces and prefixes of a pool are to be cached.
fn was_cached(conditions: &ConditionsRow, request: &RequestNumbers) -> Option<bool> {
    let prompts = &conditions.prompts;
    let is_made_up = prompts.starts_with(ConditionsRow::SYNTHETIC) && !prompts.contains("shared prefix");
    let shares_nothing = is_made_up && request.session.is_none();
    let shared = u64::from(conditions.shared_prefix_tokens);
    let own = request.input_reported?.checked_sub(shared)?;
    let cached = request.cached_input_reported?.saturating_sub(shared);
    (shares_nothing && own > 0).then_some(cached * 2 > own)
}

fn counted(measured: &[&RequestNumbers], seen: impl Fn(&RequestNumbers) -> Option<bool>) -> (u64, u64) {
    let shown = measured.iter().filter_map(|request| seen(request));
    shown.fold((0, 0), |(count, of), shown| (count + u64::from(shown), of + 1))
}

/// How many requests share a key with a request of another prompt, and how many have a key.
fn recurring<'r>(measured: &[&'r RequestNumbers], key: impl Fn(&'r RequestNumbers) -> Option<&'r str>) -> (u64, u64) {
    let mut groups: BTreeMap<&str, (u64, BTreeSet<Option<&str>>)> = BTreeMap::new();
    let mut of = 0;
    for request in measured {
        if let Some(key) = key(request) {
            of += 1;
            let (count, prompts) = groups.entry(key).or_default();
            *count += 1;
            prompts.insert(request.prompt_hash.as_deref());
        }
    }
    // Without a hash every prompt is unique.
    let differ =
        |count: u64, prompts: &BTreeSet<Option<&str>>| count > 1 && (prompts.len() > 1 || prompts.contains(&None));
    (groups.values().filter(|(count, prompts)| differ(*count, prompts)).map(|(count, _)| count).sum(), of)
}

/// Whether an answer that names this model is one of the model that was asked for. Providers prefix the maker and append a date or a
/// variant: `gpt-4o` answers as `gpt-4o-2024-08-06`.
pub fn is_same_model(asked: &str, named: &str) -> bool {
    let plain = |name: &str| {
        let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        name.chars().filter(|symbol| symbol.is_alphanumeric()).collect::<String>()
    };
    let (asked, named) = (plain(asked), plain(named));
    asked.contains(&named) || named.contains(&asked)
}

/// Whether an answer is far from the requested length. One with finish reason `stop` may be shorter, unless the engine
/// ignores its end token. Counts of another tokenizer get a larger tolerance than the provider's own.
fn length_missed(conditions: &ConditionsRow, request: &RequestNumbers) -> Option<bool> {
    let asked = request.output_asked.unwrap_or(u64::from(conditions.output_tokens)) as f64;
    let least = match request.finish? {
        FinishReason::Stop if conditions.ignore_eos => 0.9,
        FinishReason::Stop => 0.0,
        FinishReason::Length => 0.5,
        _ => return None,
    };
    // Without usage the engine's tokens are not known: of some languages another tokenizer makes twice as many, or half.
    let (tokens, least, room) = match request.tokens_reported {
        Some(tokens) => (tokens as f64, least, 1.1),
        None => (request.tokens_std as f64, least * 0.5, 2.0),
    };
    // A few tokens more are end marks and templates.
    (asked > 0.0).then_some(tokens < least * asked || tokens > room * asked + 8.0)
}

#[cfg(test)]
mod tests;
