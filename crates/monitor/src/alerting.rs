//! From changes and probes to messages: what the rules of `[monitor.alerts]` make of what was found, and what is still to be delivered.
//!
//! Rules, incidents and forms are `alert`'s. Invariant: what a rule remembers and the messages that it made are written together with
//! the change that they came of, so that a restart neither forgets nor repeats one.

use crate::canary::FIDELITY;
use std::collections::{BTreeMap, BTreeSet};
use tokrate_alert::{Alerts, Delivery, Finding, Outbox, Part, Retry, Rule};
use tokrate_core::rfc3339;
use tokrate_judge::Slo;
use tokrate_net::Clock;
use tokrate_record::{Metric, Sample};
use tokrate_store::{DeliveryRow, EventRow, MonitorStore, MonitorWrite, ProbeRow, ProberRow, StoreError};

/// What alerts depend on.
#[derive(Clone, Debug, Default)]
pub struct AlertSettings {
    /// When a message is sent, and to whom.
    pub rules: Vec<AlertRule>,
    /// Who can get one.
    pub receivers: Vec<tokrate_notify::Receiver>,
    /// The address of the board, for messages.
    pub board: Option<String>,
}

/// So long an alert without reminders may last for Alertmanager (ms): 30 days.
const MAX_OPEN_MS: u64 = 30 * 86_400_000;
/// Alertmanager takes an alert for firing for so long after the latest message that could come of it (ms): an hour.
const HOLD_MARGIN_MS: u64 = 3_600_000;

impl AlertSettings {
    /// Sends a message to its receiver.
    ///
    /// # Errors
    /// Why it was not accepted, without keys.
    pub async fn deliver(&self, delivery: &Delivery, clock: Clock) -> Result<(), String> {
        let receiver = self.receivers.iter().find(|receiver| receiver.name == delivery.receiver);
        let Some(receiver) = receiver else { return Err("there is no such receiver any more".to_owned()) };
        let rule = self.rules.iter().find(|rule| rule.rule.name == delivery.message.rule);
        // The next message comes as a reminder, or when it is over.
        let lasts_ms = rule.map_or(0, |rule| match rule.rule.remind_after_ms {
            Some(remind) => remind.saturating_mul(2),
            None => rule.resolve_after_ms.max(MAX_OPEN_MS),
        });
        let hold_ms = lasts_ms.saturating_add(HOLD_MARGIN_MS);
        let context = tokrate_notify::Context { board: self.board.clone(), hold_ms };
        receiver.send(&delivery.message, &context, clock).await
    }
}

/// Sends a test alert to a receiver, and waits until it has it. Blocks; call it outside a runtime.
///
/// # Errors
/// Why it was not accepted, without keys.
pub fn send_test_alert(settings: &AlertSettings, prober: &str, receiver: &str, clock: Clock) -> Result<(), String> {
    let now_ms = clock.wall_nanos() / 1_000_000;
    let mut alerts = Alerts::new(
        prober,
        vec![Rule {
            name: "test".to_owned(),
            group_wait_ms: 0,
            receivers: vec![receiver.to_owned()],
            ..Rule::default()
        }],
        std::iter::empty(),
    );
    let text = "a test alert of `tokrate monitor alert-test`: nothing is wrong";
    alerts.observe(Finding {
        rule: "test",
        endpoint: "test/test",
        workload: "",
        place: "",
        at_ms: now_ms,
        bad: true,
        text,
    });
    let message = alerts.poll(now_ms).pop().ok_or("there is no message")?;
    let delivery = Delivery { message, receiver: receiver.to_owned(), failures: 0, next_ms: now_ms, error: None };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    tokio::task::LocalSet::new().block_on(&runtime, settings.deliver(&delivery, clock))
}

/// A rule, and what makes it find something bad.
#[derive(Clone, Debug)]
pub struct AlertRule {
    /// About what, how often, for whom.
    pub rule: Rule,
    /// What is bad.
    pub watch: Watch,
    /// A change of which nothing more comes is over after so long (ms): it has become usual.
    pub resolve_after_ms: u64,
}

/// What makes a rule find something bad.
#[derive(Clone, PartialEq, Debug)]
pub enum Watch {
    /// Changes of these kinds, such as `regression`.
    Changes(Vec<String>),
    /// A probe that misses one of these, or fails.
    Objectives(Vec<Slo>),
    /// A prober that was not seen for so long (ms).
    Silence(u64),
}

