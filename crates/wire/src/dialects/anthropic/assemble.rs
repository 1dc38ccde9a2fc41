//! A streamed message as one body, as the client libraries of the dialect's makers put it together.
//!
//! Invariant: a delta of a kind that is not known here goes into the field that it names, and then the body is not exact.

use crate::assembly::{Joined, JoinedFields, LastValues, inside_of_string};
use crate::calls::push_arguments_as_object;
use crate::json_text::append_unescaped;
use crate::object::Object;
use crate::remainder::Members;
use crate::stream_assembly::{Assembly, Document};

/// Collects the events of one message.
#[derive(Debug)]
pub(super) struct MessageAssembly {
    message: LastValues,
    usage: LastValues,
    blocks: Vec<Block>,
    has_begun: bool,
    is_exact: bool,
}

/// A block of the content so far.
#[derive(Debug, Default)]
struct Block {
    index: u64,
    fields: JoinedFields,
    /// The input of a call as it comes: JSON in pieces, unescaped.
    input: String,
}

impl Default for MessageAssembly {
    fn default() -> MessageAssembly {
        let (message, usage, blocks) = (LastValues::default(), LastValues::default(), Vec::new());
        MessageAssembly { message, usage, blocks, has_begun: false, is_exact: true }
    }
}

impl MessageAssembly {
    fn take_usage(&mut self, json: &str) {
        let Ok(Some(usage)) = Object::within(json) else { return };
        usage.fields().for_each(|(name, json)| self.usage.take(name, json));
    }

    fn take_start(&mut self, event: &Object<'_>) {
        let Ok(Some(message)) = event.object("message", &mut false) else { return self.is_exact = false };
        self.has_begun = true;
        for (name, json) in message.fields() {
            match name {
                "usage" => self.take_usage(json),
                "content" => {}
                _ => self.message.take(name, json),
            }
        }
    }

    fn take_block(&mut self, event: &Object<'_>) {
        let Ok(Some(block)) = event.object("content_block", &mut false) else { return self.is_exact = false };
        let index = event.count("index", &mut false).unwrap_or(self.blocks.len() as u64);
        let mut known = Block { index, ..Block::default() };
        for (name, json) in block.fields() {
            known.fields.field(name).take(json);
        }
        self.blocks.push(known);
    }

    fn take_delta(&mut self, event: &Object<'_>) {
        let index = event.count("index", &mut false);
        let block = self.blocks.iter_mut().rfind(|block| index.is_none_or(|index| block.index == index));
        let (Some(block), Ok(Some(delta))) = (block, event.object("delta", &mut false)) else {
            return self.is_exact = false;
        };
        let kind = delta.text("type", &mut false).ok().flatten().unwrap_or_default();
        for (name, json) in delta.fields().filter(|(name, _)| *name != "type") {
            self.is_exact &= match (&*kind, name) {
                ("text_delta", "text") | ("thinking_delta", "thinking") => block.fields.field(name).take(json),
                ("signature_delta", "signature") => {
                    *block.fields.field(name) = Joined::Absent;
                    block.fields.field(name).take(json)
                }
                ("citations_delta", "citation") => block.fields.field("citations").take(&format!("[{json}]")),
                ("input_json_delta", "partial_json") => {
                    inside_of_string(json).is_some_and(|inside| append_unescaped(inside.as_bytes(), &mut block.input))
                }
                _ => {
                    block.fields.field(name).take(json);
                    false
                }
            };
        }
    }

    fn take_change(&mut self, event: &Object<'_>) {
        self.is_exact &= std::mem::replace(&mut self.has_begun, true);
        for (name, json) in event.fields() {
            match name {
                "type" => {}
                "usage" => self.take_usage(json),
                "delta" => {
                    let Ok(Some(delta)) = Object::within(json) else { continue };
                    delta.fields().for_each(|(name, json)| self.message.replace(name, json));
                }
                _ => self.message.take(name, json),
            }
        }
    }
}

impl Assembly for MessageAssembly {
    fn take(&mut self, document: &Document<'_>) {
        let Ok(Some(event)) = Object::read(document.json) else { return self.is_exact = false };
        let kind = event.text("type", &mut false).ok().flatten();
        let kind = kind.as_deref().or(std::str::from_utf8(document.name).ok()).unwrap_or_default();
        match kind {
            "message_start" => self.take_start(&event),
            "content_block_start" => self.take_block(&event),
            "content_block_delta" => self.take_delta(&event),
            "message_delta" => self.take_change(&event),
            "content_block_stop" | "message_stop" | "ping" => {}
            _ => self.is_exact = false,
        }
    }

    fn body(&mut self) -> Option<String> {
        if !self.has_begun {
            return None;
        }
        let blocks: Vec<String> = self.blocks.iter().map(Block::json).collect();
        let mut body = Members::new();
        self.message.write(&mut body);
        body.json("content", &format!("[{}]", blocks.join(",")));
        let mut usage = Members::new();
        self.usage.write(&mut usage);
        body.json("usage", &usage.end());
        Some(body.end())
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn held_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(|block| block.fields.held_bytes() + block.input.len());
        self.message.held_bytes() + self.usage.held_bytes() + blocks.sum::<usize>()
    }
}

impl Block {
    fn json(&self) -> String {
        let mut block = Members::new();
        for (name, value) in self.fields.iter() {
            match name == "input" && !self.input.is_empty() {
                true => push_arguments_as_object(&self.input, block.field(name)),
                false => value.write(name, &mut block),
            }
        }
        block.end()
    }
}
