//! What the catalog says is what the dialects know, and the same words give the same endpoint.

use super::*;
use tokrate_catalog::{Auth, PROVIDERS};

const NOTHING_SET: Variables<'static> = &|_| None;

fn catalog<'a>(typed: &'a str, url: Option<&str>) -> TargetSettings<'a> {
    let name = TargetName::parse(typed).expect("a target");
    let url = url.map(|url| parse_url(url).expect("a URL"));
    let source = TargetSource::Catalog { name, endpoints: name.row.endpoints.iter().collect(), url };
    TargetSettings { source, model: None, key: None, headers: Vec::new() }
}

fn address(url: &str, dialect: Option<Dialect>) -> TargetSettings<'static> {
    let source = TargetSource::Address { url: parse_url(url).expect("a URL"), dialect };
    TargetSettings { source, model: Some("m".to_owned()), key: None, headers: Vec::new() }
}

fn bases(target: &ResolvedTarget) -> Vec<String> {
    target.endpoints.iter().map(|endpoint| format!("{} {}", endpoint.dialect.name(), endpoint.base)).collect()
}

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
            // A variable at the start holds an address, one elsewhere a part of it.
            let base = row.variables.iter().fold(endpoint.base.to_owned(), |base, variable| {
                let value = if base.starts_with('{') { "https://resource.example" } else { "part" };
                base.replace(&format!("{{{}}}", variable.name), value)
            });
            let base = base.replace(MODEL, "m");
            assert!(Target::parse(&base).is_ok(), "{}: {base}", row.name);
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
    let usual_auth = headers::usual_auth;
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
fn an_engine_may_stand_elsewhere() {
    let base_of = |typed: &str, dialect| {
        let name = TargetName::parse(typed).expect("a target");
        let place = Place { name: &name, model: None, url: None };
        catalog_base(&place, name.row.endpoint(dialect).expect("it is spoken"), NOTHING_SET).expect("a base")
    };
    assert_eq!(base_of("vllm@gpu-1:8001/m", None), "http://gpu-1:8001/v1");
    assert_eq!(base_of("ollama@gpu-1:1/m", None), "http://gpu-1:1");
    assert_eq!(base_of("ollama/m@gpu-1:1", Some("openai-chat")), "http://gpu-1:1/v1");
}

#[test]
fn a_hosted_provider_needs_its_key_at_its_own_address_only() {
    let own = catalog("groq/m", None).resolve(NOTHING_SET).expect_err("no key").to_string();
    assert!(own.contains("variable GROQ_API_KEY is not set"), "{own}");
    let elsewhere = catalog("groq/m", Some("http://127.0.0.1:9/v1")).resolve(NOTHING_SET).expect("no key is needed");
    assert!(elsewhere.key.is_none() && elsewhere.endpoints.iter().all(|endpoint| endpoint.headers.is_empty()));
    let set = |name: &str| (name == "GROQ_API_KEY").then(|| "sk-1".to_owned());
    let found = catalog("groq/m", None).resolve(&set).expect("a key");
    let origin = found.key.expect("the provider's own").origin().clone();
    assert_eq!(origin, KeyReference::Variable("GROQ_API_KEY".to_owned()));
    assert_eq!(found.endpoints[0].headers["authorization"], "Bearer sk-1");
    assert_eq!((found.model.as_deref(), found.row.map(|row| row.name)), (Some("m"), Some("groq")));
}

#[test]
fn the_whole_address_of_an_api_names_its_dialect() {
    let resolved = |url: &str, dialect| address(url, dialect).resolve(NOTHING_SET);
    let found = |url: &str, dialect| bases(&resolved(url, dialect).expect("an endpoint"));
    assert_eq!(found("http://h/v1", None), ["openai-chat http://h/v1"]);
    assert_eq!(found("http://h/v1/messages", None), ["anthropic http://h/v1"]);
    assert_eq!(found("http://h/v1", Some(Dialect::Anthropic)), ["anthropic http://h/v1"]);
    let refused = resolved("http://h/v1/messages", Some(Dialect::OpenAiChat)).expect_err("two dialects").to_string();
    assert!(refused.contains("ends in the path of anthropic, and the dialect is to be openai-chat"), "{refused}");
    let elsewhere = catalog("vllm/m", Some("http://h/v1/chat/completions")).resolve(NOTHING_SET).expect("an engine");
    assert_eq!(bases(&elsewhere)[0], "openai-chat http://h/v1");
}

#[test]
fn a_deployment_of_azure_is_part_of_the_address_and_its_version_of_every_request() {
    let set = |name: &str| match name {
        "AZURE_OPENAI_ENDPOINT" => Some("https://r.openai.azure.com/".to_owned()),
        "AZURE_OPENAI_API_KEY" => Some("k-1".to_owned()),
        _ => None,
    };
    let found = catalog("azure-deployments/my gpt", None).resolve(&set).expect("an endpoint");
    let Endpoint { base, headers, authorizer, .. } = &found.endpoints[0];
    let path = base.path_with("/chat/completions");
    assert_eq!(path, "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21");
    assert_eq!((headers["api-key"].to_str().ok(), authorizer.is_none()), (Some("k-1"), true));
    assert_eq!(base.to_string(), "https://r.openai.azure.com/openai/deployments/my%20gpt?api-version=2024-10-21");
    let error = catalog("azure-deployments", None).resolve(&set).expect_err("no model").to_string();
    assert!(error.contains("write azure-deployments/MODEL"), "{error}");
}

