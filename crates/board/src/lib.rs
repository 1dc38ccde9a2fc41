//! The board: what endpoints did for days, who is ahead and how sure that is, what changed.
//!
//! A store fills [`BoardData`]; everything else is worked out of it here.
//!
//! Architecture Invariant: everything here is a pure function of the data: no clock, no I/O; the same data give the same
//! bytes. Every text from outside is bounded and escaped before it is shown.

#![forbid(unsafe_code)]

mod api;
mod badge;
mod board;
mod csv;
mod data;
mod html;
mod links;
mod names;
mod pages;
mod rank;
mod site;
mod view;
mod window;

pub use api::{
    ApiChange, ApiChanges, ApiEndpoint, ApiEstimate, ApiIndex, ApiLeaderboard, ApiLink, ApiNumbers, ApiParameter,
    ApiRange, ApiRow, ApiSeries,
};
pub use board::Board;
pub use data::{
    BoardData, Canary, Change, ChangeKind, Claim, Computed, EndpointPrice, Metric, Point, Prober, Series, Source,
};
pub use html::POLICY;
pub use rank::{MAX_RANKED, Ranks, SIGNIFICANCE};
pub use site::{Page, Site};
pub use window::{Estimate, Load, Share, Summary, Window};
