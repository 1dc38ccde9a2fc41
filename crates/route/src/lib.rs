//! Decisions of a gateway: which lane a call goes to, when a second one starts, who won, what it may cost.
//!
//! It refuses to know sockets, clocks, dialects and configuration files: ticks, events and settings are handed in, actions
//! come out.
//!
//! Architecture Invariant: every decision is a function of what was handed in and of a seeded generator; the same calls in
//! the same order give the same actions.

#![forbid(unsafe_code)]
