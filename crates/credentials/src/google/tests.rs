//! Application Default Credentials of every kind against endpoints of this machine.

use super::*;
use crate::token_endpoint::{TokenEndpoint, answer, authorize};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What comes of a file with this text.
fn with_file(name: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let path = std::env::temp_dir().join(format!("tokrate-google-{name}-{}", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    let shown = path.display().to_string();
    let read = |name: &str| (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| shown.clone());
    let found = authorize(&*google(GoogleSettings::read(&read)));
    std::fs::remove_file(&path).expect("it is there");
    found
}

fn bearer(token: &str) -> Vec<(String, String)> {
    vec![("authorization".to_owned(), format!("Bearer {token}"))]
}

fn token_answer() -> Option<String> {
    answer("200 OK", r#"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#)
}

#[test]
fn a_service_account_signs_for_its_token_and_the_signature_is_good() {
    let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let der: Pkcs8V1Der<'_> = key.as_der().expect("PKCS #8");
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der.as_ref()));
    let endpoint = TokenEndpoint::start(|_| token_answer());
    let file = json!({
        "type": "service_account", "client_email": "a@p.iam.gserviceaccount.com", "private_key_id": "k1",
        "private_key": pem, "token_uri": format!("{}/token", endpoint.url()),
    });
    assert_eq!(with_file("service", &file.to_string()), Ok(bearer("ya29.x")));
    let asked = endpoint.asked().join("");
    let jwt = asked.rsplit("assertion=").next().expect("an assertion");
    let (signed, signature) = jwt.rsplit_once('.').expect("three parts");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    public.verify(signed.as_bytes(), &signature).expect("the account's own signature");
    let claims = signed.split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok()).expect("claims");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    assert_eq!((claims["iss"].as_str(), claims["scope"].as_str()), (Some("a@p.iam.gserviceaccount.com"), Some(SCOPE)));
}

#[test]
fn a_user_and_a_federated_workload_get_tokens() {
    let endpoint = TokenEndpoint::start(|_| token_answer());
    let user = json!({ "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
        "token_uri": endpoint.url() });
    assert_eq!(with_file("user", &user.to_string()), Ok(bearer("ya29.x")));
    assert!(endpoint.asked()[0].contains("grant_type=refresh_token&client_id=c&client_secret=s&refresh_token=r"));
    let endpoint = TokenEndpoint::start(|asked| match asked.split(' ').nth(1) {
        Some("/subject") => answer("200 OK", r#"{"value":"subject-token"}"#),
        Some("/exchange") => token_answer(),
        _ => answer("200 OK", r#"{"accessToken":"ya29.account","expireTime":"2099-01-01T00:00:00Z"}"#),
    });
    let workload = json!({
        "type": "external_account", "audience": "//iam/x", "subject_token_type": "urn:jwt",
        "token_url": format!("{}/exchange", endpoint.url()),
        "service_account_impersonation_url": format!("{}/account:generateAccessToken", endpoint.url()),
        "credential_source": {
            "url": format!("{}/subject", endpoint.url()), "headers": { "Metadata": "True" },
            "format": { "type": "json", "subject_token_field_name": "value" },
        },
    });
    assert_eq!(with_file("workload", &workload.to_string()), Ok(bearer("ya29.account")));
    let asked = endpoint.asked();
    assert!(asked[1].contains("subject_token=subject-token"), "{asked:?}");
    assert!(asked[2].to_lowercase().contains("authorization: bearer ya29.x"), "{asked:?}");
}

#[test]
fn a_file_that_is_none_or_sends_secrets_elsewhere_is_an_error_without_them() {
    let cases = [
        ("nojson", "sk-s3cret", "it is no JSON"),
        ("notype", r#"{"private_key":"s3cret"}"#, "it has no `type`"),
        ("other", r#"{"type":"gdch_service_account"}"#, "`gdch_service_account` is not supported"),
        (
            "clear",
            r#"{"type":"authorized_user","client_id":"c","client_secret":"s3cret","refresh_token":"r","token_uri":"http://192.0.2.1/"}"#,
            "`token_uri` is no https:// address",
        ),
        ("key", r#"{"type":"service_account","client_email":"a","private_key":"s3cret"}"#, "no RSA key in PEM"),
    ];
    for (name, text, expected) in cases {
        let error = with_file(name, text).expect_err(name);
        assert!(error.contains(expected) && !error.contains("s3cret"), "{name}: {error}");
        assert!(error.contains("GOOGLE_APPLICATION_CREDENTIALS"), "what to do: {error}");
    }
}

#[test]
fn a_machine_without_files_asks_its_metadata_service() {
    let endpoint = TokenEndpoint::start(|_| token_answer());
    let host = endpoint.url().trim_start_matches("http://").to_owned();
    let read = |name: &str| (name == "GCE_METADATA_HOST").then(|| host.clone());
    assert_eq!(authorize(&*google(GoogleSettings::read(&read))), Ok(bearer("ya29.x")));
    assert!(endpoint.asked()[0].to_lowercase().contains("metadata-flavor: google"), "{:?}", endpoint.asked());
}
