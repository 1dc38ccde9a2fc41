//! What is recorded of a gateway world.

use super::disk::StoredRows;
use super::http1::Reply;
use super::response::Response;
use tokrate_core::Tick;
use tokrate_gateway::Spending;
use tokrate_gateway::simulation::{HeldResources, Totals};
use tokrate_store::LogCounts;
use tokrate_wire::{Dialect, Shape};

/// Everything that happened in a gateway world.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GatewayHistory {
    /// Outcomes of all calls, in the order in which they ended.
    pub outcomes: Vec<Outcome>,
    /// Requests that reached the lanes.
    pub served: Vec<ServedRequest>,
    /// Stored log rows.
    pub kept: StoredRows,
    /// Counters of the log.
    pub log: LogCounts,
    /// Resources still held at the end.
    pub held: HeldResources,
    /// Totals of the gateway.
    pub counted: Totals,
    /// Spending of each key by name, with a second of the month.
    pub key_dollars: Vec<(String, u64, Spending)>,
    /// Open calls at each reload, and whether it succeeded.
    pub reloads: Vec<(usize, bool)>,
    /// When the gateway was told to stop, and when it had stopped.
    pub stopped: Option<(Tick, Tick)>,
    /// Connections that the gateway still held at the end.
    pub left_open: usize,
    /// Whether everything ended within the time limit.
    pub has_ended: bool,
    /// A hash of the whole trace.
    pub trace: u64,
    /// The trace as text, if requested.
    pub lines: Vec<String>,
}

/// How a call ended for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallEnd {
    /// A complete answer.
    Whole,
    /// The client disconnected.
    Disconnected,
    /// The gateway closed the connection.
    Closed,
    /// There was no connection.
    Refused,
    /// It hung.
    Hung,
}

/// The outcome of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The client.
    pub client: usize,
    /// Index among the calls of the client.
    pub nth: usize,
    /// When the request started.
    pub began_at: Tick,
    /// When its last byte was written.
    pub sent_at: Option<Tick>,
    /// When it ended.
    pub ended_at: Tick,
    /// What was received.
    pub reply: Reply,
    /// How it ended.
    pub end: CallEnd,
}

/// A request that reached a lane.
#[derive(Clone, PartialEq, Debug)]
pub struct ServedRequest {
    /// Index of the lane.
    pub lane: usize,
    /// Its `x-request-id`: call and attempt.
    pub id: String,
    /// When it was complete.
    pub at: Tick,
    /// The dialect and shape; `None` for what passes byte for byte.
    pub routed: Option<(Dialect, Shape)>,
    /// Whether its body could be decoded.
    pub is_understood: bool,
    /// The generated response.
    pub response: Response,
    /// Bytes of the response that were written.
    pub wrote: usize,
    /// Whether all of it was written.
    pub is_whole: bool,
}
