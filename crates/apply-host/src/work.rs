//! Token counts and diff of a response, computed on another thread while the engine checks the merge.
//!
//! It starts only once the merged text is known, so that refused edits cost nothing extra. Invariant: the precomputed results equal those
//! computed afterwards.

use crate::diff::unified_diff;
use crate::offload::{Offloaded, Spawner};
use crate::request::{ApplyRequest, ResponseFormat};
use crate::text_cache::TextCache;
use std::sync::Arc;
use tokrate_apply::Parsed;
use tokrate_core::Usage;

/// Shorter files are processed faster than offloaded (bytes).
const MIN_OFFLOAD_BYTES: usize = 4 << 10;

/// Cache and spare threads of a server.
#[derive(Clone, Copy)]
pub(crate) struct Resources<'a> {
    pub cache: &'a Arc<TextCache>,
    pub spawner: Spawner<'a>,
}

/// Work for one request.
pub(crate) struct Work {
    request: Arc<ApplyRequest>,
    cache: Arc<TextCache>,
    ahead: Option<Offloaded<Precomputed>>,
    ready: Precomputed,
}

/// Precomputed results. Output counts go into the cache.
#[derive(Default)]
struct Precomputed {
    input: Option<u64>,
    diff: Option<String>,
}

impl Work {
    pub(crate) fn new(request: &Arc<ApplyRequest>, cache: &Arc<TextCache>) -> Work {
        Work { request: Arc::clone(request), cache: Arc::clone(cache), ahead: None, ready: Precomputed::default() }
    }

    /// The syntax tree of the original. Meanwhile another thread may precompute results.
    pub(crate) fn tree(&mut self, merged: &str, spawner: Spawner<'_>) -> Option<Arc<Parsed>> {
        let (request, cache) = (&self.request, &self.cache);
        if request.edit.original.len() >= MIN_OFFLOAD_BYTES {
            let (request, cache, merged) = (Arc::clone(request), Arc::clone(cache), merged.to_owned());
            self.ahead = Some(Offloaded::offer(spawner, move || Precomputed::of(&request, &cache, &merged)));
        }
        cache.parsed(&request.edit.original, &request.edit.options)
    }

    /// Takes the precomputed results if the engine's text is the response.
    pub(crate) fn settled(&mut self, is_merged: bool) {
        let ahead = self.ahead.take().filter(|_| is_merged);
        self.ready = ahead.and_then(Offloaded::get).unwrap_or_default();
    }

    /// Token counts of the request and of the text of its response.
    pub(crate) fn usage(&self, text: &str) -> Usage {
        let input = self.ready.input.unwrap_or_else(|| prompt_tokens(&self.request, &self.cache));
        Usage { input: Some(input), output: Some(self.cache.tokens(text)), ..Usage::default() }
    }

    /// The diff to the text of the response.
    pub(crate) fn diff(&mut self, text: &str) -> String {
        self.ready.diff.take().unwrap_or_else(|| diff(&self.request, text))
    }
}

impl Precomputed {
    fn of(request: &ApplyRequest, cache: &TextCache, merged: &str) -> Precomputed {
        let input = request.form.has_usage().then(|| {
            cache.tokens(&tagged_text(merged, request.form.is_tagged()));
            prompt_tokens(request, cache)
        });
        Precomputed { input, diff: (request.form == ResponseFormat::Structured).then(|| diff(request, merged)) }
    }
}

fn prompt_tokens(request: &ApplyRequest, cache: &TextCache) -> u64 {
    request.prompt().map(|text| cache.tokens(text)).sum()
}

fn diff(request: &ApplyRequest, text: &str) -> String {
    let name = request.edit.options.path.as_deref().unwrap_or("file");
    unified_diff(&request.edit.original, text, &format!("a/{name}"), &format!("b/{name}"))
}

/// A text, in tags if requested.
pub(crate) fn tagged_text(text: &str, tagged: bool) -> std::borrow::Cow<'_, str> {
    match tagged {
        true => format!("<updated-code>{text}</updated-code>").into(),
        false => text.into(),
    }
}
