//! Keys: read by reference, never printed.

use super::environment;
use super::reading::{self, SETTINGS_BYTES_MOST};
use anyhow::{Context, Result, bail};
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// A key. It prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The key itself, to be put into a request header and nowhere else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// Where a key is to be found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyReference {
    /// The name of an environment variable.
    Variable(String),
    /// A file; white space around the key is dropped.
    File(PathBuf),
    /// A command whose standard output is the key.
    Command(String),
}

impl KeyReference {
    /// The reference that was given, the variable before the file before the command.
    pub fn first(variable: &Option<String>, file: &Option<PathBuf>, command: &Option<String>) -> Option<KeyReference> {
        None.or_else(|| variable.clone().map(KeyReference::Variable))
            .or_else(|| file.clone().map(KeyReference::File))
            .or_else(|| command.clone().map(KeyReference::Command))
    }

    /// Fetches the key. Errors name the reference, never what was found there.
    pub fn fetch(&self) -> Result<Secret> {
        let found = match self {
            KeyReference::Variable(name) => {
                environment::variable(name).with_context(|| {
                    format!("read the API key: the environment variable {name} is not set; set it, or name another with --key-env (key_env in a file)")
                })?
            }
            KeyReference::File(path) => reading::text_of(path, SETTINGS_BYTES_MOST)
                .with_context(|| format!("read the API key from {}; check --key-file", path.display()))?,
            KeyReference::Command(command) => {
                let output = Command::new("sh")
                    .args(["-c", command])
                    .output()
                    .context("run the command of --key-cmd; check that `sh` is there")?;
                if !output.status.success() {
                    bail!("read the API key: the command of --key-cmd ended with {}; run it by hand to see why", output.status);
                }
                String::from_utf8(output.stdout).ok().context("read the API key: the command of --key-cmd did not print text")?
            }
        };
        let key = found.trim();
        if key.is_empty() {
            bail!("read the API key: {} is empty", self.shown());
        }
        if !key.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            bail!("read the API key: {} holds spaces or characters that no header can carry", self.shown());
        }
        Ok(Secret(key.to_owned()))
    }

    fn shown(&self) -> String {
        match self {
            KeyReference::Variable(name) => format!("the environment variable {name}"),
            KeyReference::File(path) => path.display().to_string(),
            KeyReference::Command(_) => "what the command of --key-cmd printed".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_prints() {
        let secret = Secret("sk-very-secret".into());
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.reveal(), "sk-very-secret");
    }

    #[test]
    fn a_key_can_come_from_a_command_and_errors_do_not_show_it() {
        let good = KeyReference::Command("printf ' abc\\n'".into()).fetch().expect("a key");
        assert_eq!(good.reveal(), "abc");
        let bad = KeyReference::Command("printf 'sk-two words'".into()).fetch().expect_err("not a header value");
        assert!(!format!("{bad:#}").contains("sk-two"), "{bad:#}");
    }
}
