//! The files that a body names by their identifiers: whether they are those of its key.
//!
//! Invariant: a body that names an object which is known to be another key's reaches no lane.

use crate::admission::credentials::Credentials;
use crate::respond::error::ErrorResponse;
use crate::state::plan::Plan;
use crate::state::shared::Shared;
use http::StatusCode;
use memchr::memmem::find;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The fields in which dialects name files.
const FIELDS: [&str; 3] = ["file_id", "file_ids", "input_file_id"];

/// Refuses a body that names what another key has made, as the path of that object does. One that is not known here goes on as it is: the
/// provider's account may hold it from elsewhere.
pub(super) fn check_files(
    shared: &Shared,
    plan: &Plan,
    credentials: &Credentials,
    body: &[u8],
) -> Result<(), ErrorResponse> {
    // A letter of the name can be written as an escape.
    let may_name = || find(body, b"file_id").is_some() || find(body, b"\\u00").is_some();
    if plan.keys.is_empty() || shared.jobs.is_without_files() || !may_name() {
        return Ok(());
    }
    let key = credentials.key().map(|key| key.config.name.as_str());
    let is_foreign = |id: &str| shared.jobs.get(id).is_some_and(|job| job.key.as_deref() != key);
    match named_files(body).into_iter().find(|id| is_foreign(id)) {
        Some(id) => Err(unknown(&id)),
        None => Ok(()),
    }
}

/// The error for an object that the client's key has not made.
pub(super) fn unknown(id: &str) -> ErrorResponse {
    let message = format!(
        "`{id}` is not known here: a gateway with keys remembers what each key has made, and this one has not made it"
    );
    ErrorResponse::new(StatusCode::NOT_FOUND, message)
}

/// The identifiers in fields of these names, wherever they stand.
fn named_files(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    // What is no JSON was refused before.
    let _ = Walk { found: &mut found, is_named: false }.deserialize(&mut reader);
    found
}

/// Walks through a document; `is_named`: texts here are identifiers.
struct Walk<'f> {
    found: &'f mut Vec<String>,
    is_named: bool,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let is_named = FIELDS.contains(&&*name);
            map.next_value_seed(Walk { found: self.found, is_named })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while sequence.next_element_seed(Walk { found: self.found, is_named: self.is_named })?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.is_named {
            self.found.push(text.to_owned());
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_wherever_they_stand_and_however_their_field_is_written() {
        let body = r#"{"messages":[{"content":[{"type":"file","file":{"file_id":"a"}},{"text":"file_id: no"}]}],"n":1.5,"x":null,
            "tools":[{"container":{"type":"auto","file_ids":["b","c"]}}],"input":[{"file\u005fid":"d"}],"input_file_id":"e","y":[true,-1]}"#;
        assert_eq!(named_files(body.as_bytes()), ["a", "b", "c", "d", "e"]);
        for nothing in ["", "[", "7", r#"{"file":"a"}"#] {
            assert_eq!(named_files(nothing.as_bytes()), [""; 0], "{nothing}");
        }
    }
}
