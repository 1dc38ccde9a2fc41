//! A hub: batches come in where the board is served, and are kept by the monitor's own thread, which alone writes the database.
//!
//! Invariant: a batch is acknowledged after it was committed, and not before.

use crate::push::{Batch, Gate, KnownProber, MAX_BATCH_BYTES, PROBER_HEADER, Refusal, SIGNATURE_HEADER};
use http::HeaderMap;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokrate_net::Clock;
use tokrate_net::server::{BodyError, ByteBudget, RequestBody, buffer_body};

/// Batches that wait to be kept.
const WAITING: usize = 16;
/// Bytes of all bodies that are being read.
const MAX_BODIES_BYTES: usize = 16 * MAX_BATCH_BYTES;

/// The side of a hub at which batches come in.
#[derive(Clone, Debug)]
pub struct Hub {
    probers: Vec<KnownProber>,
    sender: mpsc::Sender<Call>,
}

/// The side of a hub that keeps them.
#[derive(Debug)]
pub struct Inbox(pub(crate) mpsc::Receiver<Call>);

/// Something for the monitor's thread.
#[derive(Debug)]
pub(crate) enum Call {
    /// A batch to keep; the answer is the number of its last entry.
    Batch(Box<Batch>, oneshot::Sender<Result<u64, Refusal>>),
    /// Something that users should know.
    Notice(String),
}

/// A hub for these probers: give one side to `serve`, the other to `run`.
pub fn hub(probers: Vec<KnownProber>) -> (Hub, Inbox) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Hub { probers, sender }, Inbox(receiver))
}

/// A hub at work.
pub(crate) struct HubServer {
    gate: RefCell<Gate>,
    sender: mpsc::Sender<Call>,
    budget: Arc<ByteBudget>,
    clock: Clock,
}

impl HubServer {
    pub fn new(hub: &Hub, clock: Clock) -> HubServer {
        HubServer {
            gate: RefCell::new(Gate::new(&hub.probers, clock.now())),
            sender: hub.sender.clone(),
            budget: ByteBudget::new(MAX_BODIES_BYTES),
            clock,
        }
    }

    /// Takes a batch, or says why not; the number of the last entry that is kept.
    pub async fn take(&self, headers: &HeaderMap, body: RequestBody) -> Result<u64, Refusal> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (prober, signature) = (text(PROBER_HEADER), text(SIGNATURE_HEADER));
        let result = self.try_take(prober, signature, body).await;
        if let Err(refusal) = &result {
            let notice = self.gate.borrow_mut().refused(prober, refusal, self.clock.now());
            if let Some(notice) = notice {
                // Where the monitor is busy the next one says it.
                let _ = self.sender.try_send(Call::Notice(notice));
            }
        }
        result
    }

    async fn try_take(&self, prober: &str, signature: &str, body: RequestBody) -> Result<u64, Refusal> {
        self.gate.borrow_mut().admit(prober, self.clock.now())?;
        let body = buffer_body(body, MAX_BATCH_BYTES, &self.budget).await.map_err(|error| match error {
            BodyError::TooLarge => Refusal::Oversized,
            BodyError::Broken | BodyError::TooSlow => Refusal::Broken,
            BodyError::OverBudget => Refusal::Busy("too many batches at once".to_owned()),
        })?;
        let now_unix_ms = self.clock.wall_nanos() / 1_000_000;
        let batch = self.gate.borrow_mut().read(prober, &body.bytes, signature, now_unix_ms)?;
        drop(body);
        let (sender, receiver) = oneshot::channel();
        let busy = |why: &str| Refusal::Busy(why.to_owned());
        self.sender.try_send(Call::Batch(Box::new(batch), sender)).map_err(|_| busy("too many batches wait"))?;
        receiver.await.map_err(|_| busy("it ends"))?
    }
}
