//! Tables as HTML and as plain text, one for every chart.
//!
//! Invariant: every row has as many cells as there are columns; missing cells are empty, extra ones are dropped.

use std::fmt::Write as _;

use crate::text::{clean, columns, escape, prose, width};

/// Width of a phone's page between its margins, in pixels, less what the digits of a wide font take more than is estimated.
const NARROW_PAGE: f64 = 336.0;
/// Font size of cells, and the space right of each, on a narrow page.
const CELL_TEXT: f64 = 13.5;
const CELL_SPACE: f64 = 10.0;
/// A column of words is not pressed below so many pixels, if one of its words is not shorter.
const MIN_WORDS: f64 = 100.0;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Align {
    /// Words.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Column {
    /// Its heading.
    pub label: String,
    /// Unit of its cells; empty for none or if the cells include it.
    pub unit: String,
    /// Left for words, right for numbers.
    pub align: Align,
}

impl Column {
    /// A column of words.
    pub fn words(label: impl Into<String>) -> Column {
        Column { label: label.into(), unit: String::new(), align: Align::Left }
    }

    /// A column of numbers in `unit`.
    pub fn numbers(label: impl Into<String>, unit: impl Into<String>) -> Column {
        Column { label: label.into(), unit: unit.into(), align: Align::Right }
    }
}

/// Rows of text under named columns. The first column names the row.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Table {
    /// What the table shows.
    pub caption: String,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// Notes printed below.
    pub notes: Vec<String>,
}

