//! Clock, pacer, stamping transport, HTTP client and server: the only crate that opens sockets.
//!
//! It refuses to know dialects, numbers and plans: bytes with stamps go up, requests come down.
//!
//! Architecture Invariant: every byte that is measured passes [`Stamps`] below TLS; nothing is retried, redirected or
//! decompressed.

mod client;
mod clock;
mod config;
mod connect;
mod error;
mod exchange;
mod http1;
mod lag;
mod pacer;
mod proxy;
mod random;
mod route;
mod rx_timestamp;
mod secrets;
pub mod server;
mod stamped;
mod target;
mod tls;
mod transport;

pub use client::{Answer, Client};
pub use clock::{Clock, Hands, WallHands, thread_cpu_time};
pub use config::{ClientConfig, HttpVersion};
pub use connect::Dial;
pub use error::NetError;
pub use exchange::{ConnectionUse, Departure, Exchange, ExchangeFailure, Head, Limits, Outgoing, Sink};
pub use lag::LagProbe;
pub use pacer::{Pacer, Sleep};
pub use proxy::ProxySettings;
pub use random::random_bytes;
pub use route::Route;
pub use secrets::{Redactor, Secrets};
pub use stamped::Stamps;
pub use target::Target;
pub use tls::ServerTls;
pub use transport::MemoryStream;
