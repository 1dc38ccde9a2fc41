//! Objects of providers that outlive their call: responses that go on in the background, other responses, files, batches. Which lane has
//! each, whose it is, and what is to be accounted for when its result is seen.
//!
//! Invariant: the result of a job is accounted for once; the number of each kind is bounded, and the oldest of a kind are forgotten first.

use crate::admission::reservation::KeyReservation;
use crate::api::is_object_id;
use crate::settle::attempt_cost::AttemptCost;
use crate::state::lock::locked;
use crate::state::plan::{Lane, Plan};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokrate_core::{Money, Usage};
use tokrate_record::{Attempt as Row, AttemptEnd, CostBasis, Sample};
use tokrate_store::StoredObject;

/// Most of each kind that are remembered: a day's jobs of a busy gateway, at about a kilobyte each.
const MAX_JOBS: usize = 10_000;

/// The jobs of a gateway.
#[derive(Default)]
pub(crate) struct Jobs([Mutex<Known>; 3]);

/// What an object is: of what is made often nothing is forgotten that something is reserved for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ObjectKind {
    /// A response that goes on in the background.
    Job,
    /// A file or a batch.
    Stored,
    /// Any other response.
    Response,
}

impl ObjectKind {
    /// The name under which the log's file has it.
    pub const fn name(self) -> &'static str {
        match self {
            ObjectKind::Job => "job",
            ObjectKind::Stored => "stored",
            ObjectKind::Response => "response",
        }
    }

    fn of_name(name: &str) -> Option<ObjectKind> {
        [ObjectKind::Job, ObjectKind::Stored, ObjectKind::Response].into_iter().find(|kind| kind.name() == name)
    }
}

#[derive(Default)]
struct Known {
    by_id: HashMap<String, Arc<Job>>,
    /// Identifiers, the oldest first.
    order: VecDeque<String>,
}

/// A response in the background, a file or a batch.
pub(crate) struct Job {
    lane: Arc<Lane>,
    /// Name of the client's key.
    pub key: Option<String>,
    /// What is to be accounted for; `None` once that was done.
    unsettled: Mutex<Option<Unsettled>>,
}

/// What a job holds until its result is seen.
pub(crate) struct Unsettled {
    /// The row of the request that began it.
    pub row: Row,
    pub reservation: Option<KeyReservation>,
}

impl Jobs {
    /// Remembers a job. Gives the row of one that is forgotten for it and whose result was never seen: it counts as the most that it may
    /// have cost, or a key could have its jobs forgotten by beginning more.
    pub fn add(&self, id: String, lane: Arc<Lane>, unsettled: Unsettled) -> Option<Row> {
        let key = unsettled.row.key.clone();
        let forgotten = self.insert(ObjectKind::Job, id, Job { lane, key, unsettled: Mutex::new(Some(unsettled)) })?;
        let Unsettled { row, reservation } = locked(&forgotten.unsettled).take()?;
        let cost = reservation?.settle_whole();
        Some(unseen(row, cost))
    }

    /// Remembers an object of a key for which nothing is left to account.
    pub fn add_object(&self, kind: ObjectKind, id: String, lane: Arc<Lane>, key: Option<String>) {
        let _ = self.insert(kind, id, Job { lane, key, unsettled: Mutex::default() });
    }

    /// Remembers objects that were made before a restart, where their lanes still lead to the same place.
    pub fn restore(&self, objects: Vec<StoredObject>, plan: &Plan) {
        for StoredObject { id, kind, key, lane, target, .. } in objects {
            let Some(kind) = ObjectKind::of_name(&kind) else { continue };
            let known = plan.lanes.iter().find(|known| known.config.name == lane && known.target() == target);
            known.into_iter().for_each(|lane| self.add_object(kind, id.clone(), Arc::clone(lane), key.clone()));
        }
    }

    /// Gives the one that is forgotten for it.
    fn insert(&self, kind: ObjectKind, id: String, job: Job) -> Option<Arc<Job>> {
        let job = Arc::new(job);
        let mut known = locked(&self.0[kind as usize]);
        let replaced = known.by_id.insert(id.clone(), job);
        if replaced.is_some() {
            return replaced;
        }
        known.order.push_back(id);
        if known.order.len() <= MAX_JOBS {
            return None;
        }
        let oldest = known.order.pop_front()?;
        known.by_id.remove(&oldest)
    }

    /// The job of that identifier.
    pub fn get(&self, id: &str) -> Option<Arc<Job>> {
        self.0.iter().find_map(|known| locked(known).by_id.get(id).cloned())
    }

    /// Whether no file is known.
    pub fn is_without_files(&self) -> bool {
        locked(&self.0[ObjectKind::Stored as usize]).order.is_empty()
    }

    /// The job that a request goes on from, if it does from one that is known.
    pub fn continued_by(&self, body: &[u8]) -> Option<Arc<Job>> {
        if self.0.iter().all(|known| locked(known).order.is_empty()) {
            return None;
        }
        self.get(&references(body)?.previous_response_id?)
    }
}

