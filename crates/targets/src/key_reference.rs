//! Where a key is to be found. Invariant: it names the place and never holds a key.

use std::fmt;
use std::path::PathBuf;

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
}

/// Without the text of a command, which may hold a key.
impl fmt::Display for KeyReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyReference::Variable(name) => write!(formatter, "the environment variable {name}"),
            KeyReference::File(path) => write!(formatter, "{}", path.display()),
            KeyReference::Command(_) => formatter.write_str("what the command of `key_cmd` (or --key-cmd) printed"),
        }
    }
}
