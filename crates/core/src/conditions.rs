//! The conditions under which a number was measured, and a fingerprint to tell like from unlike.
//!
//! It refuses to know results: the number of samples, the window and the client's error stand beside the numbers in
//! a record. Invariant: two results may be aggregated, ranked or compared in silence only if their fingerprints are equal.

use std::fmt;

/// What a number depends on. Every field enters the fingerprint, except those of [`Conditions::DESCRIPTIVE`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conditions {
    /// Model as asked for.
    pub model: String,
    /// Provider or engine, as far as it is known (else the host of the endpoint).
    pub provider: String,
    /// Scheme, host, port and path of the endpoint, without credentials or query.
    pub endpoint: String,
    /// Wire dialect, such as `openai-chat`.
    pub dialect: String,
    /// Whether the answer was streamed.
    pub streaming: bool,
    /// `http/1.1` or `h2`.
    pub http_version: String,
    /// Whether the connection was encrypted.
    pub tls: bool,
    /// Whether a proxy stood between.
    pub proxied: bool,
    /// State of the connection when a request was sent: `reused` or `new`.
    pub connection: String,
    /// Prompt length in `tokenizer` tokens; of prompts that differ in length the mean, rounded.
    pub input_tokens: u32,
    /// Output tokens asked for.
    pub output_tokens: u32,
    /// Leading prompt tokens that all requests share; the rest is unique per request.
    pub shared_prefix_tokens: u32,
    /// Where prompts come from: `synthetic`, or a file or trace with a hash of what is in it.
    pub prompts: String,
    /// Whether the engine was told to go on past its end token.
    pub ignore_eos: bool,
    /// Arrival process: `closed`, `constant`, `poisson`, or a longer phrase for gamma, ramps, traces and sessions.
    pub arrivals: String,
    /// Requests in flight (closed loop).
    pub concurrency: Option<u32>,
    /// Requests per second (open loop).
    pub rate: Option<f64>,
    /// Tokenizer of every token count that is not the provider's own.
    pub tokenizer: String,
    /// Further request options, as sent (temperature, extra body fields).
    pub options: String,
    /// Host name of the measuring machine. Machines of CI systems have a new one each time, so it makes no results unlike.
    pub host: String,
    /// What kind of machine measures, such as `linux x86_64, 4 cores`; empty if that is not known.
    pub machine: String,
    /// Region, if the user names one.
    pub region: String,
    /// Seed of prompts and arrivals.
    pub seed: u64,
    /// Version of tokrate.
    pub version: String,
}

impl Conditions {
    /// Fields that describe a run without making it unlike another.
    pub const DESCRIPTIVE: [&'static str; 3] = ["host", "seed", "version"];

    /// Every condition as name and value, in a fixed order.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let number = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        vec![
            ("model", self.model.clone()),
            ("provider", self.provider.clone()),
            ("endpoint", self.endpoint.clone()),
            ("dialect", self.dialect.clone()),
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

    /// A hash that is equal for like conditions (FNV-1a over the canonical entries, 64 bits).
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for (name, value) in self.entries() {
            if Self::DESCRIPTIVE.contains(&name) {
                continue;
            }
            for byte in name.bytes().chain([b'=']).chain(value.bytes()).chain([b'\n']) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        Fingerprint(hash)
    }

    /// The names of the conditions in which two differ, those that only describe left out. A machine that is not known, as in
    /// records of earlier versions, differs from none.
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

/// Identifies like conditions. Prints as 16 hexadecimal digits.
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

    #[test]
    fn the_fingerprint_sees_what_matters_and_only_that() {
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
        assert_eq!(small.differences(&large), ["machine"]);
        assert!(one.differences(&large).is_empty(), "a record that does not say");
    }
}
