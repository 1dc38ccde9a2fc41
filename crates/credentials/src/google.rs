//! Tokens of Google Cloud for Vertex AI: Application Default Credentials.
//!
//! The order is Google's: the file that GOOGLE_APPLICATION_CREDENTIALS names, that of `gcloud auth application-default login`, the metadata
//! service of the machine.

use crate::Variables;
use crate::bearer::{BearerAuthorizer, Chain, Token, TokenSource, of_answer};
use crate::cached::Fetched;
use crate::files;
use crate::reach::{Ask, Reach, is_safe, text};
use crate::text::{base64url, lifetime_until};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_net::Authorize;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const EXCHANGE_URL: &str = "https://sts.googleapis.com/v1/token";
/// How long a signed assertion may be used; Google allows an hour at most (s).
const ASSERTION_SECONDS: u64 = 3600;
/// A machine whose clock is a little ahead would sign from the future (s).
const SKEW_SECONDS: u64 = 10;

/// What the environment says of where the credentials are.
#[derive(Clone, Debug, Default)]
pub struct GoogleSettings {
    named: Option<PathBuf>,
    usual: Option<PathBuf>,
    /// Host and port of the metadata service.
    metadata: String,
}

impl GoogleSettings {
    /// Reads the variables that Google's libraries read.
    pub fn read(variables: Variables<'_>) -> GoogleSettings {
        let folder = variables("CLOUDSDK_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(variables("HOME")?).join(".config/gcloud")));
        GoogleSettings {
            named: variables("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
            usual: folder.map(|folder| folder.join("application_default_credentials.json")),
            metadata: variables("GCE_METADATA_HOST").unwrap_or_else(|| "169.254.169.254".to_owned()),
        }
    }
}

/// What authorises requests to Vertex AI.
pub fn google(settings: GoogleSettings) -> Arc<dyn Authorize> {
    let sources = match settings.named {
        // Whoever names a file means that and no other.
        Some(path) => vec![Place::File(path)],
        None => settings.usual.into_iter().map(Place::File).chain([Place::Metadata(settings.metadata)]).collect(),
    };
    let hint = "set GOOGLE_APPLICATION_CREDENTIALS to a key of a service account, or run `gcloud auth application-default login`";
    BearerAuthorizer::shared("Google Cloud", Chain { of: "Google Cloud", hint, sources })
}

enum Place {
    File(PathBuf),
    Metadata(String),
}

impl TokenSource for Place {
    fn name(&self) -> String {
        match self {
            Place::File(path) => format!("the file {}", path.display()),
            Place::Metadata(host) => format!("the metadata service at {host}"),
        }
    }

    fn token(&self, reach: &Reach) -> Result<Fetched<Token>, String> {
        match self {
            Place::File(path) => of_file(path, reach),
            Place::Metadata(host) => {
                let url = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
                of_answer(&reach.ask_json(Ask::get(&url).near().header("metadata-flavor", "Google"))?)
            }
        }
    }
}

fn of_file(path: &Path, reach: &Reach) -> Result<Fetched<Token>, String> {
    let Some(text_of_file) = files::read(path)? else { return Err("it is not there".to_owned()) };
    let file: Value = serde_json::from_str(&text_of_file).map_err(|_| "it is no JSON")?;
    match text(&file, "type") {
        Some("service_account") => of_service_account(&file, reach),
        Some("authorized_user") => of_user(&file, reach),
        Some("external_account") => of_workload(&file, reach),
        Some(other) => Err(format!("its type `{}` is not supported", tokrate_core::one_line(other, 40))),
        None => Err("it has no `type`".to_owned()),
    }
}

fn field<'v>(file: &'v Value, name: &'static str) -> Result<&'v str, String> {
    text(file, name).ok_or_else(|| format!("it has no `{name}`"))
}

/// The address in a file, which may have been written by anybody: over TLS only.
fn url<'v>(file: &'v Value, name: &'static str, usual: &'static str) -> Result<&'v str, String> {
    let url = text(file, name).unwrap_or(usual);
    if is_safe(url) { Ok(url) } else { Err(format!("its `{name}` is no https:// address")) }
}

fn of_service_account(file: &Value, reach: &Reach) -> Result<Fetched<Token>, String> {
    let token_url = url(file, "token_uri", TOKEN_URL)?;
    let assertion = assertion(file, token_url, reach.clock().wall_seconds())?;
    let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    of_answer(&reach.ask_json(Ask::form(token_url, &[("grant_type", grant), ("assertion", &assertion)]))?)
}

