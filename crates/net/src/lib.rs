//! Clock, pacer, timestamping transport, HTTP client and server: the only crate that opens sockets.
//!
//! Bodies are bytes here; dialects and statistics are built on top.
//!
//! Architecture Invariant: every byte that is measured passes [`Stamps`] below TLS; nothing is retried, redirected or
//! decompressed.

mod authorize;
mod client;
mod clock;
mod config;
mod connect;
mod error;
mod exchange;
mod http1;
mod lag;
mod pacer;
mod prefixed;
mod proxy;
mod random;
mod read_ahead;
mod route;
mod rx_timestamp;
mod secrets;
pub mod server;
mod stamped;
mod target;
mod tls;
mod transport;
mod upgraded;

pub use authorize::{
    Authorization, Authorize, AuthorizeError, AuthorizeFuture, Authorizer, NewAnswerRewriter, RefusedBy, RewriteAnswer,
    Unauthorized,
};
pub use client::{Answer, Client};
pub use clock::{Clock, ManualClock, WallClockControl, thread_cpu_time};
pub use config::{ClientConfig, HttpVersion, Sharing};
pub use connect::Dial;
pub use error::NetError;
pub use exchange::{
    ConnectionUse, Exchange, ExchangeFailure, Head, Limits, Outgoing, Sink, StreamUse, StreamedUpload, UploadSource,
};
pub use lag::{LagProbe, LagReader};
pub use pacer::{Pacer, Sleep};
pub use proxy::ProxySettings;
pub use random::random_bytes;
pub use route::{Route, SharedTls};
pub use secrets::{Redactor, Secrets};
pub use stamped::{Departure, Stamps};
pub use target::Target;
pub use tls::{ServerTls, check_ca_file};
pub use transport::MemoryStream;
pub use upgraded::{Handshake, Upgraded, websocket_handshake};
