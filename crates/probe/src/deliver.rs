//! Sends a request, and resends it if its pooled connection turns out to have been closed.

use tokrate_core::{FailureKind, Span, Tick};
use tokrate_net::{Client, Exchange, Limits, Outgoing, Sink};

/// A pooled connection that the server had already closed fails within this time after a request was sent: the reset needs one round
/// trip. One that fails later was open, so that the server may have processed and billed the request.
pub const STALE_WITHIN: Span = Span::from_millis(50);
/// Most stale connections tried for one request: about the pool of a busy client after its server was restarted.
const MAX_STALE_CONNECTIONS: u32 = 64;

/// Receives the answer to a request that may be resent.
pub trait Recipient: Sink {
    /// When the last byte of the latest attempt was handed to the socket, if it was.
    fn last_sent_at(&self) -> Option<Tick>;
    /// Whether a head was received.
    fn has_head(&self) -> bool;
    /// The request went into a closed connection and is resent.
    fn sent_into_closed_connection(&mut self);
}

/// Sends a request and passes its answer to `recipient`. A request that went into a pooled connection which its server had closed, or of
/// which a server says over HTTP/2 that it did not begin with it, is resent on another; if the connection failed later than [`STALE_WITHIN`], or after a head, the request failed.
pub async fn deliver(client: &Client, outgoing: &Outgoing, limits: Limits, recipient: &mut impl Recipient) -> Exchange {
    for _ in 0..MAX_STALE_CONNECTIONS {
        let exchange = client.exchange(outgoing, limits, recipient).await;
        if !was_stale(&exchange, recipient) {
            return exchange;
        }
        recipient.sent_into_closed_connection();
    }
    client.exchange(outgoing, limits, recipient).await
}

fn was_stale(exchange: &Exchange, recipient: &impl Recipient) -> bool {
    let closed = exchange.outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Closed);
    let soon = recipient.last_sent_at().is_none_or(|sent_at| exchange.ended_at - sent_at <= STALE_WITHIN);
    let was_refused = exchange.connection.unprocessed;
    closed && !recipient.has_head() && (was_refused || (soon && !exchange.connection.new))
}

#[cfg(test)]
mod tests;
