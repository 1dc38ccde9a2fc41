//! The hub's side before anything is kept: who may push, how much, and what was refused.
//!
//! Invariant: what nobody signed uses up no prober's share, and its refusals are counted without a name that a stranger chose.

use super::batch::{Batch, Refusal};
use super::key::PublicKey;
use std::collections::BTreeMap;
use tokrate_core::{Span, Tick};

/// Batches that a prober may send at once, and in a minute.
const BURST: u32 = 240;
const A_MINUTE: u64 = 240;
/// Refusals of one kind of one prober are a notice once in so long.
const NOTICE_EVERY: Span = Span::from_secs(3_600);

/// A prober that may push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownProber {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
}

/// Who may push to a hub.
#[derive(Debug)]
pub struct Gate {
    probers: BTreeMap<String, (PublicKey, Share)>,
    /// By prober (empty for unknown ones) and kind: how many since the latest notice, and when that was.
    refused: BTreeMap<(String, &'static str), (u64, Option<Tick>)>,
}

/// What a prober may still send.
#[derive(Clone, Copy, Debug)]
struct Share {
    batches: u32,
    /// Up to when it was filled.
    at: Tick,
}

impl Gate {
    /// A gate for these probers.
    pub fn new(probers: &[KnownProber], now: Tick) -> Gate {
        let share = Share { batches: BURST, at: now };
        let probers = probers.iter().map(|prober| (prober.name.clone(), (prober.key.clone(), share)));
        Gate { probers: probers.collect(), refused: BTreeMap::new() }
    }

    /// Decides by the name alone, before a body is read.
    ///
    /// # Errors
    /// For a prober that is not known, or has sent too much.
    pub fn admit(&mut self, prober: &str, now: Tick) -> Result<(), Refusal> {
        let (_, share) = self.probers.get_mut(prober).ok_or(Refusal::Unknown)?;
        share.fill(now);
        if share.batches == 0 { Err(Refusal::Flood) } else { Ok(()) }
    }

    /// Reads a body; only one that is signed counts against the prober's share.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(&mut self, prober: &str, body: &[u8], signature: &str, now_unix_ms: u64) -> Result<Batch, Refusal> {
        let (key, share) = self.probers.get_mut(prober).ok_or(Refusal::Unknown)?;
        let read = Batch::read(body, signature, prober, key, now_unix_ms);
        if !matches!(read, Err(Refusal::Forged | Refusal::Oversized)) {
            share.batches = share.batches.saturating_sub(1);
        }
        read
    }

    /// Counts a refusal; a notice if one is due.
    pub fn refused(&mut self, prober: &str, refusal: &Refusal, now: Tick) -> Option<String> {
        // Sent again as it was not known whether it had come, and a hub that is busy: nothing is wrong.
        if matches!(refusal, Refusal::Replayed(_) | Refusal::Busy(_)) {
            return None;
        }
        let name = if self.probers.contains_key(prober) { prober } else { "" };
        let (count, noticed) = self.refused.entry((name.to_owned(), refusal.code())).or_default();
        *count += 1;
        if noticed.is_some_and(|noticed| now.since(noticed) < NOTICE_EVERY) {
            return None;
        }
        *noticed = Some(now);
        let count = std::mem::take(count);
        let whose = if name.is_empty() { "an unknown prober".to_owned() } else { format!("`{name}`") };
        let many = if count == 1 { "a batch".to_owned() } else { format!("{count} batches") };
        Some(format!("refused {many} of {whose}: {refusal}"))
    }
}

impl Share {
    fn fill(&mut self, now: Tick) {
        let step = Span::from_secs(60).as_nanos() / A_MINUTE;
        let more = now.since(self.at).as_nanos() / step;
        self.at += Span::from_nanos(more.saturating_mul(step));
        self.batches = u32::try_from(u64::from(self.batches).saturating_add(more)).unwrap_or(BURST).min(BURST);
    }
}
