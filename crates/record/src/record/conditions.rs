//! Conditions as a record stores them.
//!
//! Invariant: the conversion is lossless, and the stored fingerprint matches the conditions.

use serde::{Deserialize, Serialize};
use tokrate_core::Conditions;

macro_rules! mirror {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// Under which conditions a number was measured: `tokrate_core::Conditions` with their fingerprint.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct ConditionsRow {
            /// Equal for like conditions (16 hexadecimal digits); seed and version do not enter it.
            pub fingerprint: String,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl From<&Conditions> for ConditionsRow {
            fn from(conditions: &Conditions) -> ConditionsRow {
                ConditionsRow {
                    fingerprint: conditions.fingerprint().to_string(),
                    $($field: conditions.$field.clone(),)*
                }
            }
        }

        impl From<&ConditionsRow> for Conditions {
            fn from(row: &ConditionsRow) -> Conditions {
                Conditions { $($field: row.$field.clone(),)* }
            }
        }
    };
}

impl ConditionsRow {
    /// Prompts of one length, made up and with nothing to tell of them.
    pub const SYNTHETIC: &str = "synthetic";

    /// How long prompts and answers are, in words; of lengths that differ the means.
    pub fn lengths(&self) -> String {
        let means = if self.prompts == Self::SYNTHETIC { "" } else { " on average" };
        // Sound that is sent has no tokens; its name says how long it is.
        if self.task == "transcription" || (self.task == "realtime" && self.input_tokens == 0) {
            return self.prompts.clone();
        }
        let (input, output) = (self.input_tokens, self.output_tokens);
        // Of a whole run whose levels differ in it there is no number.
        let many = |one: &str| match self.batch {
            Some(1) => format!("1 {one}"),
            Some(n) => format!("{n} {one}s"),
            None => format!("{one}s"),
        };
        match (self.task.as_str(), self.batch) {
            ("batch", _) => return format!("{} a batch, each {input} tokens in, {output} out{means}", many("request")),
            ("images", _) => {
                let (images, size) = (many("image"), &self.media);
                return format!("{images} {size} a request, from a prompt of {input} tokens{means}");
            }
            (_, Some(_)) => return format!("{} of {input} tokens{means} a request", many("text")),
            ("" | "chat", None) => {}
            (_, None) => return format!("texts of {input} tokens{means}"),
        }
        let media = if self.media.is_empty() { String::new() } else { format!(", with {}", self.media) };
        format!("{input} tokens in, {output} out{means}{media}")
    }
}

/// Where prompts came from before records said so.
fn synthetic() -> String {
    ConditionsRow::SYNTHETIC.to_owned()
}

mirror! {
    /// Model as asked for.
    model: String,
    /// Provider or engine, as far as it is known (else the host of the endpoint).
    provider: String,
    /// Scheme, host, port and path of the endpoint, without credentials or query.
    endpoint: String,
    /// Wire dialect, such as `openai-chat`.
    dialect: String,
    /// What was asked for: `chat`, `embeddings` or `rerank`; empty is `chat`.
    #[serde(default)]
    task: String,
    /// Texts of a request, where it holds several.
    #[serde(default)]
    batch: Option<u32>,
    /// Pictures and sound of a request, with their sizes; empty for none.
    #[serde(default)]
    media: String,
    /// Whether the answer was streamed.
    streaming: bool,
    /// `http/1.1` or `h2`.
    http_version: String,
    /// Whether the connection was encrypted.
    tls: bool,
    /// Whether a proxy stood between.
    proxied: bool,
    /// State of the connection when a request was sent: `reused` or `new`.
    connection: String,
    /// Prompt length in `tokenizer` tokens; of prompts that differ in length the mean, rounded.
    input_tokens: u32,
    /// Output tokens asked for.
    output_tokens: u32,
    /// Leading prompt tokens that all requests share; the rest is unique per request.
    shared_prefix_tokens: u32,
    /// Source of the prompts: `synthetic`, or a file or trace with a hash of its content.
    #[serde(default = "synthetic")]
    prompts: String,
    /// Whether the engine ignores its end token.
    ignore_eos: bool,
    /// Arrival process: `closed`, `constant` or `poisson`.
    arrivals: String,
    /// Requests in flight (closed loop).
    concurrency: Option<u32>,
    /// Requests per second (open loop).
    rate: Option<f64>,
    /// Tokenizer of every token count that is not the provider's own.
    tokenizer: String,
    /// Further request options, as sent.
    options: String,
    /// Host name of the measuring machine.
    host: String,
    /// Kind of the measuring machine, such as `linux x86_64, 4 cores`; empty in records that predate the field.
    #[serde(default)]
    machine: String,
    /// Region, if the user names one.
    region: String,
    /// Seed of arrivals and of prompts.
    seed: u64,
    /// Version of tokrate.
    version: String,
}
