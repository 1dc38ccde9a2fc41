//! What belongs together: the series of one provider that a rule found bad at the same time.

use serde::{Deserialize, Serialize};

/// A series of an incident.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Target and model.
    pub endpoint: String,
    /// What is asked.
    pub workload: String,
    /// Where it is bad, or was when it recovered.
    pub places: Vec<String>,
    /// Since when (ms since 1970).
    pub since_ms: u64,
    /// When it recovered.
    pub recovered_ms: Option<u64>,
    /// What was found.
    pub text: String,
}

/// An incident.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Incident {
    /// Unique in a monitor.
    pub id: u64,
    pub rule: String,
    pub provider: String,
    pub opened_ms: u64,
    pub members: Vec<Member>,
    /// Endpoint and workload of those that the latest message named as bad.
    pub announced: Vec<(String, String)>,
    /// Messages sent of it.
    pub messages: u32,
    /// When the latest was handed out.
    pub last_message_ms: Option<u64>,
    /// When a message of what has changed since is due.
    pub due_ms: Option<u64>,
}

impl Incident {
    pub fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.recovered_ms.is_some())
    }

    /// Whether a message would say anything that the latest did not.
    pub fn has_news(&self) -> bool {
        let is_news = |member: &Member| {
            let is_known = |known: &(String, String)| (&known.0, &known.1) == (&member.endpoint, &member.workload);
            member.recovered_ms.is_some() || !self.announced.iter().any(is_known)
        };
        self.members.iter().any(is_news)
    }

    /// A message was handed out: what has recovered was said, and the next is about the rest.
    pub fn announce(&mut self, at_ms: u64) {
        self.messages += 1;
        self.last_message_ms = Some(at_ms);
        self.due_ms = None;
        self.members.retain(|member| member.recovered_ms.is_none());
        let named = self.members.iter().map(|member| (member.endpoint.clone(), member.workload.clone()));
        self.announced = named.collect();
    }

    pub fn member(&mut self, endpoint: &str, workload: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.endpoint == endpoint && member.workload == workload)
    }
}
