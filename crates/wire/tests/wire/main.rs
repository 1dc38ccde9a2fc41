//! Tests of the crate from outside: whole bodies in, events out.
//!
//! They refuse to know sockets. Invariant: every body is also decoded without the template, split and cut.
// The lints spare test functions by themselves, but not what these call.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod assembled;
mod bad_input;
mod body;
mod dialects;
mod every_request;
mod exchange_list;
mod fixtures;
mod framed;
mod gemini_and_ollama;
mod lost_elsewhere;
mod opaque;
mod properties;
mod recorded;
mod recorded_anthropic;
mod recorded_responses;
mod requests;
mod template;
mod translate_answers;
mod translate_recorded;
mod translate_requests;
mod unknown_fields;
mod unreadable;
