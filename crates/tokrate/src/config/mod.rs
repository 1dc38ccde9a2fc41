//! From what was typed to what is done: flags over environment over `tokrate.toml` over defaults. Every value remembers
//! where it came from, so that an error can say so.

pub mod apply;
pub mod bench;
pub mod chain;
pub mod clickhouse;
pub mod environment;
pub mod file;
pub mod gateway;
pub mod length;
pub mod lists;
pub mod log;
pub mod machine;
pub mod monitor;
pub mod personas;
pub mod quantity;
#[cfg(test)]
mod reference;
pub mod script;
pub mod sim;
pub mod verdicts;

use anyhow::{Result, anyhow};
use std::fmt;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A flag of the command line, with its dashes.
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A key of the settings file.
    File(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) | Origin::Environment(name) => formatter.write_str(name),
            Origin::File(key) => write!(formatter, "{key}"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, PartialEq, Debug)]
pub struct Value<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Value<T> {
    /// Turns the value into another; an error names the origin of the value.
    pub fn parse<U>(self, parse: impl FnOnce(T) -> Result<U>) -> Result<Value<U>> {
        let origin = self.origin;
        let value = parse(self.value).map_err(|error| anyhow!("read {origin}: {error:#}"))?;
        Ok(Value { value, origin })
    }
}

/// The first layer that has a value.
pub fn layered<T>(
    flag: (&'static str, Option<T>),
    variable: Option<(&'static str, Option<T>)>,
    file: (String, Option<T>),
) -> Option<Value<T>> {
    if let (name, Some(value)) = flag {
        return Some(Value { value, origin: Origin::Flag(name) });
    }
    if let Some((name, Some(value))) = variable {
        return Some(Value { value, origin: Origin::Environment(name) });
    }
    file.1.map(|value| Value { value, origin: Origin::File(file.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let pick = |flag, variable| {
            layered(("--model", flag), Some(("TOKRATE_MODEL", variable)), ("bench.model".into(), Some("c")))
                .map(|found| (found.value, found.origin.to_string()))
        };
        assert_eq!(pick(Some("a"), Some("b")), Some(("a", "--model".into())));
        assert_eq!(pick(None, Some("b")), Some(("b", "TOKRATE_MODEL".into())));
        assert_eq!(pick(None, None), Some(("c", "bench.model".into())));
    }
}
