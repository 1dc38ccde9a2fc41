//! What many samples have in common: where, with what and by which rules they were measured.
//!
//! Invariant: samples share one copy, so that a row of a gateway costs no allocation for it; its texts are bounded when it is made.

use super::bound;
use crate::record::ConditionsRow;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;
use std::sync::Arc;

/// The conditions of a sample beside those that every request has of its own. Absent ones are unknown, as in rows of earlier
/// versions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleConditions {
    /// Region of the measuring machine, if it was named.
    #[serde(default)]
    pub region: Option<String>,
    /// Name of the measuring machine.
    #[serde(default)]
    pub host: Option<String>,
    /// Tokenizer of the counts that are not the provider's.
    #[serde(default)]
    pub tokenizer: Option<String>,
    /// Fingerprint of the run's conditions: equal for like ones (16 hexadecimal digits). Absent of a gateway's attempts, whose
    /// requests are its clients' and differ from one to the next.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Version of tokrate.
    pub version: String,
}

/// Conditions that many samples share; a clone is a counted reference.
#[derive(Clone, Debug, Default)]
pub struct SharedConditions(Option<Arc<SampleConditions>>);

impl From<SampleConditions> for SharedConditions {
    fn from(mut conditions: SampleConditions) -> SharedConditions {
        let SampleConditions { region, host, tokenizer, fingerprint, version } = &mut conditions;
        bound([version].into_iter().chain(region).chain(host).chain(tokenizer).chain(fingerprint));
        SharedConditions(Some(Arc::new(conditions)))
    }
}

impl From<&ConditionsRow> for SampleConditions {
    fn from(row: &ConditionsRow) -> SampleConditions {
        let named = |text: &String| (!text.is_empty()).then(|| text.clone());
        SampleConditions {
            region: named(&row.region),
            host: named(&row.host),
            tokenizer: named(&row.tokenizer),
            fingerprint: named(&row.fingerprint),
            version: row.version.clone(),
        }
    }
}

/// Conditions of which nothing is known.
static UNKNOWN: SampleConditions =
    SampleConditions { region: None, host: None, tokenizer: None, fingerprint: None, version: String::new() };

impl PartialEq for SharedConditions {
    fn eq(&self, other: &SharedConditions) -> bool {
        **self == **other
    }
}

impl Eq for SharedConditions {}

impl Deref for SharedConditions {
    type Target = SampleConditions;

    fn deref(&self) -> &SampleConditions {
        self.0.as_deref().unwrap_or(&UNKNOWN)
    }
}

impl Serialize for SharedConditions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SampleConditions::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for SharedConditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SharedConditions, D::Error> {
        SampleConditions::deserialize(deserializer).map(SharedConditions::from)
    }
}
