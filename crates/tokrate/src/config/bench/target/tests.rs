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

#[test]
fn the_socket_of_the_file_is_that_of_its_own_endpoint_only() {
    let file = "[bench]\nunix_socket = \"engine.sock\"\nmodel = \"m\"\nurl = \"http://localhost/v1\"\n";
    let file = File::parse(std::path::Path::new("t.toml"), file).expect("settings");
    let socket = |flags: flags::Target, environment: &Environment| {
        let found = targets(&flags, environment, &file).expect("one target").remove(0);
        found.target.remote().and_then(|remote| remote.unix_socket.clone())
    };
    let plain = Environment::default();
    assert_eq!(socket(flags::Target::default(), &plain), Some(PathBuf::from("engine.sock")));
    let typed = flags::Target { unix_socket: Some("typed.sock".into()), ..flags::Target::default() };
    assert_eq!(socket(typed, &plain), Some(PathBuf::from("typed.sock")));
    let elsewhere = || Some("http://127.0.0.1:9/v1".to_owned());
    assert_eq!(socket(flags::Target { url: elsewhere(), ..flags::Target::default() }, &plain), None);
    let named = flags::Target { targets: vec!["vllm/m".to_owned()], ..flags::Target::default() };
    assert_eq!(socket(named, &plain), None);
    assert_eq!(socket(flags::Target::default(), &Environment { url: elsewhere(), ..plain }), None);
}
