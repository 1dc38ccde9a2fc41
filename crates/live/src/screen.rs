//! What a terminal shows by now, and the bytes that make it show the next moment: only cells that differ are written.

use crate::draw::draw;
use crate::state::Live;
use crate::style::Look;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use std::fmt::Write;

/// Empties the terminal.
const CLEAR: &str = "\x1b[0m\x1b[2J";

/// The cells of a terminal.
#[derive(Debug, Default)]
pub struct Screen {
    shown: Buffer,
}

impl Screen {
    /// The bytes after which a terminal of that size shows this moment. The first call, and one after the size has changed, empties it.
    pub fn show(&mut self, live: &Live, look: Look, columns: u16, rows: u16) -> String {
        let area = Rect::new(0, 0, columns, rows);
        let mut bytes = String::new();
        if self.shown.area != area {
            self.shown = Buffer::empty(area);
            bytes.push_str(CLEAR);
        }
        let mut next = Buffer::empty(area);
        draw(live, look, area, &mut next);
        let mut after = None;
        let mut style = attributes(&Cell::EMPTY);
        let plain = style.clone();
        for (x, y, cell) in self.shown.diff(&next) {
            if after != Some((x, y)) {
                // Writing to a text never fails.
                let _ = write!(bytes, "\x1b[{};{}H", y + 1, x + 1);
            }
            let wanted = attributes(cell);
            if wanted != style {
                bytes.push_str(&wanted);
                style = wanted;
            }
            bytes.push_str(cell.symbol());
            // A wide sign moves the cursor further than a cell.
            after = (cell.symbol().chars().count() == 1 && cell.symbol().len() < 4).then_some((x + 1, y));
        }
        if style != plain {
            bytes.push_str(&plain);
        }
        self.shown = next;
        bytes
    }
}

/// The sequence after which a terminal writes as a cell looks: what [`Look`] makes use of, and no more.
fn attributes(cell: &Cell) -> String {
    let bold = if cell.modifier.contains(Modifier::BOLD) { ";1" } else { "" };
    let reversed = if cell.modifier.contains(Modifier::REVERSED) { ";7" } else { "" };
    let colour = match cell.fg {
        Color::Red => ";31",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        Color::DarkGray => ";90",
        _ => "",
    };
    format!("\x1b[0{bold}{reversed}{colour}m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Doing, Present};

    const LOOK: Look = Look { colour: true, unicode: true };

    #[test]
    fn only_what_has_changed_is_written_and_everything_after_a_change_of_size() {
        let live = |seconds| Live { seconds, present: Some(Present::default()), ..Live::default() };
        let mut screen = Screen::default();
        let first = screen.show(&live(1.0), LOOK, 70, 20);
        assert!(first.starts_with(CLEAR) && first.contains("tokrate bench"), "{first:?}");
        assert_eq!(screen.show(&live(1.0), LOOK, 70, 20), "");
        let second = screen.show(&live(2.0), LOOK, 70, 20);
        assert!(second.contains('2') && second.len() < 40, "{second:?}");
        assert!(second.ends_with("\x1b[0m"), "no colour is left over: {second:?}");
        assert!(screen.show(&live(2.0), LOOK, 71, 20).starts_with(CLEAR));
        let ended = Live { doing: Doing::Ended, ..live(2.0) };
        assert!(!screen.show(&ended, Look { colour: false, ..LOOK }, 72, 20).contains(";36m"), "no colours");
    }
}
