//! A streamed response as one body: its last event holds it whole.
//!
//! Invariant: an item that the stream has completed is in the body, also where the last event leaves it out.

use crate::object::{Object, elements};
use crate::remainder::Members;
use crate::stream_assembly::{Assembly, Document};

/// Keeps the response of the last event, and the items before it.
#[derive(Debug, Default)]
pub(super) struct ResponseAssembly {
    response: Option<String>,
    items: Vec<String>,
    has_text: bool,
    is_odd: bool,
}

impl ResponseAssembly {
    /// The response with the items of the stream in the place of its own.
    fn with_items(&self, response: &Object<'_>) -> String {
        let mut body = Members::new();
        for (name, json) in response.fields().filter(|(name, _)| *name != "output") {
            body.json(name, json);
        }
        body.json("output", &format!("[{}]", self.items.join(",")));
        body.end()
    }
}

impl Assembly for ResponseAssembly {
    fn take(&mut self, document: &Document<'_>) {
        let Ok(Some(event)) = Object::read(document.json) else { return self.is_odd |= document.json != "[DONE]" };
        let kind = event.text("type", &mut false).ok().flatten();
        let kind = kind.as_deref().or(std::str::from_utf8(document.name).ok()).unwrap_or_default();
        match kind {
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.response = event.get("response").map(str::to_owned);
            }
            "response.output_item.done" => self.items.extend(event.get("item").map(str::to_owned)),
            "response.output_text.delta" | "response.refusal.delta" => self.has_text = true,
            _ => {}
        }
    }

    fn body(&mut self) -> Option<String> {
        let json = self.response.take()?;
        let response = Object::read(&json).ok().flatten()?;
        let items = response.get("output").and_then(elements).map_or(0, Iterator::count);
        if items >= self.items.len() {
            // A text that is nowhere to be found makes no answer.
            return (items > 0 || !self.has_text).then_some(json);
        }
        self.is_odd = true;
        Some(self.with_items(&response))
    }

    fn is_exact(&self) -> bool {
        !self.is_odd
    }

    fn held_bytes(&self) -> usize {
        self.response.as_ref().map_or(0, String::len) + self.items.iter().map(String::len).sum::<usize>()
    }
}
