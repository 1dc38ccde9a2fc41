//! Inputs of fuzz targets as lines of text: bytes that are no printable ASCII are escaped as in a Rust byte string.
//!
//! Invariant: written inputs read back byte for byte; lines that begin with `#` and empty lines are comments. The empty input
//! is not written, because every target runs it anyway.

use anyhow::{Context, Result, bail};

/// The inputs of a file.
///
/// # Errors
/// The line that is no escaped input.
pub fn read(text: &str) -> Result<Vec<Vec<u8>>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| unescaped(line).with_context(|| format!("read line {number}"))).collect()
}

/// The file of some inputs, one a line, sorted so that a change of one is a change of a line.
pub fn write(inputs: &[Vec<u8>]) -> String {
    let mut lines: Vec<String> = inputs.iter().filter(|input| !input.is_empty()).map(|input| line(input)).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.into_iter().map(|line| line + "\n").collect()
}

fn line(input: &[u8]) -> String {
    let line = input.escape_ascii().to_string();
    match line.strip_prefix('#') {
        Some(rest) => format!("\\x23{rest}"),
        None => line,
    }
}

fn unescaped(line: &str) -> Result<Vec<u8>> {
    let mut input = Vec::with_capacity(line.len());
    let mut symbols = line.chars();
    while let Some(symbol) = symbols.next() {
        if symbol != '\\' {
            input.push(u8::try_from(symbol).ok().filter(u8::is_ascii).context("non-ASCII bytes must be escaped")?);
            continue;
        }
        input.push(match symbols.next() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some(symbol @ ('\\' | '\'' | '"')) => symbol as u8,
            Some('x') => {
                let mut digit = || symbols.next()?.to_digit(16);
                let (high, low) = digit().zip(digit()).context("\\x needs two hexadecimal digits after it")?;
                (high * 16 + low) as u8
            }
            _ => bail!("a backslash begins \\n, \\r, \\t, \\\\, \\', \\\" or \\x00"),
        });
    }
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_reads_back_as_it_was() {
        let all: Vec<u8> = (0..=255).collect();
        let mut inputs = vec![b"#a\\ \"b\"".to_vec(), b" ".to_vec(), all];
        let text = write(&inputs);
        inputs.sort_by_key(|input| line(input));
        assert_eq!(read(&text).expect("what was written"), inputs);
        assert!(text.is_ascii() && text.lines().count() == 3);
    }

    #[test]
    fn what_is_no_input_is_refused_with_its_line() {
        for bad in ["a\\", "\\x1", "\\xg0", "\\q", "é"] {
            let text = format!("# a remark\n\ngood\n{bad}\n");
            assert_eq!(read(&text).expect_err(bad).to_string(), "read line 4", "{bad}");
        }
    }
}
