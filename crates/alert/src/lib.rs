//! Alerts: which findings become an incident, when a message of it is due, in which form, and what is still to be delivered.
//!
//! Sans-IO: findings and times come in, messages go out. State is plain data that a caller stores together with the messages.
//!
//! Invariant: a message is handed out once and is delivered to each receiver until that one has accepted it or the outbox has
//! given up; an incident that was announced is always resolved by a message.

#![forbid(unsafe_code)]

mod alerts;
mod incident;
mod message;
mod outbox;
mod part;
mod quiet;
mod rule;

pub mod form;

pub use alerts::{Alerts, Finding};
pub use incident::Member;
pub use message::{Message, MessageKind};
pub use outbox::{Delivery, Outbox, Retry};
pub use part::Part;
pub use quiet::QuietHours;
pub use rule::{Rule, RuleError};
