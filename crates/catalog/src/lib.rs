//! Providers, local engines and prices: rows of data, each with its source and date.
//!
//! Keys, sockets and dialects are only named here.
//!
//! Architecture Invariant: a new row needs no code, and an invalid row fails the build, not the user.

#![forbid(unsafe_code)]

mod find;
pub mod markdown;
#[cfg(test)]
mod rows;
mod target_name;

pub use find::{nearest, price, provider};
pub use target_name::{TargetName, TargetNameError};

use tokrate_core::Price;

/// A provider: a hosted service or a local engine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Provider {
    /// Name on the command line and in records, such as `groq`.
    pub name: &'static str,
    /// Display name.
    pub title: &'static str,
    /// Hosted or local.
    pub kind: Kind,
    /// Environment variables that may hold the key; the first one set is used.
    pub key_env: &'static [&'static str],
    /// Variables in base URLs.
    pub variables: &'static [Variable],
    /// Default ports of a local engine; the first is that of the base URLs.
    pub usual_ports: &'static [u16],
    /// Requests that identify a local engine; one match is enough.
    pub probes: &'static [Probe],
    /// Metrics endpoint of a local engine.
    pub metrics: Option<Metrics>,
    /// Endpoints, one per dialect; the first is the default.
    pub endpoints: &'static [Endpoint],
    /// Source of the data.
    pub source: &'static str,
    /// When the row was last checked (YYYY-MM-DD).
    pub date: &'static str,
    /// Further information for users; may be empty.
    pub notes: &'static str,
}

/// Kind of a provider.
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
    /// Base URL to which the dialect's path is appended; may hold `{NAME}`s of environment variables, and `{model}`.
    pub base: &'static str,
    /// Query of every request, without its `?`; may hold the same. Empty for none.
    pub query: &'static str,
    /// How the key is sent.
    pub auth: Auth,
    /// Where credentials come from if there is no key.
    pub credentials: Option<Credentials>,
    /// Further headers, name and value.
    pub headers: &'static [(&'static str, &'static str)],
    /// Deviations from the dialect.
    pub quirks: Quirks,
}

/// How a key is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// A header with only the key.
    Header(&'static str),
    /// Not at all.
    None,
}

/// Credentials that expire, and how requests are authorised with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Credentials {
    /// AWS's chain; requests are signed.
    Aws,
    /// Tokens of Microsoft Entra.
    Entra,
    /// Google's Application Default Credentials.
    Google,
}

/// Deviations of an endpoint from its dialect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quirks {
    /// It expects the output limit as `max_tokens`.
    pub max_tokens_field: bool,
    /// It rejects `stream_options`, or reports usage without being asked.
    pub no_stream_options: bool,
    /// It supports `ignore_eos`.
    pub ignore_eos: bool,
    /// Tokens of batches cost half of what they cost otherwise.
    pub half_price_batches: bool,
    /// Anthropic's messages as Vertex AI hosts them: the model in the path, the version in the body.
    pub on_vertex: bool,
    /// Anthropic's messages as AWS Bedrock hosts them by Invoke: likewise, and streams are binary.
    pub on_bedrock: bool,
}

/// A part of a base URL that comes from the environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Its meaning, for messages.
    pub meaning: &'static str,
    /// Variables that are read in its place if it is not set.
    pub also: &'static [&'static str],
    /// What is taken if none is set; empty for nothing.
    pub default: &'static str,
}

/// A GET request whose response identifies an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Path at the root of the server.
    pub path: &'static str,
    /// Where in the response to look.
    pub at: At,
    /// The expected text (of a header: its beginning); `None` accepts anything.
    pub value: Option<&'static str>,
}

/// A place in a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// In its JSON body, as a JSON pointer (RFC 6901).
    Json(&'static str),
    /// In the header of this name.
    Header(&'static str),
}

/// Metrics endpoint of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// Family of metric names.
    pub family: &'static str,
    /// Path at the root of the server.
    pub path: &'static str,
}

/// The price of a model, as its provider lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedPrice {
    /// Name of the provider's row.
    pub provider: &'static str,
    /// Model as the provider knows it.
    pub model: &'static str,
    /// What the model is called here if several providers host it; rows with the same one are the same model.
    pub common_name: Option<&'static str>,
    /// What the model is for, if it is the one of its provider that `tokrate init` takes.
    pub role: Option<Role>,
    /// What it charges.
    pub price: Price,
    /// Where this is written.
    pub source: &'static str,
    /// When the price was last checked (YYYY-MM-DD).
    pub date: &'static str,
    /// What else a user should know; may be empty.
    pub notes: &'static str,
}

/// What a model is chosen for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Hard questions: a provider's large model.
    Reason,
    /// Answers soon.
    Fast,
    /// Merges edits into files; it answers no questions.
    Apply,
}

mod data {
    //! The rows, as the build script made them.
    use super::{At, Auth, Credentials, Endpoint, Kind, ListedPrice, Metrics, Probe, Provider, Quirks, Role, Variable};
    use tokrate_core::{Money, Price};
    include!(concat!(env!("OUT_DIR"), "/catalog.rs"));
}

/// Every provider and engine, in the order of the file.
pub static PROVIDERS: &[Provider] = data::PROVIDERS;
/// Every price, in the order of the file.
pub static PRICES: &[ListedPrice] = data::PRICES;

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
