//! AWS: the usual chain of credentials, and requests that are signed with what it gives.
//!
//! The order is that of AWS's SDKs: the environment, the profile, the workload's identity, the container, the machine.

mod profile;
pub mod sigv4;
mod sources;
#[cfg(test)]
mod tests;

use crate::cached::{Cached, Fetched, Held, Source};
use crate::error::CredentialError;
use crate::reach::Reach;
use crate::{Variables, files};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use profile::Profiles;
use sigv4::{AwsKeys, Unsigned};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tokrate_core::Tick;
use tokrate_net::{Authorization, Authorize, AuthorizeError, AuthorizeFuture, RefusedBy, Secrets, Unauthorized};

/// The names of AWS's errors about keys that were revoked, have expired, or are unknown (the common errors of its services).
const REFUSED_KEYS: [&str; 5] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "UnrecognizedClientException",
];

const DEFAULT_REGION: &str = "us-east-1";

/// What the environment says of AWS's credentials.
#[derive(Clone, Default)]
pub struct AwsSettings {
    key_id: Option<String>,
    secret_key: Option<String>,
    session_token: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    config_file: Option<PathBuf>,
    credentials_file: Option<PathBuf>,
    home: Option<PathBuf>,
    token_file: Option<PathBuf>,
    role: Option<String>,
    role_session: Option<String>,
    container_path: Option<String>,
    container_url: Option<String>,
    container_token: Option<String>,
    container_token_file: Option<PathBuf>,
    metadata: String,
    no_metadata: bool,
    sts: Option<String>,
}

impl fmt::Debug for AwsSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AWS in {}", self.region())
    }
}

impl AwsSettings {
    /// Reads the variables that AWS's SDKs read.
    pub fn read(variables: Variables<'_>) -> AwsSettings {
        let path = |name: &str| variables(name).map(PathBuf::from);
        let home = path("HOME");
        let shared = |name: &str, file: &str| path(name).or_else(|| Some(home.as_ref()?.join(".aws").join(file)));
        let metadata = variables("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        AwsSettings {
            key_id: variables("AWS_ACCESS_KEY_ID"),
            secret_key: variables("AWS_SECRET_ACCESS_KEY"),
            session_token: variables("AWS_SESSION_TOKEN"),
            region: variables("AWS_REGION").or_else(|| variables("AWS_DEFAULT_REGION")),
            profile: variables("AWS_PROFILE"),
            config_file: shared("AWS_CONFIG_FILE", "config"),
            credentials_file: shared("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            token_file: path("AWS_WEB_IDENTITY_TOKEN_FILE"),
            role: variables("AWS_ROLE_ARN"),
            role_session: variables("AWS_ROLE_SESSION_NAME"),
            container_path: variables("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            container_url: variables("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
            container_token: variables("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            container_token_file: path("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
            metadata: metadata.map_or("http://169.254.169.254".to_owned(), |url| url.trim_end_matches('/').to_owned()),
            no_metadata: variables("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            sts: variables("AWS_ENDPOINT_URL_STS"),
            home,
        }
    }

    fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(DEFAULT_REGION)
    }

    fn profile_name(&self) -> &str {
        self.profile.as_deref().unwrap_or("default")
    }

    fn profiles(&self) -> Result<Profiles, String> {
        let text = |path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(String::new()) };
            files::read(path).map(Option::unwrap_or_default).map_err(|reason| format!("{} {reason}", path.display()))
        };
        Ok(Profiles::read(&text(&self.config_file)?, &text(&self.credentials_file)?))
    }

    /// The address of the service that gives keys of roles.
    fn sts(&self) -> Result<String, String> {
        if let Some(url) = &self.sts {
            let is_safe = crate::reach::is_safe(url);
            return is_safe
                .then(|| url.clone())
                .ok_or_else(|| "AWS_ENDPOINT_URL_STS is no https:// address".to_owned());
        }
        check_region(self.region())?;
        Ok(format!("https://sts.{}.amazonaws.com/", self.region()))
    }
}

/// A region is part of host names.
fn check_region(region: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match region.bytes().all(is_plain) && !region.is_empty() {
        true => Ok(()),
        false => Err("the region holds more than letters, digits and `-`".to_owned()),
    }
}

/// What signs requests to Bedrock. The region is that of the host that is asked, if its name holds one.
pub fn aws(settings: AwsSettings) -> Arc<dyn Authorize> {
    let settings = Arc::new(settings);
    Arc::new(AwsAuthorizer { keys: Cached::new(AwsChain(Arc::clone(&settings))), settings })
}

/// Keys, and what of them must not be shown where they are sent.
pub(crate) struct Keys {
    keys: AwsKeys,
    secrets: Secrets,
}

impl Keys {
    fn new(keys: AwsKeys) -> Keys {
        let mut sent = HeaderMap::new();
        for (name, value) in
            [("x-amz-security-token", keys.session_token.as_deref()), ("x-secret", Some(&*keys.secret))]
        {
            if let Some(mut value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                value.set_sensitive(true);
                sent.insert(name, value);
            }
        }
        Keys { secrets: Secrets::of(&sent), keys }
    }

