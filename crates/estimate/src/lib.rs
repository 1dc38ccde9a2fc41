//! How fast a model should answer on given hardware under a load: closed formulas with fitted coefficients, an interval
//! from cross-validation, and the part that binds.
//!
//! Invariant: an answer holds finite numbers only, and facts that cannot be are refused in words.

#![forbid(unsafe_code)]

pub mod answer;
pub mod asked;
pub mod calibrate;
pub mod capacity;
pub mod chain;
pub mod claim;
pub mod coefficients;
pub mod cost;
pub mod csv;
pub mod engine_time;
pub mod fit;
pub mod fleet;
pub mod hardware;
pub mod hosted;
pub mod interval;
mod least_squares;
pub mod measured;
pub mod model;
pub mod model_file;
pub mod names;
pub mod precision;
pub mod question;
pub mod replay;
pub mod served;
pub mod serving;
pub mod step;
pub mod traffic;
pub mod validate;
pub mod what_if;

pub use answer::{Answer, Estimator};
pub use asked::{Asked, Facts};
pub use interval::Value;
