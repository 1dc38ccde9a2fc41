//! Rules of listeners: whom a request means, which page sent it, what its body is; and any bytes in place of a name.

use super::*;
use proptest::prelude::*;

const SETTINGS: AccessSettings =
    AccessSettings { host: "`hosts` under [gateway]", origin: Some("`origins` under [gateway]"), key: "a key" };

fn access(listens: &str, hosts: &[&str], origins: &[&str]) -> Access {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (hosts, origins) = (owned(hosts), owned(origins));
    let config = AccessConfig { hosts: &hosts, origins: &origins, requires_key: true, settings: &SETTINGS };
    Access::new(listens.parse().expect("an address"), &config)
}

fn decided(access: &Access, method: &str, uri: &str, headers: &[(&str, &str)], has_body: bool) -> Decision {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if has_body { RequestBody::some() } else { RequestBody::empty() };
    access.decide(&request.body(body).expect("a request"), || uri.starts_with("/form"))
}

/// The status of a refusal, or 0.
fn status(verdict: Decision) -> u16 {
    match verdict {
        Decision::Reject(status, _) => status.as_u16(),
        _ => 0,
    }
}

fn host(access: &Access, host: &str) -> u16 {
    status(decided(access, "GET", "/", &[("host", host)], false))
}

#[test]
fn only_the_addresses_listened_on_localhost_and_configured_names_are_meant() {
    let loopback = access("127.0.0.1:8411", &["gateway.example", "other.example:8443"], &[]);
    let ours =
        ["127.0.0.1:8411", "127.0.0.1", "127.0.0.1:80", "[::1]:8411", "localhost:8411", "LocalHost", "127.9.9.9"];
    for name in ours.into_iter().chain(["gateway.example", "GATEWAY.example:1", "other.example:8443"]) {
        assert_eq!(host(&loopback, name), 0, "{name}");
    }
    let foreign = [
        "evil.example",
        "evil.example:8411",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "other.example",
        "other.example:8444",
        "10.1.2.3:8411",
        "0.0.0.0:8411",
        "evil@127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:99999",
        "::1",
        "[::1",
        "[::1]x",
        "localhost.",
        "",
    ];
    for name in foreign {
        assert_eq!(host(&loopback, name), 421, "{name}");
    }
    let anywhere = access("0.0.0.0:8411", &[], &[]);
    assert_eq!(
        ["10.1.2.3:8411", "[fd00::1]", "localhost", "evil.example"].map(|name| host(&anywhere, name)),
        [0, 0, 0, 421]
    );
    let one = access("10.1.2.3:8411", &[], &[]);
    assert_eq!(["10.1.2.3", "10.1.2.4", "127.0.0.1", "localhost"].map(|name| host(&one, name)), [0, 421, 421, 421]);
    let mapped = access("[::ffff:10.1.2.3]:8411", &[], &[]);
    assert_eq!(host(&mapped, "10.1.2.3:8411"), 0);
}

#[test]
fn a_request_that_names_no_server_or_two_is_refused() {
    let access = access("127.0.0.1:8411", &[], &[]);
    let decided = |uri, hosts: &[&str]| {
        let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        status(decided(&access, "GET", uri, &headers, false))
    };
    assert_eq!(decided("/", &[]), 400);
    assert_eq!(decided("/", &["127.0.0.1", "127.0.0.1"]), 400);
    assert_eq!(decided("http://localhost/", &[]), 0, "HTTP/2 names it in the target");
    assert_eq!(decided("http://evil.example/", &["127.0.0.1"]), 421);
    assert_eq!(decided("http://localhost/", &["evil.example"]), 421);
}

#[test]
fn a_refusal_says_which_setting_to_add() {
    let access = access("127.0.0.1:8411", &[], &[]);
    let Decision::Reject(_, message) = decided(&access, "GET", "/", &[("host", "evil.example")], false) else {
        panic!("it was answered")
    };
    assert_eq!(
        message,
        "`evil.example` is not a name of this server: use an address that it listens on, or add the name with `hosts` under \
         [gateway]"
    );
}

#[test]
fn pages_of_other_sites_are_refused_and_links_are_not() {
    let access = access("127.0.0.1:8411", &[], &["https://app.example"]);
    let from = |method, headers: &[(&str, &str)]| {
        let headers: Vec<_> = [("host", "127.0.0.1:8411")].iter().chain(headers).copied().collect();
        decided(&access, method, "/", &headers, false)
    };
    let own = [("origin", "http://127.0.0.1:8411"), ("sec-fetch-site", "same-origin")];
    assert_eq!(from("POST", &own), Decision::Allow);
    assert_eq!(from("GET", &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]), Decision::Allow);
    for origin in
        ["http://127.0.0.1:9000", "http://localhost:8411", "http://evil.example", "null", "file://", "", "http://"]
    {
        assert_eq!(status(from("POST", &[("origin", origin)])), 403, "{origin}");
    }
    for site in ["cross-site", "same-site", "whatever"] {
        assert_eq!(status(from("POST", &[("sec-fetch-site", site)])), 403, "{site}");
        let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert_eq!(from("GET", &link), Decision::Allow, "{site}: a link");
        assert_eq!(status(from("POST", &link)), 403, "{site}: a form");
        let frame = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert_eq!(status(from("GET", &frame)), 403, "{site}: a frame");
    }
    assert_eq!(status(from("POST", &[own[0], ("sec-fetch-site", "cross-site")])), 403);
    assert_eq!(status(from("POST", &[own[0], own[0]])), 403, "two origins");
    let allowed = HeaderValue::from_static("https://app.example");
    let app = ("origin", "https://app.example");
    assert_eq!(from("POST", &[app, ("sec-fetch-site", "cross-site")]), Decision::AllowOrigin(allowed.clone()));
    assert_eq!(from("OPTIONS", &[app, ("access-control-request-method", "POST")]), Decision::Preflight(allowed));
    assert_eq!(
        status(from("OPTIONS", &[("origin", "http://evil.example"), ("access-control-request-method", "POST")])),
        403
    );
}

