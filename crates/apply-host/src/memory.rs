//! What was worked out for a text, kept for when the text comes again: how many tokens it has, and its tree.
//!
//! It refuses to go by a hash: a text is known again by its bytes. Invariant: what is kept is bounded in number and bytes, and
//! changes no answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokrate_apply::{Language, Options, Parsed};
use tokrate_tokens::{Encoding, count};

/// Texts of a kind that are kept.
const TEXTS_MOST: usize = 64;
/// Bytes of a kind that are kept.
const BYTES_MOST: usize = 32 << 20;
/// Shorter texts are counted sooner than looked for, and would drive out others.
const COUNTED_LEAST: usize = 2 << 10;
/// Bytes that a tree takes for each byte of its text, about.
const TREE_BYTES: usize = 40;

/// What is known of texts.
#[derive(Default)]
pub(crate) struct Memory {
    counts: Mutex<Shelf<(), usize>>,
    trees: Mutex<Shelf<Language, Arc<Parsed>>>,
}

/// Texts and what is known of each, the one used last at the end.
struct Shelf<K, V> {
    items: VecDeque<Item<K, V>>,
    bytes: usize,
}

#[derive(Clone)]
struct Item<K, V> {
    text: Arc<str>,
    kind: K,
    value: V,
    bytes: usize,
}

impl Memory {
    /// How many o200k tokens a text has.
    pub(crate) fn tokens(&self, text: &str) -> u64 {
        if text.len() < COUNTED_LEAST {
            return count(Encoding::O200kBase, text) as u64;
        }
        if let Some(known) = get(&self.counts, text, ()) {
            return known as u64;
        }
        let tokens = count(Encoding::O200kBase, text);
        put(&self.counts, Item { text: text.into(), kind: (), value: tokens, bytes: text.len() });
        tokens as u64
    }

    /// The tree of a file, if one is made for a merge with these options.
    pub(crate) fn parsed(&self, original: &str, options: &Options) -> Option<Arc<Parsed>> {
        let language = options.parsed_as()?;
        if let Some(known) = get(&self.trees, original, language) {
            return Some(known);
        }
        let value = Arc::new(Parsed::of(original.as_bytes(), options)?);
        let bytes = original.len().saturating_mul(TREE_BYTES);
        put(&self.trees, Item { text: original.into(), kind: language, value: Arc::clone(&value), bytes });
        Some(value)
    }
}

fn get<K: Copy + PartialEq, V: Clone>(shelf: &Mutex<Shelf<K, V>>, text: &str, kind: K) -> Option<V> {
    let alike: Vec<Arc<str>> = {
        let shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = shelf.items.iter().rev().filter(|item| item.kind == kind && item.text.len() == text.len());
        alike.map(|item| Arc::clone(&item.text)).collect()
    };
    // Compared without the lock: texts may be long.
    let found = alike.into_iter().find(|other| **other == *text)?;
    let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
    let at = shelf.items.iter().position(|item| item.kind == kind && Arc::ptr_eq(&item.text, &found))?;
    let item = shelf.items.remove(at)?;
    let value = item.value.clone();
    shelf.items.push_back(item);
    Some(value)
}

fn put<K, V>(shelf: &Mutex<Shelf<K, V>>, item: Item<K, V>) {
    if item.bytes > BYTES_MOST {
        return;
    }
    let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
    shelf.bytes += item.bytes;
    shelf.items.push_back(item);
    while shelf.bytes > BYTES_MOST || shelf.items.len() > TEXTS_MOST {
        let Some(gone) = shelf.items.pop_front() else { break };
        shelf.bytes -= gone.bytes;
    }
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Shelf<K, V> {
        Shelf { items: VecDeque::new(), bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize, length: usize) -> String {
        format!("{number:08} ").repeat(length / 9)
    }

    fn kept(memory: &Memory) -> (usize, usize) {
        let shelf = memory.counts.lock().expect("no panic");
        assert_eq!(shelf.bytes, shelf.items.iter().map(|item| item.bytes).sum::<usize>());
        (shelf.items.len(), shelf.bytes)
    }

    #[test]
    fn counts_are_those_of_the_tokenizer_the_first_time_and_again() {
        let memory = Memory::default();
        for number in [1, 2, 1, 3, 2, 1] {
            for length in [9, COUNTED_LEAST + 9, 5 * COUNTED_LEAST] {
                let text = text(number, length);
                assert_eq!(memory.tokens(&text), count(Encoding::O200kBase, &text) as u64);
            }
        }
        assert_eq!(kept(&memory).0, 6);
    }

    #[test]
    fn what_is_kept_is_bounded_in_number() {
        let memory = Memory::default();
        let first = text(0, 3 * COUNTED_LEAST);
        memory.tokens(&first);
        for number in 1..200 {
            memory.tokens(&text(number, 3 * COUNTED_LEAST));
            assert!(kept(&memory).0 <= TEXTS_MOST);
            // What is used again stays.
            assert_eq!(get(&memory.counts, &first, ()), Some(count(Encoding::O200kBase, &first)));
        }
        assert_eq!(get(&memory.counts, &text(1, 3 * COUNTED_LEAST), ()), None);
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let memory = Memory::default();
        for number in 0..5 {
            let item = Item { text: text(number, 10).into(), kind: (), value: number, bytes: BYTES_MOST / 2 };
            put(&memory.counts, item);
            assert!(kept(&memory).1 <= BYTES_MOST);
        }
        assert_eq!(kept(&memory).0, 2);
        put(&memory.counts, Item { text: "x".into(), kind: (), value: 0, bytes: BYTES_MOST + 1 });
        assert_eq!(kept(&memory).0, 2);
    }
}
