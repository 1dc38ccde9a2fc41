//! Where each part of the view stands, by what room there is: the level and its numbers always, the curve or the table of levels below.
//!
//! Invariant: what is wrong (errors, the client, the limit of costs) gets its room before anything else below the numbers.

use crate::curve;
use crate::lines;
use crate::state::{Doing, Live, Present};
use crate::style::Look;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span, Text};
use ratatui_core::widgets::Widget;
use tokrate_charts::terminal::{bar, plot};
use tokrate_core::format::with_units_kept;

/// The smallest terminal that the whole view is made for; in a smaller one only its first lines are shown.
pub const MIN_COLUMNS: u16 = 60;
/// Rows of it.
pub const MIN_ROWS: u16 = 16;

/// Rows from which on there is room for the curve.
const MIN_PLOT_ROWS: u16 = 10;
/// Columns of a plot, at least.
const MIN_PLOT_COLUMNS: u16 = 28;
/// Rows of a plot at most: a higher one says no more.
const MAX_PLOT_ROWS: u16 = 20;
/// Columns of the bar.
const BAR: u16 = 20;

/// Draws the view of a moment.
pub fn draw(live: &Live, look: Look, area: Rect, cells: &mut Buffer) {
    let mut rest = Room { area, cells, look };
    rest.head(live);
    rest.progress(live);
    let Some(present) = &live.present else { return };
    let doing = live.doing == Doing::Measuring;
    rest.parts(lines::counts(live, present, look));
    rest.figures(present);
    rest.paragraphs(lines::errors(present, look).into_iter().collect());
    rest.paragraphs(lines::client(live, present, look));
    rest.paragraphs(lines::money(live, look).into_iter().collect());
    rest.paragraphs(lines::beside(present, look));
    rest.paragraphs(lines::notes(live, look));
    rest.curve(live, doing);
}

/// What is left of the terminal, from the top down.
struct Room<'b> {
    area: Rect,
    cells: &'b mut Buffer,
    look: Look,
}

