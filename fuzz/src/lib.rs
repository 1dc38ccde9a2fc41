//! The fuzz targets: for everything that reads bytes from elsewhere a function of bytes that panics when a property does not
//! hold.
//!
//! It does not know how inputs are found: libFuzzer finds them when `cargo xtask fuzz` links it, and the tests hand over the kept
//! ones. Invariant: a target is a function of its input alone, so an input that failed once fails again.

#![forbid(unsafe_code)]

pub mod drive;
pub mod targets;

#[cfg(test)]
mod tests;

use targets as of;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its files in `data/seeds` and `data/corpus`.
    pub name: &'static str,
    /// Panics if a property does not hold for an input.
    pub run: fn(&[u8]),
}

/// Every target, in the order of their names.
pub const TARGETS: &[Target] = &[
    Target { name: "admin_query", run: of::admin_query::run },
    Target { name: "agents", run: of::agents::run },
    Target { name: "apply", run: of::apply::run },
    Target { name: "apply_host", run: of::apply_host::run },
    Target { name: "batches", run: of::batches::run },
    Target { name: "clients", run: of::clients::run },
    Target { name: "decoder", run: of::decoder::run },
    Target { name: "event_stream", run: of::event_stream::run },
    Target { name: "expression", run: of::expression::run },
    Target { name: "frame", run: of::frame::run },
    Target { name: "gateway_request", run: of::gateway_request::run },
    Target { name: "http_client", run: of::http_client::run },
    Target { name: "http_server", run: of::http_server::run },
    Target { name: "items", run: of::items::run },
    Target { name: "mcp", run: of::mcp::run },
    Target { name: "media", run: of::media::run },
    Target { name: "model_file", run: of::model_file::run },
    Target { name: "otlp_reply", run: of::otlp_reply::run },
    Target { name: "prompts", run: of::prompts::run },
    Target { name: "push_batch", run: of::push_batch::run },
    Target { name: "record", run: of::record::run },
    Target { name: "request", run: of::request::run },
    Target { name: "request_peek", run: of::request_peek::run },
    Target { name: "samples", run: of::samples::run },
    Target { name: "server_metrics", run: of::server_metrics::run },
    Target { name: "socks_proxy", run: of::socks_proxy::run },
    Target { name: "sound", run: of::sound::run },
    Target { name: "target_name", run: of::target_name::run },
    Target { name: "tokens", run: of::tokens::run },
    Target { name: "trace", run: of::trace::run },
    Target { name: "trace_context", run: of::trace_context::run },
    Target { name: "transcript", run: of::transcript::run },
    Target { name: "translate", run: of::translate::run },
    Target { name: "websocket", run: of::websocket::run },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The target of that name, while compiling.
///
/// # Panics
/// When there is none.
pub const fn constant_target(name: &str) -> Target {
    let mut at = 0;
    while at < TARGETS.len() {
        if same(TARGETS[at].name.as_bytes(), name.as_bytes()) {
            return TARGETS[at];
        }
        at += 1;
    }
    panic!("no target has this name")
}

/// Whether bytes are the same; `==` cannot be used while compiling.
const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The longest beginning of the bytes that is text: for readers of text, so that no input is spent on being none.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid up to here"),
    }
}
