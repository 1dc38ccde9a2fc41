//! Sends a message of an alert to its receiver: an HTTP request by `net`, an e-mail by lettre, a command of the user's own.
//!
//! When a message is due and what it says is `alert`'s. Invariant: no attempt lasts longer than a minute, and no error holds a key, a
//! password, or the path of a URL that is one.

#![forbid(unsafe_code)]

mod command;
mod http;
mod mail;

pub use crate::http::{HttpReceiver, UrlError};
pub use mail::{MailError, MailReceiver, MailServer};

use std::fmt;
use tokrate_alert::{Message, form};
use tokrate_core::Span;
use tokrate_net::Clock;

/// The longest that an attempt may take.
pub(crate) const MAX_TIME: Span = Span::from_secs(60);

/// Who can get messages.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Its name in settings and messages.
    pub name: String,
    /// How it gets them.
    pub to: To,
}

/// How a receiver gets messages.
#[derive(Clone, Debug)]
pub enum To {
    /// A POST of the JSON of [`form::webhook`], signed as Standard Webhooks has it if there is a key.
    Webhook(Box<HttpReceiver>),
    /// An incoming webhook of Slack, Mattermost or Rocket.Chat.
    Slack(Box<HttpReceiver>),
    /// Prometheus' Alertmanager: `POST /api/v2/alerts` below the URL.
    Alertmanager(Box<HttpReceiver>),
    /// An e-mail.
    Mail(Box<MailReceiver>),
    /// A program and its arguments: the JSON of [`form::webhook`] comes on standard input, [`form::environment`] beside.
    Command(Vec<String>),
}

/// What is sent with each message.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The address of the board.
    pub board: Option<String>,
    /// How long Alertmanager takes an alert for firing if nothing more comes (ms).
    pub hold_ms: u64,
}

impl Receiver {
    /// Delivers a message.
    ///
    /// # Errors
    /// Why it was not accepted, on one line and without keys.
    pub async fn send(&self, message: &Message, context: &Context, clock: Clock) -> Result<(), String> {
        let board = context.board.as_deref();
        match &self.to {
            To::Webhook(http) => {
                let body = form::webhook(message, board).to_string();
                http.post("", body, Some(&message.id), clock).await
            }
            To::Slack(http) => http.post("", form::slack(message, board).to_string(), None, clock).await,
            To::Alertmanager(http) => {
                let body = form::alertmanager(message, board, context.hold_ms).to_string();
                http.post("/api/v2/alerts", body, None, clock).await
            }
            To::Mail(mail) => mail.send(message, board).await,
            To::Command(words) => command::run(words, message, board).await,
        }
    }
}

/// What it is and where it goes to, without keys.
impl fmt::Display for Receiver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            To::Webhook(http) if http.key.is_some() => write!(out, "webhook at {}, signed", http.shown()),
            To::Webhook(http) => write!(out, "webhook at {}", http.shown()),
            To::Slack(http) => write!(out, "Slack webhook at {}", http.shown()),
            To::Alertmanager(http) => write!(out, "Alertmanager at {}", http.shown()),
            To::Mail(mail) => write!(out, "{mail}"),
            To::Command(words) => {
                let program = words.first().map_or("", String::as_str);
                write!(out, "the command {program} with {} arguments", words.len().saturating_sub(1))
            }
        }
    }
}
