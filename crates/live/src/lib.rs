//! The live view of a bench: what a run looks like at one moment, and how that is drawn into the cells of a terminal.
//!
//! It knows no run, no clock and no terminal; whoever has them makes a [`Live`] and calls [`Screen::show`].
//!
//! Architecture Invariant: drawing is a pure function of the snapshot, the look and the area; no input panics, and no size of terminal
//! does.

mod curve;
mod draw;
mod lines;
mod screen;
mod state;
mod style;

pub use draw::{MIN_COLUMNS, MIN_ROWS};
pub use screen::Screen;
pub use state::{
    Alarm, Client, Counts, Doing, FigureRow, Level, LevelName, Live, Money, Present, Quantiles, Shown, Target, Unit,
};
pub use style::Look;

#[cfg(test)]
mod tests;
