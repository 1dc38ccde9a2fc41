//! What a client asks for: the routes, the request itself, the list of models.

pub(crate) mod dry_run;
mod handshake;
pub(crate) mod models;
mod objects;
mod parts;
mod pass;
mod role;
pub(crate) mod route;
pub(crate) mod service;
mod session;
mod streamed;
