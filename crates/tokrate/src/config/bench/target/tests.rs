//! What the catalog says is what the dialects know.

use super::*;
use tokrate_catalog::PROVIDERS;

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
    assert_eq!(usual_auth(Dialect::OpenAiChat), Auth::Bearer);
    assert_eq!(usual_auth(Dialect::Anthropic), Auth::Header("x-api-key"));
    assert_eq!(usual_auth(Dialect::Gemini), Auth::Header("x-goog-api-key"));
    // The catalog's row of the maker, of which the dialect's folder in `wire` knows nothing, says the same.
    for (dialect, maker) in
        [(Dialect::OpenAiChat, "openai"), (Dialect::Anthropic, "anthropic"), (Dialect::Gemini, "gemini")]
    {
        let row = PROVIDERS.iter().find(|row| row.name == maker).expect("a row of the maker");
        let endpoint = row.endpoint(Some(dialect.name())).expect("an endpoint of the dialect");
        assert_eq!(endpoint.auth, usual_auth(dialect), "{maker}");
        assert_eq!(endpoint.headers, dialect.required_header().as_slice(), "{maker}");
    }
}
