//! How the view looks: colours where they are wanted, and words and signs that say the same without them.

use ratatui_core::style::{Color, Modifier, Style};

/// What a terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Colours; without them nothing is lost.
    pub colour: bool,
    /// Characters beyond ASCII.
    pub unicode: bool,
}

impl Look {
    /// Text that stands back.
    pub(crate) fn quiet(self) -> Style {
        if self.colour { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }

    /// Headings and the numbers that matter most.
    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is under way.
    pub(crate) fn accent(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// What to look at.
    pub(crate) fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// What is wrong.
    pub(crate) fn alarm(self) -> Style {
        // Without colour it is told by its place, its words and by reversed cells.
        if self.colour { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { self.strong().reversed() }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}