#[test]
fn the_page_of_a_proxy_in_front_is_our_own_at_the_schemes_usual_port() {
    let access = access("127.0.0.1:8411", &["gateway.example"], &[]);
    let from = |origin, host| status(decided(&access, "GET", "/", &[("host", host), ("origin", origin)], false));
    assert_eq!(from("https://gateway.example", "gateway.example"), 0);
    assert_eq!(from("https://gateway.example", "gateway.example:443"), 0);
    assert_eq!(from("http://gateway.example", "gateway.example:80"), 0);
    assert_eq!(from("https://gateway.example:8443", "gateway.example"), 403);
    assert_eq!(from("http://gateway.example", "gateway.example:443"), 403);
}

#[test]
fn a_body_is_json_or_refused() {
    let access = access("127.0.0.1:8411", &[], &[]);
    let with = |types: &[&str], has_body| {
        let types = types.iter().map(|value| ("content-type", *value));
        let headers: Vec<_> = [("host", "localhost")].into_iter().chain(types).collect();
        status(decided(&access, "POST", "/", &headers, has_body))
    };
    for good in
        ["application/json", "Application/JSON; charset=utf-8", "application/problem+json", "application/a+JSON ;x"]
    {
        assert_eq!(with(&[good], true), 0, "{good}");
    }
    let bad =
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/x+json", "application/+json"];
    for bad in bad.into_iter().chain(["", "application/jsonx", "application/", "json", "text/plain; application/json"])
    {
        assert_eq!(with(&[bad], true), 415, "{bad}");
    }
    assert_eq!(with(&[], true), 415, "a page can send what has no type");
    assert_eq!(with(&["application/json", "text/plain"], true), 415);
    assert_eq!(with(&["text/plain"], false), 0, "there is nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_the_name_is_only_ours_passes_and_nothing_panics(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            "[a-z0-9.:\\[\\]@/%\\-]{0,24}".prop_map(String::into_bytes),
            ("(127\\.0\\.0\\.1|localhost|\\[::1\\])", "[:0-9a-z.@\\]]{0,6}").prop_map(|(host, rest)| (host + &rest).into_bytes()),
        ],
        is_origin in any::<bool>(),
    ) {
        let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
        let mut request = Request::builder().method("POST").uri("/");
        request = match is_origin {
            true => request.header("host", "127.0.0.1:8411").header("origin", value),
            false => request.header("host", value),
        };
        let verdict = access("127.0.0.1:8411", &[], &[]).decide(&request.body(RequestBody::empty()).expect("a request"), || false);
        // What the standard library understands of the same bytes, by another way.
        let text = String::from_utf8(bytes).unwrap_or_default();
        let expected = if is_origin {
            let authority = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
            authority == Some("127.0.0.1:8411")
        } else {
            let (name, port) = match text.rsplit_once(':') {
                Some((name, port)) if !name.ends_with(':') && (!name.contains(':') || name.ends_with(']')) => (name, port),
                _ => (text.as_str(), "0"),
            };
            let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
            let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
            let is_loopback = match inner {
                Some(inner) => inner.parse::<Ipv6Addr>().is_ok_and(|address| IpAddr::V6(address).to_canonical().is_loopback()),
                None => name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
            };
            is_port && (is_loopback || name.eq_ignore_ascii_case("localhost"))
        };
        prop_assert_eq!(verdict == Decision::Allow, expected, "{:?}", verdict);
    }
}

#[test]
fn a_form_is_taken_where_the_handler_takes_one_and_from_no_foreign_page() {
    let access = access("127.0.0.1:8411", &[], &[]);
    let form = ("content-type", "multipart/form-data; boundary=x");
    let of = |uri: &str, more: &[(&str, &str)]| {
        let headers = [&[("host", "127.0.0.1:8411"), form][..], more].concat();
        decided(&access, "POST", uri, &headers, true)
    };
    assert_eq!(of("/form", &[]), Decision::Allow);
    assert!(matches!(of("/json", &[]), Decision::Reject(StatusCode::UNSUPPORTED_MEDIA_TYPE, _)));
    assert!(matches!(of("/form", &[("origin", "http://foreign.example")]), Decision::Reject(StatusCode::FORBIDDEN, _)));
    assert!(matches!(of("/form", &[("sec-fetch-site", "cross-site")]), Decision::Reject(StatusCode::FORBIDDEN, _)));
}
