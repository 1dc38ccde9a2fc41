//! Tokens of Microsoft Entra for Azure OpenAI: a client's secret, a workload's federated token, a managed identity.
//!
//! The order is that of Azure's SDKs (`DefaultAzureCredential`): the environment, the workload, the machine.

use crate::Variables;
use crate::bearer::{BearerAuthorizer, Chain, Token, TokenSource, of_answer};
use crate::cached::Fetched;
use crate::files;
use crate::reach::{Ask, Reach, is_safe};
use std::path::Path;
use std::sync::Arc;
use tokrate_net::Authorize;

/// What a token is for: the services of Azure AI, Azure OpenAI among them.
const RESOURCE: &str = "https://cognitiveservices.azure.com";
const AUTHORITY: &str = "https://login.microsoftonline.com";
const METADATA: &str = "http://169.254.169.254";

/// What the environment says of an identity.
#[derive(Clone, Default)]
pub struct AzureSettings {
    tenant: Option<String>,
    client: Option<String>,
    secret: Option<String>,
    token_file: Option<String>,
    authority: String,
    /// App Service and the like: the endpoint and its header.
    identity: Option<(String, String)>,
    /// The metadata service of a virtual machine.
    metadata: String,
}

impl std::fmt::Debug for AzureSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Entra at {}", self.authority)
    }
}

impl AzureSettings {
    /// Reads the variables that Azure's SDKs read.
    pub fn read(variables: Variables<'_>) -> AzureSettings {
        let root = |name: &str, default: &str| {
            variables(name).unwrap_or_else(|| default.to_owned()).trim_end_matches('/').to_owned()
        };
        AzureSettings {
            tenant: variables("AZURE_TENANT_ID"),
            client: variables("AZURE_CLIENT_ID"),
            secret: variables("AZURE_CLIENT_SECRET"),
            token_file: variables("AZURE_FEDERATED_TOKEN_FILE"),
            authority: root("AZURE_AUTHORITY_HOST", AUTHORITY),
            identity: variables("IDENTITY_ENDPOINT").zip(variables("IDENTITY_HEADER")),
            metadata: root("AZURE_POD_IDENTITY_AUTHORITY_HOST", METADATA),
        }
    }
}

/// What authorises requests to Azure OpenAI.
pub fn azure(settings: AzureSettings) -> Arc<dyn Authorize> {
    let settings = Arc::new(settings);
    let kinds = [Kind::Secret, Kind::Workload, Kind::Machine];
    let sources = kinds.map(|kind| Identity { settings: Arc::clone(&settings), kind }).into();
    let hint = "set AZURE_OPENAI_API_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET";
    BearerAuthorizer::shared("Microsoft Entra", Chain { of: "Microsoft Entra", hint, sources })
}

#[derive(Clone, Copy)]
enum Kind {
    Secret,
    Workload,
    Machine,
}

struct Identity {
    settings: Arc<AzureSettings>,
    kind: Kind,
}

impl TokenSource for Identity {
    fn name(&self) -> String {
        match self.kind {
            Kind::Secret => "the environment (AZURE_CLIENT_SECRET)",
            Kind::Workload => "the workload's token (AZURE_FEDERATED_TOKEN_FILE)",
            Kind::Machine => "the managed identity",
        }
        .to_owned()
    }

    fn token(&self, reach: &Reach) -> Result<Fetched<Token>, String> {
        let settings = &*self.settings;
        match self.kind {
            Kind::Secret => {
                let secret = settings.secret.as_deref().ok_or("AZURE_CLIENT_SECRET is not set")?;
                settings.ask_authority(reach, &[("client_secret", secret)])
            }
            Kind::Workload => {
                let path = settings.token_file.as_deref().ok_or("AZURE_FEDERATED_TOKEN_FILE is not set")?;
                // It is replaced from time to time, so it is read each time.
                let token = files::read_required(Path::new(path))?;
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                settings.ask_authority(reach, &[("client_assertion_type", kind), ("client_assertion", token.trim())])
            }
            Kind::Machine => settings.ask_machine(reach),
        }
    }
}

impl AzureSettings {
    fn ask_authority(&self, reach: &Reach, proof: &[(&str, &str)]) -> Result<Fetched<Token>, String> {
        let tenant = self.tenant.as_deref().ok_or("AZURE_TENANT_ID is not set")?;
        let client = self.client.as_deref().ok_or("AZURE_CLIENT_ID is not set")?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if !tenant.bytes().all(is_plain) {
            return Err("AZURE_TENANT_ID holds more than letters, digits, `-` and `.`".to_owned());
        }
        let url = format!("{}/{tenant}/oauth2/v2.0/token", self.authority);
        if !is_safe(&url) {
            return Err("AZURE_AUTHORITY_HOST is no https:// address".to_owned());
        }
        let scope = format!("{RESOURCE}/.default");
        let fixed = [("grant_type", "client_credentials"), ("client_id", client), ("scope", &scope)];
        let fields: Vec<(&str, &str)> = fixed.iter().chain(proof).copied().collect();
        of_answer(&reach.ask_json(Ask::form(&url, &fields))?)
    }

    fn ask_machine(&self, reach: &Reach) -> Result<Fetched<Token>, String> {
        let client = self.client.as_deref().map(|client| format!("&client_id={}", crate::text::escaped(client, b"")));
        let client = client.unwrap_or_default();
        let answer = match &self.identity {
            Some((endpoint, secret)) => {
                let url = format!("{endpoint}?api-version=2019-08-01&resource={RESOURCE}{client}");
                reach.ask_json(Ask::get(&url).near().header("x-identity-header", secret.as_str()))?
            }
            None => {
                let path = "/metadata/identity/oauth2/token?api-version=2018-02-01";
                let url = format!("{}{path}&resource={RESOURCE}{client}", self.metadata);
                reach.ask_json(Ask::get(&url).near().header("metadata", "true"))?
            }
        };
        of_answer(&answer)
    }
}

#[cfg(test)]
mod tests;