#[test]
fn credentials_of_the_environment_stand_in_for_a_key_and_leave_over_tls_only() {
    let set = |name: &str| match name {
        "AZURE_OPENAI_ENDPOINT" => Some("https://r.openai.azure.com".to_owned()),
        "AZURE_CLIENT_SECRET" => Some("s3cret".to_owned()),
        _ => None,
    };
    let found = catalog("azure/m", None).resolve(&set).expect("an endpoint");
    assert!(found.endpoints.iter().all(|endpoint| endpoint.authorizer.is_some() && endpoint.headers.is_empty()));
    assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
    let clear = |name: &str| (name == "AZURE_OPENAI_ENDPOINT").then(|| "http://r.openai.azure.com".to_owned());
    let found = catalog("azure/m", None).resolve(&clear).expect("an endpoint");
    assert!(found.endpoints.iter().all(|endpoint| endpoint.authorizer.is_none()));
    let known =
        |url: &str| address(url, None).resolve(NOTHING_SET).expect("an endpoint").endpoints[0].authorizer.is_some();
    assert!(known("https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"));
    assert!(known("https://europe-west1-aiplatform.googleapis.com/v1"));
    for other in
        ["http://bedrock-runtime.us-east-1.amazonaws.com", "https://amazonaws.com.evil.example", "https://api.groq.com"]
    {
        assert!(!known(other), "{other}");
    }
}

#[test]
fn anthropic_on_bedrock_is_invoked_with_its_betas_and_answers_in_anthropics_form() {
    let set = |name: &str| match name {
        "AWS_REGION" => Some("eu-west-1".to_owned()),
        "AWS_BEARER_TOKEN_BEDROCK" => Some("bedrock-key".to_owned()),
        _ => None,
    };
    let found = catalog("bedrock-anthropic/eu.anthropic.claude-x-v1:0", None).resolve(&set).expect("an endpoint");
    let endpoint = &found.endpoints[0];
    assert_eq!(endpoint.headers["authorization"], "Bearer bedrock-key");
    let path = endpoint.base.path_with("/messages");
    let client = tokrate_net::ClientConfig::default();
    let headers = HeaderMap::from_iter([(HeaderName::from_static("anthropic-beta"), HeaderValue::from_static("a-1"))]);
    let request = tokrate_net::Unauthorized {
        method: &http::Method::POST,
        host: endpoint.base.host(),
        path: &path,
        headers: &headers,
        body: br#"{"model":"eu.anthropic.claude-x-v1:0","stream":true}"#,
        client: &client,
        clock: tokrate_net::Clock::monotonic(),
    };
    let authorizer = endpoint.authorizer.as_ref().expect("it rewrites");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let authorization = runtime.block_on(authorizer.authorize(request)).expect("it has a key");
    let (path, body) = authorization.rewritten.expect("both");
    assert_eq!(path, "/model/eu.anthropic.claude-x-v1%3A0/invoke-with-response-stream");
    assert_eq!(&body[..], br#"{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["a-1"]}"#);
    let mut answer = authorization.answer.expect("streams are binary there")();
    let binary = HeaderValue::from_static("application/vnd.amazon.eventstream");
    let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, binary)]);
    let mut head = tokrate_net::Head { status: http::StatusCode::OK, version: http::Version::HTTP_11, headers };
    answer.head(&mut head);
    assert_eq!(head.headers["content-type"], "text/event-stream");
}

#[test]
fn anthropic_on_vertex_is_sent_to_its_own_path_with_a_token() {
    let set = |name: &str| match name {
        "GOOGLE_CLOUD_PROJECT" => Some("p".to_owned()),
        "CLOUDSDK_AUTH_ACCESS_TOKEN" => Some("ya29.x".to_owned()),
        _ => None,
    };
    let found = catalog("vertex-anthropic/claude-x@1", None).resolve(&set).expect("an endpoint");
    let endpoint = &found.endpoints[0];
    assert_eq!(endpoint.headers["authorization"], "Bearer ya29.x");
    let path = endpoint.base.path_with("/messages");
    let (client, headers) = (tokrate_net::ClientConfig::default(), HeaderMap::new());
    let request = tokrate_net::Unauthorized {
        method: &http::Method::POST,
        host: endpoint.base.host(),
        path: &path,
        headers: &headers,
        body: br#"{"model":"claude-x@1","stream":true}"#,
        client: &client,
        clock: tokrate_net::Clock::monotonic(),
    };
    let authorizer = endpoint.authorizer.as_ref().expect("it rewrites");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (path, body) =
        runtime.block_on(authorizer.authorize(request)).expect("it has a token").rewritten.expect("both");
    let expected = "/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-x@1:streamRawPredict";
    assert_eq!(
        (path.as_str(), &body[..]),
        (expected, &br#"{"anthropic_version":"vertex-2023-10-16","stream":true}"#[..])
    );
}
