//! Rules over changes, objectives and silence, worked out by hand, with restarts amid.

use super::*;
use crate::testing::Folder;
use tokrate_alert::MessageKind;
use tokrate_notify::{Receiver, To};
use tokrate_record::Probe;

const NOW: u64 = 1_780_272_000_000;
const MINUTE: u64 = 60_000;

fn settings(watch: Watch, receivers: &[&str]) -> AlertSettings {
    let receiver = |name: &&str| Receiver { name: (*name).to_owned(), to: To::Command(vec!["true".to_owned()]) };
    let rule = Rule {
        name: "r".to_owned(),
        receivers: receivers.iter().map(|name| (*name).to_owned()).collect(),
        ..Rule::default()
    };
    AlertSettings {
        rules: vec![AlertRule { rule, watch, resolve_after_ms: 60 * MINUTE }],
        receivers: receivers.iter().map(receiver).collect(),
        board: None,
    }
}

/// Rules on a database, as a monitor has them.
struct Monitor {
    folder: Folder,
    settings: AlertSettings,
    store: Option<MonitorStore>,
    alerting: Option<Alerting>,
}

impl Monitor {
    fn new(name: &str, settings: AlertSettings) -> Monitor {
        let mut monitor =
            Monitor { folder: Folder::new(&format!("alerting-{name}")), settings, store: None, alerting: None };
        monitor.restart();
        monitor
    }

    fn restart(&mut self) {
        (self.store, self.alerting) = (None, None);
        let (mut store, _) = MonitorStore::open(&self.folder.0.join("m.db"), NOW).expect("a store");
        let (alerting, writes) = Alerting::new("p", &self.settings, &store, NOW).expect("readable");
        store.apply(&writes).expect("room");
        (self.store, self.alerting) = (Some(store), Some(alerting));
    }

    fn alerting(&mut self) -> &mut Alerting {
        self.alerting.as_mut().expect("started")
    }

    /// Messages that are sent at a minute: kind and endpoints.
    fn sent(&mut self, minute: u64) -> Vec<(MessageKind, Vec<String>)> {
        let now = NOW + minute * MINUTE;
        let writes = self.alerting().poll(now);
        self.store.as_mut().expect("started").apply(&writes).expect("room");
        let mut sent = Vec::new();
        while let Some(delivery) = self.alerting().take_due(now) {
            let (writes, notice) = self.alerting().ended(&delivery, Ok(()), now);
            assert_eq!(notice, None);
            self.store.as_mut().expect("started").apply(&writes).expect("room");
            let named = delivery.message.members.iter().map(|member| member.endpoint.clone());
            sent.push((delivery.message.kind, named.collect()));
        }
        sent
    }
}

fn event(kind: &str, endpoint: &str, metric: &str, change: f64) -> EventRow {
    EventRow {
        at_unix_ms: NOW as i64,
        endpoint: endpoint.to_owned(),
        workload: "w".to_owned(),
        place: "fra".to_owned(),
        metric: metric.to_owned(),
        kind: kind.to_owned(),
        since_unix_ms: NOW as i64,
        change,
        ..EventRow::default()
    }
}

fn changes(kinds: &[&str]) -> Watch {
    Watch::Changes(kinds.iter().map(|kind| (*kind).to_owned()).collect())
}

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn changes_of_one_provider_are_one_message_over_a_restart_and_end_with_their_own_number() {
    let mut monitor = Monitor::new("changes", settings(changes(&["regression", "errors"]), &["ops"]));
    monitor.alerting().change(&event("regression", "a/one", "ttft_ms", 0.5), NOW);
    assert_eq!(monitor.sent(1), [], "it waits for others");
    monitor.restart();
    monitor.alerting().change(&event("errors", "a/two", "errors", 0.4), NOW + 2 * MINUTE);
    monitor.alerting().change(&event("regression", "a/one", "output_speed", -0.3), NOW + 2 * MINUTE);
    monitor.alerting().change(&event("spread", "a/three", "ttft_ms", 0.4), NOW + 2 * MINUTE);
    assert_eq!(monitor.sent(5), [(MessageKind::Firing, named(&["a/one", "a/two"]))]);
    monitor.restart();
    assert_eq!(monitor.sent(6), []);
    monitor.alerting().change(&event("improvement", "a/one", "ttft_ms", -0.3), NOW + 7 * MINUTE);
    assert_eq!(monitor.sent(20), [], "its speed is still bad");
    monitor.alerting().change(&event("improvement", "a/one", "output_speed", 0.3), NOW + 21 * MINUTE);
    monitor.alerting().change(&event("errors", "a/two", "errors", -0.4), NOW + 21 * MINUTE);
    assert_eq!(monitor.sent(22), [(MessageKind::Resolved, named(&["a/one", "a/two"]))]);
    assert_eq!(monitor.sent(10_000), []);
}

