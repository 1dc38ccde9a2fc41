//! The admin side: a page, metrics and an API that tell how the gateway does.
//!
//! It refuses to change anything, and to know clients' keys, prompts and answers. Invariant: what it tells comes from
//! configuration and from rows of the log; nothing of it is asked for on the path of a call.

#![allow(dead_code)] // Until the page, the metrics and the API that ask for it are here.

mod histogram;
pub(crate) mod told;

pub(crate) use told::Told;
