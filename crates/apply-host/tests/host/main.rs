//! The service from the outside: what it answers to which request, and how the server behaves that it stands behind.

mod server;
mod service;