#[test]
fn a_change_of_which_nothing_more_comes_is_over_after_its_time() {
    let mut monitor = Monitor::new("usual", settings(changes(&["quarantine"]), &["ops"]));
    let quarantine = EventRow { endpoint: "*".to_owned(), ..event("quarantine", "", "all", 0.0) };
    monitor.alerting().change(&quarantine, NOW);
    assert_eq!(monitor.sent(5), [(MessageKind::Firing, named(&["the prober at fra"]))]);
    monitor.alerting().change(&quarantine, NOW + 30 * MINUTE);
    assert_eq!(monitor.sent(61), [], "an hour after the latest");
    monitor.restart();
    assert_eq!(monitor.alerting().wake_at(NOW + 61 * MINUTE), Some(NOW + 90 * MINUTE));
    assert_eq!(monitor.sent(90), [(MessageKind::Resolved, named(&["the prober at fra"]))]);
}

#[test]
fn a_prober_that_is_silent_is_one_alert_until_it_is_back() {
    let mut monitor = Monitor::new("silent", settings(Watch::Silence(60 * MINUTE), &["ops"]));
    let seen = |minute: u64| {
        [ProberRow { name: "fra-1".to_owned(), seen_unix_ms: NOW + minute * MINUTE, ..ProberRow::default() }]
    };
    for (at, seen_at) in [(0, 0), (60, 0), (61, 0), (71, 0), (81, 80), (91, 90)] {
        monitor.alerting().probers(&seen(seen_at), NOW + at * MINUTE);
        let expected = match at {
            71 => vec![(MessageKind::Firing, named(&["the prober fra-1"]))],
            81 => vec![(MessageKind::Resolved, named(&["the prober fra-1"]))],
            _ => Vec::new(),
        };
        assert_eq!(monitor.sent(at), expected, "{at}");
        monitor.restart();
    }
}

#[test]
fn a_probe_misses_what_it_has_a_number_for_and_a_failure_misses_all() {
    let slos = ["ttft<1s", "output_speed>30"].map(|text| Slo::parse(text).expect("an objective"));
    let row = |ttft_ms: Option<u64>, output_speed: Option<f64>, reason: Option<&str>| {
        let ttft_ns = ttft_ms.map(|ms| ms * 1_000_000);
        let probe = Probe { sample: Sample { ttft_ns, output_speed, ..Sample::default() }, ..Probe::default() };
        ProbeRow { probe, reason: reason.map(str::to_owned), ..ProbeRow::default() }
    };
    let judged = |row: ProbeRow| judge(&slos, &row);
    assert_eq!(judged(row(Some(900), Some(40.0), None)), Some(Ok(())));
    assert_eq!(judged(row(Some(900), None, None)), Some(Ok(())));
    assert_eq!(judged(row(Some(1_200), Some(40.0), None)), Some(Err("ttft was 1200 ms, not < 1000".to_owned())));
    let slow = "output_speed was 12 tok/s, not > 30".to_owned();
    assert_eq!(judged(row(None, Some(12.0), None)), Some(Err(slow)));
    assert_eq!(judged(row(None, None, None)), None, "nothing can be said");
    assert_eq!(judged(row(Some(1), None, Some("HTTP 500"))), Some(Err("HTTP 500".to_owned())));
}

