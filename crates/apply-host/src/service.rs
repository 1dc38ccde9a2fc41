//! From a request to its response, without sockets, clocks and threads; other parts of tokrate can call it directly.
//!
//! Invariant: the same request gives the same response, except for its stamp.

use crate::answer::{Stamp, answer, stale};
use crate::config::OnRefuse;
use crate::merge_result::{Edit, MergeResult, MergedBy, model_may_help};
use crate::pages::{EDITS, method_not_allowed, page};
use crate::reply::Reply;
use crate::request::{ApplyRequest, Rejected};
use crate::work::{Resources, Work};
use http::Method;
use http::request::Parts;
use std::sync::Arc;
use tokrate_apply::{Code, Refused};

pub use crate::request::MODELS;

/// Answers requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service {
    /// Default response to a refused edit.
    pub on_refuse: OnRefuse,
    /// Do not use syntax trees.
    pub without_tree: bool,
    /// Whether a fallback model is configured.
    pub has_fallback: bool,
}

/// Result of a request as far as it needs no waiting.
pub(crate) enum Step {
    /// The response, and the outcome if it was an edit.
    Answered(Reply, Option<RequestOutcome>),
    /// A refusal that a model may resolve.
    Refused(Box<Pending>),
}

/// Outcome of an edit, for counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestOutcome {
    Merged,
    Unchanged,
    ByModel,
    Refused(Code),
    /// The edit was made for another state of the file.
    Stale,
}

/// A refused edit that waits for the fallback model.
pub(crate) struct Pending {
    request: Arc<ApplyRequest>,
    work: Work,
    refused: Refused,
    stamp: Stamp,
}

impl Service {
    /// Answers a request. A model is never asked.
    pub fn answer(&self, head: &Parts, body: &[u8], stamp: Stamp) -> Reply {
        // Single-threaded: offered work is never started elsewhere.
        let resources = Resources { cache: &Arc::default(), spawner: &drop };
        match (Service { has_fallback: false, ..*self }).begin(head, body, stamp, resources) {
            Step::Answered(reply, _) => reply,
            Step::Refused(pending) => pending.end(Err("no model was asked".to_owned())).0,
        }
    }

    pub(crate) fn begin(&self, head: &Parts, body: &[u8], stamp: Stamp, resources: Resources<'_>) -> Step {
        let path = head.uri.path();
        let Some((_, is_chat)) = EDITS.iter().find(|(edits, _)| *edits == path) else {
            return Step::Answered(page(&head.method, path), None);
        };
        if head.method != Method::POST {
            return Step::Answered(method_not_allowed(path, "POST"), None);
        }
        let read = if *is_chat { ApplyRequest::chat } else { ApplyRequest::structured };
        let mut request = match read(head, body, self.on_refuse) {
            Ok(request) => request,
            Err(Rejected::Error(error_response)) => return Step::Answered(error_response.into(), None),
            Err(Rejected::Stale(now)) => return Step::Answered(stale(&now), Some(RequestOutcome::Stale)),
        };
        request.edit.options.without_tree = self.without_tree;
        let request = Arc::new(request);
        let mut work = Work::new(&request, resources.cache);
        let Edit { original, update, options } = &request.edit;
        let mut ahead = |merged: &str| work.tree(merged, resources.spawner);
        match MergeResult::by_engine_with_tree(original.as_bytes(), update.as_bytes(), options, &mut ahead) {
            MergeResult::Refused { refused, .. } if self.has_fallback && model_may_help(refused.code) => {
                Step::Refused(Box::new(Pending { work: Work::new(&request, resources.cache), request, refused, stamp }))
            }
            settled => {
                work.settled(matches!(settled, MergeResult::Merged { .. }));
                Step::Answered(answer(&request, &settled, stamp, work), Some(RequestOutcome::of(&settled)))
            }
        }
    }
}

impl RequestOutcome {
    fn of(settled: &MergeResult) -> RequestOutcome {
        match settled {
            MergeResult::Merged { merged, .. } if merged.is_unchanged() => RequestOutcome::Unchanged,
            MergeResult::Merged { by: MergedBy::Deterministic, .. } => RequestOutcome::Merged,
            MergeResult::Merged { by: MergedBy::Model, .. } => RequestOutcome::ByModel,
            MergeResult::Refused { refused, .. } => RequestOutcome::Refused(refused.code),
        }
    }
}

impl Pending {
    /// The edit to merge.
    pub fn edit(&self) -> &Edit {
        &self.request.edit
    }

    /// The response, given the text of the model or why there is none.
    pub fn end(self, model_answer: Result<String, String>) -> (Reply, Option<RequestOutcome>) {
        let Edit { original, update, options } = &self.request.edit;
        let settled =
            MergeResult::by_model(self.refused, model_answer, original.as_bytes(), update.as_bytes(), options);
        (answer(&self.request, &settled, self.stamp, self.work), Some(RequestOutcome::of(&settled)))
    }
}
