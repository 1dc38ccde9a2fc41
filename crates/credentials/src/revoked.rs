//! Credentials that a provider has revoked before they expired: dropped, fetched anew once, and a bad key after that. Every part is on
//! loopback.

use crate::token_endpoint::{TokenEndpoint, answer};
use crate::{AwsSettings, AzureSettings, GoogleSettings, aws, azure, google};
use bytes::Bytes;
use http::{HeaderMap, Method};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokrate_core::Span;
use tokrate_net::{Authorizer, Client, ClientConfig, Clock, Limits, Outgoing, Route, Target};

/// A token endpoint that names its tokens by their number, in this form.
fn tokens(form: &'static str) -> TokenEndpoint {
    let number = AtomicU32::new(0);
    TokenEndpoint::start(move |_| {
        answer("200 OK", &form.replace("{n}", &number.fetch_add(1, Ordering::Relaxed).to_string()))
    })
}

/// A provider that takes a request only with the credential of that number, and else answers so.
fn provider(good: &'static str, refusal: &'static str) -> TokenEndpoint {
    TokenEndpoint::start(move |asked| {
        if asked.contains(good) { answer("200 OK", r#"{"good":true}"#) } else { Some(refusal.to_owned()) }
    })
}

/// The statuses of this many requests, one after the other, and how often the provider was asked.
fn ask(authorizer: Authorizer, provider: &TokenEndpoint, requests: usize) -> (Vec<u16>, usize) {
    let target = Target::parse(provider.url()).expect("a URL");
    let (config, clock) = (ClientConfig { reuse: false, ..ClientConfig::default() }, Clock::monotonic());
    let route = Route::resolve_blocking(&target, &config, clock).expect("loopback");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let limits = Limits { idle: Span::from_secs(20), total: Span::from_secs(20), max_body_bytes: 1 << 20 };
    let statuses = tokio::task::LocalSet::new().block_on(&runtime, async {
        let client = Client::new(config, route, clock).expect("a client").authorized_by(Some(authorizer));
        let mut statuses = Vec::new();
        for _ in 0..requests {
            let body = Bytes::from_static(b"{}");
            let outgoing = Outgoing { method: Method::POST, path: "/v1/x".to_owned(), headers: HeaderMap::new(), body };
            let answer = client.whole(outgoing, limits).await.expect("an answer");
            // What was refused first is not seen.
            let is_good = answer.body == br#"{"good":true}"#;
            assert_eq!(is_good, answer.head.status.is_success(), "{}", String::from_utf8_lossy(&answer.body));
            statuses.push(answer.head.status.as_u16());
        }
        statuses
    });
    (statuses, provider.asked().len())
}

const UNAUTHORIZED: &str =
    "HTTP/1.1 401 Unauthorized\r\ncontent-length: 16\r\ncontent-type: application/json\r\n\r\n{\"error\":\"revo\"}";

fn entra(endpoint: &TokenEndpoint) -> Authorizer {
    let url = endpoint.url().to_owned();
    azure(AzureSettings::read(&move |name| (name == "AZURE_POD_IDENTITY_AUTHORITY_HOST").then(|| url.clone())))
}

fn vertex(endpoint: &TokenEndpoint) -> Authorizer {
    let host = endpoint.url().trim_start_matches("http://").to_owned();
    google(GoogleSettings::read(&move |name| (name == "GCE_METADATA_HOST").then(|| host.clone())))
}

const BEARERS: &str = r#"{"access_token":"token-{n}.","expires_in":"3599"}"#;

#[test]
fn a_token_that_was_revoked_is_fetched_anew_and_the_request_sent_once_more() {
    for made in [entra, vertex] {
        let endpoint = tokens(BEARERS);
        let provider = provider("Bearer token-1.", UNAUTHORIZED);
        assert_eq!(ask(made(&endpoint), &provider, 3), (vec![200; 3], 4), "the first is sent twice");
        assert_eq!(endpoint.asked().len(), 2);
    }
}

#[test]
fn a_token_that_is_refused_again_is_a_bad_key_and_no_more_are_asked_for() {
    for made in [entra, vertex] {
        let endpoint = tokens(BEARERS);
        let provider = provider("Bearer token-9.", UNAUTHORIZED);
        assert_eq!(ask(made(&endpoint), &provider, 3), (vec![401; 3], 4));
        assert_eq!(endpoint.asked().len(), 2, "one in place of the first, and none after that");
    }
}

#[test]
fn keys_of_a_session_that_aws_does_not_know_any_more_are_fetched_anew() {
    const KEYS: &str =
        r#"{"AccessKeyId":"AK{n}X","SecretAccessKey":"s3cret","Token":"t","Expiration":"2099-01-01T00:00:00Z"}"#;
    const EXPIRED: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nx-amzn-errortype: ExpiredTokenException:http://internal.amazon.com/x/\r\n\r\n{}";
    const DENIED: &str =
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nx-amzn-errortype: AccessDeniedException\r\n\r\n{}";
    let made = |endpoint: &TokenEndpoint| {
        let url = format!("{}/keys", endpoint.url());
        let read = move |name: &str| match name {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" => Some(url.clone()),
            "AWS_EC2_METADATA_DISABLED" => Some("true".to_owned()),
            _ => None,
        };
        aws(AwsSettings::read(&read))
    };
    let endpoint = tokens(KEYS);
    assert_eq!(ask(made(&endpoint), &provider("Credential=AK1X", EXPIRED), 2), (vec![200; 2], 3));
    assert_eq!(endpoint.asked().len(), 2);
    // What keys may not do, others of the same source may not either.
    let endpoint = tokens(KEYS);
    assert_eq!(ask(made(&endpoint), &provider("Credential=AK1X", DENIED), 2), (vec![403; 2], 2));
    assert_eq!(endpoint.asked().len(), 1);
}

#[test]
fn requests_under_way_with_a_revoked_token_fetch_one_token_together() {
    let endpoint = tokens(BEARERS);
    let authorizer = entra(&endpoint);
    let provider = provider("Bearer token-1.", UNAUTHORIZED);
    let all = Arc::new(Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (statuses, _) = ask(authorizer.clone(), &provider, 1);
                all.lock().expect("no panic").extend(statuses);
            });
        }
    });
    assert_eq!(*all.lock().expect("no panic"), [200; 4]);
    assert_eq!(endpoint.asked().len(), 2);
}
