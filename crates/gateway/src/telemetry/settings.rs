//! The settings in force, as whoever read them reports them: each with its value and where it is from.
//!
//! The gateway itself is given values only. Invariant: no secret is in them; who reports them has put marks in their places.

use crate::state::lock::locked;
use std::sync::{Arc, Mutex};

/// One setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its key in the settings file.
    pub key: String,
    /// The value, secrets as marks.
    pub value: String,
    /// Where it is from: a default, the file, the environment, a flag.
    pub origin: String,
}

/// All settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SettingsInForce {
    /// In the order of the report; empty if none was made.
    pub settings: Vec<Setting>,
    /// When they were read (ms since 1970).
    pub read_at_unix_ms: u64,
}

/// What was reported last.
#[derive(Debug, Default)]
pub(crate) struct Settings(Mutex<Arc<SettingsInForce>>);

impl Settings {
    /// Puts a report in the place of the one before.
    pub fn report(&self, settings: Vec<Setting>, read_at_unix_ms: u64) {
        *locked(&self.0) = Arc::new(SettingsInForce { settings, read_at_unix_ms });
    }

    /// The last report.
    pub fn current(&self) -> Arc<SettingsInForce> {
        Arc::clone(&locked(&self.0))
    }
}
