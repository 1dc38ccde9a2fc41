//! Incidents worked out by hand, and laws that hold for all.

use super::*;
use crate::quiet::QuietHours;
use proptest::prelude::*;

const MINUTE: u64 = 60_000;

fn rule() -> Rule {
    Rule { name: "slow".to_owned(), receivers: vec!["ops".to_owned()], ..Rule::default() }
}

fn alerts(rule: Rule) -> Alerts {
    Alerts::new("here", vec![rule], std::iter::empty())
}

/// What was kept of alerts: the parts that were handed out, each in place of the one before.
#[derive(Default)]
struct Kept(BTreeMap<String, String>);

impl Kept {
    fn take(&mut self, alerts: &mut Alerts) {
        for Part { key, value } in alerts.take_parts() {
            match value {
                Some(value) => drop(self.0.insert(key, value)),
                None => assert!(self.0.remove(&key).is_some(), "{key} was never there"),
            }
        }
    }

    fn restart(&self, rules: Vec<Rule>) -> Alerts {
        Alerts::new("here", rules, self.0.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

fn see(alerts: &mut Alerts, minute: u64, endpoint: &str, place: &str, bad: bool) {
    alerts.observe(Finding {
        rule: "slow",
        endpoint,
        workload: "1k",
        place,
        at_ms: minute * MINUTE,
        bad,
        text: "TTFT p95 1.2 s, bound 800 ms",
    });
}

/// Kind and endpoints of the messages due.
fn due(alerts: &mut Alerts, minute: u64) -> Vec<(MessageKind, Vec<String>)> {
    let messages = alerts.poll(minute * MINUTE);
    let named = |message: &Message| message.members.iter().map(|member| member.endpoint.clone()).collect();
    messages.iter().map(|message| (message.kind, named(message))).collect()
}

#[test]
fn series_of_a_provider_are_one_message() {
    let mut alerts = alerts(rule());
    see(&mut alerts, 0, "groq/a", "fra", true);
    see(&mut alerts, 1, "groq/b", "fra", true);
    see(&mut alerts, 1, "other/c", "fra", true);
    assert_eq!((due(&mut alerts, 4), alerts.wake_at(4 * MINUTE)), (vec![], Some(5 * MINUTE)));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(due(&mut alerts, 5), [(MessageKind::Firing, names(&["groq/a", "groq/b"]))]);
    assert_eq!(due(&mut alerts, 6), [(MessageKind::Firing, names(&["other/c"]))]);
    see(&mut alerts, 7, "groq/a", "fra", true);
    assert_eq!((due(&mut alerts, 60), alerts.wake_at(0)), (vec![], None), "nothing new");
    see(&mut alerts, 61, "groq/a", "fra", false);
    see(&mut alerts, 62, "groq/d", "fra", true);
    assert_eq!(due(&mut alerts, 66), [(MessageKind::Changed, names(&["groq/a", "groq/b", "groq/d"]))]);
    see(&mut alerts, 67, "groq/b", "fra", false);
    see(&mut alerts, 68, "groq/d", "fra", false);
    assert_eq!(due(&mut alerts, 68), [(MessageKind::Resolved, names(&["groq/b", "groq/d"]))]);
    assert_eq!(alerts.open_incidents(), 1, "the other provider's");
}

#[test]
fn n_of_m_and_a_quorum_of_places() {
    let mut alerts = alerts(Rule { failing: 2, of: 3, places: 2, group_wait_ms: 0, ..rule() });
    for (minute, fra, nyc) in [(0, true, true), (1, false, false), (2, true, false)] {
        see(&mut alerts, minute, "groq/a", "fra", fra);
        see(&mut alerts, minute, "groq/a", "nyc", nyc);
    }
    assert_eq!(due(&mut alerts, 2), [], "one place of two");
    see(&mut alerts, 3, "groq/a", "nyc", true);
    assert_eq!(due(&mut alerts, 3), [], "in the other 1 of the latest 3");
    see(&mut alerts, 4, "groq/a", "nyc", true);
    assert_eq!(due(&mut alerts, 4).len(), 1);
    see(&mut alerts, 5, "groq/a", "fra", false);
    assert_eq!(due(&mut alerts, 5), [], "one good finding of two that are needed");
    see(&mut alerts, 6, "groq/a", "fra", false);
    assert_eq!(due(&mut alerts, 6)[0].0, MessageKind::Resolved);
}

#[test]
fn what_recovers_before_it_was_announced_is_never_sent() {
    let mut alerts = alerts(rule());
    see(&mut alerts, 0, "groq/a", "fra", true);
    see(&mut alerts, 3, "groq/a", "fra", false);
    assert_eq!((due(&mut alerts, 100), alerts.open_incidents()), (vec![], 0));
}

#[test]
fn reminders_come_while_it_lasts() {
    let mut alerts = alerts(Rule { remind_after_ms: Some(60 * MINUTE), group_wait_ms: 0, ..rule() });
    see(&mut alerts, 0, "groq/a", "fra", true);
    assert_eq!(due(&mut alerts, 0)[0].0, MessageKind::Firing);
    assert_eq!((due(&mut alerts, 59), alerts.wake_at(0)), (vec![], Some(60 * MINUTE)));
    assert_eq!(due(&mut alerts, 60)[0].0, MessageKind::Reminder);
    assert_eq!(due(&mut alerts, 60), []);
    see(&mut alerts, 70, "groq/a", "fra", false);
    assert_eq!(due(&mut alerts, 70)[0].0, MessageKind::Resolved);
    assert_eq!(alerts.wake_at(0), None);
}

#[test]
fn quiet_hours_hold_messages_back_and_drop_what_is_over() {
    let quiet = Some(QuietHours::parse("00:00-07:00").expect("a range"));
    let mut alerts = alerts(Rule { quiet, group_wait_ms: 0, ..rule() });
    see(&mut alerts, 10, "groq/a", "fra", true);
    see(&mut alerts, 20, "groq/b", "fra", true);
    see(&mut alerts, 30, "groq/b", "fra", false);
    assert_eq!((due(&mut alerts, 30), alerts.wake_at(30 * MINUTE)), (vec![], Some(7 * 60 * MINUTE)));
    assert_eq!(due(&mut alerts, 7 * 60), [(MessageKind::Firing, vec!["groq/a".to_owned()])]);
}

#[test]
fn a_restart_forgets_nothing_and_repeats_nothing() {
    let mut alerts = alerts(Rule { failing: 2, of: 2, group_wait_ms: 0, ..rule() });
    see(&mut alerts, 0, "groq/a", "fra", true);
    let mut kept = Kept::default();
    let mut restarted = |mut alerts: Alerts| {
        kept.take(&mut alerts);
        kept.restart(vec![Rule { failing: 2, of: 2, group_wait_ms: 0, ..rule() }])
    };
    let mut alerts = restarted(alerts);
    see(&mut alerts, 1, "groq/a", "fra", true);
    let first = alerts.poll(MINUTE);
    assert_eq!((first.len(), first[0].id.as_str()), (1, "here-60000-1-1"));
    let mut alerts = restarted(alerts);
    assert_eq!(alerts.poll(2 * MINUTE), []);
    see(&mut alerts, 3, "groq/a", "fra", false);
    see(&mut alerts, 4, "groq/a", "fra", false);
    let last = alerts.poll(4 * MINUTE);
    assert_eq!((last[0].kind, &last[0].incident), (MessageKind::Resolved, &first[0].incident));
    // A rule that is no more takes its incidents with it.
    see(&mut alerts, 5, "groq/a", "fra", true);
    see(&mut alerts, 6, "groq/a", "fra", true);
    kept.take(&mut alerts);
    let mut other = kept.restart(Vec::new());
    assert_eq!((other.poll(u64::MAX / 2), other.open_incidents()), (vec![], 0));
    kept.take(&mut other);
    assert_eq!(kept.0.into_values().collect::<Vec<_>>(), ["2"], "but for how many there were");
}

#[test]
fn what_goes_on_as_before_changes_no_part() {
    let mut alerts = alerts(Rule { failing: 2, of: 3, group_wait_ms: 0, ..rule() });
    for minute in 0..3 {
        see(&mut alerts, minute, "groq/a", "fra", false);
        see(&mut alerts, minute, "groq/b", "fra", true);
    }
    assert_eq!(due(&mut alerts, 3).len(), 1);
    assert_eq!(alerts.take_parts().len(), 4, "two places, an incident, and how many there were");
    for minute in 4..100 {
        see(&mut alerts, minute, "groq/a", "fra", false);
        see(&mut alerts, minute, "groq/b", "fra", true);
        assert_eq!((due(&mut alerts, minute), alerts.take_parts()), (vec![], vec![]), "{minute}");
    }
    see(&mut alerts, 100, "groq/a", "fra", true);
    let [part] = &alerts.take_parts()[..] else { panic!("one place") };
    assert_eq!(part.key, r#"["place","slow","groq/a","1k","fra"]"#);
    alerts.forget_kept();
    assert_eq!(alerts.take_parts().len(), 4, "all again");
}

proptest! {
    #[test]
    fn every_announced_incident_is_resolved_once(
        steps in prop::collection::vec((0u64..4, 0usize..4, 0usize..2, any::<bool>()), 1..200),
        failing in 1u32..4, extra in 0u32..3, places in 1u32..3, wait in 0u64..4, reminded: bool,
    ) {
        let rule = Rule {
            failing,
            of: failing + extra,
            places,
            group_wait_ms: wait * MINUTE,
            remind_after_ms: reminded.then_some(7 * MINUTE),
            ..rule()
        };
        let (mut alerts, mut other, mut kept) = (alerts(rule.clone()), alerts(rule.clone()), Kept::default());
        let (mut minute, mut sent) = (0, Vec::new());
        let mut messages_of_other = Vec::new();
        let mut poll = |alerts: &mut Alerts, minute: u64| sent.extend(alerts.poll(minute * MINUTE));
        for (pause, endpoint, place, bad) in steps {
            minute += pause;
            poll(&mut alerts, minute);
            let (endpoint, place) = (["p/a", "p/b", "q/a", "q/b"][endpoint], ["fra", "nyc"][place]);
            see(&mut alerts, minute, endpoint, place, bad);
            poll(&mut alerts, minute);
            // One that is restarted at every step says the same.
            messages_of_other.extend(other.poll(minute * MINUTE));
            see(&mut other, minute, endpoint, place, bad);
            messages_of_other.extend(other.poll(minute * MINUTE));
            kept.take(&mut other);
            other = kept.restart(vec![rule.clone()]);
        }
        prop_assert_eq!(&sent, &messages_of_other);
        let mut poll = |alerts: &mut Alerts, minute: u64| sent.extend(alerts.poll(minute * MINUTE));
        // Everything recovers.
        for _ in 0..4 {
            for endpoint in ["p/a", "p/b", "q/a", "q/b"] {
                for place in ["fra", "nyc"] {
                    see(&mut alerts, minute, endpoint, place, false);
                }
            }
        }
        poll(&mut alerts, minute + 10);
        poll(&mut alerts, minute + 10_000);
        prop_assert_eq!(alerts.open_incidents(), 0);
        let mut ids = BTreeSet::new();
        let mut open: BTreeSet<String> = BTreeSet::new();
        for message in &sent {
            prop_assert!(ids.insert(message.id.clone()), "an id twice: {}", message.id);
            prop_assert!(!message.members.is_empty());
            match message.kind {
                MessageKind::Firing => prop_assert!(open.insert(message.incident.clone())),
                MessageKind::Changed | MessageKind::Reminder => prop_assert!(open.contains(&message.incident)),
                MessageKind::Resolved => prop_assert!(open.remove(&message.incident)),
            }
        }
        prop_assert!(open.is_empty(), "announced and never resolved: {open:?}");
    }
}
