//! Where AWS's keys come from, one function each. They block, and say why they give nothing.

use super::profile::Section;
use super::{AwsSettings, Keys};
use crate::aws::sigv4::{self, AwsKeys, Unsigned};
use crate::cached::Fetched;
use crate::reach::{Ask, Reach, is_loopback, text};
use crate::text::{escaped, form, hex, lifetime_until};
use crate::{files, process};
use aws_lc_rs::digest;
use http::Method;
use serde_json::Value;
use std::path::Path;
use tokrate_core::Span;
use tokrate_net::Target;

/// Roles may be assumed by roles, but not without end.
const MAX_PROFILES: usize = 5;
/// Hosts that a container's credentials may be fetched from in the clear, besides the machine itself: ECS and EKS.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
const SESSION: &str = "tokrate";

type Found = Result<Fetched<Keys>, String>;

/// Keys that stand in settings.
fn fixed(id: Option<&str>, secret: Option<&str>, token: Option<&str>) -> Option<Fetched<Keys>> {
    let value = Keys::new(AwsKeys {
        id: id?.to_owned(),
        secret: secret?.to_owned(),
        session_token: token.filter(|token| !token.is_empty()).map(str::to_owned),
    });
    Some(Fetched { value, lifetime: None })
}

pub(super) fn environment(settings: &AwsSettings) -> Found {
    let [id, secret, token] = [&settings.key_id, &settings.secret_key, &settings.session_token].map(Option::as_deref);
    fixed(id, secret, token).ok_or_else(|| "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set".to_owned())
}

/// The profile that is named, or `default`.
pub(super) fn profile(settings: &AwsSettings, reach: &Reach) -> Found {
    let profiles = settings.profiles()?;
    of_profile(settings, &profiles, settings.profile_name(), reach, MAX_PROFILES)
}

fn of_profile(
    settings: &AwsSettings,
    profiles: &super::profile::Profiles,
    name: &str,
    reach: &Reach,
    depth: usize,
) -> Found {
    let shown = tokrate_core::one_line(name, 80);
    let section = profiles.profile(name).ok_or_else(|| format!("there is no profile `{shown}` in the shared files"))?;
    let depth = depth.checked_sub(1).ok_or("its roles are assumed by each other without end")?;
    let get = |name: &str| section.get(name).map(String::as_str).filter(|value| !value.is_empty());
    if let Some(role) = get("role_arn") {
        if let Some(file) = get("web_identity_token_file") {
            return web_identity(settings, reach, Path::new(file), role, get("role_session_name"));
        }
        let base = match (get("source_profile"), get("credential_source")) {
            // A profile may name itself: then its own keys assume the role.
            (Some(source), _) if source == name => own(section),
            (Some(source), _) => Some(of_profile(settings, profiles, source, reach, depth)?),
            (None, Some("Environment")) => Some(environment(settings)?),
            (None, Some("Ec2InstanceMetadata")) => Some(instance(settings, reach)?),
            (None, Some("EcsContainer")) => Some(container(settings, reach)?),
            _ => None,
        };
        let base = base.ok_or_else(|| format!("the profile `{shown}` names a role and no keys to assume it with"))?;
        return assume_role(settings, reach, base.value.keys(), role, section);
    }
    if get("sso_account_id").is_some() {
        return sso(settings, profiles, section, reach);
    }
    if let Some(found) = own(section) {
        return Ok(found);
    }
    match get("credential_process") {
        Some(command) => {
            let printed = process::output(command).map_err(|reason| format!("its credential_process {reason}"))?;
            let read: Value = serde_json::from_str(&printed).map_err(|_| "its credential_process printed no JSON")?;
            of_json(&read, ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"], reach)
        }
        None => Err(format!("the profile `{shown}` has no keys and no way to them that is known here")),
    }
}

fn own(section: &Section) -> Option<Fetched<Keys>> {
    let [id, secret, token] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"]
        .map(|name| section.get(name).map(String::as_str));
    fixed(id, secret, token)
}

/// Keys of an answer, by its names for identifier, secret, token and expiry.
fn of_json(answer: &Value, names: [&str; 4], reach: &Reach) -> Found {
    let [id, secret, token, expiry] = names.map(|name| text(answer, name));
    let mut found = fixed(id, secret, token).ok_or("its answer holds no keys")?;
    found.lifetime = expiry.map(|expiry| lifetime_until(expiry, reach.clock().wall_seconds())).transpose()?;
    Ok(found)
}

/// The identity of a workload, such as a pod's.
pub(super) fn workload(settings: &AwsSettings, reach: &Reach) -> Found {
    let (Some(file), Some(role)) = (&settings.token_file, &settings.role) else {
        return Err("AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN are not both set".to_owned());
    };
    web_identity(settings, reach, file, role, settings.role_session.as_deref())
}

fn web_identity(settings: &AwsSettings, reach: &Reach, file: &Path, role: &str, session: Option<&str>) -> Found {
    let token = files::read_required(file)?;
    let fields = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", session.unwrap_or(SESSION)),
        ("WebIdentityToken", token.trim()),
    ];
    of_sts(&reach.ask(Ask::form(&settings.sts()?, &fields))?, reach)
}

