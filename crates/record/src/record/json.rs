//! JSON layout of a record.
//!
//! Invariant: objects are indented by two spaces, one field per line; arrays stay on one line, so that a sketch of hundreds
//! of buckets is one line.

use serde::Serialize;

/// The JSON text of a value, with a line feed at the end.
pub fn lay_out(value: &impl Serialize) -> String {
    let compact = serde_json::to_string(value).expect("maps have text keys and nothing here refuses to be written");
    let mut text = String::with_capacity(compact.len() * 2);
    let mut open: Vec<char> = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    // The last symbol outside strings; a quote while inside one.
    let mut before = ' ';
    for symbol in compact.chars() {
        if in_string {
            in_string = escaped || symbol != '"';
            escaped = symbol == '\\' && !escaped;
            text.push(symbol);
            continue;
        }
        match symbol {
            '{' | '[' => open.push(symbol),
            '}' | ']' => drop(open.pop()),
            _ => in_string = symbol == '"',
        }
        let first_field = before == '{' && symbol != '}';
        let next_field = before == ',' && symbol == '"' && open.last() == Some(&'{');
        let after_last_field = symbol == '}' && before != '{';
        if first_field || next_field || after_last_field {
            text.push('\n');
            let depth = open.iter().filter(|&&bracket| bracket == '{').count();
            text.extend(std::iter::repeat_n("  ", depth));
        } else if before == ',' || before == ':' {
            text.push(' ');
        }
        text.push(symbol);
        before = symbol;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn objects_are_indented_and_arrays_are_not() {
        let value = json!({ "a": [1, [2, 3], "x"], "b": {}, "c": [{ "d": null }, { "e": [] }] });
        let expected = "{\n  \"a\": [1, [2, 3], \"x\"],\n  \"b\": {},\n  \"c\": [{\n    \"d\": null\n  }, {\n    \"e\": []\n  }]\n}\n";
        assert_eq!(lay_out(&value), expected);
    }

    #[test]
    fn strings_are_left_alone() {
        let value = json!({ "a{,:": "\\\"{[,:]}\"\\", "b": ["}", ",", "\\"] });
        let text = lay_out(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}
