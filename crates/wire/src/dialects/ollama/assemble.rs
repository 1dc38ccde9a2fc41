//! A streamed answer of Ollama as one body, as its server makes it: the last line, with the texts and calls of all lines.

use crate::assembly::{JoinedFields, LastValues};
use crate::object::Object;
use crate::remainder::Members;
use crate::stream_assembly::{Assembly, Document};

/// Fields that are joined; of the others the last line's count.
const JOINED: [&str; 4] = ["response", "content", "thinking", "tool_calls"];

/// Collects the lines of one answer.
#[derive(Debug)]
pub(super) struct LineAssembly {
    top: LastValues,
    texts: JoinedFields,
    /// `message`, in a chat.
    message: Option<(LastValues, JoinedFields)>,
    is_exact: bool,
}

impl Default for LineAssembly {
    fn default() -> LineAssembly {
        LineAssembly { top: LastValues::default(), texts: JoinedFields::default(), message: None, is_exact: true }
    }
}

/// Takes the fields of an object; false if one of them does not go with those before.
fn take_fields(object: &Object<'_>, values: &mut LastValues, texts: &mut JoinedFields) -> bool {
    let mut fits = true;
    for (name, json) in object.fields().filter(|(name, _)| *name != "message") {
        match JOINED.contains(&name) {
            true => fits &= texts.field(name).take(json),
            false => values.take(name, json),
        }
    }
    fits
}

impl Assembly for LineAssembly {
    fn take(&mut self, document: &Document<'_>) {
        let Ok(Some(line)) = Object::read(document.json) else { return self.is_exact = false };
        self.is_exact &= take_fields(&line, &mut self.top, &mut self.texts);
        if let Ok(Some(message)) = line.object("message", &mut false) {
            let (values, texts) = self.message.get_or_insert_default();
            self.is_exact &= take_fields(&message, values, texts);
        }
    }

    fn body(&mut self) -> Option<String> {
        self.top.get("model")?;
        let mut body = Members::new();
        self.top.write(&mut body);
        self.texts.write(&mut body);
        if let Some((values, texts)) = &self.message {
            let mut message = Members::new();
            values.write(&mut message);
            texts.write(&mut message);
            body.json("message", &message.end());
        }
        Some(body.end())
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn held_bytes(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |(values, texts)| values.held_bytes() + texts.held_bytes());
        self.top.held_bytes() + self.texts.held_bytes() + message
    }
}