/// A JWT that a service account signs to get a token (RFC 7523).
fn assertion(file: &Value, audience: &str, now_seconds: u64) -> Result<String, String> {
    let issued = now_seconds.saturating_sub(SKEW_SECONDS);
    let head = match text(file, "private_key_id") {
        Some(id) => json!({ "alg": "RS256", "typ": "JWT", "kid": id }),
        None => json!({ "alg": "RS256", "typ": "JWT" }),
    };
    let claims = json!({
        "iss": field(file, "client_email")?, "scope": SCOPE, "aud": audience,
        "iat": issued, "exp": issued + ASSERTION_SECONDS,
    });
    let mut signed = [head.to_string(), claims.to_string()].map(|part| base64url(part.as_bytes())).join(".");
    let key = rsa_key(field(file, "private_key")?).ok_or("its `private_key` is no RSA key in PEM (PKCS #8)")?;
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| "its `private_key` cannot sign")?;
    signed.push('.');
    signed.push_str(&base64url(&signature));
    Ok(signed)
}

fn rsa_key(pem: &str) -> Option<RsaKeyPair> {
    let inside = pem.split_once("-----BEGIN PRIVATE KEY-----")?.1.split_once("-----END PRIVATE KEY-----")?.0;
    let base64: String = inside.chars().filter(|character| !character.is_whitespace()).collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(base64).ok()?).ok()
}

fn of_user(file: &Value, reach: &Reach) -> Result<Fetched<Token>, String> {
    let [client, secret, refresh] = ["client_id", "client_secret", "refresh_token"].map(|name| field(file, name));
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", client?),
        ("client_secret", secret?),
        ("refresh_token", refresh?),
    ];
    of_answer(&reach.ask_json(Ask::form(url(file, "token_uri", TOKEN_URL)?, &fields))?)
}

/// Workload identity federation: a token of another provider is exchanged, and may stand for a service account.
fn of_workload(file: &Value, reach: &Reach) -> Result<Fetched<Token>, String> {
    let subject = subject_token(file.get("credential_source").ok_or("it has no `credential_source`")?, reach)?;
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("audience", field(file, "audience")?),
        ("scope", SCOPE),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("subject_token_type", field(file, "subject_token_type")?),
        ("subject_token", &subject),
    ];
    let answer = reach.ask_json(Ask::form(url(file, "token_url", EXCHANGE_URL)?, &fields))?;
    if text(file, "service_account_impersonation_url").is_none() {
        return of_answer(&answer);
    }
    let federated = text(&answer, "access_token").ok_or("the exchange gave no token")?;
    let address = url(file, "service_account_impersonation_url", "")?;
    let ask = Ask { method: Method::POST, body: json!({ "scope": [SCOPE] }).to_string(), ..Ask::get(address) };
    let ask = ask.header("content-type", "application/json").header("authorization", format!("Bearer {federated}"));
    let answer = reach.ask_json(ask)?;
    let token = text(&answer, "accessToken").and_then(Token::new).ok_or("the service account gave no token")?;
    let expires = text(&answer, "expireTime").ok_or("the service account named no time of expiry")?;
    Ok(Fetched { value: token, lifetime: Some(lifetime_until(expires, reach.clock().wall_seconds())?) })
}

/// The token of the other provider: a file or an address, as a text or as a field of JSON.
fn subject_token(source: &Value, reach: &Reach) -> Result<String, String> {
    let found = if let Some(path) = text(source, "file") {
        files::read_required(Path::new(path))?
    } else if let Some(address) = text(source, "url") {
        let headers = source.get("headers").and_then(Value::as_object);
        if headers.is_some_and(|headers| !headers.is_empty() && !headers.keys().all(|name| is_known_header(name))) {
            return Err("its `credential_source` wants headers that are not supported".to_owned());
        }
        let mut ask = Ask::get(address).near();
        for (name, value) in headers.into_iter().flatten() {
            let known = KNOWN_HEADERS.iter().find(|known| known.eq_ignore_ascii_case(name));
            if let (Some(name), Some(value)) = (known, value.as_str()) {
                ask = ask.header(name, value);
            }
        }
        reach.ask(ask)?
    } else {
        return Err("its `credential_source` names neither `file` nor `url`; others are not supported".to_owned());
    };
    let format = source.get("format");
    if format.and_then(|format| text(format, "type")) != Some("json") {
        return Ok(found.trim().to_owned());
    }
    let name = format.and_then(|format| text(format, "subject_token_field_name"));
    let name = name.ok_or("its `format` names no `subject_token_field_name`")?;
    let read: Value = serde_json::from_str(&found).map_err(|_| "the other provider's token is no JSON")?;
    text(&read, name).map(str::to_owned).ok_or_else(|| "the other provider's answer holds no token".to_owned())
}

/// Headers that documents of Azure and Google put into such files.
const KNOWN_HEADERS: [&str; 3] = ["metadata", "metadata-flavor", "authorization"];

fn is_known_header(name: &str) -> bool {
    KNOWN_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