/// Kinds of changes that a rule can be about.
pub const CHANGE_KINDS: [&str; 8] =
    ["regression", "errors", FIDELITY, "improvement", "spread", "cycle", "stream", "quarantine"];

/// Kinds whose size is a difference of shares, and which are over when it is negative.
fn is_of_shares(kind: &str) -> bool {
    kind == "errors" || kind == FIDELITY
}

/// Metrics that an objective of a rule can bound.
pub const PROBE_METRICS: [Metric; 5] = [Metric::Ttfb, Metric::Ttft, Metric::Ttfat, Metric::E2e, Metric::OutputSpeed];

/// Rule, endpoint, workload, place, metric.
type Lasting = (String, String, String, String, String);

/// The kind of the parts of what lasts.
const LASTING: &str = "lasting";

/// The rules at work.
pub(crate) struct Alerting {
    rules: Vec<AlertRule>,
    alerts: Alerts,
    outbox: Outbox,
    /// Changes that last, and until when without another (ms since 1970).
    lasting: BTreeMap<Lasting, u64>,
    /// Those of them that are not written as they are now.
    changed: BTreeSet<Lasting>,
    /// Whether what is written of the rules is to be written anew.
    is_lost: bool,
}

impl Alerting {
    /// Goes on where an earlier run was; `monitor` is the prober's name. Also returns what is to be written: deliveries to receivers
    /// that are no more are given up.
    pub fn new(
        monitor: &str,
        settings: &AlertSettings,
        store: &MonitorStore,
        now_ms: u64,
    ) -> Result<(Alerting, Vec<MonitorWrite>), StoreError> {
        let parts = store.alert_parts()?;
        let parts = || parts.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let rules = settings.rules.clone();
        let is_known = |lasting: &Lasting| rules.iter().any(|rule| rule.rule.name == lasting.0);
        let (mut lasting, mut changed) = (BTreeMap::new(), BTreeSet::new());
        for ([rule, endpoint, workload, place, metric], until) in
            parts().filter_map(|(key, value)| Part::read(key, value, LASTING))
        {
            let key = (rule, endpoint, workload, place, metric);
            match is_known(&key) {
                true => drop(lasting.insert(key, until)),
                false => drop(changed.insert(key)),
            }
        }
        let known: BTreeSet<&str> = settings.receivers.iter().map(|receiver| receiver.name.as_str()).collect();
        let (mut waiting, mut writes) = (Vec::new(), Vec::new());
        for row in store.deliveries()?.into_iter().filter(|row| row.given_up_unix_ms.is_none()) {
            match serde_json::from_str::<Delivery>(&row.delivery) {
                Ok(delivery) if known.contains(delivery.receiver.as_str()) => waiting.push(delivery),
                _ => writes.push(given_up(row, now_ms)),
            }
        }
        let alerting = Alerting {
            alerts: Alerts::new(monitor, rules.iter().map(|rule| rule.rule.clone()).collect(), parts()),
            outbox: Outbox::new(Retry::default(), waiting),
            lasting,
            changed,
            is_lost: false,
            rules,
        };
        Ok((alerting, writes))
    }

    /// A change was found.
    pub fn change(&mut self, event: &EventRow, now_ms: u64) {
        let is_over = event.kind == "improvement" || (is_of_shares(&event.kind) && event.change < 0.0);
        let prober = format!("the prober at {}", event.place);
        let is_prober = event.endpoint == "*";
        let endpoint = if is_prober { &prober } else { &event.endpoint };
        let workload = if is_prober { "" } else { &event.workload };
        for rule in self.rules.clone() {
            let Watch::Changes(kinds) = &rule.watch else { continue };
            let of = |metric: &str| {
                let name = rule.rule.name.clone();
                (name, endpoint.clone(), workload.to_owned(), event.place.clone(), metric.to_owned())
            };
            let is_wanted = kinds.contains(&event.kind);
            let is_begun = is_wanted && !(is_of_shares(&event.kind) && is_over);
            if is_begun {
                self.lasts(&of(&event.metric), Some(now_ms.saturating_add(rule.resolve_after_ms)));
                self.observe(&of(&event.metric), now_ms, true, &change_text(event));
            } else if is_over && self.lasts(&of(&event.metric), None) {
                self.recovered(&of(&event.metric), now_ms);
            }
        }
    }

