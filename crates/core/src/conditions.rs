//! The conditions of a measurement, and a fingerprint that is equal for comparable results.
//!
//! Sample counts, window and client error are stored next to the results instead. Invariant: results are aggregated, ranked
//! or compared without a warning only if their fingerprints are equal.

use std::fmt;

/// What a result depends on. Every field enters the fingerprint, except those of [`Conditions::DESCRIPTIVE`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conditions {
    /// Model as asked for.
    pub model: String,
    /// Provider or engine if known, else the host of the endpoint.
    pub provider: String,
    /// Scheme, host, port and path of the endpoint, without credentials or query.
    pub endpoint: String,
    /// Wire dialect, such as `openai-chat`.
    pub dialect: String,
    /// What was asked for: `chat`, `embeddings` or `rerank`; empty is `chat`.
    pub task: String,
    /// Texts of a request, where it holds several.
    pub batch: Option<u32>,
    /// Pictures and sound of a request, with their sizes; empty for none.
    pub media: String,
    /// Whether the answer was streamed.
    pub streaming: bool,
    /// `http/1.1` or `h2`.
    pub http_version: String,
    /// Whether the connection was encrypted.
    pub tls: bool,
    /// Whether a proxy was used.
    pub proxied: bool,
    /// State of the connection when a request was sent: `reused` or `new`.
    pub connection: String,
    /// Prompt length in `tokenizer` tokens; the rounded mean if prompts differ in length.
    pub input_tokens: u32,
    /// Requested output tokens.
    pub output_tokens: u32,
    /// Leading prompt tokens shared by all requests; the rest is unique per request.
    pub shared_prefix_tokens: u32,
    /// Source of the prompts: `synthetic`, or a file or trace with a hash of its content.
    pub prompts: String,
    /// Whether the engine was asked to continue past its end token.
    pub ignore_eos: bool,
    /// Arrival process: `closed`, `constant`, `poisson`, or a longer description of gamma, ramps, traces and sessions.
    pub arrivals: String,
    /// Requests in flight (closed loop).
    pub concurrency: Option<u32>,
    /// Requests per second (open loop).
    pub rate: Option<f64>,
    /// Tokenizer of all token counts except those reported by the provider.
    pub tokenizer: String,
    /// Further request options, as sent (temperature, extra body fields).
    pub options: String,
    /// Host name of the measuring machine. It is only descriptive, because CI machines have a new one each time.
    pub host: String,
    /// Kind of machine, such as `linux x86_64, 4 cores`; empty if unknown.
    pub machine: String,
    /// Region, if the user names it.
    pub region: String,
    /// Seed of arrivals and of prompts.
    pub seed: u64,
    /// Version of tokrate.
    pub version: String,
}

impl Conditions {
    /// Fields that describe a run without affecting comparability.
    pub const DESCRIPTIVE: [&'static str; 3] = ["host", "seed", "version"];
    /// Values that conditions had before there were others: they do not enter the fingerprint, so that it stays what it was.
    const USUAL: [(&'static str, &'static str); 3] = [("task", "chat"), ("batch", "none"), ("media", "")];

    /// All conditions as name and value, in a fixed order.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let number = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        vec![
            ("model", self.model.clone()),
            ("provider", self.provider.clone()),
            ("endpoint", self.endpoint.clone()),
            ("dialect", self.dialect.clone()),
            ("task", if self.task.is_empty() { "chat" } else { &self.task }.to_owned()),
            ("batch", number(self.batch.map(|value| value.to_string()))),
            ("media", self.media.clone()),
            ("streaming", self.streaming.to_string()),
            ("http_version", self.http_version.clone()),
            ("tls", self.tls.to_string()),
            ("proxied", self.proxied.to_string()),
            ("connection", self.connection.clone()),
            ("input_tokens", self.input_tokens.to_string()),
            ("output_tokens", self.output_tokens.to_string()),
            ("shared_prefix_tokens", self.shared_prefix_tokens.to_string()),
            ("prompts", self.prompts.clone()),
            ("ignore_eos", self.ignore_eos.to_string()),
            ("arrivals", self.arrivals.clone()),
            ("concurrency", number(self.concurrency.map(|value| value.to_string()))),
            ("rate", number(self.rate.map(|value| value.to_string()))),
            ("tokenizer", self.tokenizer.clone()),
            ("options", self.options.clone()),
            ("host", self.host.clone()),
            ("machine", self.machine.clone()),
            ("region", self.region.clone()),
            ("seed", self.seed.to_string()),
            ("version", self.version.clone()),
        ]
    }

    /// A hash that is equal for equal conditions (FNV-1a over the canonical entries, 64 bits).
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for (name, value) in self.entries() {
            if Self::DESCRIPTIVE.contains(&name) || Self::USUAL.contains(&(name, value.as_str())) {
                continue;
            }
            for byte in name.bytes().chain([b'=']).chain(value.bytes()).chain([b'\n']) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        Fingerprint(hash)
    }

    /// The names of the conditions that differ, descriptive ones excluded. An unknown machine, as in records of earlier
    /// versions, differs from none.
    pub fn differences(&self, other: &Conditions) -> Vec<&'static str> {
        let (mine, theirs) = (self.entries(), other.entries());
        mine.iter()
            .zip(&theirs)
            .filter(|(a, b)| a.1 != b.1 && !Self::DESCRIPTIVE.contains(&a.0))
            .filter(|(a, b)| a.0 != "machine" || !(a.1.is_empty() || b.1.is_empty()))
            .map(|(a, _)| a.0)
            .collect()
    }
}

/// Identifies equal conditions. Prints as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINT_OF_NOTHING: &str = "aa413d158a8c3e8a";

    #[test]
    fn the_fingerprint_covers_all_but_descriptive_fields() {
        let one = Conditions { model: "m".into(), concurrency: Some(10), ..Conditions::default() };
        let more = Conditions { concurrency: Some(25), ..one.clone() };
        let later = Conditions { version: "9".into(), seed: 3, host: "runner-7".into(), ..one.clone() };
        assert_ne!(one.fingerprint(), more.fingerprint());
        assert_eq!(one.differences(&more), ["concurrency"]);
        assert_eq!(one.fingerprint(), later.fingerprint());
        assert!(one.differences(&later).is_empty());
        let (small, large) = (
            Conditions { machine: "2 cores".into(), ..one.clone() },
            Conditions { machine: "8 cores".into(), ..one.clone() },
        );
        // What it was before there were other tasks than chat, so that kept baselines still fit.
        assert_eq!(Conditions::default().fingerprint().to_string(), FINGERPRINT_OF_NOTHING);
        let other = Conditions { task: "embeddings".into(), batch: Some(8), ..one.clone() };
        assert_eq!(one.differences(&other), ["task", "batch"]);
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(small.differences(&large), ["machine"]);
        assert!(one.differences(&large).is_empty(), "a record that does not say");
    }
}
