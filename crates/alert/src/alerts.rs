//! From findings to messages.
//!
//! A place is bad when `failing` of its latest `of` findings are, and good again when the latest `failing` are all good. A series is bad
//! while at least `places` places are. Series of one provider that a rule finds bad at the same time are one incident.
//!
//! Invariant: a series is in at most one open incident of a rule; what recovers before its incident was announced is never sent.

use crate::incident::{Incident, Member};
use crate::message::{Message, MessageKind};
use crate::rule::Rule;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_core::one_line;

/// Longest text of a finding that is kept (bytes).
const MAX_TEXT_BYTES: usize = 512;

/// What was seen of a series at one place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Finding<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// Target and model; up to the first `/` it is the provider.
    pub endpoint: &'a str,
    /// What was asked.
    pub workload: &'a str,
    /// Where.
    pub place: &'a str,
    /// When (ms since 1970).
    pub at_ms: u64,
    /// Whether it is what the rule is about.
    pub bad: bool,
    /// What was found, in words.
    pub text: &'a str,
}

/// What has to be kept over a restart.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AlertsState {
    /// Findings by rule, endpoint, workload and place: the latest in the lowest bit, and how many.
    findings: Vec<(SeriesPlace, u64, u32)>,
    /// Places that are bad.
    bad: BTreeSet<SeriesPlace>,
    incidents: Vec<Incident>,
    /// Incidents so far.
    opened: u64,
}

/// Rule, endpoint, workload, place.
type SeriesPlace = (String, String, String, String);

/// Rules and what they found.
#[derive(Clone, Debug)]
pub struct Alerts {
    rules: Vec<Rule>,
    /// The monitor's name, which makes ids unique among monitors.
    monitor: String,
    findings: BTreeMap<SeriesPlace, (u64, u32)>,
    bad: BTreeSet<SeriesPlace>,
    incidents: Vec<Incident>,
    opened: u64,
    /// By rule when something is due of its incidents at the earliest, quiet hours aside: asked for far more often than it changes.
    due: Vec<(usize, u64)>,
}

impl Alerts {
    /// Alerts of a monitor by these rules. Incidents of rules that are no more are closed without a message.
    pub fn new(monitor: &str, rules: Vec<Rule>, state: AlertsState) -> Alerts {
        let is_known = |rule: &str| rules.iter().any(|known| known.name == rule);
        let mut state = state;
        state.incidents.retain(|incident| is_known(&incident.rule));
        state.bad.retain(|place| is_known(&place.0));
        state.findings.retain(|(place, _, _)| is_known(&place.0));
        let mut alerts = Alerts {
            due: Vec::new(),
            monitor: monitor.to_owned(),
            findings: state.findings.into_iter().map(|(place, bits, count)| (place, (bits, count))).collect(),
            bad: state.bad,
            incidents: state.incidents,
            opened: state.opened,
            rules,
        };
        alerts.find_due();
        alerts
    }

    /// What has to be kept, together with the messages that were handed out.
    pub fn state(&self) -> AlertsState {
        AlertsState {
            findings: self.findings.iter().map(|(place, (bits, count))| (place.clone(), *bits, *count)).collect(),
            bad: self.bad.clone(),
            incidents: self.incidents.clone(),
            opened: self.opened,
        }
    }

    /// Takes in what was seen; of unknown rules and of series that a rule is not about nothing is kept.
    pub fn observe(&mut self, finding: Finding<'_>) {
        let Some(rule) = self.rules.iter().find(|rule| rule.name == finding.rule) else { return };
        if !rule.is_about(finding.endpoint, finding.workload) {
            return;
        }
        let rule = rule.clone();
        let owned = |text: &str| one_line(text, MAX_TEXT_BYTES);
        let series = (rule.name.clone(), owned(finding.endpoint), owned(finding.workload));
        let place = (series.0.clone(), series.1.clone(), series.2.clone(), owned(finding.place));
        let (bits, count) = self.findings.entry(place.clone()).or_default();
        *bits = (*bits << 1) | u64::from(finding.bad);
        *count = (*count + 1).min(u64::BITS);
        let latest = |number: u32| *bits & (u64::MAX >> (u64::BITS - number.clamp(1, u64::BITS)));
        if latest(rule.of).count_ones() >= rule.failing {
            self.bad.insert(place);
        } else if latest(rule.failing) == 0 && *count >= rule.failing {
            self.bad.remove(&place);
        }
        let places: Vec<String> = self.bad.iter().filter(|bad| is_of(bad, &series)).map(|bad| bad.3.clone()).collect();
        match places.len() as u32 >= rule.places {
            true => self.open(&rule, &series.1, &series.2, places, &finding),
            false => self.recover(&rule, &series.1, &series.2, finding.at_ms),
        }
        self.find_due();
    }

    /// Messages that are due at `now` (ms since 1970), each handed out once.
    pub fn poll(&mut self, now_ms: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        for incident in &mut self.incidents {
            let Some(rule) = self.rules.iter().find(|rule| rule.name == incident.rule) else { continue };
            let is_quiet = rule.quiet.is_some_and(|quiet| quiet.end(now_ms).is_some());
            if is_quiet {
                continue;
            }
            if incident.due_ms.is_some_and(|due| due <= now_ms) && !incident.has_news() {
                incident.due_ms = None;
            }
            let Some(kind) = kind_due(incident, rule, now_ms) else { continue };
            messages.push(message(&self.monitor, incident, rule, kind, now_ms));
            incident.announce(now_ms);
        }
        self.incidents.retain(|incident| !incident.members.is_empty());
        self.find_due();
        messages
    }

