//! A streamed response as one body: its last event holds it whole.

use crate::assembly::{Assembly, Document};
use crate::object::Object;

/// Keeps the response of the last event.
#[derive(Debug, Default)]
pub(super) struct ResponseAssembly {
    response: Option<String>,
    is_odd: bool,
}

impl Assembly for ResponseAssembly {
    fn take(&mut self, document: &Document<'_>) {
        let Ok(Some(event)) = Object::read(document.json) else { return self.is_odd |= document.json != "[DONE]" };
        let kind = event.text("type", &mut false).ok().flatten();
        let kind = kind.as_deref().or(std::str::from_utf8(document.name).ok()).unwrap_or_default();
        if matches!(kind, "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled") {
            self.response = event.get("response").map(str::to_owned);
        }
    }

    fn body(&mut self) -> Option<String> {
        self.response.take()
    }

    fn is_exact(&self) -> bool {
        !self.is_odd
    }

    fn held_bytes(&self) -> usize {
        self.response.as_ref().map_or(0, String::len)
    }
}
