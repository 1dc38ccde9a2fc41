//! One upstream attempt of a gateway call: a row of the throughput log. It holds no text of prompts or answers.
//!
//! Invariant: every attempt becomes exactly one row, however it ended; what could not be measured is absent, never 0.

use crate::sample::{Sample, bound, bound_name};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Why an attempt was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptRole {
    /// The call's first.
    #[default]
    First,
    /// An earlier one failed.
    Failover,
    /// An earlier one was slow.
    Hedge,
    /// Started together with the first.
    Race,
    /// Of no client's call: the gateway asked whether a lane that had failed is back.
    Probe,
}

/// How an attempt ended, as the gateway's client saw it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// Its whole answer was forwarded to the client.
    #[default]
    Answered,
    /// It failed; `failure` says how. If `won`, part of its answer had reached the client.
    Failed,
    /// Another attempt of the call won; this one was cancelled or drained in the background.
    Lost,
    /// The client disconnected first.
    Abandoned,
}

/// One attempt of one call. JSON has the fields of the sample beside those of the call.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempt {
    /// The call, the same for all its attempts; unique in a log.
    pub call: String,
    /// Place among the call's attempts, from 0.
    pub attempt: u32,
    /// Why it was started.
    pub role: AttemptRole,
    /// How it ended.
    pub end: AttemptEnd,
    /// Whether its bytes were forwarded to the client.
    pub won: bool,
    /// Name of the client's virtual key; absent if none is needed.
    pub key: Option<String>,
    /// What the client asked for as `model`.
    pub alias: String,
    /// The lane's name.
    pub lane: String,
    /// Dialect of the client.
    pub dialect_in: Cow<'static, str>,
    /// The client's session, as it named it: the calls of one task. Absent if it named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Time that the gateway itself took: the call's arrival to this attempt's being sent on a connection that was open, plus
    /// the end of the answer to its being forwarded (ns).
    pub overhead_ns: Option<u64>,
    /// Responses that began in a session of a realtime API; absent of any other request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<u32>,
    /// Bytes that went to the client in such a session; those from it are its `request_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<u64>,
    /// For how long a first token of this call was held back for a lane that was expected to complete earlier, of the attempt that won (ns);
    /// absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ns: Option<u64>,
    /// Tokens of its prompt that were expected to be in the lane's cache when it was begun, as the provider counts tokens where it does; absent
    /// where lanes are not chosen by their caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_cached_tokens: Option<u64>,

    /// The request itself: where it went, what came of it, and under which conditions.
    #[serde(flatten)]
    pub sample: Sample,
}

impl Attempt {
    /// Cuts every text to [`MAX_TEXT_BYTES`], on one line, without control characters.
    pub fn bound_texts(&mut self) {
        bound(
            [&mut self.call, &mut self.alias, &mut self.lane].into_iter().chain(&mut self.key).chain(&mut self.session),
        );
        bound_name(&mut self.dialect_in);
        self.sample.bound_texts();
    }
}

impl AttemptRole {
    /// Every role.
    pub const ALL: [AttemptRole; 5] =
        [AttemptRole::First, AttemptRole::Failover, AttemptRole::Hedge, AttemptRole::Race, AttemptRole::Probe];

    /// The name used in rows and tables.
    pub const fn name(self) -> &'static str {
        match self {
            AttemptRole::First => "first",
            AttemptRole::Failover => "failover",
            AttemptRole::Hedge => "hedge",
            AttemptRole::Race => "race",
            AttemptRole::Probe => "probe",
        }
    }
}

impl AttemptEnd {
    /// Every end.
    pub const ALL: [AttemptEnd; 4] =
        [AttemptEnd::Answered, AttemptEnd::Failed, AttemptEnd::Lost, AttemptEnd::Abandoned];

    /// The name used in rows and tables.
    pub const fn name(self) -> &'static str {
        match self {
            AttemptEnd::Answered => "answered",
            AttemptEnd::Failed => "failed",
            AttemptEnd::Lost => "lost",
            AttemptEnd::Abandoned => "abandoned",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::CostBasis;
    use crate::sample::tests::every_text_is_bounded;
    use tokrate_core::{FailureKind, FinishReason};

    #[test]
    fn names_are_those_of_json() {
        for role in AttemptRole::ALL {
            assert_eq!(serde_json::to_value(role).expect("plain data"), role.name());
        }
        for end in AttemptEnd::ALL {
            assert_eq!(serde_json::to_value(end).expect("plain data"), end.name());
        }
    }

    #[test]
    fn every_text_of_a_row_is_bounded() {
        assert_eq!(every_text_is_bounded(&Attempt::default(), Attempt::bound_texts), 16);
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let sample = Sample {
            failure: Some(FailureKind::RateLimited),
            finish: Some(FinishReason::Length),
            gaps: [1_000_000, 2_000_000].into_iter().collect(),
            cost_usd: Some(0.1 + 0.2),
            ..Sample::default()
        };
        let row = Attempt { call: "c".to_owned(), sample, ..Attempt::default() };
        let written = serde_json::to_string(&row).expect("plain data");
        assert_eq!(serde_json::from_str::<Attempt>(&written).expect("what was written"), row);
    }

    /// A row as tokrate 0.1 wrote it, without the fields that came later.
    #[test]
    fn a_row_of_an_earlier_version_is_read() {
        let written = r#"{"call":"c-1","attempt":1,"role":"hedge","end":"answered","won":true,"started_unix_ms":1800000000000,
            "key":null,"alias":"chat","lane":"north","provider":"north","model":"large","model_answered":null,
            "dialect_in":"openai-chat","dialect_out":"anthropic","stream":true,"in_flight":2,"connection_new":false,
            "request_bytes":321,"output_limit":64,"version":"0.1.0","status":200,"finish":"stop","failure":null,"wait_ns":5,
            "ttfb_ns":6,"ttft_ns":7,"total_ns":8,"overhead_ns":9,"output_speed":50.5,"text_events":4,"chunks":3,"gap_p50_ns":20,
            "gap_p99_ns":21,"gap_max_ns":22,"gaps":[[194,2]],"input_tokens_std":null,"output_tokens_std":12,"input_tokens":30,
            "output_tokens":13,"reasoning_tokens":null,"cached_tokens":null,"cache_write_tokens":null,"cost_usd":0.25,
            "cost_basis":"reported"}"#;
        let row: Attempt = serde_json::from_str(written).expect("a row");
        assert_eq!((row.lane.as_str(), row.overhead_ns, row.role), ("north", Some(9), AttemptRole::Hedge));
        let sample = &row.sample;
        assert_eq!((&*sample.dialect, sample.request_bytes, sample.gaps.count()), ("anthropic", Some(321), 2));
        assert_eq!((sample.output_speed, sample.cost_basis), (Some(50.5), CostBasis::Reported));
        assert_eq!((sample.conditions.version.as_str(), &sample.conditions.host), ("0.1.0", &None));
        let known: serde_json::Value = serde_json::from_str(written).expect("an object");
        let now = serde_json::to_value(&row).expect("plain data");
        for (name, value) in known.as_object().expect("an object") {
            assert_eq!(&now[name], value, "{name}");
        }
    }
}