    /// A request of a probe counts.
    pub fn probe(&mut self, row: &ProbeRow, now_ms: u64) {
        for rule in self.rules.clone() {
            let Watch::Objectives(slos) = &rule.watch else { continue };
            let Some(result) = judge(slos, row) else { continue };
            let probe = &row.probe;
            let series = (
                rule.rule.name.clone(),
                probe.endpoint.clone(),
                probe.workload.clone(),
                probe.place.clone(),
                String::new(),
            );
            self.observe(&series, now_ms, result.is_err(), &result.err().unwrap_or_default());
        }
    }

    /// Which probers there are, and when they were last seen.
    pub fn probers(&mut self, probers: &[ProberRow], now_ms: u64) {
        for rule in self.rules.clone() {
            let Watch::Silence(after_ms) = rule.watch else { continue };
            for prober in probers {
                let is_silent = now_ms.saturating_sub(prober.seen_unix_ms) > after_ms;
                let name = format!("the prober {}", prober.name);
                let series = (rule.rule.name.clone(), name, String::new(), prober.place.clone(), String::new());
                if is_silent || self.lasting.contains_key(&series) {
                    let text = format!("it was last seen at {}", rfc3339(prober.seen_unix_ms / 1_000));
                    self.lasts(&series, is_silent.then_some(u64::MAX));
                    self.observe(&series, now_ms, is_silent, &text);
                }
            }
        }
    }

    /// Whether any rule looks at single probes.
    pub fn watches_probes(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.watch, Watch::Objectives(_)))
    }

    /// Whether a rule is about silent probers.
    pub fn watches_probers(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.watch, Watch::Silence(_)))
    }

    /// What is to be written now: messages that are due, and what has changed of what the rules remember.
    pub fn poll(&mut self, now_ms: u64) -> Vec<MonitorWrite> {
        let mut writes = Vec::new();
        if self.wake_at(now_ms).is_some_and(|wake_at| wake_at <= now_ms) {
            let over: Vec<Lasting> =
                self.lasting.iter().filter(|(_, until)| **until <= now_ms).map(|(key, _)| key.clone()).collect();
            for key in over {
                self.lasts(&key, None);
                self.recovered(&key, now_ms);
            }
            for message in self.alerts.poll(now_ms) {
                writes.extend(self.outbox.push(&message).iter().map(|delivery| delivery_write(delivery, None)));
            }
        }
        if std::mem::take(&mut self.is_lost) {
            self.alerts.forget_kept();
            self.changed = self.lasting.keys().cloned().collect();
            writes.push(MonitorWrite::AlertPartsGone);
        }
        let lasting = std::mem::take(&mut self.changed);
        let parts = lasting.iter().map(|key| {
            let (rule, endpoint, workload, place, metric) = key;
            Part::new(LASTING, &[rule, endpoint, workload, place, metric], self.lasting.get(key))
        });
        let parts: Vec<Part> = parts.chain(self.alerts.take_parts()).collect();
        writes.extend(parts.into_iter().map(|Part { key, value }| MonitorWrite::AlertPart { key, value }));
        writes
    }

    /// Some of what was to be written is lost: all that the rules remember is written again.
    pub fn write_anew(&mut self) {
        self.is_lost = true;
    }

    /// The next message to deliver.
    pub fn take_due(&mut self, now_ms: u64) -> Option<Delivery> {
        self.outbox.take_due(now_ms)
    }

    /// What came of a delivery; what is to be written, and what users should know.
    pub fn ended(
        &mut self,
        delivery: &Delivery,
        result: Result<(), String>,
        now_ms: u64,
    ) -> (Vec<MonitorWrite>, Option<String>) {
        let (message, receiver) = (&delivery.message.id, &delivery.receiver);
        let Err(error) = result else {
            self.outbox.delivered(message, receiver);
            let write = MonitorWrite::Delivered { message: message.clone(), receiver: receiver.clone() };
            return (vec![write], None);
        };
        let title = tokrate_alert::form::title(&delivery.message);
        match self.outbox.failed(message, receiver, now_ms, &error) {
            None => (Vec::new(), None),
            Some(Ok(again)) => {
                let error = again.error.clone().unwrap_or_default();
                let is_first = again.failures == 1;
                let text = format!("failed to send the alert `{title}` to `{receiver}`: {error}; it is tried again");
                (vec![delivery_write(&again, None)], is_first.then_some(text))
            }
            Some(Err(lost)) => {
                let error = lost.error.clone().unwrap_or_default();
                let text = format!(
                    "the alert `{title}` was given up after {} attempts to send it to `{receiver}`: {error}",
                    lost.failures
                );
                (vec![delivery_write(&lost, Some(now_ms))], Some(text))
            }
        }
    }

    /// When there is something to do at the earliest (ms since 1970), if nothing else happens.
    pub fn wake_at(&self, now_ms: u64) -> Option<u64> {
        let lasting = self.lasting.values().copied().filter(|until| *until < u64::MAX).min();
        [self.alerts.wake_at(now_ms), lasting].into_iter().flatten().min()
    }

    /// When the next delivery is due.
    pub fn delivery_at(&self) -> Option<u64> {
        self.outbox.wake_at()
    }

    /// A change lasts until a time, or no longer; says whether it did before.
    fn lasts(&mut self, key: &Lasting, until: Option<u64>) -> bool {
        let before = match until {
            Some(until) => self.lasting.insert(key.clone(), until),
            None => self.lasting.remove(key),
        };
        if before != until {
            self.changed.insert(key.clone());
        }
        before.is_some()
    }

    fn recovered(&mut self, key: &Lasting, now_ms: u64) {
        let is_same = |other: &Lasting| (&other.0, &other.1, &other.2, &other.3) == (&key.0, &key.1, &key.2, &key.3);
        if !self.lasting.keys().any(is_same) {
            self.observe(key, now_ms, false, "");
        }
    }

    fn observe(&mut self, series: &Lasting, at_ms: u64, bad: bool, text: &str) {
        let (rule, endpoint, workload, place, _) = series;
        self.alerts.observe(Finding { rule, endpoint, workload, place, at_ms, bad, text });
    }
}

