//! Tests of the table, its paths and forms.

use super::*;
use http::Method;
use proptest::prelude::*;

fn found(method: &Method, path: &str) -> Option<ApiRoute> {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    match ApiRoute::of(method, path, query) {
        ApiMatch::Found(route) => Some(route),
        ApiMatch::WrongMethod | ApiMatch::Unknown => None,
    }
}

#[test]
fn a_method_and_a_path_find_their_row_and_become_the_path_of_a_lane() {
    for (method, path, service, upstream) in [
        (Method::POST, "/v1/embeddings", "embeddings", "/embeddings"),
        (Method::POST, "/embeddings", "embeddings", "/embeddings"),
        (Method::POST, "/v2/rerank", "rerank", "/rerank"),
        (Method::POST, "/v1/messages/count_tokens", "count_tokens", "/messages/count_tokens"),
        (Method::POST, "/v1beta/models/all:countTokens", "count_tokens", "/models/other:countTokens"),
        (Method::POST, "/v1beta/models/a/b:embedContent?key=secret", "embeddings", "/models/other:embedContent"),
        (Method::POST, "/api/embed", "embeddings", "/api/embed"),
        (Method::POST, "/model/a.b-v1%3A0/invoke", "invoke", "/model/other/invoke"),
        (Method::POST, "/model/x/invoke-with-response-stream", "invoke", "/model/other/invoke-with-response-stream"),
        (Method::GET, "/v1/files?limit=2&key=secret&after=file-1", "files", "/files?limit=2&after=file-1"),
        (Method::GET, "/v1/files/file-1_a/content", "files", "/files/file-1_a/content"),
        (Method::HEAD, "/v1/files/file-1", "files", "/files/file-1"),
        (Method::DELETE, "/v1/files/file-1", "files", "/files/file-1"),
        (Method::POST, "/v1/batches/batch_1/cancel", "batches", "/batches/batch_1/cancel"),
        (Method::POST, "/v1/audio/speech", "speech", "/audio/speech"),
    ] {
        let route = found(&method, path).unwrap_or_else(|| panic!("{method} {path}"));
        assert_eq!(
            (route.api.service, route.upstream_path("other", Dialect::OpenAiChat).as_str()),
            (service, upstream),
            "{method} {path}"
        );
    }
    for (method, path) in [
        (Method::GET, "/v1/files/../models"),
        (Method::GET, "/v1/files/a%2fb"),
        (Method::GET, "/v1/files/"),
        (Method::GET, "/v1/files/a/b"),
        (Method::GET, "/v3/files"),
        (Method::POST, "/v1beta/models/:countTokens"),
        (Method::GET, "/v1/files/file-1?limit=\"><"),
    ] {
        assert!(
            found(&method, path).is_none_or(|route| route.upstream_path("m", Dialect::OpenAiChat) == "/files/file-1"),
            "{method} {path}"
        );
    }
    for (path, upstream) in [("/v2/rerank", "/v2/rerank"), ("/v2/embed", "/v2/embed"), ("/v1/rerank", "/v2/rerank")] {
        let route = found(&Method::POST, path).expect("a path of Cohere");
        assert!(route.api.is_of(Dialect::CohereChat), "{path}");
        assert_eq!(route.upstream_path("m", Dialect::CohereChat), upstream, "{path}");
    }
    let bedrock = found(&Method::POST, "/model/a.b-v1%3A0/invoke").expect("a path of Bedrock");
    assert_eq!(
        (bedrock.model.as_deref(), bedrock.upstream_path("c:0", Dialect::BedrockConverse).as_str()),
        (Some("a.b-v1:0"), "/model/c%3A0/invoke")
    );
    assert!(matches!(ApiRoute::of(&Method::DELETE, "/v1/batches/b", None), ApiMatch::WrongMethod));
    assert!(matches!(ApiRoute::of(&Method::GET, "/v1/nothing", None), ApiMatch::Unknown));
}

#[test]
fn what_is_not_asked_twice_is_marked_so() {
    for api in APIS.iter().filter(|api| api.may_repeat) {
        assert!(!api.creates && api.meter != Meter::Fee, "{api:?}");
    }
    assert!(services().contains(&"files") && service("nothing").is_none());
}

const TYPE: &[u8] = b"multipart/form-data; boundary=\"xy z\"";

fn form(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in parts {
        body.extend_from_slice(
            format!("--xy z\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").as_bytes(),
        );
    }
    body.extend_from_slice(b"--xy z--\r\n");
    body
}

#[test]
fn the_model_of_a_form_is_found_and_replaced_and_nothing_else_changes() {
    let body = form(&[("file", "\r\n--xy\r\n\r\nmodel\0\u{ff}"), ("model", "all"), ("stream", "true")]);
    let read = Form::read(TYPE, &body).expect("a form");
    assert_eq!((read.model(&body), read.stream), (Some("all"), true));
    let other = form(&[("file", "\r\n--xy\r\n\r\nmodel\0\u{ff}"), ("model", "whisper-1"), ("stream", "true")]);
    assert_eq!(read.with_model(&body, "whisper-1"), other);
    let none = form(&[("file", "x")]);
    let read = Form::read(TYPE, &none).expect("a form");
    assert_eq!((read.model(&none), read.with_model(&none, "m")), (None, none.clone()));
    for (body, why) in [
        (form(&[("model", "a"), ("model", "b")]), "twice"),
        (form(&[("Model", "a")]), "other letters"),
        (b"--xy z\r\nno head".to_vec(), "no head"),
        (b"--xy z\r\n\r\n\r\nopen".to_vec(), "no end"),
        (b"preamble\r\n--xy z--".to_vec(), "does not begin"),
    ] {
        let refused = Form::read(TYPE, &body).expect_err(why);
        assert!(refused.contains(why), "{refused}");
    }
    assert!(Form::read(b"multipart/form-data", &body).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_of_forms_panic_and_what_it_cuts_is_within_them(
        body in proptest::collection::vec(prop::sample::select(b"-xy z\r\n:;=\"model".to_vec()), 0..200),
        lead in any::<bool>(),
    ) {
        let body = if lead { [b"--xy z", body.as_slice()].concat() } else { body };
        if let Ok(read) = Form::read(TYPE, &body) {
            let _ = read.model(&body);
            prop_assert!(read.with_model(&body, "").len() <= body.len());
        }
    }
}
