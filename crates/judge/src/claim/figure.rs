//! Numbers with thousands separators, ranges and scales, and the units after them.
//!
//! Invariant: a number that can be read in two ways is marked as ambiguous.

/// A number or a range of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub low: f64,
    pub high: f64,
    /// Bytes that it takes, its `k` or `M` not included.
    pub length: usize,
    /// Bytes with its `k` or `M`.
    pub with_scale: usize,
    /// What `k` or `M` multiply it with.
    pub scale: f64,
    /// Whether a point or comma could part thousands as well as decimals.
    pub is_ambiguous: bool,
}

/// A parsed unit of speed.
pub(super) struct SpeedUnit<'t> {
    /// Units per second.
    pub per_second: f64,
    /// Bytes that it takes.
    pub length: usize,
    /// A word before `tokens`: `input`, `output`, `total`; may be empty.
    pub kind: &'t str,
}

/// A figure at the beginning of a text in lower case, if it begins with a digit.
pub(super) fn figure(text: &str) -> Option<Figure> {
    let (first, length, mut is_ambiguous) = plain(text)?;
    let (scale, scale_length) = scale(&text[length..]);
    let alone = Figure { low: first, high: first, length, with_scale: length + scale_length, scale, is_ambiguous };
    let behind = &text[alone.with_scale..];
    let gap = [" to ", " - ", "-", "..", "..."].into_iter().find(|gap| {
        behind.strip_prefix(gap).is_some_and(|behind| behind.starts_with(|digit: char| digit.is_ascii_digit()))
    });
    let Some(gap) = gap else { return Some(alone) };
    let start = alone.with_scale + gap.len();
    let (second, second_length, other) = plain(&text[start..])?;
    is_ambiguous |= other;
    let length = start + second_length;
    let (second_scale, scale_length) = self::scale(&text[length..]);
    // "1-2k" are two thousands, "800-1.2k" are not.
    let shared = scale_length > 0 && alone.scale == 1.0 && first < second;
    let first_scale = if shared { second_scale } else { alone.scale };
    let (a, b) = (first * first_scale / second_scale, second);
    let (low, high) = (a.min(b), a.max(b));
    Some(Figure { low, high, length, with_scale: length + scale_length, scale: second_scale, is_ambiguous })
}

/// Digits with thousands and decimals: the number, its length, and whether it can be read otherwise.
fn plain(text: &str) -> Option<(f64, usize, bool)> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(0);
    if whole == 0 {
        return None;
    }
    let (mut at, mut groups, mut ambiguous) = (whole, 0, false);
    while text[at..].starts_with([',', '\'', '_']) && digits(at + 1) == 3 && whole <= 3 {
        at += 4;
        groups += 1;
    }
    let mut decimals = String::new();
    if text[at..].starts_with('.') && digits(at + 1) > 0 {
        let count = digits(at + 1);
        decimals = text[at + 1..at + 1 + count].to_owned();
        ambiguous = groups == 0 && count == 3 && whole <= 3 && &text[..whole] != "0";
        at += 1 + count;
    } else if text[at..].starts_with(',') && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
        ambiguous = true;
    }
    let whole: String =
        text[..whole + 4 * groups].chars().filter(char::is_ascii_digit).chain(['.']).chain(decimals.chars()).collect();
    Some((whole.parse().ok()?, at, ambiguous))
}

/// What `k`, `M` and their words multiply with, and their length.
fn scale(text: &str) -> (f64, usize) {
    const SCALES: [(&str, f64); 9] = [
        (" thousand", 1e3),
        (" million", 1e6),
        (" billion", 1e9),
        ("bn", 1e9),
        ("mn", 1e6),
        (" k", 1e3),
        (" m", 1e6),
        ("k", 1e3),
        ("m", 1e6),
    ];
    let fits = |word: &str| {
        let behind = text.strip_prefix(word)?;
        let tokens = ["tok", "tps", "tpm", "t/s"].iter().any(|unit| behind.starts_with(unit));
        // `10 m` are minutes.
        let apart = word.starts_with(' ') && word.len() == 2;
        let ends = !behind.starts_with(|next: char| next.is_alphanumeric());
        ((ends && (!apart || speed_unit(behind).is_some())) || (tokens && !apart)).then_some(word.len())
    };
    SCALES.iter().find_map(|(word, scale)| Some((*scale, fits(word)?))).unwrap_or((1.0, 0))
}

