//! The pages, each a function of the board and its links.
//!
//! Invariant: a page has one `h1`, no script, and every chart of it has its table.

pub(crate) mod answer;
pub(crate) mod bars;
pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod course;
pub(crate) mod endpoint;
pub(crate) mod filters;
pub(crate) mod leaderboard;
pub(crate) mod method;
pub(crate) mod model;
pub(crate) mod places;
pub(crate) mod provider;
pub(crate) mod quadrants;
pub(crate) mod scorecard;