impl Table {
    /// The table as HTML. On a page that is too narrow for it rows become blocks, a line for each cell; on any other it scrolls.
    pub fn html(&self) -> String {
        let mut out = String::new();
        let caption = escape(&self.caption);
        let is_stacked = self.min_width() > NARROW_PAGE;
        let class = if is_stacked { "scroll stack" } else { "scroll" };
        let _ = write!(out, r#"<div class="{class}" role="region" tabindex="0" aria-label="{caption}"><table>"#);
        if !caption.is_empty() {
            let _ = write!(out, "<caption>{caption}</caption>");
        }
        out.push_str("<thead><tr>");
        for column in &self.columns {
            let unit =
                if column.unit.is_empty() { String::new() } else { format!("<small>{}</small>", escape(&column.unit)) };
            // A head without words is no head: a reader for the blind would announce nothing.
            let _ = match column.label.is_empty() && column.unit.is_empty() {
                true => write!(out, "<td></td>"),
                false => {
                    write!(out, r#"<th scope="col"{}>{} {unit}</th>"#, class_of(column), breakable_head(&column.label))
                }
            };
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (index, column) in self.columns.iter().enumerate() {
                let cell = prose(row.get(index).map_or("", String::as_str));
                let cell = if column.align == Align::Right { breakable_number(&cell) } else { cell };
                let class = class_of(column);
                let _ = match (index, is_stacked) {
                    (0, _) => write!(out, r#"<th scope="row"{class}>{cell}</th>"#),
                    (_, true) => write!(out, r#"<td{class} data-label="{}">{cell}</td>"#, escape(&head(column))),
                    (_, false) => write!(out, "<td{class}>{cell}</td>"),
                };
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        for note in &self.notes {
            let _ = write!(out, r#"<p class="note">{}</p>"#, prose(note));
        }
        out
    }

    /// The narrowest that its columns can be drawn without breaking a word or a number, in pixels.
    fn min_width(&self) -> f64 {
        let of_cell = |column: &Column, cell: &str| {
            let parts = if column.align == Align::Right { breakable_number(cell) } else { cell.to_owned() };
            let longest = parts.split(' ').map(|part| width(part, CELL_TEXT)).fold(0.0, f64::max);
            if column.align == Align::Right { longest } else { longest.max(MIN_WORDS.min(width(cell, CELL_TEXT))) }
        };
        let of_column = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let head = column.label.split(' ').chain([column.unit.as_str()]).map(|word| width(word, CELL_TEXT));
            let widest = cells.map(|cell| of_cell(column, cell)).chain(head).fold(0.0, f64::max);
            widest + CELL_SPACE
        };
        self.columns.iter().enumerate().map(of_column).sum()
    }

    /// The table as plain text: aligned columns, a rule below the heading, notes at the end, no trailing spaces.
    pub fn text(&self) -> String {
        let heads: Vec<String> = self.columns.iter().map(head).collect();
        let cell = |row: &Vec<String>, index: usize| row.get(index).map_or_else(String::new, |c| clean(c));
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(i, head)| self.rows.iter().map(|r| columns(&cell(r, i))).fold(columns(head), usize::max))
            .collect();
        let mut out = String::new();
        if !self.caption.is_empty() {
            out.push_str(&clean(&self.caption));
            out.push('\n');
        }
        self.push_line(&mut out, &heads, &widths);
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        self.push_line(&mut out, &rule, &widths);
        for row in &self.rows {
            let cells: Vec<String> = (0..heads.len()).map(|i| cell(row, i)).collect();
            self.push_line(&mut out, &cells, &widths);
        }
        for note in &self.notes {
            out.push_str(&clean(note));
            out.push('\n');
        }
        out
    }

    fn push_line(&self, out: &mut String, cells: &[String], widths: &[usize]) {
        let mut line = String::new();
        for ((cell, width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let padding = " ".repeat(width.saturating_sub(columns(cell)));
            if !line.is_empty() {
                line.push_str("  ");
            }
            match column.align {
                Align::Left => line.extend([cell.as_str(), &padding]),
                Align::Right => line.extend([padding.as_str(), cell]),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// A head that may break behind the signs of an address, which is one long word to a browser.
fn breakable_head(label: &str) -> String {
    let mut html = escape(label);
    for sign in ['@', '/'] {
        // A zero-width space.
        html = html.replace(sign, &format!("{sign}\u{200b}"));
    }
    html
}

/// A number that a page that is too narrow may break before its interval and nowhere else.
fn breakable_number(cell: &str) -> String {
    cell.replace(' ', "\u{a0}").replace("\u{a0}[", " [")
}

fn class_of(column: &Column) -> &'static str {
    if column.align == Align::Right { r#" class="n""# } else { "" }
}

fn head(column: &Column) -> String {
    if column.unit.is_empty() { clean(&column.label) } else { clean(&format!("{} ({})", column.label, column.unit)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            caption: "Speeds <made up>".to_owned(),
            columns: vec![Column::words("model"), Column::numbers("output speed", "tok/s")],
            rows: vec![
                vec!["模型 & co".to_owned(), "33.1".to_owned()],
                vec!["b\u{1b}[31m".to_owned()],
                vec!["c".to_owned(), "104.0".to_owned(), "extra".to_owned()],
            ],
            notes: vec!["n = 3".to_owned()],
        }
    }

    #[test]
    fn a_number_breaks_before_its_interval_and_nowhere_else() {
        let cells = ["failed", "1.5 % [1.2..1.9]"].map(str::to_owned).to_vec();
        let html = Table { rows: vec![cells], ..table() }.html();
        assert!(html.contains("1.5\u{a0}% [1.2..1.9]<"), "{html}");
    }

    #[test]
    fn a_table_too_wide_for_a_phone_is_stacked_there_with_its_heads_beside_its_cells() {
        let narrow = table().html();
        assert!(!narrow.contains("stack") && !narrow.contains("data-label"), "{narrow}");
        let numbers = (0..7).map(|place| Column::numbers(format!("TTFT p{place}"), "ms"));
        let columns: Vec<Column> = std::iter::once(Column::words("level")).chain(numbers).collect();
        let row: Vec<String> = columns.iter().map(|_| "1,234 [1,230..1,240]".to_owned()).collect();
        let wide = Table { columns, rows: vec![row], ..Table::default() }.html();
        assert!(wide.contains(r#"<div class="scroll stack""#), "{wide}");
        assert_eq!(wide.matches(r#"data-label="TTFT p"#).count(), 7, "the first cell heads the block: {wide}");
        assert!(wide.contains(r#"<td class="n" data-label="TTFT p6 (ms)">1,234 [1,230..1,240]</td>"#), "{wide}");
    }

    #[test]
    fn text_aligns_wide_characters_and_defuses_escapes() {
        insta::assert_snapshot!(table().text(), @r"
        Speeds <made up>
        model      output speed (tok/s)
        ---------  --------------------
        模型 & co                  33.1
        b�[31m
        c                         104.0
        n = 3
        ");
    }

    #[test]
    fn a_head_that_is_an_address_breaks_behind_its_signs() {
        let columns = vec![Column::words(""), Column::numbers("vllm@127.0.0.1:8000/<im>", "")];
        let html = Table { columns, ..table() }.html();
        assert!(html.contains("vllm@\u{200b}127.0.0.1:8000/\u{200b}&lt;im&gt; "), "{html}");
    }

    #[test]
    fn html_is_escaped_and_regular() {
        let html = table().html();
        assert!(html.contains("模型 &amp; co") && html.contains("Speeds &lt;made up&gt;"));
        assert!(!html.contains("extra") && !html.contains('\u{1b}'));
        assert_eq!(html.matches("<td").count(), 3);
        assert_eq!(html.matches(r#"<th scope="row""#).count(), 3);
    }
}
