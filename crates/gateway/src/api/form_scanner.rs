//! Reads a form as it comes: its fields, and where they stand, without holding its files.
//!
//! Invariant: it finds what [`super::Form`] finds in the whole body, whatever the pieces; a form in which two servers could read different
//! models is refused, wherever in it that shows.

use super::form::{MAX_HEAD_BYTES, MAX_PARTS, boundary, field_name};
use memchr::memmem::find;
use std::ops::Range;

/// Longest value of a field that is read (bytes).
const MAX_VALUE_BYTES: usize = 1_024;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Opening,
    AfterBoundary,
    Head,
    /// A value, and which field's.
    Value(Field),
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Model,
    Stream,
    Other,
}

/// The state of a form that is being read.
#[derive(Debug)]
pub(crate) struct FormScanner {
    /// What stands before every part but the first.
    delimiter: Vec<u8>,
    state: State,
    /// What was read and not understood yet.
    held: Vec<u8>,
    /// Where that begins in the body.
    offset: usize,
    parts: usize,
    has_file: bool,
    model: Option<Range<usize>>,
    stream: bool,
}

impl FormScanner {
    /// A form of that content type.
    ///
    /// # Errors
    /// Why it is none.
    pub fn new(content_type: &[u8]) -> Result<FormScanner, &'static str> {
        let boundary = boundary(content_type).ok_or("the content type has no `boundary`")?;
        Ok(FormScanner {
            delimiter: [b"\r\n--", boundary].concat(),
            state: State::Opening,
            held: Vec::new(),
            offset: 0,
            parts: 0,
            has_file: false,
            model: None,
            stream: false,
        })
    }

    /// Whether a file has begun.
    pub fn has_file(&self) -> bool {
        self.has_file
    }

    /// Where the model stands in the body, once it was read.
    pub fn model(&self) -> Option<Range<usize>> {
        self.model.clone()
    }

    /// Whether the answer is to be streamed, as far as was read.
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// Whether the form has ended.
    pub fn has_ended(&self) -> bool {
        self.state == State::End
    }

    /// Reads on.
    ///
    /// # Errors
    /// Why it is no form, or not one that every server reads alike.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.held.extend_from_slice(bytes);
        while let Some(used) = self.step()? {
            self.held.drain(..used);
            self.offset += used;
        }
        Ok(())
    }

    /// Understands what it can; how many bytes that were, `None` if more are needed.
    fn step(&mut self) -> Result<Option<usize>, &'static str> {
        match self.state {
            State::Opening => {
                let opening = &self.delimiter[2..];
                let seen = self.held.len().min(opening.len());
                if self.held[..seen] != opening[..seen] {
                    return Err("the form does not begin with its boundary");
                }
                let length = opening.len();
                Ok((seen == length).then(|| self.enter(State::AfterBoundary, length)))
            }
            State::AfterBoundary => match self.held.get(..2) {
                None => Ok(None),
                Some(b"--") => Ok(Some(self.enter(State::End, 2))),
                Some(b"\r\n") => Ok(Some(self.enter(State::Head, 2))),
                Some(_) => Err("a boundary of the form is not alone in its line"),
            },
            State::Head => {
                let head_bytes = &self.held[..self.held.len().min(MAX_HEAD_BYTES)];
                match find(head_bytes, b"\r\n\r\n") {
                    Some(end) => {
                        let field = self.begin_part(end)?;
                        Ok(Some(self.enter(State::Value(field), end + 4)))
                    }
                    None if self.held.len() >= MAX_HEAD_BYTES => {
                        Err("a part of the form has no head, or one that is too long")
                    }
                    None => Ok(None),
                }
            }
            State::Value(field) => self.step_value(field),
            State::End => Ok((!self.held.is_empty()).then_some(self.held.len())),
        }
    }

    fn enter(&mut self, state: State, used: usize) -> usize {
        self.state = state;
        used
    }

    fn begin_part(&mut self, head_end: usize) -> Result<Field, &'static str> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err("the form has too many parts");
        }
        let head = &self.held[..head_end];
        self.has_file |= find(&head.to_ascii_lowercase(), b"filename").is_some();
        match field_name(head) {
            Some(b"model") if self.model.is_some() => Err("the field `model` comes twice"),
            Some(b"model") => Ok(Field::Model),
            Some(name) if name.eq_ignore_ascii_case(b"model") => Err("the field `model` is written in other letters"),
            Some(b"stream") => Ok(Field::Stream),
            _ => Ok(Field::Other),
        }
    }

    fn step_value(&mut self, field: Field) -> Result<Option<usize>, &'static str> {
        let Some(end) = find(&self.held, &self.delimiter) else {
            if field != Field::Other {
                return if self.held.len() > MAX_VALUE_BYTES {
                    Err("a field of the form is too long")
                } else {
                    Ok(None)
                };
            }
            // The beginning of a delimiter may stand at the end.
            let done = self.held.len().saturating_sub(self.delimiter.len() - 1);
            return Ok((done > 0).then_some(done));
        };
        match field {
            Field::Model => self.model = Some(self.offset..self.offset + end),
            Field::Stream => self.stream = self.held[..end].eq_ignore_ascii_case(b"true"),
            Field::Other => {}
        }
        Ok(Some(self.enter(State::AfterBoundary, end + self.delimiter.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Form;
    use proptest::prelude::*;

    const TYPE: &[u8] = b"multipart/form-data; boundary=cut";

    /// Model, stream and whether it ended, or the error.
    fn scan(body: &[u8], size: usize) -> Result<(Option<String>, bool, bool), &'static str> {
        let mut scanner = FormScanner::new(TYPE)?;
        body.chunks(size).try_for_each(|piece| scanner.push(piece))?;
        let model = scanner.model().map(|range| String::from_utf8_lossy(&body[range]).into_owned());
        Ok((model, scanner.stream(), scanner.has_ended()))
    }

    fn part(head: &str, value: &str) -> String {
        format!("--cut\r\ncontent-disposition: form-data; {head}\r\n\r\n{value}\r\n")
    }

    #[test]
    fn fields_are_found_before_and_behind_a_file_and_two_models_are_refused() {
        let (model, file) =
            (part("name=\"model\"", "m-1"), part("name=\"file\"; filename=\"a\"", "\r\n--cu\r\n--cutless"));
        let stream = part("name=stream", "true");
        for body in [format!("{model}{stream}{file}--cut--\r\n"), format!("{file}{stream}{model}--cut--")] {
            // The file's text holds what looks like a boundary and is none that stands alone.
            let body = body.replace("cutless", "cu");
            for size in [1, 2, 7, 4_096] {
                assert_eq!(scan(body.as_bytes(), size), Ok((Some("m-1".to_owned()), true, true)), "{size}");
            }
        }
        for body in [
            format!("{model}{file}{model}--cut--"),
            format!("{file}{}", part("name=\"MODEL\"", "x")),
            "--cat\r\n".to_owned(),
        ] {
            assert!(scan(body.as_bytes(), 5).is_err(), "{body}");
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_is_found_in_the_whole_body(
            parts in proptest::collection::vec(("(name=\"(model|stream|file|x)\"|name=model; filename=a)", "[a-t\r\n-]{0,40}"), 0..6),
            size in 1_usize..60,
        ) {
            let body: String = parts.iter().map(|(head, value)| part(head, value)).collect::<String>() + "--cut--\r\n";
            let whole = Form::read(TYPE, body.as_bytes());
            let found = scan(body.as_bytes(), size);
            match whole {
                Ok(form) => {
                    prop_assert_eq!(found, Ok((form.model(body.as_bytes()).map(str::to_owned), form.stream, true)));
                }
                Err(_) => prop_assert!(found.is_err() || found.is_ok_and(|(_, _, ended)| !ended)),
            }
        }
    }
}
