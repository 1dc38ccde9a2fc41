//! Sending a request, and sending it again when its kept connection turns out to have been closed.

use tokrate_core::{FailureKind, Span, Tick};
use tokrate_net::{Client, Exchange, Limits, Outgoing, Sink};

/// A kept connection that its server had closed before breaks this soon after a request was sent: the reset needs one round trip. One
/// that breaks later was open, so the server may have worked on the request and may bill it.
pub const STALE_WITHIN: Span = Span::from_millis(50);
/// More kept connections than this are not tried for one request: as many as a pool of a busy client holds after its server was
/// started anew.
const STALE_CONNECTIONS_MOST: u32 = 64;

/// Who takes the answer of a request that may be sent again.
pub trait Recipient: Sink {
    /// When the last byte of the request as sent last had been handed to the socket, if it was.
    fn last_sent_at(&self) -> Option<Tick>;
    /// Whether the head of an answer has come.
    fn has_head(&self) -> bool;
    /// The request went into a connection that was closed before, and is sent again.
    fn sent_into_closed_connection(&mut self);
}

/// Sends a request and hands its answer to `recipient`. A request that went into a kept connection which its server had closed is
/// sent again on another; one whose connection broke later than [`STALE_WITHIN`], or after a head, failed.
pub async fn deliver(client: &Client, outgoing: &Outgoing, limits: Limits, recipient: &mut impl Recipient) -> Exchange {
    for _ in 0..STALE_CONNECTIONS_MOST {
        let exchange = client.exchange(outgoing, limits, recipient).await;
        if !was_closed_before(&exchange, recipient) {
            return exchange;
        }
        recipient.sent_into_closed_connection();
    }
    client.exchange(outgoing, limits, recipient).await
}

fn was_closed_before(exchange: &Exchange, recipient: &impl Recipient) -> bool {
    let broke = exchange.outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Closed);
    let soon = recipient.last_sent_at().is_none_or(|sent_at| exchange.ended_at - sent_at <= STALE_WITHIN);
    broke && soon && !exchange.connection.new && !recipient.has_head()
}

#[cfg(test)]
mod tests;
