//! What makes a candidate doubtful in itself, whatever else could be meant.

use std::ops::{BitOr, BitOrAssign};

/// What makes the ends or the place of a candidate doubtful.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Doubts(u8);

impl Doubts {
    pub const NONE: Doubts = Doubts(0);
    /// New lines at the beginning, beside which nothing stands once.
    pub const WEAK_ABOVE: Doubts = Doubts(1);
    /// The same at the end.
    pub const WEAK_BELOW: Doubts = Doubts(2);
    /// A new line at an end may be what became of the hidden line beyond it, which stays.
    pub const DOUBLED: Doubts = Doubts(4);
    /// A blank line is shown where the file has none, and may begin or end what should go.
    pub const SET_OFF: Doubts = Doubts(8);
    /// Too little of it is in the file to say where it is.
    pub const UNANCHORED: Doubts = Doubts(16);
    /// It changes nothing and ends with a line that says little.
    pub const IDLE: Doubts = Doubts(32);

    /// These, or none.
    pub fn only_if(self, holds: bool) -> Doubts {
        if holds { self } else { Doubts::NONE }
    }

    pub fn is_any(self) -> bool {
        self.0 != 0
    }

    pub fn has(self, other: Doubts) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Doubts {
    type Output = Doubts;
    fn bitor(self, other: Doubts) -> Doubts {
        Doubts(self.0 | other.0)
    }
}

impl BitOrAssign for Doubts {
    fn bitor_assign(&mut self, other: Doubts) {
        self.0 |= other.0;
    }
}
