//! One attempt at a lane: the request, the exchange, the body that comes back, and the addresses of lanes.

pub(crate) mod attempt;
pub(crate) mod body;
pub(crate) mod dns;
pub(crate) mod not_found;
pub(crate) mod request;
pub(crate) mod session;
