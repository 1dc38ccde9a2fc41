//! What is still to be delivered, and when it is tried next.
//!
//! Invariant: a delivery stays until it was accepted or given up, and is tried at most once at a time.

use crate::message::Message;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One message for one receiver.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// Who gets it.
    pub receiver: String,
    /// Attempts that failed.
    pub failures: u32,
    /// When it is tried next (ms since 1970).
    pub next_ms: u64,
    /// Why the latest attempt failed.
    pub error: Option<String>,
}

/// When a delivery that failed is tried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// After the first failure (ms); doubled after each further one.
    pub first_ms: u64,
    /// At most so long (ms).
    pub longest_ms: u64,
    /// Given up so long after the message was made (ms).
    pub give_up_ms: u64,
}

impl Default for Retry {
    /// After 10 s first, every 15 minutes at the most, for three days: an outage of a weekend.
    fn default() -> Retry {
        Retry { first_ms: 10_000, longest_ms: 15 * 60_000, give_up_ms: 3 * 24 * 3_600_000 }
    }
}

/// Deliveries that wait.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outbox {
    retry: Retry,
    waiting: Vec<(Delivery, bool)>,
}

impl Outbox {
    /// An outbox with what was still to be delivered when a monitor ended.
    pub fn new(retry: Retry, deliveries: Vec<Delivery>) -> Outbox {
        Outbox { retry, waiting: deliveries.into_iter().map(|delivery| (delivery, false)).collect() }
    }

    /// Adds a message for each of its receivers; returns what has to be stored.
    pub fn push(&mut self, message: &Message) -> Vec<Delivery> {
        let delivery = |receiver: &String| Delivery {
            message: message.clone(),
            receiver: receiver.clone(),
            failures: 0,
            next_ms: message.at_ms,
            error: None,
        };
        let added: Vec<Delivery> = message.receivers.iter().map(delivery).collect();
        self.waiting.extend(added.iter().cloned().map(|delivery| (delivery, false)));
        added
    }

    /// The next delivery to try; it is not handed out again before its outcome is known. Of one incident and receiver the
    /// messages go out in their order.
    pub fn take_due(&mut self, now_ms: u64) -> Option<Delivery> {
        let is_first = |place: usize| {
            let (one, _) = &self.waiting[place];
            let is_before = |(other, _): &(Delivery, bool)| {
                other.receiver == one.receiver && other.message.incident == one.message.incident
            };
            !self.waiting[..place].iter().any(is_before)
        };
        // What would be due later than any retry is due now: the clock was set back.
        let latest = now_ms.saturating_add(self.retry.longest_ms);
        let is_due = |next_ms: u64| next_ms <= now_ms || next_ms > latest;
        let due = |(delivery, is_out): &(Delivery, bool)| !is_out && is_due(delivery.next_ms);
        let place = (0..self.waiting.len()).find(|place| due(&self.waiting[*place]) && is_first(*place))?;
        self.waiting[place].1 = true;
        Some(self.waiting[place].0.clone())
    }

    /// A receiver has accepted a message.
    pub fn delivered(&mut self, message: &str, receiver: &str) {
        self.waiting.retain(|(delivery, _)| !is_it(delivery, message, receiver));
    }

    /// An attempt failed. Returns the delivery as it is tried again, to be stored, or as it was given up.
    pub fn failed(
        &mut self,
        message: &str,
        receiver: &str,
        now_ms: u64,
        error: &str,
    ) -> Option<Result<Delivery, Delivery>> {
        let place = self.waiting.iter().position(|(delivery, _)| is_it(delivery, message, receiver))?;
        let retry = self.retry;
        let (delivery, is_out) = &mut self.waiting[place];
        *is_out = false;
        delivery.error = Some(tokrate_core::one_line(error, 512));
        let wait = retry.first_ms.saturating_mul(1 << delivery.failures.min(30)).min(retry.longest_ms);
        delivery.failures = delivery.failures.saturating_add(1);
        delivery.next_ms = now_ms.saturating_add(wait);
        if now_ms.saturating_sub(delivery.message.at_ms) >= retry.give_up_ms {
            return Some(Err(self.waiting.remove(place).0));
        }
        Some(Ok(delivery.clone()))
    }

    /// When the next delivery is due. One that waits for an earlier one of its incident is due once that is out of the way: whoever waited
    /// for it would not wait at all.
    pub fn wake_at(&self) -> Option<u64> {
        let mut before = BTreeSet::new();
        let first =
            self.waiting.iter().filter(|(delivery, _)| before.insert((&delivery.receiver, &delivery.message.incident)));
        first.filter(|(_, is_out)| !is_out).map(|(delivery, _)| delivery.next_ms).min()
    }

