//! Untrusted text: cleaning, escaping, width estimation, shortening and wrapping.
//!
//! The font of the reader is unknown: widths are conservative estimates for a wide sans-serif face, so that labels that do
//! not overlap here do not overlap on the screen. Invariant: the result of [`escape`] is well-formed XML character data, in
//! text and in quoted attributes.

/// Removes what must not reach a page: control and non-characters become U+FFFD, line breaks and tabs become spaces,
/// and directional overrides (which could reorder adjacent text) are dropped.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|c| !is_direction_control(*c)).map(cleaned).collect()
}

/// `text` cleaned (see [`clean`]) and escaped for XML and HTML, fit for text and for double-quoted attributes.
pub fn escape(text: &str) -> String {
    escape_cleaned(&clean(text))
}

/// `text` as [`escape`] gives it, its numbers kept on one line with their units: for text that a page breaks into lines.
pub(crate) fn prose(text: &str) -> String {
    escape(&crate::format::with_units_kept(text))
}

/// `text` escaped with its line breaks kept: for preformatted blocks.
pub(crate) fn escape_lines(text: &str) -> String {
    text.lines().map(|line| escape(&line.replace('\t', "    "))).collect::<Vec<_>>().join("\n")
}

fn escape_cleaned(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn cleaned(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// Estimated width of `text` in pixels at a font size of `size` pixels.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// The widest of the usual fonts (DejaVu Sans, Verdana) need so many times the estimated width. Where text that is cut or clipped would
/// be lost, such as a name, there is room for them.
pub(crate) const WIDEST_FONT: f64 = 1.12;

/// Width of one character in ems.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.30,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | 'I' | '/' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '#' => 0.92,
        'A'..='Z' | '&' => 0.69,
        '0'..='9' => 0.60,
        c if c.is_ascii() => 0.57,
        c => match cells(c) {
            0 => 0.0,
            2 => 1.15,
            _ => 0.66,
        },
    }
}

/// Columns that a character takes in a terminal: 0 for combining marks, 2 for East Asian wide characters and emoji.
pub(crate) fn cells(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x0483..=0x0489 | 0x0591..=0x05bd | 0x064b..=0x065f | 0x0e31 | 0x0e34..=0x0e3a => 0,
        0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x2060..=0x2064 | 0xfeff | 0x1f3fb..=0x1f3ff | 0xe0000..=0xe01ef => 0,
        0x1100..=0x115f | 0x231a..=0x231b | 0x23e9..=0x23ec | 0x25fd..=0x25fe | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 => 2,
        0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f000..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Terminal columns of `text`.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// `text` cut to at most `limit` pixels at font size `size`, with an ellipsis when something was cut.
pub(crate) fn shorten(text: &str, limit: f64, size: f64) -> String {
    cut(&clean(text), limit, |c| advance(c) * size, size)
}

/// `text` cut to at most `limit` terminal columns, with an ellipsis when something was cut.
pub(crate) fn shorten_columns(text: &str, limit: usize, unicode: bool) -> String {
    let cleaned = clean(text);
    let ascii = |c: char| if c.is_ascii() { c } else { '?' };
    let readable: String =
        if unicode { cleaned } else { cleaned.chars().filter(|c| cells(*c) > 0).map(ascii).collect() };
    if columns(&readable) <= limit {
        return readable;
    }
    let (mark, mark_columns) = if unicode { ("…", 1) } else { ("..", 2) };
    if limit <= mark_columns {
        return readable.chars().filter(|c| cells(*c) == 1).take(limit).collect();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in readable.chars() {
        used += cells(c);
        if used > limit - mark_columns {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out + mark
}

fn cut(text: &str, limit: f64, measure: impl Fn(char) -> f64, ellipsis: f64) -> String {
    if text.chars().map(&measure).sum::<f64>() <= limit {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = ellipsis;
    for c in text.chars() {
        used += measure(c);
        if used > limit {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

/// `text` broken into at most `lines` lines of at most `limit` pixels; what does not fit ends in an ellipsis.
pub(crate) fn wrap(text: &str, limit: f64, size: f64, lines: usize) -> Vec<String> {
    let cleaned = clean(text);
    let mut done: Vec<String> = Vec::new();
    let mut rest = cleaned.trim();
    while !rest.is_empty() && done.len() < lines {
        if done.len() + 1 == lines || width(rest, size) <= limit {
            done.push(shorten(rest, limit, size));
            break;
        }
        let cut = break_at(rest, limit, size);
        done.push(rest[..cut].trim_end().to_owned());
        rest = rest[cut..].trim_start();
    }
    done
}

/// Byte offset at which the first line of `text` ends: after the last word that fits, or inside a word too long.
fn break_at(text: &str, limit: f64, size: f64) -> usize {
    let mut used = 0.0;
    let mut last_space = None;
    for (at, c) in text.char_indices() {
        used += advance(c) * size;
        if used > limit && at > 0 {
            return last_space.unwrap_or(at);
        }
        if c == ' ' {
            last_space = Some(at + 1);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_controls_and_overrides_are_disarmed() {
        assert_eq!(
            escape("<b a=\"1\" b='2'>&\u{0}\u{202e}x\n\u{ffff}"),
            "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;\u{fffd}x \u{fffd}"
        );
    }

    #[test]
    fn wrapping_prefers_words_and_ends_in_an_ellipsis() {
        assert_eq!(wrap("one two three four", 45.0, 10.0, 2), ["one two", "three f…"]);
        assert_eq!(wrap("short", 100.0, 10.0, 2), ["short"]);
        assert!(wrap("", 100.0, 10.0, 2).is_empty());
    }

    #[test]
    fn ascii_shortening_is_ascii() {
        assert_eq!(shorten_columns("größe 模型", 20, false), "gr??e ??");
        assert_eq!(shorten_columns("abcdefgh", 5, false), "abc..");
        assert_eq!(shorten_columns("模型模型", 5, true), "模型…");
    }

    proptest! {
        #[test]
        fn shortened_text_fits(text in any::<String>(), limit in 20.0..300.0f64) {
            prop_assert!(width(&shorten(&text, limit, 12.0), 12.0) <= limit + 1e-6);
            for line in wrap(&text, limit, 12.0, 3) {
                prop_assert!(width(&line, 12.0) <= limit + 1e-6);
            }
            prop_assert!(columns(&shorten_columns(&text, 17, true)) <= 17);
        }
    }
}
