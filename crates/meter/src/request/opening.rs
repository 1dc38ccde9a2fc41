//! The steps of a request on a connection that was opened for it, from its beginning to its first token: what somebody pays whose
//! process has just begun.
//!
//! Invariant: the steps do not overlap, and with the time to first token they add up to the whole.

use super::Timing;
use serde::{Deserialize, Serialize};
use tokrate_core::{Span, Tick};

/// When the steps of such a request were over. Name lookup, connect and TLS handshake are `dns_ns`, `connect_ns` and `tls_ns` of its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Opening {
    /// When the client began: then it looked the name up, or connected.
    pub began_at_ns: u64,
    /// TCP and TLS open to the request's last byte handed to the socket (ns); over HTTP/2 that holds the server's SETTINGS, of a request that
    /// is signed the signing.
    pub write_ns: u64,
    /// Beginning to the first output text (ns); only of a streamed answer.
    pub first_text_ns: Option<u64>,
    /// Whether the TLS handshake went on from an earlier session.
    pub tls_resumed: bool,
}

/// The stream of an HTTP/2 connection that a request had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamUse {
    /// Number of the connection in the run of a load level.
    pub connection: u64,
    /// Waiting for another stream to end, or for a connection that another request opened (ns); before the request was sent.
    pub wait_ns: u64,
    /// Streams on the connection when this one began, itself included.
    pub sharing: u32,
    /// Streams that the server allowed on it (SETTINGS_MAX_CONCURRENT_STREAMS), if it named a limit.
    pub allowed: Option<u32>,
}

impl Opening {
    /// Of a request that was sent once, on a connection that was opened for it.
    pub(super) fn of(timing: &Timing) -> Option<Opening> {
        if !timing.connection_new || timing.stale_connections > 0 {
            return None;
        }
        let (began_at, sent_at) = (timing.began_at?, timing.sent_at?);
        let wait = Span::from_nanos(timing.stream.map_or(0, |stream| stream.wait_ns));
        let opened = timing.dns + timing.connect + timing.tls + wait;
        Some(Opening {
            began_at_ns: began_at.as_nanos(),
            write_ns: (sent_at - began_at).as_nanos().saturating_sub(opened.as_nanos()),
            first_text_ns: None,
            tls_resumed: timing.tls_resumed,
        })
    }

    /// The same with the tick of the first text.
    pub(super) fn with_first_text(self, at: Option<Tick>) -> Opening {
        let since_begun = |at: Tick| at.as_nanos().saturating_sub(self.began_at_ns);
        Opening { first_text_ns: at.map(since_begun), ..self }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::{MS, RequestBuilder, at, numbers};
    use crate::request::{RequestNumbers, Timing};
    use tokrate_core::Span;

    fn timing() -> Timing {
        Timing {
            due_at: at(1),
            began_at: Some(at(2)),
            sent_at: Some(at(52)),
            head_at: Some(at(80)),
            first_byte_at: Some(at(81)),
            ended_at: at(95),
            connection_new: true,
            dns: Span::from_millis(3),
            connect: Span::from_millis(14),
            tls: Span::from_millis(31),
            ..Timing::default()
        }
    }

    fn row(timing: Timing) -> RequestNumbers {
        let mut trace = RequestBuilder::sent(1, 52).answer(90, "a b").done(91, 95);
        trace.timing = timing;
        numbers(&trace)
    }

    #[test]
    fn the_steps_of_a_request_on_a_new_connection_add_up_to_its_first_text() {
        let row = row(timing());
        let opening = row.opening.expect("a connection was opened");
        assert_eq!((opening.write_ns, opening.first_text_ns), (2 * MS, Some(88 * MS)));
        assert_eq!((row.head_ns, row.ttft_ns), (Some(28 * MS), Some(38 * MS)));
        let steps = row.dns_ns + row.connect_ns + row.tls_ns + opening.write_ns + row.ttft_ns.expect("text came");
        assert_eq!(steps, 88 * MS, "{row:?}");
    }

    #[test]
    fn a_kept_connection_and_one_behind_a_closed_one_have_no_such_steps() {
        assert_eq!(row(Timing { connection_new: false, ..timing() }).opening, None);
        assert_eq!(row(Timing { stale_connections: 1, ..timing() }).opening, None);
        assert_eq!(row(Timing { began_at: None, ..timing() }).opening, None);
        let mut whole = row(timing());
        whole.clear_streaming_figures();
        assert_eq!(whole.opening.expect("a connection was opened").first_text_ns, None);
    }
}
