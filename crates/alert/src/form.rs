//! A message in the forms that receivers understand.
//!
//! Invariant: names that a provider or a user gave are on one line, bounded, and escaped for the form they stand in.

use crate::incident::Member;
use crate::message::{Message, MessageKind};
use serde_json::{Value, json};
use tokrate_core::{one_line, rfc3339};

/// Longest name in a message (bytes).
const MAX_NAME_BYTES: usize = 120;
/// Series that a message spells out; of more it says how many.
const MAX_LISTED: usize = 20;

/// The first line: what happened, whose, how many.
pub fn title(message: &Message) -> String {
    let rule = name(&message.rule);
    let provider = name(&message.provider);
    let bad = message.members.iter().filter(|member| member.recovered_ms.is_none()).count();
    match message.kind {
        MessageKind::Firing => format!("{provider}: {rule} ({})", counted(bad, "series", "series")),
        MessageKind::Changed => format!("{provider}: {rule}, changed ({} bad now)", counted(bad, "series", "series")),
        MessageKind::Reminder => format!("{provider}: {rule} still lasts ({})", counted(bad, "series", "series")),
        MessageKind::Resolved => format!("{provider}: {rule}, over"),
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A line for each series: what was found, where, since when, until when.
pub fn lines(message: &Message) -> Vec<String> {
    let mut lines: Vec<String> = message.members.iter().take(MAX_LISTED).map(line).collect();
    if message.members.len() > MAX_LISTED {
        lines.push(format!("and {} more", message.members.len() - MAX_LISTED));
    }
    lines
}

fn line(member: &Member) -> String {
    let places: Vec<String> = member.places.iter().take(5).map(|place| name(place)).collect();
    let at = if places.iter().all(String::is_empty) { String::new() } else { format!(" from {}", places.join(", ")) };
    let workload = if member.workload.is_empty() { String::new() } else { format!(", {}", name(&member.workload)) };
    let until = match member.recovered_ms {
        None => format!("since {}", time(member.since_ms)),
        Some(recovered) => format!("{} to {}, over", time(member.since_ms), time(recovered)),
    };
    format!("{}{workload}{at}: {} ({until})", name(&member.endpoint), one_line(&member.text, 512))
}

fn name(text: &str) -> String {
    one_line(text, MAX_NAME_BYTES)
}

fn time(unix_ms: u64) -> String {
    rfc3339(unix_ms / 1_000)
}

/// JSON for a program of one's own. `id` is the same at every attempt, so that what came twice can be dropped. Version 1.
pub fn webhook(message: &Message, board: Option<&str>) -> Value {
    let member = |member: &Member| {
        json!({
            "endpoint": member.endpoint,
            "workload": member.workload,
            "places": member.places,
            "since": time(member.since_ms),
            "recovered": member.recovered_ms.map(time),
            "text": member.text,
        })
    };
    json!({
        "version": 1,
        "id": message.id,
        "incident": message.incident,
        "kind": message.kind.name(),
        "rule": message.rule,
        "provider": message.provider,
        "opened": time(message.opened_ms),
        "at": time(message.at_ms),
        "title": title(message),
        "members": message.members.iter().map(member).collect::<Vec<_>>(),
        "board": board,
    })
}

/// The body of an incoming webhook of Slack (also understood by Mattermost and Rocket.Chat).
pub fn slack(message: &Message, board: Option<&str>) -> Value {
    let mut text = format!("*{}*", slack_escaped(&title(message)));
    for line in lines(message) {
        text.push_str("\n• ");
        text.push_str(&slack_escaped(&line));
    }
    if let Some(board) = board {
        text.push_str(&format!("\n<{}|board>", slack_escaped(board).replace('|', "%7C")));
    }
    json!({ "text": text, "unfurl_links": false })
}

/// The three characters that Slack asks to escape (docs.slack.dev, "Formatting message text").
fn slack_escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The body of `POST /api/v2/alerts` of Prometheus' Alertmanager: an alert a series. Alertmanager knows an alert by its labels, so
/// that one that comes twice is one; `endsAt` resolves it. Without an end it is held for `hold_ms` and has to be sent again.
pub fn alertmanager(message: &Message, board: Option<&str>, hold_ms: u64) -> Value {
    let alert = |member: &Member| {
        let ends = member.recovered_ms.unwrap_or(message.at_ms.saturating_add(hold_ms));
        let mut alert = json!({
            "labels": {
                "alertname": message.rule,
                "provider": message.provider,
                "endpoint": member.endpoint,
                "workload": member.workload,
                "job": "tokrate",
            },
            "annotations": {
                "summary": title(message),
                "description": line(member),
                "incident": message.incident,
            },
            "startsAt": time(member.since_ms),
            "endsAt": time(ends),
        });
        if let Some(board) = board {
            alert["generatorURL"] = board.into();
        }
        alert
    };
    message.members.iter().map(alert).collect()
}

/// An e-mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Email {
    /// Its subject.
    pub subject: String,
    /// Its text, plain.
    pub body: String,
    /// Its `Message-ID` without brackets, the same at every attempt.
    pub message_id: String,
    /// That of the incident's first message, for `In-Reply-To`, so that an incident is one thread.
    pub in_reply_to: Option<String>,
}

/// The message as an e-mail from `domain`.
pub fn email(message: &Message, board: Option<&str>, domain: &str) -> Email {
    let mut body = format!("{}\n\n", title(message));
    for line in lines(message) {
        body.push_str(&format!("- {line}\n"));
    }
    if let Some(board) = board {
        body.push_str(&format!("\nBoard: {board}\n"));
    }
    body.push_str(&format!("\nRule: {}. Incident: {}.\n", name(&message.rule), message.incident));
    let id =
        |id: &str| format!("{}@{domain}", id.replace(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-', "-"));
    let first = format!("{}-1", message.incident);
    Email {
        subject: format!("[tokrate] {}", title(message)),
        body,
        message_id: id(&message.id),
        in_reply_to: (message.id != first).then(|| id(&first)),
    }
}

/// Environment of a command: names that begin with `TOKRATE_ALERT_`. The JSON of [`webhook`] comes on its standard input.
pub fn environment(message: &Message) -> Vec<(&'static str, String)> {
    vec![
        ("TOKRATE_ALERT_ID", message.id.clone()),
        ("TOKRATE_ALERT_INCIDENT", message.incident.clone()),
        ("TOKRATE_ALERT_KIND", message.kind.name().to_owned()),
        ("TOKRATE_ALERT_RULE", name(&message.rule)),
        ("TOKRATE_ALERT_PROVIDER", name(&message.provider)),
        ("TOKRATE_ALERT_TITLE", title(message)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(endpoint: &str, recovered_ms: Option<u64>) -> Member {
        Member {
            endpoint: endpoint.to_owned(),
            workload: "1k".to_owned(),
            places: vec!["fra".to_owned()],
            since_ms: 1_764_000_000_000,
            recovered_ms,
            text: "output speed -22 % (-30 to -14 %)".to_owned(),
        }
    }

    fn message(kind: MessageKind) -> Message {
        Message {
            id: "here-1764000000000-1-2".to_owned(),
            incident: "here-1764000000000-1".to_owned(),
            kind,
            rule: "slow".to_owned(),
            provider: "groq".to_owned(),
            opened_ms: 1_764_000_000_000,
            at_ms: 1_764_000_300_000,
            members: vec![member("groq/llama", None), member("groq/<b>\u{202e}&\u{1b}[2J", Some(1_764_000_200_000))],
            receivers: vec!["ops".to_owned()],
        }
    }

    #[test]
    fn forms_of_a_message() {
        let message = message(MessageKind::Changed);
        let board = Some("https://board.example/?a=1|2");
        let pretty = |value: Value| serde_json::to_string_pretty(&value).expect("plain data");
        let email = email(&message, board, "monitor.example");
        let forms = [
            pretty(webhook(&message, board)),
            pretty(slack(&message, board)),
            pretty(alertmanager(&message, board, 300_000)),
            format!("{}\n{}\n{:?}\n\n{}", email.subject, email.message_id, email.in_reply_to, email.body),
            environment(&message).iter().map(|(key, value)| format!("{key}={value}\n")).collect(),
        ];
        insta::assert_snapshot!(forms.join("\n\n"));
    }

    #[test]
    fn nothing_that_a_name_holds_reaches_a_terminal_or_markup() {
        let text = lines(&message(MessageKind::Firing)).join("\n");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
        let slack = slack(&message(MessageKind::Firing), None)["text"].as_str().expect("a text").to_owned();
        assert!(slack.contains("groq/&lt;b&gt;") && !slack.contains("<b>"), "{slack}");
        let subject = email(&message(MessageKind::Firing), None, "x").subject;
        assert!(!subject.contains('\n') && !subject.contains('\r'));
    }

    #[test]
    fn a_long_list_is_cut() {
        let mut message = message(MessageKind::Firing);
        message.members = (0..30).map(|number| member(&format!("groq/{number}"), None)).collect();
        let lines = lines(&message);
        assert_eq!((lines.len(), lines[20].as_str()), (21, "and 10 more"));
        let first = Message { id: "here-1764000000000-1-1".to_owned(), ..message };
        assert_eq!(email(&first, None, "x").in_reply_to, None, "the first of its thread");
    }
}
