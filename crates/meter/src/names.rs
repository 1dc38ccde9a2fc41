//! JSON names of `core`'s enumerations.
//!
//! Invariant: written names are those shown in tables, and an unknown name is an error that lists the known ones.

use serde::{Deserialize, Deserializer, Serializer, de};
use tokrate_core::{FailureKind, FinishReason};

/// A type whose values have names.
pub trait Named: Copy + 'static {
    /// Every value.
    const ALL: &'static [Self];
    /// Its name.
    fn name(self) -> &'static str;
}

impl Named for FailureKind {
    const ALL: &'static [Self] = &FailureKind::ALL;
    fn name(self) -> &'static str {
        FailureKind::name(self)
    }
}

impl Named for FinishReason {
    const ALL: &'static [Self] = &[
        FinishReason::Stop,
        FinishReason::Length,
        FinishReason::ToolCalls,
        FinishReason::ContentFilter,
        FinishReason::Other,
    ];
    fn name(self) -> &'static str {
        FinishReason::name(self)
    }
}

fn find<T: Named, E: de::Error>(name: &str) -> Result<T, E> {
    T::ALL.iter().copied().find(|value| value.name() == name).ok_or_else(|| {
        let known: Vec<&str> = T::ALL.iter().map(|value| value.name()).collect();
        E::custom(format_args!("unknown name `{name}`, expected one of {}", listed(&known)))
    })
}

/// Not inlined: with the names of a type known, LLVM 22 unrolls the join and its constraint elimination then keeps a release
/// build busy for more than eight minutes.
#[inline(never)]
fn listed(names: &[&str]) -> String {
    names.join(", ")
}

/// For `#[serde(with)]` on a value that has a name.
pub mod one {
    use super::*;

    /// Writes the name.
    pub fn serialize<T: Named, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value.name())
    }

    /// Reads a name.
    ///
    /// # Errors
    /// The known names, for one that is unknown.
    pub fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        find(&String::deserialize(deserializer)?)
    }
}

/// For `#[serde(with)]` on a value that may be missing.
pub mod maybe {
    use super::*;

    /// Writes the name.
    pub fn serialize<T: Named, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_str(value.name()),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    /// The known names, for one that is unknown.
    pub fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            Some(name) => find(&name).map(Some),
            None => Ok(None),
        }
    }
}