fn assume_role(settings: &AwsSettings, reach: &Reach, keys: &AwsKeys, role: &str, section: &Section) -> Found {
    let get = |name: &str| section.get(name).map(String::as_str);
    if get("mfa_serial").is_some() {
        return Err("its role wants a code of a second factor, and nobody can be asked here".to_owned());
    }
    let mut fields = vec![
        ("Action", "AssumeRole"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", get("role_session_name").unwrap_or(SESSION)),
    ];
    let further = [("ExternalId", get("external_id")), ("DurationSeconds", get("duration_seconds"))];
    fields.extend(further.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let url = settings.sts()?;
    let target = Target::parse(&url).map_err(|_| "the address of STS is no URL")?;
    let body = form(&fields);
    let host = target.authority();
    let kind = "application/x-www-form-urlencoded";
    let request = Unsigned {
        method: "POST",
        host: &host,
        path: "/",
        content_type: Some(kind),
        body: body.as_bytes(),
        at_seconds: reach.clock().wall_seconds(),
        region: settings.region(),
        service: "sts",
    };
    let signed = sigv4::sign(keys, &request).ok_or("its keys fit in no header")?;
    let mut ask = Ask { method: Method::POST, body, ..Ask::get(&url) }.header("content-type", kind);
    for name in ["authorization", "x-amz-date", "x-amz-security-token"] {
        if let Some(value) = signed.get(name).and_then(|value| value.to_str().ok()) {
            ask = ask.header(name, value);
        }
    }
    of_sts(&reach.ask(ask)?, reach)
}

/// The keys in an answer of STS, which is XML. The tags are STS's own and hold no tags.
fn of_sts(xml: &str, reach: &Reach) -> Found {
    let inside = |name: &str| {
        let (_, rest) = xml.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(inside, _)| inside.trim())
    };
    let [id, secret, token, expiry] = ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"].map(inside);
    let mut found = fixed(id, secret, token).ok_or("STS answered without keys")?;
    let expiry = expiry.ok_or("STS named no time of expiry")?;
    found.lifetime = Some(lifetime_until(expiry, reach.clock().wall_seconds())?);
    Ok(found)
}

/// The session of `aws sso login`, exchanged for a role's keys.
fn sso(settings: &AwsSettings, profiles: &super::profile::Profiles, section: &Section, reach: &Reach) -> Found {
    let get = |name: &str| section.get(name).map(String::as_str);
    let named = get("sso_session").and_then(|name| Some((name, profiles.session(name)?)));
    let from_session = |name: &str| named.and_then(|(_, session)| session.get(name).map(String::as_str));
    let missing = |name: &str| format!("its profile has no `{name}`");
    let start = from_session("sso_start_url").or(get("sso_start_url")).ok_or_else(|| missing("sso_start_url"))?;
    let region = from_session("sso_region").or(get("sso_region")).ok_or_else(|| missing("sso_region"))?;
    let account = get("sso_account_id").ok_or_else(|| missing("sso_account_id"))?;
    let role = get("sso_role_name").ok_or_else(|| missing("sso_role_name"))?;
    // The file is called by the hash of the session's name, in older settings of its address.
    let name = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, named.map_or(start, |(name, _)| name).as_bytes());
    let home = settings.home.as_ref().ok_or("HOME is not set")?;
    let cache = home.join(".aws/sso/cache").join(format!("{}.json", hex(name.as_ref())));
    let login = "run `aws sso login`";
    let found = files::read(&cache)?.ok_or_else(|| format!("nobody has logged in; {login}"))?;
    let read: Value = serde_json::from_str(&found).map_err(|_| "the session's file is no JSON")?;
    let token = text(&read, "accessToken").ok_or("the session's file holds no token")?;
    let expiry = text(&read, "expiresAt").ok_or("the session's file names no time of expiry")?;
    lifetime_until(expiry, reach.clock().wall_seconds()).map_err(|reason| format!("{reason}; {login}"))?;
    super::check_region(region)?;
    let (role, account) = (escaped(role, b""), escaped(account, b""));
    let url = format!(
        "https://portal.sso.{region}.amazonaws.com/federation/credentials?role_name={role}&account_id={account}"
    );
    let answer = reach.ask_json(Ask::get(&url).header("x-amz-sso_bearer_token", token))?;
    let keys = answer.get("roleCredentials").ok_or("its answer holds no keys")?;
    let mut found = of_json(keys, ["accessKeyId", "secretAccessKey", "sessionToken", ""], reach)?;
    let expires_ms = keys.get("expiration").and_then(Value::as_u64).ok_or("its answer names no time of expiry")?;
    let left = (expires_ms / 1000).saturating_sub(reach.clock().wall_seconds());
    found.lifetime = Some(Span::from_secs(left));
    Ok(found)
}

