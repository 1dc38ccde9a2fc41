//! Why a target, its key or a settings file cannot be used.
//!
//! Invariant: a message says what was to be done and what to do about it, and never holds a key.

use crate::key_reference::KeyReference;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use tokrate_net::NetError;

/// Why a target, its key or a settings file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The variable of a key is not set.
    #[error(
        "read the API key: the environment variable {0} is not set; set it, or name another (`key_env` in a settings file, --key-env on the command line)"
    )]
    KeyVariable(String),
    /// No variable of a hosted provider's key is set.
    #[error(
        "read the API key of {provider}: the environment variable {variables} is not set; set it, or name another (`key_env` in a settings file, --key-env on the command line)"
    )]
    NoKey {
        /// Title of the provider.
        provider: &'static str,
        /// Its variables.
        variables: String,
    },
    /// The file of a key cannot be read.
    #[error("read the API key from {}; check `key_file` (or --key-file)", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The command of a key cannot be run.
    #[error("run the command of `key_cmd` (or --key-cmd); check that `sh` is there")]
    KeyCommand(#[source] io::Error),
    /// The command of a key failed.
    #[error("read the API key: the command of `key_cmd` (or --key-cmd) ended with {0}; run it by hand to see why")]
    KeyCommandFailed(ExitStatus),
    /// The command of a key printed no text.
    #[error("read the API key: the command of `key_cmd` (or --key-cmd) did not print text")]
    KeyNoText,
    /// There is no key where it is to be found.
    #[error("read the API key: {0} is empty")]
    KeyEmpty(KeyReference),
    /// What was found is no key.
    #[error("read the API key: {0} holds spaces or characters that no header can carry")]
    KeyUnsendable(KeyReference),
    /// A key cannot stand in a header.
    #[error("read the API key: it holds characters that no header can carry")]
    KeyHeader(#[source] http::header::InvalidHeaderValue),
    /// The address of a target makes no sense.
    #[error("find {provider}")]
    Base {
        /// Title of the provider.
        provider: &'static str,
        /// Why not.
        source: NetError,
    },
    /// A variable that is part of an address is not set.
    #[error("find {provider}: the environment variable {variable} is not set; it holds {meaning}")]
    Variable {
        /// Title of the provider.
        provider: &'static str,
        /// The variable.
        variable: &'static str,
        /// What it holds.
        meaning: &'static str,
    },
    /// The model is part of an address, and none was named.
    #[error("find {provider}: the model is part of its address, and none was named; write {name}/MODEL")]
    ModelInAddress {
        /// Title of the provider.
        provider: &'static str,
        /// Its name in the catalog.
        name: &'static str,
    },
    /// An address ends in the path of another dialect than the one that was named.
    #[error("read {url}: it ends in the path of {found}, and the dialect is to be {named}; leave out one of them")]
    OtherDialect {
        /// The address.
        url: String,
        /// The dialect of its path.
        found: &'static str,
        /// The one that was named.
        named: &'static str,
    },
    /// There is no dialect of this name.
    #[error("`{name}` is no dialect that is spoken here; it is one of {known}")]
    UnknownDialect {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// This is no URL.
    #[error("`{url}` cannot be used: {reason}; write for example http://127.0.0.1:8000/v1")]
    Url {
        /// What was typed.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A URL cannot be used for another reason.
    #[error(transparent)]
    Net(#[from] NetError),
    /// An endpoint cannot be asked for its models.
    #[error("start the run: no model was named, and {base} could not be asked for its models")]
    Models {
        /// Its base URL.
        base: String,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// An endpoint that was asked for its models did not answer.
    #[error("start the run: no model was named, and {base} could not be asked for its models: {detail}; {hint}")]
    ModelsUnanswered {
        /// Its base URL.
        base: String,
        /// What happened.
        detail: String,
        /// What to do.
        hint: &'static str,
    },
    /// An endpoint lists no models.
    #[error("start the run: no model was named, and {base} lists none (HTTP {status}); name it with --model")]
    ModelsUnlisted {
        /// Its base URL.
        base: String,
        /// The status of its first refusal.
        status: u16,
    },
    /// An endpoint has no model.
    #[error("start the run: no model was named, and the endpoint has none loaded; name it with --model")]
    NoModel,
    /// An endpoint has several models.
    #[error("start the run: no model was named, and the endpoint has {count}: {shown}; name one with --model")]
    SeveralModels {
        /// How many.
        count: usize,
        /// The first few.
        shown: String,
    },
    /// A path names no file.
    #[error("read the settings file {}", .0.display())]
    NoSettings(PathBuf),
    /// A settings file is no text.
    #[error("read the settings file {}: it is not UTF-8", .0.display())]
    SettingsNoText(PathBuf),
    /// A settings file is no TOML.
    #[error("understand the settings file")]
    SettingsNoToml(#[source] Box<toml::de::Error>),
    /// A file or a folder cannot be read or written.
    #[error("{action} {}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A settings file needs trust and has none: what it does, and what to do.
    #[error("{0}")]
    Untrusted(String),
    /// There is no folder for data.
    #[error("find the folder for what is trusted: set XDG_DATA_HOME or HOME")]
    NoDataFolder,
    /// Others can say what is trusted.
    #[error("rely on {}: {who} can write there; make it yours alone", folder.display())]
    SharedStore {
        /// The folder.
        folder: PathBuf,
        /// Who.
        who: String,
    },
    /// A file that was written has changed before it was trusted.
    #[error("trust {}: someone else has changed it meanwhile", .0.display())]
    Changed(PathBuf),
}

impl TargetError {
    /// To be given an I/O error.
    pub(crate) fn io(action: &'static str, path: &std::path::Path) -> impl Fn(io::Error) -> TargetError + use<> {
        let path = path.to_owned();
        move |source| TargetError::Io { action, path: path.clone(), source }
    }

    /// The message, and after it those of its causes.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }
}