    /// When [`Alerts::poll`] has something to hand out at the earliest, if nothing else is seen.
    pub fn wake_at(&self, now_ms: u64) -> Option<u64> {
        let due = |(rule, due): &(usize, u64)| {
            let due = now_ms.max(*due);
            self.rules[*rule].quiet.and_then(|quiet| quiet.end(due)).unwrap_or(due)
        };
        self.due.iter().map(due).min()
    }

    fn find_due(&mut self) {
        self.due.clear();
        for (number, rule) in self.rules.iter().enumerate() {
            let due = |incident: &Incident| {
                let reminder = incident.last_message_ms.zip(rule.remind_after_ms).map(|(last, after)| last + after);
                incident.due_ms.into_iter().chain(reminder).min()
            };
            let of_rule = self.incidents.iter().filter(|incident| incident.rule == rule.name);
            self.due.extend(of_rule.filter_map(due).min().map(|due| (number, due)));
        }
    }

    /// Incidents that are open.
    pub fn open_incidents(&self) -> usize {
        self.incidents.iter().filter(|incident| !incident.is_over()).count()
    }

    fn open(&mut self, rule: &Rule, endpoint: &str, workload: &str, places: Vec<String>, finding: &Finding<'_>) {
        let provider = endpoint.split('/').next().unwrap_or_default();
        let is_same = |incident: &&mut Incident| incident.rule == rule.name && incident.provider == provider;
        let found = self.incidents.iter_mut().find(is_same);
        let incident = match found {
            Some(incident) => incident,
            None => {
                self.opened += 1;
                self.incidents.push(Incident {
                    id: self.opened,
                    rule: rule.name.clone(),
                    provider: provider.to_owned(),
                    opened_ms: finding.at_ms,
                    members: Vec::new(),
                    announced: Vec::new(),
                    messages: 0,
                    last_message_ms: None,
                    due_ms: None,
                });
                self.incidents.last_mut().expect("one was just added")
            }
        };
        let due = finding.at_ms + rule.group_wait_ms;
        match incident.member(endpoint, workload) {
            // If it had recovered, no message has named that yet.
            Some(member) => (member.places, member.recovered_ms) = (places, None),
            None => {
                incident.members.push(Member {
                    endpoint: endpoint.to_owned(),
                    workload: workload.to_owned(),
                    places,
                    since_ms: finding.at_ms,
                    recovered_ms: None,
                    text: one_line(finding.text, MAX_TEXT_BYTES),
                });
                incident.due_ms = Some(incident.due_ms.map_or(due, |known| known.min(due)));
            }
        }
    }

    fn recover(&mut self, rule: &Rule, endpoint: &str, workload: &str, at_ms: u64) {
        for incident in self.incidents.iter_mut().filter(|incident| incident.rule == rule.name) {
            let is_announced = incident.messages > 0;
            let Some(member) = incident.member(endpoint, workload).filter(|member| member.recovered_ms.is_none())
            else {
                continue;
            };
            member.recovered_ms = Some(at_ms);
            if !is_announced {
                // Nobody knows of it yet, and nobody needs to.
                incident.members.retain(|member| member.recovered_ms.is_none());
            } else if incident.is_over() {
                incident.due_ms = Some(at_ms);
            } else {
                let due = at_ms + rule.group_wait_ms;
                incident.due_ms = Some(incident.due_ms.map_or(due, |known| known.min(due)));
            }
        }
        self.incidents.retain(|incident| !incident.members.is_empty());
    }
}

fn is_of(place: &SeriesPlace, series: &(String, String, String)) -> bool {
    (&place.0, &place.1, &place.2) == (&series.0, &series.1, &series.2)
}

/// The kind of message that an incident owes at `now`.
fn kind_due(incident: &Incident, rule: &Rule, now_ms: u64) -> Option<MessageKind> {
    let is_due = incident.due_ms.is_some_and(|due| due <= now_ms);
    if is_due && incident.is_over() {
        return (incident.messages > 0).then_some(MessageKind::Resolved);
    }
    if is_due {
        return Some(if incident.messages == 0 { MessageKind::Firing } else { MessageKind::Changed });
    }
    let reminded = incident.last_message_ms.zip(rule.remind_after_ms);
    reminded.is_some_and(|(last, after)| last + after <= now_ms).then_some(MessageKind::Reminder)
}

fn message(monitor: &str, incident: &Incident, rule: &Rule, kind: MessageKind, at_ms: u64) -> Message {
    // The time it was opened keeps ids unique where a database was lost and numbers begin again.
    let name = format!("{monitor}-{}-{}", incident.opened_ms, incident.id);
    Message {
        id: format!("{name}-{}", incident.messages + 1),
        incident: name,
        kind,
        rule: rule.name.clone(),
        provider: incident.provider.clone(),
        opened_ms: incident.opened_ms,
        at_ms,
        members: incident.members.clone(),
        receivers: rule.receivers.clone(),
    }
}

#[cfg(test)]
mod tests;
