//! Signatures against those of AWS's own test suite, and of botocore.

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn keys(session_token: Option<&str>) -> AwsKeys {
    AwsKeys { id: "AKIDEXAMPLE".to_owned(), secret: SECRET.to_owned(), session_token: session_token.map(str::to_owned) }
}

fn signature(keys: &AwsKeys, request: &Unsigned<'_>) -> String {
    let headers = sign(keys, request).expect("headers");
    let text = headers[AUTHORIZATION].to_str().expect("text");
    text.rsplit_once("Signature=").expect("a signature").1.to_owned()
}

/// The cases of AWS's suite (as botocore 1.44.8 has it) that sign no header of the client's own.
#[test]
fn signatures_are_those_of_the_official_suite() {
    let form = Some("application/x-www-form-urlencoded");
    let letters = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let (plain, query) = (format!("/{letters}"), format!("/?{letters}={letters}"));
    let cases: [(&str, &str, Option<&str>, &str, &str); 10] = [
        ("GET", "/", None, "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "GET",
            "/?Param1=value2&Param1=Value1",
            None,
            "",
            "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1",
        ),
        (
            "GET",
            "/?Param1=value2&Param1=value1",
            None,
            "",
            "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
        ),
        ("GET", &plain, None, "", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"),
        ("GET", "/ሴ", None, "", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
        ("GET", "/?Param1=value1", None, "", "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"),
        ("GET", &query, None, "", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"),
        ("POST", "/", None, "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ("POST", "/?Param1=value1", None, "", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"),
        ("POST", "/", form, "Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
    ];
    for (method, path, content_type, body, expected) in cases {
        let request = Unsigned {
            method,
            host: "example.amazonaws.com",
            path,
            content_type,
            body: body.as_bytes(),
            at_seconds: 1_440_938_160,
            region: "us-east-1",
            service: "service",
        };
        assert_eq!(signature(&keys(None), &request), expected, "{method} {path}");
    }
}

/// A path of Bedrock holds `%3A`, which is encoded again. Expected: botocore 1.43.11 at the same instant.
#[test]
fn a_path_of_bedrock_is_encoded_twice_and_a_session_token_is_signed() {
    let request = Unsigned {
        method: "POST",
        host: "bedrock-runtime.eu-west-1.amazonaws.com",
        path: "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse-stream",
        content_type: Some("application/json"),
        body: br#"{"messages":[]}"#,
        at_seconds: 1_795_663_203,
        region: "eu-west-1",
        service: "bedrock",
    };
    let expected = "13e7538429a55deeb4c98d029cc4696d415731338f5742dfaed44d4a2568e160";
    assert_eq!(signature(&keys(None), &request), expected);
    let expected = "2090b8f535d96990af13d43493782e0dc28cf0b214f50d97d139d3141e38d523";
    assert_eq!(signature(&keys(Some("SESSION+TOKEN/==")), &request), expected);
}

#[test]
fn keys_and_what_is_sent_of_them_never_print() {
    let keys = keys(Some("SESSION+TOKEN/=="));
    let request = Unsigned {
        method: "POST",
        host: "h",
        path: "/",
        content_type: None,
        body: b"",
        at_seconds: 0,
        region: "r",
        service: "s",
    };
    let printed = format!("{keys:?} {:?}", sign(&keys, &request).expect("headers"));
    assert!(!printed.contains("SESSION") && !printed.contains("wJalr") && !printed.contains("AKID"), "{printed}");
}
