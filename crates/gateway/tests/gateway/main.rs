//! The gateway over loopback, between clients that speak raw HTTP and lanes that follow a script.
//!
//! Tests wait for events and never sleep. Invariant: nothing leaves loopback.

#![allow(clippy::disallowed_methods, reason = "deadlines of tests are in real time")]

mod access;
mod admin;
mod api;
mod background;
mod billing;
mod budget;
mod cache;
mod checked;
mod client;
mod dry_run;
mod embeddings;
mod every_route;
mod harness;
mod hosted;
mod key_redaction;
mod lane_errors;
mod live;
mod otel;
mod outage;
mod random_calls;
mod realtime;
mod refusals;
mod restored_budgets;
mod routing;
mod scripted;
mod serving;
mod session;
mod simulated;
mod timeouts;
mod traces;
mod translated;
mod truncation;
mod uploads;
mod whole;
