//! Text and tables as Markdown takes them.
//!
//! It does not know what they say. Invariant: nothing that a server or a user named can break out of its cell.

use tokrate_charts::{Align, Column, Table};

/// Head and rows of a table in Markdown.
pub fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |column: &Column| if column.align == Align::Right { "---:|" } else { "---|" };
    let head = |column: &Column| match column.unit.as_str() {
        "" => plain(&column.label),
        unit => plain(&format!("{} ({unit})", column.label)),
    };
    let mut text = line(table.columns.iter().map(head).collect());
    text += &format!("|{}\n", table.columns.iter().map(rule).collect::<String>());
    for row in &table.rows {
        text += &line(row.iter().map(|cell| plain(cell)).collect());
    }
    text
}

/// Text that Markdown takes as text, on one line.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '|' | '`' | '*' | '_' | '<' | '>' | '~' | '#' | '@' => {
                plain.push('\\');
                plain.push(character);
            }
            '\n' | '\r' => plain.push(' '),
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_cell() {
        assert_eq!(plain("a|b\n<img>*x*"), r"a\|b \<img\>\*x\*");
    }
}
