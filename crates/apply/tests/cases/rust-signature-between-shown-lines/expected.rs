use std::collections::BTreeMap;

/// Counts words.
pub struct Counter {
    counts: BTreeMap<String, usize>,
}

impl Counter {
    /// An empty counter.
    pub fn new() -> Counter {
        Counter { counts: BTreeMap::new() }
    }

    /// Adds a word.
    pub fn insert(&mut self, word: &str) {
        *self.counts.entry(word.to_owned()).or_default() += 1;
    }

    /// The count of a word.
    pub fn count(&self, word: &str) -> usize {
        self.counts.get(word).copied().unwrap_or(0)
    }
}