const JSON_NAMES: [&str; 4] = ["AccessKeyId", "SecretAccessKey", "Token", "Expiration"];

/// The endpoint of a container (ECS, EKS Pod Identity).
pub(super) fn container(settings: &AwsSettings, reach: &Reach) -> Found {
    let url = match (&settings.container_path, &settings.container_url) {
        (Some(path), _) if path.starts_with('/') => format!("http://169.254.170.2{path}"),
        (Some(_), _) => return Err("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is no path".to_owned()),
        (None, Some(url)) => url.clone(),
        (None, None) => return Err("AWS_CONTAINER_CREDENTIALS_FULL_URI is not set".to_owned()),
    };
    let target = Target::parse(url.split('?').next().unwrap_or_default());
    let target = target.map_err(|_| "AWS_CONTAINER_CREDENTIALS_FULL_URI is no URL")?;
    if !target.is_tls() && !is_loopback(&target) && !CONTAINER_HOSTS.contains(&target.host()) {
        return Err("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor of this machine".to_owned());
    }
    let token = match (&settings.container_token_file, &settings.container_token) {
        (Some(file), _) => Some(files::read_required(file)?.trim().to_owned()),
        (None, token) => token.clone(),
    };
    let ask = Ask::get(&url).near();
    let ask = match token {
        Some(token) => ask.header("authorization", token),
        None => ask,
    };
    of_json(&reach.ask_json(ask)?, JSON_NAMES, reach)
}

/// The metadata service of a virtual machine, by its second version, which wants a token first.
pub(super) fn instance(settings: &AwsSettings, reach: &Reach) -> Found {
    if settings.no_metadata {
        return Err("AWS_EC2_METADATA_DISABLED is set".to_owned());
    }
    let root = &settings.metadata;
    let url = format!("{root}/latest/api/token");
    let ask = Ask { method: Method::PUT, ..Ask::get(&url).near() };
    let token = reach.ask(ask.header("x-aws-ec2-metadata-token-ttl-seconds", "21600"))?;
    let ask = |url: &str| reach.ask(Ask::get(url).near().header("x-aws-ec2-metadata-token", token.trim()));
    let folder = format!("{root}/latest/meta-data/iam/security-credentials/");
    let roles = ask(&folder)?;
    let role = roles.lines().next().map(str::trim).filter(|role| !role.is_empty()).ok_or("the machine has no role")?;
    let answer = ask(&format!("{folder}{}", escaped(role, b"")))?;
    let read: Value = serde_json::from_str(&answer).map_err(|_| "the metadata service did not answer with JSON")?;
    of_json(&read, JSON_NAMES, reach)
}