#[test]
fn what_cannot_be_delivered_waits_over_restarts_and_is_given_up_with_its_receiver() {
    let mut monitor = Monitor::new("waiting", settings(changes(&["errors"]), &["ops", "chat"]));
    monitor.alerting().change(&event("errors", "a/one", "errors", 0.4), NOW);
    let now = NOW + 5 * MINUTE;
    let writes = monitor.alerting().poll(now);
    monitor.store.as_mut().expect("started").apply(&writes).expect("room");
    let first = monitor.alerting().take_due(now).expect("due");
    let (writes, notice) = monitor.alerting().ended(&first, Err("HTTP 503".to_owned()), now);
    monitor.store.as_mut().expect("started").apply(&writes).expect("room");
    let notice = notice.expect("the first failure");
    assert_eq!(notice, "failed to send the alert `a: r (1 series)` to `ops`: HTTP 503; it is tried again");
    monitor.restart();
    // The other was not tried yet.
    assert_eq!(monitor.alerting().take_due(now).map(|delivery| delivery.receiver), Some("chat".to_owned()));
    assert_eq!(monitor.alerting().take_due(now), None);
    let again = monitor.alerting().take_due(now + 10_000).expect("due again");
    assert_eq!((again.message.id == first.message.id, again.failures), (true, 1));
    // A receiver that is no more gets nothing, and that can be seen.
    monitor.settings = settings(changes(&["errors"]), &["ops"]);
    monitor.restart();
    let given_up = |row: &DeliveryRow| row.given_up_unix_ms.is_some();
    let rows = monitor.store.as_ref().expect("started").deliveries().expect("readable");
    let states: Vec<(&str, bool)> = rows.iter().map(|row| (row.receiver.as_str(), given_up(row))).collect();
    assert_eq!(states, [("ops", false), ("chat", true)]);
    // After three days it is given up.
    let late = now + 3 * 24 * 60 * MINUTE;
    let delivery = monitor.alerting().take_due(late).expect("due");
    let (_, notice) = monitor.alerting().ended(&delivery, Err("HTTP 503".to_owned()), late);
    assert!(notice.expect("said").starts_with("the alert `a: r (1 series)` was given up after 2 attempts"));
}

#[test]
fn a_probe_that_tells_a_rule_nothing_new_writes_nothing_and_one_that_does_only_its_own_part() {
    let slos = vec![Slo::parse("ttft<1s").expect("an objective")];
    let mut monitor = Monitor::new("parts", settings(Watch::Objectives(slos), &["ops"]));
    let row = |endpoint: u32, ttft_ms: u64| {
        let sample = Sample { ttft_ns: Some(ttft_ms * 1_000_000), ..Sample::default() };
        let probe = Probe { endpoint: format!("p{endpoint}/m"), workload: "w".to_owned(), sample, ..Probe::default() };
        ProbeRow { probe, ..ProbeRow::default() }
    };
    let keys = |writes: Vec<MonitorWrite>| -> Vec<String> {
        let key = |write| match write {
            MonitorWrite::AlertPart { key, value: Some(_) } => key,
            other => panic!("{other:?}"),
        };
        writes.into_iter().map(key).collect()
    };
    (0..200).for_each(|endpoint| monitor.alerting().probe(&row(endpoint, 900), NOW));
    let writes = monitor.alerting().poll(NOW);
    monitor.store.as_mut().expect("started").apply(&writes).expect("room");
    assert_eq!(keys(writes).len(), 200);
    monitor.restart();
    (0..200).for_each(|endpoint| monitor.alerting().probe(&row(endpoint, 900), NOW));
    assert_eq!(monitor.alerting().poll(NOW), []);
    monitor.alerting().probe(&row(7, 1_100), NOW);
    let expected = [r#"["place","r","p7/m","w",""]"#, r#"["incident","1"]"#, r#"["opened"]"#];
    assert_eq!(keys(monitor.alerting().poll(NOW)), expected);
    monitor.alerting().probe(&row(7, 1_100), NOW);
    assert_eq!(monitor.alerting().poll(NOW), []);
}