    /// What waits, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &Delivery> {
        self.waiting.iter().map(|(delivery, _)| delivery)
    }
}

fn is_it(delivery: &Delivery, message: &str, receiver: &str) -> bool {
    delivery.message.id == message && delivery.receiver == receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageKind;

    fn message(id: &str, incident: &str, receivers: &[&str]) -> Message {
        Message {
            id: id.to_owned(),
            incident: incident.to_owned(),
            kind: MessageKind::Firing,
            rule: "slow".to_owned(),
            provider: "groq".to_owned(),
            opened_ms: 0,
            at_ms: 1_000,
            members: Vec::new(),
            receivers: receivers.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn each_receiver_gets_it_until_it_has_accepted_it() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.push(&message("a-1", "a", &["mail", "chat"])).len(), 2);
        let mail = outbox.take_due(1_000).expect("due at once");
        let chat = outbox.take_due(1_000).expect("due at once");
        assert_eq!((mail.receiver.as_str(), chat.receiver.as_str(), outbox.take_due(9_000)), ("mail", "chat", None));
        outbox.delivered("a-1", "mail");
        let again = outbox.failed("a-1", "chat", 2_000, "refused\n\u{1b}[2J").expect("known").expect("tried again");
        assert_eq!((again.failures, again.next_ms, again.error.as_deref()), (1, 12_000, Some("refused [2J")));
        assert_eq!((outbox.take_due(11_999), outbox.wake_at()), (None, Some(12_000)));
        assert_eq!(outbox.take_due(12_000).expect("due again").receiver, "chat");
        let later = outbox.failed("a-1", "chat", 12_500, "refused").expect("known").expect("tried again");
        assert_eq!(later.next_ms, 32_500, "20 s");
        // What is stored is what a new process goes on with.
        let mut restarted = Outbox::new(Retry::default(), outbox.waiting().cloned().collect());
        assert_eq!(restarted.take_due(40_000), Some(later));
    }

    #[test]
    fn messages_of_an_incident_stay_in_order() {
        let mut outbox = Outbox::default();
        for (id, incident) in [("a-1", "a"), ("a-2", "a"), ("b-1", "b")] {
            outbox.push(&message(id, incident, &["chat"]));
        }
        assert_eq!(outbox.take_due(1_000).expect("due").message.id, "a-1");
        assert_eq!(outbox.take_due(1_000).expect("due").message.id, "b-1", "the second waits for the first");
        outbox.delivered("a-1", "chat");
        assert_eq!(outbox.take_due(1_000).expect("due").message.id, "a-2");
    }

    #[test]
    fn nothing_is_due_that_waits_for_an_earlier_message_of_its_incident() {
        let mut outbox = Outbox::default();
        for (id, incident) in [("a-1", "a"), ("a-2", "a")] {
            outbox.push(&message(id, incident, &["chat"]));
        }
        outbox.take_due(1_000).expect("due");
        assert_eq!((outbox.wake_at(), outbox.take_due(1_000)), (None, None), "the first is under way");
        outbox.failed("a-1", "chat", 2_000, "refused").expect("known").expect("tried again");
        assert_eq!(
            (outbox.wake_at(), outbox.take_due(2_000)),
            (Some(12_000), None),
            "the second is not what is waited for"
        );
        assert_eq!(outbox.take_due(12_000).expect("due again").message.id, "a-1");
        outbox.delivered("a-1", "chat");
        assert_eq!(outbox.wake_at(), Some(1_000));
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nothing_back() {
        let mut outbox = Outbox::default();
        outbox.push(&Message { at_ms: 2_000_000_000, ..message("a-1", "a", &["chat"]) });
        assert!(outbox.take_due(1_000_000_000).is_some());
    }

    #[test]
    fn it_gives_up_after_days_and_says_so() {
        let mut outbox = Outbox::default();
        outbox.push(&message("a-1", "a", &["chat"]));
        let late = 1_000 + Retry::default().give_up_ms;
        outbox.take_due(late).expect("due");
        let given_up = outbox.failed("a-1", "chat", late, "no such host").expect("known").expect_err("given up");
        assert_eq!(given_up.error.as_deref(), Some("no such host"));
        assert_eq!(outbox.waiting().count(), 0);
        assert_eq!(outbox.failed("a-1", "chat", late, "again"), None);
    }
}
