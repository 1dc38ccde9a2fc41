//! What a gateway reads of a client's request at one look, and what it changes in it.
//!
//! It does not know dialects. Invariant: a body is accepted exactly when a parser takes it for an object, but for the
//! refusals that are named; a splice changes three values and nothing else.

use serde::de::IgnoredAny;
use serde_json::Value;
use tokrate_wire::peek::PeekErrorKind;
use tokrate_wire::{Changes, PromptParts, RequestPeek};

/// Panics if a property does not hold.
pub fn run(body: &[u8]) {
    let text = std::str::from_utf8(body).ok();
    let parses = text.is_some_and(|text| {
        text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with('{')
            && serde_json::from_str::<IgnoredAny>(text).is_ok()
    });
    let peek = match RequestPeek::read(body) {
        Ok(peek) => peek,
        Err(error) => {
            let named = matches!(
                error.kind,
                PeekErrorKind::Repeated(_)
                    | PeekErrorKind::Misspelt(_)
                    | PeekErrorKind::Invalid { .. }
                    | PeekErrorKind::TooDeep
            );
            assert!(named || !parses, "{error}");
            assert!(error.at <= body.len());
            return;
        }
    };
    assert!(parses);
    let prompt = PromptParts::of(body);
    assert!(prompt.parts().chain(prompt.salts()).all(|part| part.is_empty() || is_json(part)), "parts are cut whole");
    let model = peek.model(body).map(|model| model.into_owned());
    let spliced = peek.splice(body, &Changes { model: Some("another"), stream: true, include_usage: true });
    let again = RequestPeek::read(&spliced).expect("what was spliced can be read");
    assert_eq!(again.model(&spliced).as_deref(), Some("another"));
    assert!(again.include_usage);
    assert_eq!((again.stream, again.lengths), (Some(true), peek.lengths));
    // A tree cannot be made of half a surrogate pair or of a number beyond floats.
    let (Ok(before), Ok(after)) = (serde_json::from_slice::<Value>(body), serde_json::from_slice::<Value>(&spliced))
    else {
        return;
    };
    assert_eq!(before["model"].as_str().map(str::to_owned), model);
    let others = |tree: &Value| {
        let mut tree = tree.as_object().expect("an object").clone();
        tree.remove("model");
        tree.remove("stream");
        if let Some(options) = tree.get_mut("stream_options").and_then(Value::as_object_mut) {
            options.remove("include_usage");
        }
        let nothing = tree
            .get("stream_options")
            .is_none_or(|options| options.is_null() || options.as_object().is_some_and(serde_json::Map::is_empty));
        if nothing {
            tree.remove("stream_options");
        }
        tree
    };
    assert_eq!(others(&before), others(&after));
}

fn is_json(part: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(part).is_ok()
}
