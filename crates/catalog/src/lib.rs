//! Providers, local engines and prices: rows of data, each with its source and date.
//!
//! It refuses to know keys, sockets and what a dialect looks like: it only names them.
//!
//! Architecture Invariant: a row costs no code, and one that is not in order fails the build, not the user.

#![forbid(unsafe_code)]

mod find;
pub mod markdown;
#[cfg(test)]
mod rows;
mod target_name;

pub use find::{nearest, price, provider};
pub use target_name::{TargetName, TargetNameError};

/// Who answers: a company's endpoint or an engine on a machine of one's own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Provider {
    /// Name on the command line and in records, such as `groq`.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Whose machine it is.
    pub kind: Kind,
    /// Environment variables that may hold the key; the first that is set counts.
    pub key_env: &'static [&'static str],
    /// What the `{NAME}`s of bases stand for.
    pub variables: &'static [Variable],
    /// Ports at which a local engine usually listens; the first is that of the bases.
    pub usual_ports: &'static [u16],
    /// What tells a local engine from others; one is enough.
    pub probes: &'static [Probe],
    /// How a local engine publishes what it counts.
    pub metrics: Option<Metrics>,
    /// How it is spoken with, a dialect an endpoint; the first is the default.
    pub endpoints: &'static [Endpoint],
    /// Where this is written.
    pub source: &'static str,
    /// When the row was last checked (YYYY-MM-DD).
    pub date: &'static str,
    /// What else a user should know; may be empty.
    pub notes: &'static str,
}

/// Whose machine a provider is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A company's, with a key.
    Hosted,
    /// One's own.
    Local,
}

/// How a provider is spoken with in one dialect.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Endpoint {
    /// Name of the dialect, as `wire` has it.
    pub dialect: &'static str,
    /// Base URL to which the dialect's path is appended; may hold `{NAME}`s of environment variables.
    pub base: &'static str,
    /// Where the key goes.
    pub auth: Auth,
    /// Further headers, name and value.
    pub headers: &'static [(&'static str, &'static str)],
    /// In what it departs from the dialect.
    pub quirks: Quirks,
}

/// Where a key goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// A header of this name, with nothing but the key.
    Header(&'static str),
    /// Nowhere.
    None,
}

/// In what an endpoint departs from its dialect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quirks {
    /// It wants the output limit as `max_tokens`.
    pub max_tokens_field: bool,
    /// It refuses `stream_options`, or reports usage without being asked.
    pub no_stream_options: bool,
    /// It knows `ignore_eos`.
    pub ignore_eos: bool,
}

/// A part of a base that the user's environment holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Name of the environment variable.
    pub name: &'static str,
    /// What it holds, for a message.
    pub meaning: &'static str,
}

/// A question (GET) whose answer tells an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Path at the root of the server.
    pub path: &'static str,
    /// Where in the answer to look.
    pub at: At,
    /// The text that must stand there (in a header: at its beginning); `None` is content with anything.
    pub value: Option<&'static str>,
}

/// A place in an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// In its JSON body, as a JSON pointer (RFC 6901).
    Json(&'static str),
    /// In the header of this name.
    Header(&'static str),
}

/// How an engine publishes what it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// Whose names the metrics have.
    pub family: &'static str,
    /// Path at the root of the server.
    pub path: &'static str,
}

/// What a provider charges for a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    /// Name of the provider's row.
    pub provider: &'static str,
    /// Model as the provider knows it.
    pub model: &'static str,
    /// Of a million input tokens (USD).
    pub input_usd_per_million: f64,
    /// Of a million output tokens (USD).
    pub output_usd_per_million: f64,
    /// Of a million input tokens that were in the provider's cache (USD), if they have a price of their own.
    pub cached_input_usd_per_million: Option<f64>,
    /// Where this is written.
    pub source: &'static str,
    /// When it was checked there (YYYY-MM-DD).
    pub date: &'static str,
    /// What else a user should know; may be empty.
    pub notes: &'static str,
}

mod data {
    //! The rows, as the build script made them.
    use super::{At, Auth, Endpoint, Kind, Metrics, Price, Probe, Provider, Quirks, Variable};
    include!(concat!(env!("OUT_DIR"), "/catalog.rs"));
}

/// Every provider and engine, in the order of the file.
pub static PROVIDERS: &[Provider] = data::PROVIDERS;
/// Every price, in the order of the file.
pub static PRICES: &[Price] = data::PRICES;

impl Provider {
    /// The endpoint of a dialect; without one, the default.
    pub fn endpoint(&self, dialect: Option<&str>) -> Option<&'static Endpoint> {
        match dialect {
            None => self.endpoints.first(),
            Some(dialect) => self.endpoints.iter().find(|endpoint| endpoint.dialect == dialect),
        }
    }
}

#[cfg(test)]
mod tests;
