//! What the catalog says is what the dialects know.

use super::*;

#[test]
fn every_dialect_of_the_catalog_is_spoken() {
    for row in PROVIDERS {
        for endpoint in row.endpoints {
            assert!(Dialect::from_name(endpoint.dialect).is_some(), "{}: {}", row.name, endpoint.dialect);
        }
    }
}

#[test]
fn every_base_and_header_of_the_catalog_can_be_used() {
    for row in PROVIDERS {
        for endpoint in row.endpoints {
            let base = row.variables.iter().fold(endpoint.base.to_owned(), |base, variable| {
                base.replace(&format!("{{{}}}", variable.name), "https://resource.example")
            });
            assert!(tokrate_net::Target::parse(&base).is_ok(), "{}: {base}", row.name);
            let names = endpoint.headers.iter().map(|(name, _)| *name);
            let key = match endpoint.auth {
                Auth::Header(name) => Some(name),
                Auth::Bearer | Auth::None => None,
            };
            for name in names.chain(key) {
                assert_eq!(HeaderName::from_static(name).as_str(), name, "{}", row.name);
            }
        }
    }
}

#[test]
fn the_usual_way_to_speak_a_dialect_is_that_of_its_maker() {
    let auth = |dialect| usual_endpoint(dialect).map(|endpoint| endpoint.auth);
    assert_eq!(auth(Dialect::OpenAiChat), Some(Auth::Bearer));
    assert_eq!(auth(Dialect::Anthropic), Some(Auth::Header("x-api-key")));
    assert_eq!(auth(Dialect::Gemini), Some(Auth::Header("x-goog-api-key")));
}
