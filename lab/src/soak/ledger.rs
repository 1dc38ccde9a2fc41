//! The engines' truth logs: one entry for each request that they got, by its name.
//!
//! Invariant: an entry's tokens are those that were handed to the socket.

use super::engines::Engine;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use tokrate_core::Rng;
use tokrate_sim::Words;

/// One request as its engine saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Place of the engine.
    pub engine: usize,
    /// Its number there.
    pub request: u64,
    pub input_tokens: u64,
    /// Output tokens that were handed to the socket.
    pub written: u64,
    /// Whether a broken event was written, and the mark of the end.
    pub malformed: bool,
    pub done: bool,
    /// How it ended.
    pub end: String,
}

/// The ledgers of all engines.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By `x-request-id`: the call's name and the attempt's number.
    pub entries: BTreeMap<String, Entry>,
    /// Names that came more than once.
    pub repeated: Vec<String>,
}

impl Ledger {
    /// Reads what the engines wrote.
    pub fn read(engines: &[Engine]) -> Result<Ledger> {
        let mut ledger = Ledger::default();
        for (place, engine) in engines.iter().enumerate() {
            let named = || format!("read the ledger of {}", engine.profile.name);
            let file = File::open(&engine.ledger).with_context(named)?;
            ledger.add(place, BufReader::new(file)).with_context(named)?;
        }
        Ok(ledger)
    }

    fn add(&mut self, place: usize, lines: impl BufRead) -> Result<()> {
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        for line in lines.lines() {
            let row: Value = serde_json::from_str(&line?).context("understand a line")?;
            let number = |name: &str| row[name].as_u64().unwrap_or(0);
            if row["row"] == "dropped" {
                bail!("find it whole: {} rows were lost, the disk was too slow", number("rows"));
            }
            let request = number("request");
            if row["row"] == "request" {
                let id = row["id"].as_str().context("find the name of a request")?.to_owned();
                let entry = Entry { engine: place, request, input_tokens: number("input_tokens"), ..Entry::default() };
                if self.entries.insert(id.clone(), entry).is_some() {
                    self.repeated.push(id.clone());
                }
                names.insert(request, id);
                continue;
            }
            let entry = names.get(&request).and_then(|name| self.entries.get_mut(name));
            let entry = entry.with_context(|| format!("find request {request}"))?;
            let kinds = row["kinds"].as_str().unwrap_or_default();
            entry.written += number("tokens");
            entry.malformed |= kinds.split('+').any(|kind| kind == "malformed");
            entry.done |= kinds.split('+').any(|kind| kind == "done");
            if row["row"] == "end" {
                entry.end = row["end"].as_str().unwrap_or_default().to_owned();
                // No row follows it.
                names.remove(&request);
            }
        }
        Ok(())
    }
}

/// Tokens that an engine hides at most: half of the longest answer that is asked for.
const MAX_HIDDEN_TOKENS: u32 = 300;

/// Whether a text is the answer of the engine with that seed to a request, or its beginning. The answers of a dishonest engine
/// may be altered by its faults.
pub fn is_text_of(seed: u64, is_dishonest: bool, entry: &Entry, text: &str, is_whole: bool) -> bool {
    let root = Rng::root(seed);
    let own = root.child("text").nth(entry.request).next_u64();
    let count = text.bytes().filter(|byte| *byte == b' ').count() as u32;
    let equals = |parts: &[Words]| {
        let mut expected = String::with_capacity(text.len());
        parts.iter().for_each(|words| words.push_to(&mut expected));
        expected == text
    };
    if equals(&[Words::new(own, 0, count)]) {
        return true;
    }
    // Hidden reasoning is as long as the rest, or one token shorter; of an answer that broke off the rest is not known.
    let firsts = if is_whole { vec![0, count, count.saturating_sub(1)] } else { (0..=MAX_HIDDEN_TOKENS).collect() };
    let start = root.child("start").next_u64();
    is_dishonest
        && [own, root.child("replay").next_u64()].into_iter().any(|seed| {
            firsts.iter().any(|&first| {
                // Answers that begin alike go their own ways after that.
                let alike = count.min(Words::START.saturating_sub(first));
                let rest = Words::new(seed, first + alike, count - alike);
                let (whole, alike) = (Words::new(seed, first, count), Words::new(start, first, alike));
                equals(&[whole])
                    || equals(&[whole.looped()])
                    || equals(&[alike, rest])
                    || equals(&[alike.looped(), rest.looped()])
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_adds_up_its_writes() {
        let lines = r#"{"row":"request","request":4,"id":"c-0","input_tokens":7}
{"row":"write","request":4,"tokens":3,"kinds":"role+text"}
{"row":"write","request":4,"tokens":2,"kinds":"text+malformed+done"}
{"row":"end","request":4,"end":"complete"}"#;
        let mut ledger = Ledger::default();
        ledger.add(1, lines.as_bytes()).expect("a ledger");
        let expected = Entry {
            engine: 1,
            request: 4,
            input_tokens: 7,
            written: 5,
            malformed: true,
            done: true,
            end: "complete".to_owned(),
        };
        assert_eq!(ledger.entries.get("c-0"), Some(&expected));
        assert!(ledger.repeated.is_empty());
        assert!(Ledger::default().add(0, r#"{"row":"dropped","rows":3}"#.as_bytes()).is_err());
    }

    #[test]
    fn a_text_is_that_of_one_request_of_one_engine() {
        let entry = Entry { request: 3, ..Entry::default() };
        let text = |seed: u64, request, first, count| {
            let mut text = String::new();
            let own = Rng::root(seed).child("text").nth(request).next_u64();
            Words::new(own, first, count).push_to(&mut text);
            text
        };
        assert!(is_text_of(9, false, &entry, &text(9, 3, 0, 40), true));
        assert!(is_text_of(9, false, &entry, "", true));
        for other in [text(9, 4, 0, 40), text(8, 3, 0, 40), text(9, 3, 1, 40), text(9, 3, 0, 20) + &text(9, 3, 21, 20)]
        {
            assert!(!is_text_of(9, false, &entry, &other, true), "{other}");
        }
        let mut alike = String::new();
        Words::new(Rng::root(9).child("start").next_u64(), 0, Words::START).push_to(&mut alike);
        alike += &text(9, 3, Words::START, 20);
        assert!(is_text_of(9, true, &entry, &alike, true), "its beginning is that of others");
        assert!(!is_text_of(9, false, &entry, &alike, true), "an honest engine has no such answers");
        assert!(is_text_of(9, true, &entry, &text(9, 3, 20, 20), true), "after as much hidden text");
        assert!(!is_text_of(9, true, &entry, &text(9, 3, 7, 20), true));
        assert!(is_text_of(9, true, &entry, &text(9, 3, 7, 4), false), "broken off after seven hidden words");
        assert!(!is_text_of(9, true, &entry, &text(9, 4, 7, 4), false));
        assert!(is_text_of(9, true, &entry, &text(9, 3, 299, 4), false), "half of the longest answer is hidden");
    }
}
