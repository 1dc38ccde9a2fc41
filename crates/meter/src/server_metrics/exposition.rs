//! Parser for Prometheus' text format (0.0.4) and the additions of OpenMetrics.
//!
//! Invariant: no input makes it fail or panic; a line that is not a sample is counted and skipped.
//!
//! Format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

/// More samples than any engine publishes.
const MAX_SAMPLES: usize = 200_000;

/// A page of metrics.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Exposition {
    /// Its samples, in their order.
    pub samples: Vec<Sample>,
    /// Lines that are neither sample nor comment.
    pub ignored_lines: u64,
}

/// One line of a page.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Name, with its suffix (`_bucket`, `_sum`, `_count`, `_total`).
    pub name: String,
    /// Labels with their escapes undone.
    pub labels: Vec<(String, String)>,
    /// Value; may be NaN or infinite.
    pub value: f64,
}

impl Sample {
    /// A label's value.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }
}

impl Exposition {
    /// Reads a page. A page that is one JSON string (llama.cpp issue 17384) is unwrapped first.
    pub fn parse(bytes: &[u8]) -> Exposition {
        let quoted = bytes.trim_ascii_start().starts_with(b"\"");
        if let Some(text) = quoted.then(|| serde_json::from_slice::<String>(bytes).ok()).flatten() {
            return Exposition::of_text(&text);
        }
        Exposition::of_text(&String::from_utf8_lossy(bytes))
    }

    fn of_text(text: &str) -> Exposition {
        let mut page = Exposition::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match sample(line).filter(|_| page.samples.len() < MAX_SAMPLES) {
                Some(sample) => page.samples.push(sample),
                None => page.ignored_lines += 1,
            }
        }
        page
    }
}

/// `name{label="value",…} value [timestamp] [# exemplar]`.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|symbol: char| !(symbol.is_ascii_alphanumeric() || symbol == '_' || symbol == ':'))?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = number(rest.split_whitespace().next()?)?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// A label and its value.
type Label = (String, String);

/// The labels between the braces, and the rest.
fn labels(mut rest: &str) -> Option<(Vec<Label>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let quoted = after.trim_start().strip_prefix('"')?;
        let (value, after) = unquoted(quoted)?;
        labels.push((name.trim().to_owned(), value));
        rest = after;
    }
}

/// A string up to its closing quote with `\\`, `\"` and `\n` unescaped, and the rest.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut symbols = text.char_indices();
    while let Some((at, symbol)) = symbols.next() {
        match symbol {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match symbols.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        // Rust reads "infinity" and "nan" too, which no server writes.
        text if text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) => text.parse().ok(),
        _ => None,
    }
}
