//! AWS's Signature Version 4: headers that authorise one request as it will be sent.
//!
//! Facts: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. Only what a sender and proxies leave alone is signed:
//! host, content type, date and session token. Invariant: the path is that which is sent, encoded once more, as every service but S3
//! reads it.

use crate::text::{escaped, hex};
use aws_lc_rs::{digest, hmac};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use tokrate_core::rfc3339;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
static DATE: HeaderName = HeaderName::from_static("x-amz-date");
static TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Keys of AWS. They print as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// Names the keys.
    pub id: String,
    /// Signs, and is never sent.
    pub secret: String,
    /// Goes with keys that expire.
    pub session_token: Option<String>,
}

impl fmt::Debug for AwsKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub struct Unsigned<'a> {
    /// Method, in capitals.
    pub method: &'a str,
    /// Value of the `Host` header.
    pub host: &'a str,
    /// Path and query as they are sent.
    pub path: &'a str,
    /// Content type, if there is one.
    pub content_type: Option<&'a str>,
    /// Body.
    pub body: &'a [u8],
    /// Seconds since 1970.
    pub at_seconds: u64,
    /// Region, such as `us-east-1`.
    pub region: &'a str,
    /// Service, such as `bedrock`.
    pub service: &'a str,
}

/// The headers that authorise a request; `None` if the keys fit in no header.
pub fn sign(keys: &AwsKeys, request: &Unsigned<'_>) -> Option<HeaderMap> {
    let instant = instant(request.at_seconds);
    let day = &instant[..8];
    let mut signed = vec![(HOST.as_str(), request.host), (DATE.as_str(), instant.as_str())];
    signed.extend(request.content_type.map(|value| (CONTENT_TYPE.as_str(), value)));
    signed.extend(keys.session_token.as_deref().map(|value| (TOKEN.as_str(), value)));
    signed.sort_unstable();
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let canonical = canonical(request, &signed, &names);
    let scope = format!("{day}/{}/{}/aws4_request", request.region, request.service);
    let to_sign = format!("{ALGORITHM}\n{instant}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let steps = [day, request.region, request.service, "aws4_request"];
    let first = format!("AWS4{}", keys.secret).into_bytes();
    let key = steps.iter().fold(first, |key, step| hmac_sha256(&key, step.as_bytes()));
    let signature = hex(&hmac_sha256(&key, to_sign.as_bytes()));
    let authorization =
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id);
    let mut headers = HeaderMap::new();
    let pairs = [
        (AUTHORIZATION, Some(authorization)),
        (DATE.clone(), Some(instant)),
        (TOKEN.clone(), keys.session_token.clone()),
    ];
    for (name, value) in pairs {
        let Some(value) = value else { continue };
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(name != DATE);
        headers.insert(name, value);
    }
    Some(headers)
}

fn canonical(request: &Unsigned<'_>, signed: &[(&str, &str)], names: &str) -> String {
    let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
    let mut pairs: Vec<(&str, &str)> = query.split('&').filter(|pair| !pair.is_empty()).map(named).collect();
    pairs.sort_unstable();
    let query: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut text = format!("{}\n{}\n{}\n", request.method, escaped(path, b"/"), query.join("&"));
    for (name, value) in signed {
        let value: Vec<&str> = value.split_ascii_whitespace().collect();
        text.push_str(&format!("{name}:{}\n", value.join(" ")));
    }
    text.push_str(&format!("\n{names}\n{}", sha256(request.body)));
    text
}

/// A pair of a query, which is encoded already.
fn named(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or((pair, ""))
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hmac_sha256(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes).as_ref().to_vec()
}

/// `20150830T123600Z`.
fn instant(seconds: u64) -> String {
    rfc3339(seconds).replace(['-', ':'], "")
}

#[cfg(test)]
mod tests;
