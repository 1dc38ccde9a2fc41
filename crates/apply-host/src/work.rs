//! What an answer needs beside the merged text, worked out while the engine checks it: token counts and the diff.
//!
//! It refuses to decide anything, and to begin before it is known what the text is: most refused edits cost no more than their
//! refusal. Invariant: what was worked out ahead is what would have been worked out afterwards.

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
    ahead: Option<Beside<Ready>>,
    ready: Ready,
}

/// What is worked out so far. The output is counted into the memory.
#[derive(Default)]
struct Ready {
    input: Option<u64>,
    diff: Option<String>,
}

impl Work {
    pub(crate) fn new(ask: &Arc<Ask>, memory: &Arc<Memory>) -> Work {
        Work { ask: Arc::clone(ask), memory: Arc::clone(memory), ahead: None, ready: Ready::default() }
    }

    /// The tree of the original. Meanwhile another thread may get the answer ready.
    pub(crate) fn tree(&mut self, merged: &str, hands: Hands<'_>) -> Option<Arc<Parsed>> {
        let (ask, memory) = (&self.ask, &self.memory);
        if ask.edit.original.len() >= HANDED_LEAST {
            let (ask, memory, merged) = (Arc::clone(ask), Arc::clone(memory), merged.to_owned());
            self.ahead = Some(Beside::offer(hands, move || Ready::of(&ask, &memory, &merged)));
        }
        memory.parsed(&ask.edit.original, &ask.edit.options)
    }

    /// Takes what was got ready for the engine's text, if the answer is that.
    pub(crate) fn settled(&mut self, is_merged: bool) {
        let ahead = self.ahead.take().filter(|_| is_merged);
        self.ready = ahead.and_then(Beside::get).unwrap_or_default();
    }

    /// Token counts of the request and of a text that is its answer.
    pub(crate) fn usage(&self, text: &str) -> Usage {
        let input = self.ready.input.unwrap_or_else(|| prompt_tokens(&self.ask, &self.memory));
        Usage { input: Some(input), output: Some(self.memory.tokens(text)), ..Usage::default() }
    }

    /// The diff to the answer's text.
    pub(crate) fn diff(&mut self, text: &str) -> String {
        self.ready.diff.take().unwrap_or_else(|| diff(&self.ask, text))
    }
}

impl Ready {
    fn of(ask: &Ask, memory: &Memory, merged: &str) -> Ready {
        let input = ask.form.has_usage().then(|| {
            memory.tokens(&tagged_text(merged, ask.form.is_tagged()));
            prompt_tokens(ask, memory)
        });
        Ready { input, diff: (ask.form == Form::Structured).then(|| diff(ask, merged)) }
    }
}

fn prompt_tokens(ask: &Ask, memory: &Memory) -> u64 {
    ask.prompt().map(|text| memory.tokens(text)).sum()
}

fn diff(ask: &Ask, text: &str) -> String {
    let name = ask.edit.options.path.as_deref().unwrap_or("file");
    unified_diff(&ask.edit.original, text, &format!("a/{name}"), &format!("b/{name}"))
}

/// A text, in tags if they are wanted.
pub(crate) fn tagged_text(text: &str, tagged: bool) -> std::borrow::Cow<'_, str> {
    match tagged {
        true => format!("<updated-code>{text}</updated-code>").into(),
        false => text.into(),
    }
}