impl Room<'_> {
    /// Takes rows off the top; fewer where there are no more.
    fn take(&mut self, rows: u16) -> Rect {
        let rows = rows.min(self.area.height);
        let taken = Rect { height: rows, ..self.area };
        self.area = Rect { y: self.area.y + rows, height: self.area.height - rows, ..self.area };
        taken
    }

    fn line(&mut self, line: Line<'_>) {
        let row = self.take(1);
        (&self.plain(line)).render(row, self.cells);
    }

    /// A line in the characters that the terminal has.
    fn plain<'l>(&self, line: Line<'l>) -> Line<'l> {
        if self.look.unicode {
            return line;
        }
        Line::from(line.spans.into_iter().map(ascii).collect::<Vec<Span<'_>>>()).style(line.style)
    }

    fn head(&mut self, live: &Live) {
        let row = self.take(1);
        let (left, right) = lines::head(live, usize::from(row.width), self.look);
        let right = self.plain(Line::from(Span::styled(right, self.look.quiet()))).right_aligned();
        (&right).render(row, self.cells);
        (&self.plain(left)).render(row, self.cells);
    }

    /// Parts with commas between them, in as many rows as they need.
    fn parts(&mut self, parts: Vec<Span<'static>>) {
        let mut rows: Vec<Vec<Span<'static>>> = vec![Vec::new()];
        let mut used = 0;
        let last = parts.len().saturating_sub(1);
        for (place, part) in parts.into_iter().enumerate() {
            let comma = Span::raw(if place < last { ", " } else { "" });
            if used > 0 && used + part.width() + comma.content.trim_end().len() > usize::from(self.area.width) {
                rows.push(Vec::new());
                used = 0;
            }
            used += part.width() + comma.width();
            rows.last_mut().expect("there is one row at least").extend([part, comma]);
        }
        rows.into_iter().for_each(|row| self.line(Line::from(row)));
    }

    fn progress(&mut self, live: &Live) {
        let share = live.present.as_ref().map_or(0.0, |present| present.share);
        let share = if live.doing == Doing::Measuring { share } else { 1.0 };
        let width = BAR.min(self.area.width / 3);
        let (open, close) = if self.look.unicode { ("", "") } else { ("[", "]") };
        let filled = bar(share, usize::from(width), self.look.unicode);
        let filled = if self.look.unicode { filled.replace(' ', "░") } else { filled };
        let style = if live.is_interrupted { self.look.warning() } else { self.look.accent() };
        let said = format!("{open}{filled}{close}  {}", lines::doing(live));
        self.line(Line::styled(said, style));
    }

    /// The table of percentiles, its numbers to the right.
    fn figures(&mut self, present: &Present) {
        if present.figures.is_empty() {
            return;
        }
        let heads = lines::FIGURE_HEADS.map(str::to_owned);
        let rows = present.figures.iter().map(lines::figure);
        self.table(heads, rows.collect());
    }

    /// A table whose first row stands back; of more rows than there is room for, the last, and of more columns, the first.
    fn table(&mut self, heads: [String; 6], rows: Vec<[String; 6]>) {
        let room = usize::from(self.area.height).saturating_sub(1);
        let rows = &rows[rows.len().saturating_sub(room)..];
        let all = || std::iter::once(&heads).chain(rows);
        let widths: [usize; 6] =
            std::array::from_fn(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0));
        let gap = |gap: usize| widths[0] + widths[1..].iter().map(|width| width + gap).sum::<usize>();
        let gap = if gap(2) <= usize::from(self.area.width) { 2 } else { 1 };
        for (place, row) in all().enumerate() {
            let first = format!("{:width$}", row[0], width = widths[0]);
            let columns = (1..6).filter(|column| widths[*column] > 0);
            let cells = columns.map(|column| format!("{:>width$}", row[column], width = gap + widths[column]));
            let text = first + &cells.collect::<String>();
            let style = if place == 0 { self.look.quiet() } else { Style::new() };
            self.line(Line::styled(text, style));
        }
    }

    /// Lines that go on below themselves where they are long.
    fn paragraphs(&mut self, lines: Vec<Line<'static>>) {
        for line in lines {
            let line = self.plain(line);
            let rows = wrapped(line, usize::from(self.area.width));
            let height = rows.len() as u16;
            let place = self.take(height);
            Text::from(rows).render(place, self.cells);
        }
    }

    /// The curve where there is room for it, else the last levels as a table.
    fn curve(&mut self, live: &Live, with_present: bool) {
        let levels: usize = live.targets.iter().map(|target| target.levels.len()).sum();
        if self.area.height < 3 {
            return;
        }
        let present = live.present.iter().filter(|_| with_present).map(|present| present.name.amount);
        let ended = live.targets.iter().flat_map(|target| &target.levels).map(|level| level.name.amount);
        let loads: Vec<f64> = ended.chain(present).collect();
        // One load is no curve.
        let is_curve = loads.iter().any(|load| *load != loads[0]);
        if !is_curve || self.area.height < MIN_PLOT_ROWS + 1 || self.area.width < 2 * MIN_PLOT_COLUMNS {
            self.take(u16::from(self.area.height > MIN_PLOT_ROWS));
            self.levels(live);
            return;
        }
        self.take(1);
        // The table of levels stands below the plots where both have room.
        let table_rows = levels as u16 + 1;
        let plot_rows = self.area.height.min(MAX_PLOT_ROWS);
        let plot_rows = match self.area.height.checked_sub(table_rows + 1) {
            Some(left) if left >= MIN_PLOT_ROWS => left.min(MAX_PLOT_ROWS),
            _ => plot_rows,
        };
        let row = self.take(plot_rows);
        let half = row.width / 2;
        let places =
            [Rect { width: half - 1, ..row }, Rect { x: row.x + half + 1, width: row.width - half - 1, ..row }];
        for (chart, place) in [curve::throughput(live), curve::time(live)].into_iter().zip(places) {
            let text = plot(&chart, usize::from(place.width), usize::from(place.height), self.look.unicode);
            let lines: Vec<Line<'_>> = text.lines().map(Line::raw).collect();
            Text::from(lines).render(place, self.cells);
        }
        if self.area.height > 3 {
            self.take(1);
            self.levels(live);
        }
    }

    /// The levels that have ended.
    fn levels(&mut self, live: &Live) {
        let several = live.targets.len() > 1;
        let rows = live.targets.iter().flat_map(|target| {
            target.levels.iter().map(move |level| {
                let mut row = lines::level(level);
                if several {
                    row[0] = format!("{}  {}", target.name, row[0]);
                }
                row
            })
        });
        let rows: Vec<[String; 6]> = rows.collect();
        if !rows.is_empty() {
            self.table(lines::level_heads(live), rows);
        }
    }
}

/// A span in the characters that every terminal has.
fn ascii(span: Span<'_>) -> Span<'static> {
    let mut text = span.content.into_owned();
    for (sign, instead) in [("≈", "~"), ("µ", "u"), ("±", "+-"), ("−", "-"), ("…", ".."), ("\u{a0}", " ")] {
        text = text.replace(sign, instead);
    }
    Span::styled(text, span.style)
}

/// A labelled line in rows of that width: what goes on stands below the text, not below the label.
fn wrapped(line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    let style = line.style;
    let [label, text] = match <[Span<'static>; 2]>::try_from(line.spans) {
        Ok(parts) => parts,
        Err(spans) => return vec![Line::from(spans).style(style)],
    };
    let room = width.saturating_sub(lines::LABEL).max(12);
    let mut rows: Vec<String> = vec![String::new()];
    // Numbers stay with their units, and `c = 8` with itself.
    let kept = with_units_kept(&text.content).replace(" = ", "\u{a0}=\u{a0}");
    for word in kept.split(' ') {
        let last = rows.last_mut().expect("there is one row at least");
        match last.chars().count() + 1 + word.chars().count() {
            _ if last.is_empty() => last.push_str(word),
            length if length <= room => last.extend([" ", word]),
            _ => rows.push(word.to_owned()),
        }
    }
    let indent = Span::raw(" ".repeat(lines::LABEL));
    let row = |(place, row): (usize, String)| {
        let front = if place == 0 { label.clone() } else { indent.clone() };
        Line::from(vec![front, Span::styled(row.replace('\u{a0}', " "), text.style)])
    };
    rows.into_iter().enumerate().map(row).collect()
}
