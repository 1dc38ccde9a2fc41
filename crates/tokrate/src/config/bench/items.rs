//! Vectors and scores of texts, and images, instead of text: which flags go with them, and what a request holds.
//!
//! Invariant: a flag that says something of text only is refused beside them.

use super::inputs::Inputs;
use crate::flags::bench::{Flags, Request, Task};
use anyhow::{Result, ensure};
use tokrate_bench::plan::{Load, PhaseSpec};
use tokrate_bench::{Items, Target};
use tokrate_wire::{ItemForm, ItemTask};

/// Texts of a request where nobody says: one vector; as many documents as a search hands to a reranker at least.
const DEFAULT_TEXTS: u32 = 1;
const DEFAULT_DOCUMENTS: u32 = 10;
/// Requests of a batch where nobody says: enough to be worth one.
const DEFAULT_REQUESTS: u32 = 100;
/// More texts than servers take (OpenAI 2,048, Cohere 10,000 documents).
const MAX_BATCH: u32 = 10_000;

/// What is asked for instead of text, if it is.
pub(super) fn asked(flags: &Request) -> Result<Option<Items>> {
    let (task, default) = match flags.task {
        None | Some(Task::Chat | Task::Tools | Task::Json | Task::Speech | Task::Transcription | Task::Realtime) => {
            ensure!(
                flags.batch.is_none(),
                "read --batch: it holds texts together for --task embeddings or rerank, or says how many images --task images makes and requests a --task batch has; give that too"
            );
            return Ok(None);
        }
        Some(Task::Embeddings) => (ItemTask::Embeddings, DEFAULT_TEXTS),
        Some(Task::Rerank) => (ItemTask::Rerank, DEFAULT_DOCUMENTS),
        Some(Task::Images) => (ItemTask::Images, DEFAULT_TEXTS),
        Some(Task::Batch) => (ItemTask::Batch, DEFAULT_REQUESTS),
    };
    let batches = flags.batch.as_deref().unwrap_or(&[]);
    ensure!(
        batches.iter().all(|batch| (1..=MAX_BATCH).contains(batch)),
        "read --batch: a request holds from 1 to {MAX_BATCH} texts, images or requests"
    );
    Ok(Some(Items { task, batch: batches.first().copied().unwrap_or(default) }))
}

/// Refuses what has no meaning for vectors and scores, and endpoints that have none.
pub(super) fn check(flags: &Flags, target: &Target, items: Option<Items>, inputs: &Inputs) -> Result<()> {
    let Some(Items { task, .. }) = items else { return Ok(()) };
    let (request, load) = (&flags.request, &flags.load);
    let name = task.name();
    let has_text = task == ItemTask::Batch;
    for (flag, is_given) in [
        ("--output-tokens", request.output_tokens.is_some() && !has_text),
        ("--answer-column", request.answer_column.is_some() && !has_text),
        ("--ignore-eos", request.ignore_eos && !has_text),
        ("--max-tokens-field", request.max_tokens_field && !has_text),
        ("--temperature", request.temperature.is_some() && !has_text),
        ("--workload", !request.workload.is_empty()),
        ("--sessions", load.sessions.is_some()),
        ("--trace or --clients", inputs.trace.is_some()),
        ("--agents", inputs.agents.is_some()),
        ("--search", load.search.is_some()),
        ("--refine", load.refine.is_some()),
        ("--ramp", load.ramp.is_some()),
        ("--ramp-rate", load.ramp_rate.is_some()),
    ] {
        let why =
            if has_text { "its requests are not answered one by one" } else { "asks for no text, to which it belongs" };
        ensure!(!is_given, "read {flag}: --task {name}: {why}; leave it out");
    }
    let Some(remote) = target.remote() else {
        anyhow::bail!("read --task {name}: it needs an endpoint; name one with --url, such as that of `tokrate sim`");
    };
    ensure!(
        ItemForm::of(task, remote.dialect).is_some(),
        "read --task {name}: servers that speak {} have none beside it; use --dialect openai-chat",
        remote.dialect.name()
    );
    let is_swept = request.batch.as_ref().is_some_and(|batches| batches.len() > 1);
    ensure!(
        !(is_swept && load.rate.is_some()),
        "read --batch: a rate is that of requests of one size; name one number"
    );
    Ok(())
}

/// The levels with the sizes of their requests: every size at every concurrency.
pub(super) fn batched(flags: &Flags, items: Option<Items>, phases: Vec<PhaseSpec>) -> Vec<PhaseSpec> {
    let Some(items) = items else { return phases };
    let batches =
        flags.request.batch.clone().filter(|batches| !batches.is_empty()).unwrap_or_else(|| vec![items.batch]);
    let sized = |phase: &PhaseSpec, batch: u32| match phase.load {
        Load::Closed { concurrency } => PhaseSpec { load: Load::Batched { concurrency, batch }, ..phase.clone() },
        _ => phase.clone(),
    };
    match phases.iter().any(|phase| phase.load.is_closed()) {
        true => batches.iter().flat_map(|batch| phases.iter().map(|phase| sized(phase, *batch))).collect(),
        false => phases,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_request_belong_to_vectors_and_scores() {
        let request = |task, batch: Option<Vec<u32>>| Request { task, batch, ..Request::default() };
        let read = |task, batch| asked(&request(task, batch)).map_err(|error| error.to_string());
        assert_eq!(read(None, None), Ok(None));
        assert!(read(None, Some(vec![8])).is_err_and(|error| error.contains("--task embeddings or rerank")));
        assert_eq!(read(Some(Task::Embeddings), None), Ok(Some(Items { task: ItemTask::Embeddings, batch: 1 })));
        assert_eq!(read(Some(Task::Rerank), None), Ok(Some(Items { task: ItemTask::Rerank, batch: 10 })));
        assert!(read(Some(Task::Rerank), Some(vec![8, 0])).is_err_and(|error| error.contains("from 1 to 10000")));
    }
}
