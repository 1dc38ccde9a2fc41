//! What rules remember over a restart, in parts that are written one by one: a probe that tells a rule nothing new writes nothing.
//!
//! Invariant: all parts together are the whole state, and none of them depends on another.

use crate::incident::Incident;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A part: written in place of the one with its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// A JSON array: what kind of part, and which.
    pub key: String,
    /// What is remembered, as JSON; `None` where it is no more.
    pub value: Option<String>,
}

impl Part {
    /// A part of a kind; `which` tells those of the kind apart. Both are plain data with texts for keys, which always become JSON.
    pub fn new(kind: &str, which: &[&str], value: Option<&impl Serialize>) -> Part {
        let words: Vec<&str> = [kind].iter().chain(which).copied().collect();
        let json = |value| serde_json::to_string(value).unwrap_or_default();
        Part { key: serde_json::to_string(&words).unwrap_or_default(), value: value.map(json) }
    }

    /// Reads a part of a kind: what tells it apart, and what is remembered. What cannot be read was written by another version.
    pub fn read<T: DeserializeOwned, const N: usize>(key: &str, value: &str, kind: &str) -> Option<([String; N], T)> {
        let words: Vec<String> = serde_json::from_str(key).ok()?;
        let (first, which) = words.split_first()?;
        let which: [String; N] = which.to_vec().try_into().ok().filter(|_| first == kind)?;
        Some((which, serde_json::from_str(value).ok()?))
    }
}

/// Rule, endpoint, workload, place.
pub(crate) type SeriesPlace = (String, String, String, String);

/// What was found of a series at a place: the latest in the lowest bit, how many, and whether the place is bad.
pub(crate) type Found = (u64, u32, bool);

const PLACE: &str = "place";
const INCIDENT: &str = "incident";
const OPENED: &str = "opened";

/// The part of a series at a place.
pub(crate) fn of_place((rule, endpoint, workload, place): &SeriesPlace, found: Option<&Found>) -> Part {
    Part::new(PLACE, &[rule, endpoint, workload, place], found)
}

/// The part of an incident.
pub(crate) fn of_incident(id: u64, incident: Option<&Incident>) -> Part {
    Part::new(INCIDENT, &[&id.to_string()], incident)
}

/// How many incidents there were.
pub(crate) fn of_opened(opened: u64) -> Part {
    Part::new(OPENED, &[], Some(&opened))
}

/// What a part says.
pub(crate) enum Said {
    Place(SeriesPlace, Found),
    Incident(Box<Incident>),
    Opened(u64),
}

/// Reads a part of rules; `None` for one of somebody else.
pub(crate) fn said(key: &str, value: &str) -> Option<Said> {
    if let Some(([rule, endpoint, workload, place], found)) = Part::read(key, value, PLACE) {
        return Some(Said::Place((rule, endpoint, workload, place), found));
    }
    if let Some((_, incident)) = Part::read::<_, 1>(key, value, INCIDENT) {
        return Some(Said::Incident(Box::new(incident)));
    }
    Part::read::<_, 0>(key, value, OPENED).map(|([], opened)| Said::Opened(opened))
}
