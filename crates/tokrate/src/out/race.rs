//! A race in the terminal: lanes side by side while they write, and how they did.
//!
//! Invariant: where the output is no terminal, nothing moves and only the result is written.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, presets};
use std::fmt::Write;
use tokrate_core::Span;
use tokrate_gateway::{LaneProgress, LaneResult};
use tokrate_tokens::{Encoding, count};

/// Lines of text that each lane shows.
const TEXT_LINES: usize = 8;
/// Narrowest column that is still read.
const COLUMN_LEAST: usize = 18;
const NEEDLE: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The moving picture.
pub struct Picture {
    names: Vec<String>,
    width: usize,
    /// Lines of the picture before.
    drawn: usize,
    fastest: f64,
}

impl Picture {
    /// For lanes of these names, in a terminal so wide.
    pub fn new(names: Vec<String>, width: usize) -> Picture {
        Picture { names, width, drawn: 0, fastest: 50.0 }
    }

    /// What to write so that the picture shows how everybody stands now.
    pub fn frame(&mut self, runners: &[LaneProgress]) -> String {
        let count = runners.len().max(1);
        let column = (self.width.saturating_sub(2 * (count - 1)) / count).max(COLUMN_LEAST);
        let speeds: Vec<f64> = runners.iter().map(speed).collect();
        self.fastest = speeds.iter().copied().fold(self.fastest, f64::max);
        let columns: Vec<Vec<String>> = runners
            .iter()
            .zip(&self.names)
            .zip(&speeds)
            .map(|((runner, name), speed)| lines(runner, name, *speed, self.fastest, column))
            .collect();
        let mut text = String::new();
        if self.drawn > 0 {
            // Back to the first line of the picture before.
            let _ = write!(text, "\x1b[{}A", self.drawn);
        }
        self.drawn = TEXT_LINES + 3;
        for line in 0..self.drawn {
            let cells: Vec<String> = columns.iter().map(|lines| padded(&lines[line], column)).collect();
            let _ = writeln!(text, "\r\x1b[K{}", cells.join("  ").trim_end());
        }
        text
    }
}

/// Tokens per second since the first one.
fn speed(runner: &LaneProgress) -> f64 {
    let tokens = count(Encoding::O200kBase, &runner.text) as f64;
    let since = runner.ttft.map(|ttft| (runner.elapsed.as_secs_f64() - ttft.as_secs_f64()).max(0.05));
    since.map_or(0.0, |seconds| (tokens - 1.0).max(0.0) / seconds)
}

fn lines(runner: &LaneProgress, name: &str, speed: f64, fastest: f64, width: usize) -> Vec<String> {
    let state = match (runner.ended, runner.ttft) {
        (true, _) => "done".to_owned(),
        (false, Some(_)) => "writing".to_owned(),
        (false, None) => "waiting".to_owned(),
    };
    let ttft = runner.ttft.map_or("-".to_owned(), |ttft| ttft.to_string());
    let mut lines = vec![
        cut(&format!("{name} ({state})"), width),
        cut(&format!("{} {speed:.0} tok/s", needle(speed / fastest, width.saturating_sub(12).min(24))), width),
        cut(&format!("TTFT {ttft}, {}", runner.elapsed), width),
    ];
    let wrapped = wrap(&runner.text, width);
    let from = wrapped.len().saturating_sub(TEXT_LINES);
    lines.extend(wrapped[from..].iter().cloned());
    lines.resize(TEXT_LINES + 3, String::new());
    lines
}

/// A bar of so many characters, filled to a share.
fn needle(share: f64, width: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(NEEDLE[eighths % 8 - 1]);
    }
    let filled = eighths.div_ceil(8);
    bar.push_str(&"·".repeat(width - filled.min(width)));
    bar
}

/// Lines of at most so many characters; control characters are not written to a terminal.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for character in text.chars() {
        if character == '\n' || length == width {
            lines.push(String::new());
            length = 0;
        }
        if !character.is_control() {
            lines.last_mut().expect("there is one").push(character);
            length += 1;
        }
    }
    lines
}

