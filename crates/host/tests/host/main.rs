//! The host as a client sees it, over real sockets of loopback.

mod client;
mod content;
mod dialects;
mod fleet;
mod loopback;
mod realtime;
mod recordings;
