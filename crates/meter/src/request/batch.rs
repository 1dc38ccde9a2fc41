//! What became of a batch: how long its steps took, and how its requests ended.

use serde::{Deserialize, Serialize};

/// One batch of many requests.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchNumbers {
    /// Requests that it holds.
    pub requests: u64,
    /// Those that were answered.
    pub succeeded: u64,
    /// Those whose result is an error.
    pub failed: u64,
    /// Those without a result.
    pub missing: u64,
    /// Results that are of no request, or of one that has a result already.
    pub unknown: u64,
    /// How often it was asked after.
    pub polls: u64,
    /// From the beginning of the upload until the batch was begun (ns).
    pub begun_ns: u64,
    /// The batch ended at most so long before it was seen to have (ns).
    pub late_at_most_ns: u64,
    /// How long its results took to be read (ns); not part of its time.
    pub read_ns: u64,
    /// How long it took by the server's own clock (s), where it says it.
    pub server_seconds: Option<u64>,
    /// Bytes of the requests.
    pub sent_bytes: u64,
    /// Bytes of the results.
    pub received_bytes: u64,
    /// Files that should have been deleted and are still there.
    pub left: u64,
    /// What became of it at the server, if its end was not waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUpBatch>,
}

/// A batch whose end was not waited for, as the run was interrupted or its time was over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GivenUpBatch {
    /// Its name at the server.
    pub id: String,
    /// What became of it there.
    pub end: GivenUpEnd,
    /// What cancels it: method, scheme, host, port and path.
    pub cancel: String,
}

/// What became of a batch at the server that was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GivenUpEnd {
    /// The server took the order to cancel it.
    Cancelled,
    /// It had ended by itself.
    Ended,
    /// The order failed, or had no answer in time: it may go on, and cost money.
    MayGoOn,
}
