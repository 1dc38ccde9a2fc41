//! From a request to its answer, without sockets, clocks and threads: what a server runs, and what another part of the house
//! can run beside it.
//!
//! It refuses to wait. Invariant: the same request gives the same answer, but for its stamp.

use crate::answer::{Stamp, answer};
use crate::ask::Ask;
use crate::config::OnRefuse;
use crate::pages::{EDITS, not_with_this_method, page};
use crate::reply::Reply;
use crate::settled::{By, Edit, Settled, worth_asking};
use crate::work::{Aids, Work};
use http::Method;
use http::request::Parts;
use std::sync::Arc;
use tokrate_apply::{Code, Refused};

pub use crate::ask::MODELS;

/// Answers requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service {
    /// What is answered to a refused edit unless the request says something else.
    pub on_refuse: OnRefuse,
    /// Leave syntax trees alone.
    pub without_tree: bool,
    /// Whether there is a model to ask when the engine refuses.
    pub asks_model: bool,
}

/// How far a request came without waiting.
pub(crate) enum Step {
    /// To its answer, and what an edit came to if it was one.
    Answered(Reply, Option<Came>),
    /// To a refusal which a model might help.
    Refused(Box<Pending>),
}

/// What an edit came to, for counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    Merged,
    ByModel,
    Refused(Code),
}

/// A refused edit while a model is asked.
pub(crate) struct Pending {
    ask: Arc<Ask>,
    work: Work,
    refused: Refused,
    stamp: Stamp,
}

impl Service {
    /// Answers a request. A model is never asked.
    pub fn answer(&self, head: &Parts, body: &[u8], stamp: Stamp) -> Reply {
        // On this thread alone: what is offered to others is never begun there.
        let aids = Aids { memory: &Arc::default(), hands: &drop };
        match (Service { asks_model: false, ..*self }).begin(head, body, stamp, aids) {
            Step::Answered(reply, _) => reply,
            Step::Refused(pending) => pending.end(Err("no model was asked".to_owned())).0,
        }
    }

    pub(crate) fn begin(&self, head: &Parts, body: &[u8], stamp: Stamp, aids: Aids<'_>) -> Step {
        let path = head.uri.path();
        let Some((_, is_chat)) = EDITS.iter().find(|(edits, _)| *edits == path) else {
            return Step::Answered(page(&head.method, path), None);
        };
        if head.method != Method::POST {
            return Step::Answered(not_with_this_method(path, "POST"), None);
        }
        let read = if *is_chat { Ask::chat } else { Ask::structured };
        let mut ask = match read(head, body, self.on_refuse) {
            Ok(ask) => ask,
            Err(denied) => return Step::Answered(denied.into(), None),
        };
        ask.edit.options.without_tree = self.without_tree;
        let ask = Arc::new(ask);
        let mut work = Work::new(&ask, aids.memory);
        let Edit { original, update, options } = &ask.edit;
        let mut ahead = |merged: &str| work.tree(merged, aids.hands);
        match Settled::by_engine_beside(original.as_bytes(), update.as_bytes(), options, &mut ahead) {
            Settled::Refused { refused, .. } if self.asks_model && worth_asking(refused.code) => {
                Step::Refused(Box::new(Pending { work: Work::new(&ask, aids.memory), ask, refused, stamp }))
            }
            settled => {
                work.settled(matches!(settled, Settled::Merged { .. }));
                Step::Answered(answer(&ask, &settled, stamp, work), Some(Came::of(&settled)))
            }
        }
    }
}

impl Came {
    fn of(settled: &Settled) -> Came {
        match settled {
            Settled::Merged { by: By::Deterministic, .. } => Came::Merged,
            Settled::Merged { by: By::Model, .. } => Came::ByModel,
            Settled::Refused { refused, .. } => Came::Refused(refused.code),
        }
    }
}

impl Pending {
    /// What a model would have to merge.
    pub fn edit(&self) -> &Edit {
        &self.ask.edit
    }

    /// The answer, given what the model said or why it said nothing.
    pub fn end(self, said: Result<String, String>) -> (Reply, Option<Came>) {
        let Edit { original, update, options } = &self.ask.edit;
        let settled = Settled::by_model(self.refused, said, original.as_bytes(), update.as_bytes(), options);
        (answer(&self.ask, &settled, self.stamp, self.work), Some(Came::of(&settled)))
    }
}
