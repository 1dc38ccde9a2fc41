//! Caches token counts and syntax trees by text, not by hash.
//!
//! Invariant: the cache is bounded in entries and bytes, and changes no answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokrate_apply::{Language, Options, Parsed};
use tokrate_tokens::{Encoding, count};

/// Most entries per kind.
const MAX_TEXTS: usize = 64;
/// Most bytes per kind.
const MAX_BYTES: usize = 32 << 20;
/// Shorter texts are counted faster than looked up, and would evict others (bytes).
const MIN_CACHED_BYTES: usize = 2 << 10;
/// Approximate size of a syntax tree per byte of its text.
const TREE_BYTES: usize = 40;

/// Token counts and syntax trees of texts.
#[derive(Default)]
pub(crate) struct TextCache {
    counts: Mutex<LruCache<(), usize>>,
    trees: Mutex<LruCache<Language, Arc<Parsed>>>,
}

/// Entries in order of use, the latest last.
struct LruCache<K, V> {
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

impl TextCache {
    /// How many o200k tokens a text has.
    pub(crate) fn tokens(&self, text: &str) -> u64 {
        if text.len() < MIN_CACHED_BYTES {
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

fn get<K: Copy + PartialEq, V: Clone>(lru: &Mutex<LruCache<K, V>>, text: &str, kind: K) -> Option<V> {
    let alike: Vec<Arc<str>> = {
        let lru = lru.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = lru.items.iter().rev().filter(|item| item.kind == kind && item.text.len() == text.len());
        alike.map(|item| Arc::clone(&item.text)).collect()
    };
    // Compared without the lock, since texts may be long.
    let found = alike.into_iter().find(|other| **other == *text)?;
    let mut lru = lru.lock().unwrap_or_else(PoisonError::into_inner);
    let at = lru.items.iter().position(|item| item.kind == kind && Arc::ptr_eq(&item.text, &found))?;
    let item = lru.items.remove(at)?;
    let value = item.value.clone();
    lru.items.push_back(item);
    Some(value)
}

fn put<K, V>(lru: &Mutex<LruCache<K, V>>, item: Item<K, V>) {
    if item.bytes > MAX_BYTES {
        return;
    }
    let mut lru = lru.lock().unwrap_or_else(PoisonError::into_inner);
    lru.bytes += item.bytes;
    lru.items.push_back(item);
    while lru.bytes > MAX_BYTES || lru.items.len() > MAX_TEXTS {
        let Some(gone) = lru.items.pop_front() else { break };
        lru.bytes -= gone.bytes;
    }
}

impl<K, V> Default for LruCache<K, V> {
    fn default() -> LruCache<K, V> {
        LruCache { items: VecDeque::new(), bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize, length: usize) -> String {
        format!("{number:08} ").repeat(length / 9)
    }

    fn kept(cache: &TextCache) -> (usize, usize) {
        let lru = cache.counts.lock().expect("no panic");
        assert_eq!(lru.bytes, lru.items.iter().map(|item| item.bytes).sum::<usize>());
        (lru.items.len(), lru.bytes)
    }

    #[test]
    fn counts_are_those_of_the_tokenizer_the_first_time_and_again() {
        let cache = TextCache::default();
        for number in [1, 2, 1, 3, 2, 1] {
            for length in [9, MIN_CACHED_BYTES + 9, 5 * MIN_CACHED_BYTES] {
                let text = text(number, length);
                assert_eq!(cache.tokens(&text), count(Encoding::O200kBase, &text) as u64);
            }
        }
        assert_eq!(kept(&cache).0, 6);
    }

    #[test]
    fn what_is_kept_is_bounded_in_number() {
        let cache = TextCache::default();
        let first = text(0, 3 * MIN_CACHED_BYTES);
        cache.tokens(&first);
        for number in 1..200 {
            cache.tokens(&text(number, 3 * MIN_CACHED_BYTES));
            assert!(kept(&cache).0 <= MAX_TEXTS);
            // What is used again stays.
            assert_eq!(get(&cache.counts, &first, ()), Some(count(Encoding::O200kBase, &first)));
        }
        assert_eq!(get(&cache.counts, &text(1, 3 * MIN_CACHED_BYTES), ()), None);
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let cache = TextCache::default();
        for number in 0..5 {
            let item = Item { text: text(number, 10).into(), kind: (), value: number, bytes: MAX_BYTES / 2 };
            put(&cache.counts, item);
            assert!(kept(&cache).1 <= MAX_BYTES);
        }
        assert_eq!(kept(&cache).0, 2);
        put(&cache.counts, Item { text: "x".into(), kind: (), value: 0, bytes: MAX_BYTES + 1 });
        assert_eq!(kept(&cache).0, 2);
    }
}
