//! HTTP/1.1: one exchange at a time on a connection, idle connections kept, the latest used taken first.
//!
//! It refuses to limit how many there are. Invariant: a connection is driven by the exchange that uses it, so that a piece of
//! a body costs no switch between tasks, and no byte is read after a piece before the piece was taken.

use super::failure::{Stage, failure_of};
use super::receive::Receiver;
use super::upload::Upload;
use super::{Dialer, READ_BUFFER_BYTES};
use crate::connect::Opened;
use crate::exchange::{ConnectionUse, ExchangeFailure, Sink};
use crate::stamped::Stamps;
use crate::transport::Transport;
use http_body::Body;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

#[derive(Default)]
pub(super) struct Http1Pool {
    idle: RefCell<Vec<Http1>>,
}

pub(super) struct Http1 {
    sender: SendRequest<Upload>,
    connection: Pin<Box<Connection<TokioIo<Transport>, Upload>>>,
    stamps: Rc<Stamps>,
}

impl Http1Pool {
    /// An idle connection that is still open, or a new one.
    pub(super) async fn take(&self, dialer: &Dialer, used: &mut ConnectionUse) -> Result<Http1, ExchangeFailure> {
        if !self.idle.borrow().is_empty() {
            // The runtime looks at its sockets before it comes back here, so that a peer's close that lies in the kernel
            // is known to the connection.
            tokio::task::yield_now().await;
        }
        loop {
            let Some(mut connection) = self.idle.borrow_mut().pop() else { break };
            if poll_fn(|context| Poll::Ready(connection.is_open(context))).await {
                return Ok(connection);
            }
        }
        dialer
            .open(used, async |opened: Opened| {
                let stamps = opened.stamps;
                let (sender, connection) = Builder::new()
                    .max_buf_size(READ_BUFFER_BYTES)
                    .handshake(TokioIo::new(opened.transport))
                    .await
                    .map_err(|error| failure_of(&error, Stage::Silence, &stamps))?;
                Ok(Http1 { sender, connection: Box::pin(connection), stamps })
            })
            .await
    }

    pub(super) fn give_back(&self, connection: Http1) {
        self.idle.borrow_mut().push(connection);
    }
}

impl Http1 {
    pub(super) fn stamps(&self) -> Rc<Stamps> {
        Rc::clone(&self.stamps)
    }

    /// Whether another request can be sent at once.
    fn is_open(&mut self, context: &mut Context<'_>) -> bool {
        self.connection.as_mut().poll(context).is_pending() && self.sender.is_ready()
    }

    /// Sends a request and receives its answer. Tells whether the connection can be used again.
    pub(super) async fn carry(
        &mut self,
        request: http::Request<Upload>,
        receiver: &mut Receiver<'_, impl Sink>,
    ) -> Result<bool, ExchangeFailure> {
        let Http1 { sender, connection, .. } = self;
        let mut response = pin!(sender.send_request(request));
        let mut open = true;
        let answer = poll_fn(|context| {
            open = open && connection.as_mut().poll(context).is_pending();
            response.as_mut().poll(context)
        })
        .await;
        let mut body = receiver.begin(answer)?;
        poll_fn(|context| {
            loop {
                // Asked first, so that the connection knows that a piece is wanted. It then hands over one and does not read
                // on before that was taken: the stamp is that of the piece's read.
                let mut polled = Pin::new(&mut body).poll_frame(context);
                if polled.is_pending() {
                    open = open && connection.as_mut().poll(context).is_pending();
                    polled = Pin::new(&mut body).poll_frame(context);
                }
                match ready!(polled) {
                    Some(frame) => receiver.take(frame)?,
                    None => return Poll::Ready(Ok(open)),
                }
            }
        })
        .await
    }
}
