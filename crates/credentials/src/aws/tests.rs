//! The chain, source by source, against endpoints of this machine.

use super::*;
use crate::token_endpoint::{TokenEndpoint, answer, authorize};
use std::path::Path;

const EXPIRES: &str = "2099-01-01T00:00:00Z";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tokrate-aws-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join(".aws/sso/cache")).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the chain comes to with these variables, and no metadata service.
fn with(home: &Path, variables: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    let read = |name: &str| {
        let known = variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        known.or_else(|| match name {
            "HOME" => Some(home.display().to_string()),
            "AWS_EC2_METADATA_DISABLED" => Some("true".to_owned()),
            _ => None,
        })
    };
    authorize(&*aws(AwsSettings::read(&read)))
}

fn key_of(headers: &[(String, String)]) -> String {
    let (_, value) = headers.iter().find(|(name, _)| name == "authorization").expect("a signature");
    value.split("Credential=").nth(1).and_then(|rest| rest.split('/').next()).expect("a key").to_owned()
}

fn sts(id: &str) -> String {
    format!(
        "<R><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>s3cret-of-sts</SecretAccessKey>\
         <SessionToken>token-of-sts</SessionToken><Expiration>{EXPIRES}</Expiration></Credentials></R>"
    )
}

#[test]
fn keys_of_the_environment_win_and_the_region_is_that_of_the_host() {
    let folder = Folder::new("environment");
    folder.write(".aws/credentials", "[default]\naws_access_key_id=AKFILE\naws_secret_access_key=x");
    let set = [("AWS_ACCESS_KEY_ID", "AKENV"), ("AWS_SECRET_ACCESS_KEY", "y"), ("AWS_SESSION_TOKEN", "z")];
    let headers = with(&folder.0, &set).expect("keys");
    assert_eq!(key_of(&headers), "AKENV");
    assert!(headers.iter().any(|(_, value)| value.contains("/eu-west-1/bedrock/aws4_request")), "{headers:?}");
    assert!(headers.contains(&("x-amz-security-token".to_owned(), "z".to_owned())));
    assert_eq!(key_of(&with(&folder.0, &[]).expect("the file's")), "AKFILE");
}

#[test]
fn a_profile_gives_keys_by_a_process_or_by_a_role_that_another_profile_assumes() {
    let folder = Folder::new("profile");
    let process = format!(
        "[profile p]\ncredential_process = echo '{{\"Version\":1,\"AccessKeyId\":\"AKPROC\",\"SecretAccessKey\":\"x\",\"Expiration\":\"{EXPIRES}\"}}'\n\
         [profile r]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = p\nexternal_id = e\n\
         [profile a]\nrole_arn = x\nsource_profile = b\n[profile b]\nrole_arn = y\nsource_profile = a\n"
    );
    folder.write(".aws/config", &process);
    assert_eq!(key_of(&with(&folder.0, &[("AWS_PROFILE", "p")]).expect("keys")), "AKPROC");
    let endpoint = TokenEndpoint::start(|_| answer("200 OK", &sts("AKROLE")));
    let set = [("AWS_PROFILE", "r"), ("AWS_ENDPOINT_URL_STS", endpoint.url())];
    assert_eq!(key_of(&with(&folder.0, &set).expect("keys")), "AKROLE");
    let asked = endpoint.asked().join("");
    assert!(asked.contains("Action=AssumeRole&") && asked.contains("ExternalId=e"), "{asked}");
    assert!(asked.contains("Credential=AKPROC/"), "signed with the keys of the other profile: {asked}");
    let circle = with(&folder.0, &[("AWS_PROFILE", "a")]).expect_err("a circle");
    assert!(circle.contains("without end"), "{circle}");
}

