//! What an answer needs beside the merged text, worked out while the engine merges: token counts, the tree, the diff.
//!
//! It refuses to decide anything. Invariant: what was worked out ahead is what would have been worked out afterwards.

use crate::answer::tagged_text;
use crate::ask::{Ask, Form};
use crate::beside::{Beside, Hands};
use crate::diff::unified_diff;
use crate::memory::Memory;
use std::sync::Arc;
use tokrate_apply::Parsed;
use tokrate_core::Usage;

/// Work for a shorter file is done sooner than handed over (bytes).
const HANDED_LEAST: usize = 4 << 10;

/// The memory of a server, and threads that may have time.
#[derive(Clone, Copy)]
pub(crate) struct Aids<'a> {
    pub memory: &'a Arc<Memory>,
    pub hands: Hands<'a>,
}

/// What is worked out for one request.
pub(crate) struct Work {
    ask: Arc<Ask>,
    memory: Arc<Memory>,
    prompt: Option<Beside<u64>>,
    /// Tokens of the prompt.
    input: Option<u64>,
    tree: Option<Beside<Option<Arc<Parsed>>>>,
    /// The diff to the merged text.
    diff: Option<String>,
}

impl Work {
    /// Offers other threads what does not need the merged text.
    pub(crate) fn begun(ask: &Arc<Ask>, aids: Aids<'_>) -> Work {
        let is_worth_it = ask.edit.original.len() >= HANDED_LEAST;
        let tree = ask.edit.options.parsed_as().filter(|_| is_worth_it).map(|_| {
            let (ask, memory) = (Arc::clone(ask), Arc::clone(aids.memory));
            Beside::offer(aids.hands, move |is_wanted| memory.parsed(&ask.edit.original, &ask.edit.options, is_wanted))
        });
        let prompt = (is_worth_it && ask.form.has_usage()).then(|| {
            let (ask, memory) = (Arc::clone(ask), Arc::clone(aids.memory));
            Beside::offer(aids.hands, move |_| prompt_tokens(&ask, &memory))
        });
        Work { ask: Arc::clone(ask), memory: Arc::clone(aids.memory), prompt, input: None, tree, diff: None }
    }

    /// Gives up what only a merge needs.
    pub(crate) fn without_tree(mut self) -> Work {
        self.tree = None;
        self
    }

    /// The tree of the original. While another thread makes it, the answer is got ready.
    pub(crate) fn tree(&mut self, merged: &str) -> Option<Arc<Parsed>> {
        let tree = self.tree.take()?;
        if tree.is_begun() {
            self.get_ready(merged);
        }
        tree.get().flatten()
    }

    fn get_ready(&mut self, merged: &str) {
        if self.ask.form == Form::Structured {
            self.diff = Some(diff(&self.ask, merged));
        }
        if self.ask.form.has_usage() {
            self.input = self.prompt.take().and_then(Beside::get);
            // Counted again from memory, when it is sent.
            self.memory.tokens(&tagged_text(merged, self.ask.form.is_tagged()));
        }
    }

    /// Token counts of the request and of a text that is its answer.
    pub(crate) fn usage(&mut self, text: &str) -> Usage {
        let output = self.memory.tokens(text);
        let input = self.input.or_else(|| self.prompt.take()?.get());
        let input = input.unwrap_or_else(|| prompt_tokens(&self.ask, &self.memory));
        Usage { input: Some(input), output: Some(output), ..Usage::default() }
    }

    /// The diff to the answer's text.
    pub(crate) fn diff(&mut self, text: &str, by_engine: bool) -> String {
        self.diff.take().filter(|_| by_engine).unwrap_or_else(|| diff(&self.ask, text))
    }
}

fn prompt_tokens(ask: &Ask, memory: &Memory) -> u64 {
    ask.prompt().map(|text| memory.tokens(text)).sum()
}

fn diff(ask: &Ask, text: &str) -> String {
    let name = ask.edit.options.path.as_deref().unwrap_or("file");
    unified_diff(&ask.edit.original, text, &format!("a/{name}"), &format!("b/{name}"))
}
