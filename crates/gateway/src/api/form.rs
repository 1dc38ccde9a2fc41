//! Finds in a body of `multipart/form-data` what a gateway must know of it: the model, and whether the answer is to be streamed.
//!
//! Everything else passes byte for byte. Invariant: a body in which two servers could read different models is refused.

use memchr::memmem::Finder;
use std::ops::Range;

/// Most bytes of a part's head.
pub(super) const MAX_HEAD_BYTES: usize = 8 * 1024;
/// Most parts of a form: more fields than any API has.
pub(super) const MAX_PARTS: usize = 256;
/// Longest boundary (RFC 2046).
const MAX_BOUNDARY_BYTES: usize = 70;

/// What was found in a form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Form {
    model: Option<Range<usize>>,
    pub stream: bool,
}

impl Form {
    /// Looks through a body of that content type.
    ///
    /// # Errors
    /// Why it is no form, or not one that every server reads alike.
    pub fn read(content_type: &[u8], body: &[u8]) -> Result<Form, &'static str> {
        let boundary = boundary(content_type).ok_or("the content type has no `boundary`")?;
        let opening = [b"--", boundary].concat();
        let line = [b"\r\n", opening.as_slice()].concat();
        let delimiter = Finder::new(&line);
        let mut rest_at = opening.len();
        if !body.starts_with(&opening) {
            return Err("the form does not begin with its boundary");
        }
        let mut form = Form::default();
        for _ in 0..MAX_PARTS {
            let rest = &body[rest_at..];
            if rest.starts_with(b"--") {
                return Ok(form);
            }
            let part = rest.strip_prefix(b"\r\n").ok_or("a boundary of the form is not alone in its line")?;
            let head_bytes = part.get(..MAX_HEAD_BYTES.min(part.len())).unwrap_or_default();
            let head = head_bytes.windows(4).position(|four| four == b"\r\n\r\n");
            let head = head.ok_or("a part of the form has no head, or one that is too long")?;
            let value_at = rest_at + 2 + head + 4;
            let length = delimiter.find(&body[value_at..]).ok_or("the form has no end")?;
            form.note(field_name(&part[..head]), value_at..value_at + length, body)?;
            rest_at = value_at + length + 2 + opening.len();
        }
        Err("the form has too many parts")
    }

    fn note(&mut self, name: Option<&[u8]>, value: Range<usize>, body: &[u8]) -> Result<(), &'static str> {
        match name {
            Some(b"model") if self.model.is_some() => Err("the field `model` comes twice"),
            Some(name) if name != b"model" && name.eq_ignore_ascii_case(b"model") => {
                Err("the field `model` is written in other letters")
            }
            Some(b"model") => {
                self.model = Some(value);
                Ok(())
            }
            Some(b"stream") => {
                self.stream = body[value].eq_ignore_ascii_case(b"true");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A form of which the beginning was read.
    pub fn of_beginning(model: Option<Range<usize>>, stream: bool) -> Form {
        Form { model, stream }
    }

    /// The model that it names.
    pub fn model<'b>(&self, body: &'b [u8]) -> Option<&'b str> {
        std::str::from_utf8(&body[self.model.clone()?]).ok()
    }

    /// The body with another model in place of the one that it names.
    pub fn with_model(&self, body: &[u8], model: &str) -> Vec<u8> {
        match &self.model {
            Some(named) => [&body[..named.start], model.as_bytes(), &body[named.end..]].concat(),
            None => body.to_vec(),
        }
    }
}

pub(super) fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let value = content_type.split(|byte| *byte == b';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.trim_ascii().split_at_checked(9)?;
        name.eq_ignore_ascii_case(b"boundary=").then_some(value)
    })?;
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    (!value.is_empty() && value.len() <= MAX_BOUNDARY_BYTES && value.iter().all(is_plain)).then_some(value)
}

/// The name of the field in the head of a part.
pub(super) fn field_name(head: &[u8]) -> Option<&[u8]> {
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| line.get(..20).is_some_and(|name| name.eq_ignore_ascii_case(b"content-disposition:")))?;
    let parameter = line
        .split(|byte| *byte == b';')
        .skip(1)
        .map(<[u8]>::trim_ascii)
        .find(|parameter| parameter.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"name=")))?;
    let value = &parameter[5..];
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}
