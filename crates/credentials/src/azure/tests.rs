//! Entra's tokens of every kind against endpoints of this machine.

use super::*;
use crate::token_endpoint::{TokenEndpoint, answer, authorize};

fn with(variables: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    let read = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    authorize(&*azure(AzureSettings::read(&read)))
}

fn token_answer() -> Option<String> {
    // The managed identity writes the number in quotes.
    answer("200 OK", r#"{"access_token":"eyJ0.x","expires_in":"3599"}"#)
}

fn bearer() -> Result<Vec<(String, String)>, String> {
    Ok(vec![("authorization".to_owned(), "Bearer eyJ0.x".to_owned())])
}

#[test]
fn a_secret_a_federated_token_and_a_managed_identity_get_tokens() {
    let endpoint = TokenEndpoint::start(|_| token_answer());
    let own = [("AZURE_TENANT_ID", "t-1"), ("AZURE_CLIENT_ID", "c-1"), ("AZURE_AUTHORITY_HOST", endpoint.url())];
    assert_eq!(with(&[own.as_slice(), &[("AZURE_CLIENT_SECRET", "s&1")]].concat()), bearer());
    let asked = endpoint.asked().join("");
    assert!(asked.starts_with("POST /t-1/oauth2/v2.0/token "), "{asked}");
    assert!(
        asked.contains("client_secret=s%261") && asked.contains("cognitiveservices.azure.com%2F.default"),
        "{asked}"
    );
    let path = std::env::temp_dir().join(format!("tokrate-azure-{}", std::process::id()));
    std::fs::write(&path, "federated\n").expect("a file");
    let file = path.display().to_string();
    assert_eq!(with(&[own.as_slice(), &[("AZURE_FEDERATED_TOKEN_FILE", &file)]].concat()), bearer());
    std::fs::remove_file(&path).expect("it is there");
    assert!(endpoint.asked()[1].contains("client_assertion=federated"), "{:?}", endpoint.asked());
    let url = format!("{}/msi/token", endpoint.url());
    assert_eq!(with(&[("IDENTITY_ENDPOINT", &url), ("IDENTITY_HEADER", "h-1")]), bearer());
    assert!(endpoint.asked()[2].to_lowercase().contains("x-identity-header: h-1"), "{:?}", endpoint.asked());
    assert_eq!(with(&[("AZURE_POD_IDENTITY_AUTHORITY_HOST", endpoint.url())]), bearer());
    assert!(endpoint.asked()[3].starts_with("GET /metadata/identity/oauth2/token?"), "{:?}", endpoint.asked());
}

#[test]
fn a_refusal_is_told_in_entras_words_and_without_the_secret() {
    let refused = r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided.\r\nTrace ID: 1"}"#;
    let endpoint = TokenEndpoint::start(move |asked| match asked.starts_with("POST") {
        true => answer("401 Unauthorized", refused),
        false => answer("200 OK", "<html>log in, s3cret</html>"),
    });
    let error = with(&[
        ("AZURE_TENANT_ID", "t"),
        ("AZURE_CLIENT_ID", "c"),
        ("AZURE_CLIENT_SECRET", "s3cret"),
        ("AZURE_AUTHORITY_HOST", endpoint.url()),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", endpoint.url()),
    ]);
    let error = error.expect_err("refused");
    assert!(error.contains("401: invalid_client: AADSTS7000215: Invalid client secret provided."), "{error}");
    assert!(error.contains("the managed identity: ") && error.contains("did not answer with JSON"), "{error}");
    assert!(error.contains("AZURE_FEDERATED_TOKEN_FILE is not set") && !error.contains("s3cret"), "{error}");
}

#[test]
fn an_endpoint_that_fails_is_told_apart_from_one_that_refuses() {
    let of = |status: &'static str| {
        let endpoint = TokenEndpoint::start(move |_| answer(status, "{}"));
        let set = [
            ("AZURE_TENANT_ID", "t"),
            ("AZURE_CLIENT_ID", "c"),
            ("AZURE_CLIENT_SECRET", "s3cret"),
            ("AZURE_AUTHORITY_HOST", endpoint.url()),
            ("AZURE_POD_IDENTITY_AUTHORITY_HOST", endpoint.url()),
        ];
        with(&set).expect_err("no token").ends_with("(temporary)")
    };
    assert_eq!(["503 Service Unavailable", "429 Too Many Requests", "401 Unauthorized"].map(of), [true, true, false]);
}

#[test]
fn an_endpoint_that_never_answers_is_given_up_and_a_secret_is_sent_over_tls_only() {
    let endpoint = TokenEndpoint::start(|_| None);
    let hung = with(&[("AZURE_POD_IDENTITY_AUTHORITY_HOST", endpoint.url())]).expect_err("it hangs");
    assert!(hung.contains("could not be asked"), "{hung}");
    let clear = with(&[
        ("AZURE_TENANT_ID", "t"),
        ("AZURE_CLIENT_ID", "c"),
        ("AZURE_CLIENT_SECRET", "s3cret"),
        ("AZURE_AUTHORITY_HOST", "http://192.0.2.1"),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", endpoint.url()),
    ]);
    assert!(clear.expect_err("clear").contains("AZURE_AUTHORITY_HOST is no https:// address"));
}
