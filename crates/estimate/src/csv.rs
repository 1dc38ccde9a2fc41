//! Rows of tables: comma-separated values with quotes, read by the names of their columns.

use std::rc::Rc;

/// A row: its values under the names of the table's first line.
#[derive(Clone, Debug)]
pub struct Row {
    columns: Rc<[String]>,
    values: Vec<String>,
}

impl Row {
    /// The text of a column; empty where there is none.
    pub fn text(&self, column: &str) -> &str {
        let position = self.columns.iter().position(|name| *name == column);
        position.and_then(|position| self.values.get(position)).map_or("", |value| value.trim())
    }

    /// The number of a column, where there is one.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// The names of the columns; a mark of the byte order before them is none of a name.
pub fn columns(text: &str) -> Vec<String> {
    let head = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
    values(head).into_iter().map(|name| name.trim().to_owned()).collect()
}

/// All rows below the head. A quoted value ends on its line.
pub fn rows(text: &str) -> Vec<Row> {
    let columns: Rc<[String]> = columns(text).into();
    let full = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    full.map(|line| Row { columns: Rc::clone(&columns), values: values(line) }).collect()
}

fn values(line: &str) -> Vec<String> {
    let (mut all, mut value, mut quoted) = (Vec::new(), String::new(), false);
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' if quoted && signs.peek() == Some(&'"') => {
                value.push('"');
                signs.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut value)),
            sign => value.push(sign),
        }
    }
    all.push(value);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_may_be_quoted_and_begin_with_a_byte_order_mark() {
        let rows = rows("\u{feff}\"a\", b\r\n1,2\r\n");
        assert_eq!((rows[0].number("a"), rows[0].number("b")), (Some(1.0), Some(2.0)));
    }

    #[test]
    fn a_quoted_value_keeps_its_commas_and_quotes() {
        let rows = rows("a,b\n\"x, \"\"y\"\"\",2\n");
        assert_eq!((rows[0].text("a"), rows[0].number("b"), rows[0].text("c")), ("x, \"y\"", Some(2.0), ""));
    }
}
