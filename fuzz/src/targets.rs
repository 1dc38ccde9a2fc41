//! What is read, a file each: the properties that hold for any bytes.
//!
//! It does not choose inputs. Invariant: every file has a function `run` of bytes and nothing else that is public.

pub mod admin_query;
pub mod agents;
pub mod apply;
pub mod apply_host;
pub mod batches;
pub mod clients;
pub mod decoder;
pub mod event_stream;
pub mod expression;
pub mod frame;
pub mod gateway_request;
pub mod http_client;
pub mod http_server;
pub mod items;
pub mod mcp;
pub mod media;
pub mod model_file;
pub mod otlp_reply;
pub mod prompts;
pub mod push_batch;
pub mod record;
pub mod request;
pub mod request_peek;
pub mod samples;
pub mod server_metrics;
pub mod socks_proxy;
pub mod sound;
pub mod target_name;
pub mod tokens;
pub mod trace;
pub mod trace_context;
pub mod transcript;
pub mod translate;
pub mod websocket;