fn given_up(row: DeliveryRow, now_ms: u64) -> MonitorWrite {
    MonitorWrite::Delivery(Box::new(DeliveryRow { given_up_unix_ms: Some(now_ms), ..row }))
}

fn delivery_write(delivery: &Delivery, given_up_unix_ms: Option<u64>) -> MonitorWrite {
    MonitorWrite::Delivery(Box::new(DeliveryRow {
        message: delivery.message.id.clone(),
        receiver: delivery.receiver.clone(),
        made_unix_ms: delivery.message.at_ms,
        // Plain data with texts for keys always becomes JSON.
        delivery: serde_json::to_string(delivery).unwrap_or_default(),
        given_up_unix_ms,
    }))
}

/// A change in words.
fn change_text(event: &EventRow) -> String {
    let since = rfc3339(u64::try_from(event.since_unix_ms / 1_000).unwrap_or(0));
    let percent = |share: f64| format!("{:+.0}", 100.0 * share);
    let remark = event.remark.as_deref().map(|remark| format!("; {remark}")).unwrap_or_default();
    match event.kind.as_str() {
        "quarantine" => format!("probes since {since} do not count{remark}"),
        "errors" => format!("share of failed requests {} points since {since}{remark}", percent(event.change)),
        FIDELITY => format!("share of wrong answers to tasks {} points since {since}{remark}", percent(event.change)),
        kind => format!(
            "{kind} of {}: {} % ({} to {} %) since {since}{remark}",
            event.metric,
            percent(event.change),
            percent(event.low),
            percent(event.high)
        ),
    }
}

/// Whether a probe meets all objectives, or what it missed; `None` where it has none of the numbers.
fn judge(slos: &[Slo], row: &ProbeRow) -> Option<Result<(), String>> {
    if let Some(reason) = &row.reason {
        return Some(Err(reason.clone()));
    }
    let measured: Vec<(&Slo, f64)> =
        slos.iter().filter_map(|slo| Some((slo, value(slo.metric, &row.probe.sample)?))).collect();
    let missed = measured.iter().find(|(slo, value)| !slo.relation.holds(*value, slo.bound));
    let text = |(slo, value): &(&Slo, f64)| {
        let unit = if slo.metric.is_speed() { "tok/s" } else { "ms" };
        format!("{} was {value:.0} {unit}, not {} {}", slo.metric.name(), slo.relation.symbol(), slo.bound)
    };
    (!measured.is_empty()).then(|| missed.map_or(Ok(()), |missed| Err(text(missed))))
}

/// One of [`PROBE_METRICS`] of a probe.
fn value(metric: Metric, sample: &Sample) -> Option<f64> {
    let ms = |ns: u64| ns as f64 / 1e6;
    match metric {
        Metric::Ttfb => sample.ttfb_ns.map(ms),
        Metric::Ttft => sample.ttft_ns.map(ms),
        Metric::Ttfat => sample.ttfat_ns.map(ms),
        Metric::E2e => Some(ms(sample.total_ns)),
        Metric::OutputSpeed => sample.output_speed,
        _ => None,
    }
}

#[cfg(test)]
mod tests;
