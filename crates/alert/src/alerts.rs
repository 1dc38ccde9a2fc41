//! From findings to messages.
//!
//! A place is bad when `failing` of its latest `of` findings are, and good again when the latest `failing` are all good. A series is bad
//! while at least `places` places are. Series of one provider that a rule finds bad at the same time are one incident.
//!
//! Invariant: a series is in at most one open incident of a rule; what recovers before its incident was announced is never sent.

use crate::incident::{Incident, Member};
use crate::message::{Message, MessageKind};
use crate::part::{self, Found, Part, Said, SeriesPlace};
use crate::rule::Rule;
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

/// Rules and what they found.
#[derive(Clone, Debug)]
pub struct Alerts {
    rules: Vec<Rule>,
    /// The monitor's name, which makes ids unique among monitors.
    monitor: String,
    findings: BTreeMap<SeriesPlace, Found>,
    incidents: Vec<Incident>,
    /// Incidents so far.
    opened: u64,
    /// By rule when something is due of its incidents at the earliest, quiet hours aside: asked for far more often than it changes.
    due: Vec<(usize, u64)>,
    /// What is not in [`Alerts::take_parts`] yet.
    changed: BTreeSet<SeriesPlace>,
    /// Incidents and their number as they were handed out there.
    kept: (Vec<Incident>, u64),
}

impl Alerts {
    /// Alerts of a monitor by these rules, which go on from the parts that were kept: key and value. Incidents of rules that are no
    /// more are closed without a message.
    pub fn new<'p>(monitor: &str, rules: Vec<Rule>, parts: impl Iterator<Item = (&'p str, &'p str)>) -> Alerts {
        let mut alerts = Alerts {
            due: Vec::new(),
            monitor: monitor.to_owned(),
            findings: BTreeMap::new(),
            incidents: Vec::new(),
            opened: 0,
            changed: BTreeSet::new(),
            kept: (Vec::new(), 0),
            rules,
        };
        for said in parts.filter_map(|(key, value)| part::said(key, value)) {
            match said {
                Said::Place(place, found) if alerts.is_known(&place.0) => drop(alerts.findings.insert(place, found)),
                Said::Place(place, _) => drop(alerts.changed.insert(place)),
                Said::Incident(incident) => alerts.incidents.push(*incident),
                Said::Opened(opened) => alerts.opened = opened,
            }
        }
        alerts.incidents.sort_unstable_by_key(|incident| incident.id);
        alerts.kept = (alerts.incidents.clone(), alerts.opened);
        let mut incidents = std::mem::take(&mut alerts.incidents);
        incidents.retain(|incident| alerts.is_known(&incident.rule));
        alerts.incidents = incidents;
        alerts.find_due();
        alerts
    }

    fn is_known(&self, rule: &str) -> bool {
        self.rules.iter().any(|known| known.name == rule)
    }

    /// What has changed since this was last asked. It is kept together with the messages that were handed out.
    pub fn take_parts(&mut self) -> Vec<Part> {
        let changed = std::mem::take(&mut self.changed);
        let mut parts: Vec<Part> =
            changed.iter().map(|place| part::of_place(place, self.findings.get(place))).collect();
        let (kept, opened) = &self.kept;
        let ids: BTreeSet<u64> = kept.iter().chain(&self.incidents).map(|incident| incident.id).collect();
        let of = |incidents: &[Incident], id: u64| incidents.iter().position(|incident| incident.id == id);
        for id in ids {
            let now = of(&self.incidents, id).map(|at| &self.incidents[at]);
            if now != of(kept, id).map(|at| &kept[at]) {
                parts.push(part::of_incident(id, now));
            }
        }
        if *opened != self.opened {
            parts.push(part::of_opened(self.opened));
        }
        if self.kept.0 != self.incidents || self.kept.1 != self.opened {
            self.kept = (self.incidents.clone(), self.opened);
        }
        parts
    }

    /// Hands out every part again, as those that were kept are gone.
    pub fn forget_kept(&mut self) {
        self.changed = self.findings.keys().cloned().collect();
        self.kept = (Vec::new(), 0);
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
        let known = self.findings.get(&place).copied();
        let found = found(&rule, known.unwrap_or_default(), finding.bad);
        if known != Some(found) {
            self.findings.insert(place.clone(), found);
            self.changed.insert(place);
        }
        // Entries of a series lie side by side.
        let first = (series.0.clone(), series.1.clone(), series.2.clone(), String::new());
        let of_series = self.findings.range(first..).take_while(|(place, _)| is_of(place, &series));
        let bad = of_series.filter(|(_, (.., is_bad))| *is_bad);
        let places: Vec<String> = bad.map(|(place, _)| place.3.clone()).collect();
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

/// What is known of a series at a place after another finding. What the rule does not look at any more is not kept, so that what goes
/// on as before changes nothing.
fn found(rule: &Rule, (bits, count, is_bad): Found, bad: bool) -> Found {
    let latest = |bits: u64, number: u32| bits & (u64::MAX >> (u64::BITS - number.clamp(1, u64::BITS)));
    let window = rule.of.max(rule.failing).clamp(1, u64::BITS);
    let bits = latest((bits << 1) | u64::from(bad), window);
    let count = (count + 1).min(window);
    let is_good = latest(bits, rule.failing) == 0 && count >= rule.failing;
    (bits, count, latest(bits, rule.of).count_ones() >= rule.failing || is_bad && !is_good)
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
