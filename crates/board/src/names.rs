//! Names from outside: found by their whole text, shown bounded, addressed by a slug.
//!
//! Invariant: two names never share an identity, whatever is cut off of what is shown; slugs are unique without regard to case
//! and hold only `a-z`, `0-9`, `-`, `.`.

use std::collections::BTreeSet;
use tokrate_core::one_line;

/// Longest name that is shown (bytes).
pub(crate) const MAX_NAME_BYTES: usize = 80;
/// Longest sentence from outside that is shown (bytes).
pub(crate) const MAX_SENTENCE_BYTES: usize = 300;
const MAX_SLUG_BYTES: usize = 64;

/// A name with what is shown of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Name {
    pub(crate) full: String,
    /// Bounded, on one line; not escaped.
    pub(crate) label: String,
    pub(crate) slug: String,
}

/// All names of a kind, rising.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Names(Vec<Name>);

impl Names {
    pub(crate) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Names {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let distinct: BTreeSet<&str> = names.collect();
        let named = distinct.into_iter().map(|full| {
            let label = one_line(full, MAX_NAME_BYTES);
            let label = if label.is_empty() { "(no name)".to_owned() } else { label };
            let mut slug = slug(full);
            // A cut or changed name may meet another.
            if taken.contains(&slug) || is_reserved(&slug) {
                slug = format!("{slug}-{:08x}", hash(full.as_bytes()) as u32);
            }
            while !taken.insert(slug.clone()) {
                slug.push('x');
            }
            Name { full: full.to_owned(), label, slug }
        });
        Names(named.collect())
    }

    pub(crate) fn index(&self, full: &str) -> Option<usize> {
        self.0.binary_search_by(|name| name.full.as_str().cmp(full)).ok()
    }

    pub(crate) fn by_slug(&self, slug: &str) -> Option<usize> {
        self.0.iter().position(|name| name.slug == slug)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.0.iter()
    }
}

impl std::ops::Index<usize> for Names {
    type Output = Name;

    fn index(&self, index: usize) -> &Name {
        &self.0[index]
    }
}

fn slug(full: &str) -> String {
    let mut slug = String::new();
    for character in full.chars() {
        if slug.len() >= MAX_SLUG_BYTES {
            break;
        }
        match character.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => slug.push(c),
            '.' if !slug.is_empty() && !slug.ends_with(['.', '-']) => slug.push('.'),
            _ if !slug.is_empty() && !slug.ends_with(['.', '-']) => slug.push('-'),
            _ => {}
        }
    }
    slug.truncate(slug.trim_end_matches(['.', '-']).len());
    if slug.is_empty() { "unnamed".to_owned() } else { slug }
}

/// Names of devices, which no file may have on Windows, and the word for "all" in addresses.
fn is_reserved(slug: &str) -> bool {
    let stem = slug.split('.').next().unwrap_or_default();
    let numbered =
        |prefix: &str| stem.strip_prefix(prefix).is_some_and(|rest| matches!(rest.as_bytes(), [b'0'..=b'9']));
    matches!(stem, "con" | "prn" | "aux" | "nul" | "all") || numbered("com") || numbered("lpt")
}

/// The 64-bit FNV-1a hash: equal for equal bytes on every machine, which is all that slugs and entity tags need.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_plain_and_unique() {
        let long = "x".repeat(10_000);
        let longer = format!("{long}y");
        let raw = ["groq/llama-3.3", "groq/Llama 3.3", "<script>", "", "../..", "con", "\u{202e}abc", &long, &longer];
        let names = Names::of(raw.into_iter());
        let slugs: BTreeSet<&str> = names.iter().map(|name| name.slug.as_str()).collect();
        assert_eq!(slugs.len(), raw.len());
        for name in names.iter() {
            assert!(name.label.len() <= MAX_NAME_BYTES && name.slug.len() <= MAX_SLUG_BYTES + 12, "{name:?}");
            assert!(!name.slug.starts_with('.') && !name.slug.contains(".."), "{name:?}");
            assert!(name.slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
            assert_eq!(names.by_slug(&name.slug), names.index(&name.full));
        }
        assert_eq!(names[names.index("groq/llama-3.3").expect("there")].slug.split("-").next(), Some("groq"));
    }
}