#[test]
fn a_workload_a_container_and_a_machine_give_keys() {
    let folder = Folder::new("services");
    let token = folder.write("token", "federated-token\n");
    let token = token.display().to_string();
    let endpoint = TokenEndpoint::start(|_| answer("200 OK", &sts("AKPOD")));
    let set = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod"),
        ("AWS_ENDPOINT_URL_STS", endpoint.url()),
    ];
    assert_eq!(key_of(&with(&folder.0, &set).expect("keys")), "AKPOD");
    assert!(endpoint.asked()[0].contains("WebIdentityToken=federated-token"), "{:?}", endpoint.asked());
    let json =
        |id: &str| format!(r#"{{"AccessKeyId":"{id}","SecretAccessKey":"x","Token":"t","Expiration":"{EXPIRES}"}}"#);
    let endpoint = TokenEndpoint::start(move |_| answer("200 OK", &json("AKBOX")));
    let url = format!("{}/v2/x", endpoint.url());
    let set = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "sesame")];
    assert_eq!(key_of(&with(&folder.0, &set).expect("keys")), "AKBOX");
    assert!(endpoint.asked()[0].to_lowercase().contains("authorization: sesame"), "{:?}", endpoint.asked());
    let elsewhere =
        with(&folder.0, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/x")]).expect_err("clear");
    assert!(elsewhere.contains("neither https:// nor of this machine"), "{elsewhere}");
    let endpoint = TokenEndpoint::start(move |asked| match asked.split(' ').nth(1) {
        Some("/latest/api/token") if asked.starts_with("PUT") => answer("200 OK", "imds-token"),
        Some("/latest/meta-data/iam/security-credentials/") => answer("200 OK", "role one\n"),
        Some("/latest/meta-data/iam/security-credentials/role%20one") => answer("200 OK", &json("AKVM")),
        _ => answer("404 Not Found", ""),
    });
    let set = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint.url()), ("AWS_EC2_METADATA_DISABLED", "false")];
    assert_eq!(key_of(&with(&folder.0, &set).expect("keys")), "AKVM");
    assert!(endpoint.asked()[2].contains("x-aws-ec2-metadata-token: imds-token"), "{:?}", endpoint.asked());
}

#[test]
fn an_error_names_every_source_and_none_of_their_secrets() {
    let folder = Folder::new("errors");
    folder.write(".aws/credentials", "[default]\naws_secret_access_key = s3cret-of-file");
    let token = folder.write("token", "s3cret-token").display().to_string();
    let endpoint = TokenEndpoint::start(|asked| match asked.contains("WebIdentityToken") {
        // It repeats what it was sent.
        true => answer("400 Bad Request", asked.rsplit("\r\n\r\n").next().unwrap_or_default()),
        false => answer("302 Found", "<html>log in</html>"),
    });
    let url = format!("{}/v2/s3cret-path", endpoint.url());
    let set = [
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
        ("AWS_ROLE_ARN", "arn"),
        ("AWS_ENDPOINT_URL_STS", endpoint.url()),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "s3cret-header"),
    ];
    let error = with(&folder.0, &set).expect_err("no keys");
    for named in [
        "the environment: AWS_ACCESS_KEY_ID and",
        "the profile: ",
        "the workload's identity: ",
        "the container: ",
        "the machine's role: ",
    ] {
        assert!(error.contains(named), "{named}: {error}");
    }
    assert!(error.contains("answered 302, and redirects are not followed"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

#[test]
fn keys_that_have_expired_by_this_machines_clock_are_no_keys() {
    let folder = Folder::new("expired");
    let process = "[default]\ncredential_process = echo '{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"x\",\"Expiration\":\"2001-01-01T00:00:00Z\"}'";
    folder.write(".aws/config", process);
    let error = with(&folder.0, &[]).expect_err("expired");
    assert!(error.contains("this machine's clock is wrong"), "{error}");
}

#[test]
fn regions_are_read_of_hosts_and_are_part_of_no_other_host() {
    assert_eq!(region_of_host("bedrock-runtime.eu-west-1.amazonaws.com"), Some("eu-west-1"));
    assert_eq!(region_of_host("bedrock-runtime.cn-north-1.amazonaws.com.cn"), Some("cn-north-1"));
    assert_eq!(region_of_host("127.0.0.1:8400"), None);
    for region in ["", "evil.example/", "us-east-1.evil", "US"] {
        assert!(check_region(region).is_err(), "{region}");
    }
}