    fn keys(&self) -> &AwsKeys {
        &self.keys
    }
}

struct AwsChain(Arc<AwsSettings>);

impl Source<Keys> for AwsChain {
    fn fetch(&self, reach: &Reach) -> Result<Fetched<Keys>, CredentialError> {
        type From = fn(&AwsSettings, &Reach) -> Result<Fetched<Keys>, String>;
        let sources: [(&str, From); 5] = [
            ("the environment", |settings, _| sources::environment(settings)),
            ("the profile", sources::profile),
            ("the workload's identity", sources::workload),
            ("the container", sources::container),
            ("the machine's role", sources::instance),
        ];
        let mut tried = Vec::new();
        for (name, from) in sources {
            match from(&self.0, reach) {
                Ok(found) => return Ok(found),
                Err(reason) => tried.push(format!("{name}: {reason}")),
            }
        }
        let hint = "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
        Err(CredentialError { of: "AWS", tried, hint, is_temporary: reach.had_outage() })
    }
}

struct AwsAuthorizer {
    settings: Arc<AwsSettings>,
    keys: Cached<Keys>,
}

impl Authorize for AwsAuthorizer {
    fn authorize<'a>(&'a self, request: Unauthorized<'a>) -> AuthorizeFuture<'a> {
        Box::pin(async move {
            let Held { value: keys, generation } =
                self.keys.get(request.client, request.clock).await.map_err(|error| AuthorizeError::from(&*error))?;
            let content_type = request.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let unsigned = Unsigned {
                method: request.method.as_str(),
                host: request.host,
                path: request.path,
                content_type,
                body: request.body,
                at_seconds: request.clock.wall_seconds(),
                region: region_of_host(request.host).unwrap_or(self.settings.region()),
                service: "bedrock",
            };
            let headers = sigv4::sign(&keys.keys, &unsigned).ok_or("sign the request: AWS's keys fit in no header")?;
            Ok(Authorization { headers, secrets: keys.secrets.clone(), generation, ..Authorization::default() })
        })
    }

    fn refused(&self, generation: u64, by: RefusedBy<'_>, now: Tick) -> bool {
        refuses_keys(by) && self.keys.refused(generation, now)
    }
}

/// Whether AWS refuses the keys and not what they may do: that comes with the same status.
fn refuses_keys(by: RefusedBy<'_>) -> bool {
    let kind = by.headers.get("x-amzn-errortype").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // Behind the name may stand an address.
    let name = kind.split(':').next().unwrap_or_default();
    by.status == StatusCode::UNAUTHORIZED || by.status == StatusCode::FORBIDDEN && REFUSED_KEYS.contains(&name)
}

/// The region in a host's name, `bedrock-runtime.REGION.amazonaws.com`.
fn region_of_host(host: &str) -> Option<&str> {
    let (before, _) = host.split_once(".amazonaws.com")?;
    before.rsplit_once('.').map(|(_, region)| region)
}

impl fmt::Debug for AwsAuthorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a signature of {:?}", self.settings)
    }
}
