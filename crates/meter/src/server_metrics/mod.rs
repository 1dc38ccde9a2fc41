//! What a server says of itself: its Prometheus page read before and after a phase, and the difference held beside what the
//! client saw.
//!
//! It refuses to know how a page is fetched. Invariant: the client's numbers are never mended with the server's; where the
//! two disagree, both stand there and the gap has a name.
//!
//! [`Exposition`] is a page as text, [`Family`] knows whose names mean what, a [`Reading`] is what one page says in our words,
//! and [`ServerTruth`] is the difference between two readings.

mod exposition;
mod family;
mod reading;
#[cfg(test)]
mod tests;
mod truth;

pub use exposition::{Exposition, Sample};
pub use family::{Family, Quantity};
pub use reading::{Histogram, Reading};
pub use truth::{Between, ClientSide, ServerTimes, ServerTruth};