/// Whether a word ends here.
pub(super) fn ends(text: &str) -> bool {
    !text.starts_with(|next: char| next.is_alphanumeric() || next == '_')
}

/// The first of these words that a text begins with, whole.
pub(super) fn begins<'w>(text: &str, words: &[&'w str]) -> Option<&'w str> {
    words.iter().copied().filter(|word| text.strip_prefix(word).is_some_and(ends)).max_by_key(|word| word.len())
}

/// Seconds in a unit of time, and its length.
pub(super) fn time_unit(text: &str) -> Option<(f64, usize)> {
    const UNITS: [(&str, f64); 19] = [
        ("milliseconds", 1e-3),
        ("millisecond", 1e-3),
        ("msec", 1e-3),
        ("ms", 1e-3),
        ("us", 1e-6),
        ("microseconds", 1e-6),
        ("seconds", 1.0),
        ("second", 1.0),
        ("secs", 1.0),
        ("sec", 1.0),
        ("s", 1.0),
        ("minutes", 60.0),
        ("minute", 60.0),
        ("mins", 60.0),
        ("min", 60.0),
        ("hours", 3600.0),
        ("hour", 3600.0),
        ("hr", 3600.0),
        ("h", 3600.0),
    ];
    let trimmed = text.trim_start_matches([' ', '-']);
    let skipped = text.len() - trimmed.len();
    UNITS
        .iter()
        .find(|(unit, _)| trimmed.strip_prefix(unit).is_some_and(ends))
        .map(|(unit, seconds)| (*seconds, skipped + unit.len()))
}

/// A unit of tokens per time at the beginning of a text in lower case.
pub(super) fn speed_unit(text: &str) -> Option<SpeedUnit<'_>> {
    const KINDS: [&str; 12] = [
        "output",
        "input",
        "prompt",
        "generated",
        "generation",
        "total",
        "decode",
        "decoded",
        "prefill",
        "completion",
        "combined",
        "new",
    ];
    let mut rest = text.trim_start();
    let kind_at = rest;
    let kind = begins(rest, &KINDS).unwrap_or("");
    let kind_text = &kind_at[..kind.len()];
    rest = rest[kind.len()..].trim_start();
    let done =
        |rest: &str, per_second| Some(SpeedUnit { per_second, length: text.len() - rest.len(), kind: kind_text });
    for (word, seconds) in [("tps", 1.0), ("tpm", 60.0)] {
        if let Some(behind) = rest.strip_prefix(word).filter(|behind| ends(behind)) {
            return done(behind, 1.0 / seconds);
        }
    }
    let token = ["tokens", "token", "toks", "tok", "tks", "tk", "t"].iter().find_map(|word| rest.strip_prefix(word))?;
    let short = rest.len() - token.len() == 1;
    let per = ["/", " / ", " per ", "-per-", " a ", " each ", " every "];
    let rest = per.iter().find_map(|per| token.strip_prefix(per)).filter(|_| !short || token.starts_with('/'))?;
    let (seconds, length) = time_unit(rest).filter(|(seconds, _)| *seconds >= 1.0)?;
    done(&rest[length..], 1.0 / seconds)
}

/// A unit of time per token: seconds, and its length.
pub(super) fn per_token_unit(text: &str) -> Option<(f64, usize)> {
    let (seconds, length) = time_unit(text)?;
    let rest = &text[length..];
    let rest = ["/", " / ", " per "].iter().find_map(|per| rest.strip_prefix(per))?;
    let rest = rest.strip_prefix("output ").unwrap_or(rest);
    let word = begins(rest, &["tokens", "token", "tok", "t"])?;
    Some((seconds, text.len() - rest.len() + word.len()))
}