fn cut(text: &str, width: usize) -> String {
    text.chars().filter(|character| !character.is_control()).take(width).collect()
}

fn padded(text: &str, width: usize) -> String {
    let length = text.chars().count();
    format!("{text}{}", " ".repeat(width.saturating_sub(length)))
}

/// How everybody did, the first to end first, and who won by how much.
pub fn result(names: &[String], finishes: &[LaneResult]) -> String {
    let mut order: Vec<usize> = (0..finishes.len()).collect();
    order.sort_by_key(|&place| (finishes[place].numbers.failure.is_some(), finishes[place].total));
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(["lane", "TTFT", "output speed", "total", "tokens", "cost", ""]);
    for &place in &order {
        let LaneResult { numbers, total, cost_usd } = &finishes[place];
        let message = numbers.failure.as_ref().map_or(String::new(), |failure| {
            let message: String =
                failure.message.chars().filter(|character| !character.is_control()).take(60).collect();
            format!("{} {message}", failure.kind.name())
        });
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(&names[place]),
            right(numbers.ttft_ns.map_or("-".to_owned(), |ttft| Span::from_nanos(ttft).to_string())),
            right(numbers.output_speed.map_or("-".to_owned(), |speed| format!("{speed:.1} tok/s"))),
            right(total.to_string()),
            right(numbers.tokens_std.to_string()),
            right(cost_usd.map_or("-".to_owned(), |usd| format!("${usd:.6}"))),
            Cell::new(message.trim()),
        ]);
    }
    let mut text = format!("{table}\n");
    let answered: Vec<usize> =
        order.iter().copied().filter(|&place| finishes[place].numbers.failure.is_none()).collect();
    let first = answered.iter().copied().filter_map(|place| Some((finishes[place].numbers.ttft_ns?, place))).min();
    if let Some((ttft, place)) = first {
        let next =
            answered.iter().filter(|&&other| other != place).filter_map(|&other| finishes[other].numbers.ttft_ns);
        let lead = next.min().map_or(String::new(), |next| format!(", {} ahead", Span::from_nanos(next - ttft)));
        let _ = writeln!(text, "won by the first token: {}{lead}", names[place]);
    }
    if let [winner, rest @ ..] = &answered[..] {
        let lead = rest.first().map_or(String::new(), |next| {
            format!(", {} ahead of {}", finishes[*next].total - finishes[*winner].total, names[*next])
        });
        let _ = writeln!(text, "won by completion: {}{lead}", names[*winner]);
    }
    let known: Vec<f64> = finishes.iter().filter_map(|finish| finish.cost_usd).collect();
    if known.len() == finishes.len() {
        let all: f64 = known.iter().sum();
        let winner = answered.first().and_then(|place| finishes[*place].cost_usd).unwrap_or(0.0);
        let _ = writeln!(text, "cost: ${all:.6} for all, ${:.6} of it for those that did not win", all - winner);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_is_as_long_as_its_share() {
        assert_eq!(needle(0.0, 4), "····");
        assert_eq!(needle(1.0, 4), "████");
        assert_eq!(needle(0.5, 4), "██··");
        assert_eq!(needle(0.53, 4), "██▏·");
        assert_eq!(needle(7.0, 4), "████");
    }

    #[test]
    fn a_frame_shows_lanes_side_by_side_and_no_control_character() {
        let mut picture = Picture::new(vec!["one".into(), "two".into()], 50);
        let runner = |text: &str, ended| LaneProgress {
            text: text.to_owned(),
            elapsed: Span::from_millis(1_500),
            ttft: (!text.is_empty()).then_some(Span::from_millis(500)),
            ended,
        };
        let runners = [runner("a line of words\nand \x1b[31mred\x07 ones", true), runner("", false)];
        let first = picture.frame(&runners);
        insta::assert_snapshot!("race_frame", first.replace("\r\x1b[K", ""));
        assert!(picture.frame(&runners).starts_with(&format!("\x1b[{}A", TEXT_LINES + 3)));
    }
}