/// What a body refers to.
#[derive(Deserialize)]
pub(crate) struct References<'a> {
    #[serde(borrow)]
    previous_response_id: Option<Cow<'a, str>>,
    /// The file of a batch.
    #[serde(borrow)]
    pub input_file_id: Option<Cow<'a, str>>,
}

/// What a body refers to, if it can be read.
pub(crate) fn references(body: &[u8]) -> Option<References<'_>> {
    serde_json::from_slice(body).ok()
}

impl Job {
    /// Whether that lane has it.
    pub fn is_at(&self, lane: &Lane) -> bool {
        lane.is_same(&self.lane)
    }

    /// The lane that has it, in the plan in force; `None` if that has no such lane any more.
    pub fn lane_of<'p>(&self, plan: &'p Plan) -> Option<&'p Arc<Lane>> {
        plan.lanes.iter().find(|lane| lane.is_same(&self.lane))
    }

    /// Accounts for the result of the job, if these are the token counts of one and it was not accounted for: settles what was
    /// reserved, and gives the row of the result, seen at `now_unix_ms`.
    pub fn settle(&self, usage: &Usage, status: Option<u16>, now_unix_ms: u64) -> Option<Row> {
        let billed = usage.billed()?;
        let Unsettled { row, reservation } = locked(&self.unsettled).take()?;
        let price = self.lane.config.full_price();
        let cost = AttemptCost {
            amount: price.map(|price| price.cost(billed)),
            basis: if price.is_some() { CostBasis::Reported } else { CostBasis::Unknown },
        };
        if let Some(reservation) = reservation {
            reservation.settle(billed.input.saturating_add(billed.output), cost.amount.unwrap_or_default());
        }
        let begun = row.sample;
        let sample = Sample {
            status,
            failure: None,
            total_ns: now_unix_ms.saturating_sub(begun.started_unix_ms).saturating_mul(1_000_000),
            input_tokens: usage.input,
            output_tokens: usage.output,
            reasoning_tokens: usage.reasoning,
            cached_tokens: usage.cached_input,
            cache_write_tokens: usage.cache_write_input,
            cost_usd: cost.amount.map(Money::as_usd),
            cost_basis: cost.basis,
            wait_ns: None,
            ttfb_ns: None,
            answer_ns: None,
            ..begun
        };
        let (attempt, end) = (row.attempt + 1, AttemptEnd::Answered);
        Some(Row { attempt, end, won: true, overhead_ns: None, sample, ..row })
    }
}

/// The row of a job whose result nobody will see.
fn unseen(row: Row, cost: Money) -> Row {
    let sample = Sample { cost_usd: Some(cost.as_usd()), cost_basis: CostBasis::Estimated, ..row.sample };
    Row { attempt: row.attempt + 1, end: AttemptEnd::Abandoned, won: false, overhead_ns: None, sample, ..row }
}

/// The identifier of a response: at the top of a body, or in the first event of a stream.
pub(crate) fn response_id(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        id: Option<String>,
        response: Option<Inner>,
    }
    #[derive(Deserialize)]
    struct Inner {
        id: String,
    }
    let of = |json: &[u8]| {
        let body: Body = serde_json::from_slice(json).ok()?;
        body.response.map(|response| response.id).or(body.id).filter(|id| is_object_id(id))
    };
    of(bytes).or_else(|| {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        lines.find_map(|line| of(line.strip_prefix(b"data:")?.trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_often_pushes_out_its_own_kind_only() {
        let jobs = Jobs::default();
        let config = crate::sample::lane_config("a", "p", "m", None);
        let lane = Lane::resolve(
            0,
            &config,
            &tokrate_net::ClientConfig::default(),
            &tokrate_net::SharedTls::default(),
            tokrate_net::Clock::monotonic(),
        );
        let lane = Arc::new(lane.expect("an address"));
        let add = |kind, id: String| jobs.add_object(kind, id, Arc::clone(&lane), None);
        add(ObjectKind::Stored, "file-1".to_owned());
        (0..=MAX_JOBS).for_each(|number| add(ObjectKind::Response, format!("resp_{number}")));
        assert!(jobs.get("file-1").is_some() && jobs.get("resp_1").is_some() && jobs.get("resp_0").is_none());
    }

    #[test]
    fn an_identifier_is_found_in_a_body_and_in_a_stream() {
        let found = |text: &str| response_id(text.as_bytes());
        let id = Some("resp_1-a".to_owned());
        assert_eq!(found(r#"{"object":"response","id":"resp_1-a","status":"queued"}"#), id);
        assert_eq!(
            found(
                "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1-a\"}}\n\n"
            ),
            id
        );
        for nothing in ["", "{}", r#"{"id":7}"#, r#"{"id":"../models"}"#, r#"{"id":""}"#, "data: [DONE]\n\n"] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
        assert!(!is_object_id(&"x".repeat(257)));
    }
}
