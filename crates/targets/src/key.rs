//! Keys: read by reference, never printed.

use crate::error::TargetError;
use crate::key_reference::KeyReference;
use crate::reading::{self, MAX_SETTINGS_BYTES};
use std::fmt;
use std::process::Command;

/// The environment: the value of a variable that is set and not empty, by its name.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A key and where it was found. It prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    origin: KeyReference,
}

impl Secret {
    /// The key itself, to be put into a request header and nowhere else.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Where it was found.
    pub fn origin(&self) -> &KeyReference {
        &self.origin
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl KeyReference {
    /// Fetches the key.
    ///
    /// # Errors
    /// When there is none, or none that a header can carry. They name the reference, never what was found there.
    pub fn fetch(&self, variables: Variables<'_>) -> Result<Secret, TargetError> {
        let found = match self {
            KeyReference::Variable(name) => variables(name).ok_or_else(|| TargetError::KeyVariable(name.clone()))?,
            KeyReference::File(path) => reading::text_of(path, MAX_SETTINGS_BYTES)
                .map_err(|source| TargetError::KeyFile { path: path.clone(), source })?,
            KeyReference::Command(command) => {
                let output = Command::new("sh").args(["-c", command]).output().map_err(TargetError::KeyCommand)?;
                if !output.status.success() {
                    return Err(TargetError::KeyCommandFailed(output.status));
                }
                String::from_utf8(output.stdout).map_err(|_| TargetError::KeyNoText)?
            }
        };
        let key = found.trim();
        if key.is_empty() {
            return Err(TargetError::KeyEmpty(self.clone()));
        }
        if !key.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            return Err(TargetError::KeyUnsendable(self.clone()));
        }
        Ok(Secret { text: key.to_owned(), origin: self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_SET: Variables<'static> = &|_| None;

    #[test]
    fn a_key_never_prints() {
        let variable = KeyReference::Variable("KEY".into());
        let secret = variable.fetch(&|name| (name == "KEY").then(|| "sk-very-secret".into())).expect("it is set");
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.reveal(), "sk-very-secret");
        assert_eq!(secret.origin(), &variable);
        assert!(variable.fetch(NOTHING_SET).expect_err("not set").to_string().contains("variable KEY is not set"));
    }

    #[test]
    fn a_key_can_come_from_a_command_and_errors_do_not_show_it() {
        let good = KeyReference::Command("printf ' abc\\n'".into()).fetch(NOTHING_SET).expect("a key");
        assert_eq!(good.reveal(), "abc");
        let bad = KeyReference::Command("printf 'sk-two words'".into());
        let bad = bad.fetch(NOTHING_SET).expect_err("not a header value").with_causes();
        assert!(!bad.contains("sk-two"), "{bad}");
    }
}
