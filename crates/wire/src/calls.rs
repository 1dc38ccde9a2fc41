//! Collects tool calls for dialects that write each call at once, until the answer goes on with something else.
//!
//! Invariant: no text of a call is lost, and calls keep their order.

use crate::json_text::push_string;
use crate::object::Object;
use tokrate_core::{Content, Message};

/// The calls gathered so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatheredCalls {
    calls: Vec<GatheredCall>,
    /// Which of them text belongs to.
    open: usize,
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct GatheredCall {
    index: u32,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl GatheredCalls {
    /// Opens a call, or goes back to one that is still here.
    pub(crate) fn open(&mut self, index: u32, id: &str, name: &str) {
        self.open = self.calls.iter().position(|call| call.index == index).unwrap_or(self.calls.len());
        if self.open == self.calls.len() {
            self.calls.push(GatheredCall { index, ..GatheredCall::default() });
        }
        let call = &mut self.calls[self.open];
        call.id.push_str(id);
        call.name.push_str(name);
    }

    /// Adds to the arguments of the open call.
    pub(crate) fn push(&mut self, text: &str) {
        if self.calls.is_empty() {
            self.open(0, "", "");
        }
        self.calls[self.open].arguments.push_str(text);
    }

    /// Gives the calls out, if there are any.
    pub(crate) fn take(&mut self) -> Vec<GatheredCall> {
        self.open = 0;
        std::mem::take(&mut self.calls)
    }
}

/// Appends arguments where an object must stand: what is no object is written as the string it is, which the decoders read
/// back as the same text.
pub(crate) fn push_arguments(arguments: &str, out: &mut Vec<u8>) {
    match Object::read(arguments) {
        Ok(Some(_)) => out.extend_from_slice(arguments.as_bytes()),
        _ => push_string(arguments, out),
    }
}

/// Appends the arguments of a call in a request: what is no object is put into one, because servers refuse anything else.
pub(crate) fn push_arguments_as_object(arguments: &str, out: &mut Vec<u8>) {
    match Object::read(arguments) {
        Ok(Some(_)) => out.extend_from_slice(arguments.as_bytes()),
        _ if arguments.trim_ascii().is_empty() => out.extend_from_slice(b"{}"),
        _ => {
            out.extend_from_slice(b"{\"arguments\":");
            push_string(arguments, out);
            out.push(b'}');
        }
    }
}

/// The name of the call with that identifier, for dialects whose results name the tool.
pub(crate) fn called_name<'m>(history: &'m [Message], wanted: &str) -> &'m str {
    let mut contents = history.iter().flat_map(|message| &message.content);
    let name = contents.find_map(|content| match content {
        Content::ToolCall { id, name, .. } if id == wanted => Some(name.as_str()),
        _ => None,
    });
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_calls_find_their_call() {
        let mut calls = GatheredCalls::default();
        calls.open(0, "a", "f");
        calls.push("{");
        calls.open(1, "", "g");
        calls.push("x");
        calls.open(0, "", "");
        calls.push("}");
        let taken: Vec<_> = calls.take().into_iter().map(|call| (call.id, call.name, call.arguments)).collect();
        assert_eq!(taken, [("a".into(), "f".into(), "{}".to_owned()), (String::new(), "g".into(), "x".into())]);
        assert!(calls.take().is_empty());
        calls.push("lost?");
        assert_eq!(calls.take()[0].arguments, "lost?");
    }

    #[test]
    fn arguments_are_an_object_or_stand_in_one() {
        let written = |write: fn(&str, &mut Vec<u8>), text: &str| {
            let mut out = Vec::new();
            write(text, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (text, plain, wrapped) in [
            (r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":1}"#),
            ("{\"a", r#""{\"a""#, r#"{"arguments":"{\"a"}"#),
            ("7", "\"7\"", r#"{"arguments":"7"}"#),
            ("", "\"\"", "{}"),
        ] {
            assert_eq!(written(push_arguments, text), plain);
            assert_eq!(written(push_arguments_as_object, text), wrapped);
        }
    }
}
