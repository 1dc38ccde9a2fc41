//! `tokrate feel`: text at a stated speed, so that a person can feel what a number means.

use super::Verdict;
use crate::config::quantity;
use crate::flags::feel::Flags;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use tokrate_bench::Stop;
use tokrate_core::{Span, Tick};
use tokrate_meter::Comfort;
use tokrate_net::{Clock, Pacer};
use tokrate_targets::reading::{self, MAX_DATA_BYTES};
use tokrate_tokens::{Encoding, token_ends};

const TEXT: &str = include_str!("../../data/feel.txt");
const DEFAULT_SECONDS: f64 = 10.0;
/// Above this a terminal shows pages, not text.
const MAX_SPEED: f64 = 100_000.0;
/// Longest text of one speed, in tokens.
const MAX_TOKENS: f64 = 1e7;

/// Streams the text at each speed, or until interrupted.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let plan = Plan::of(flags)?;
    let stop = Stop::default();
    super::interrupt::watch_quietly(stop.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the timer")?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let pacer = Pacer::new(Clock::monotonic()).context("start the timer")?;
        for &speed in &plan.speeds {
            if !stop.is_set() {
                plan.show(speed, &pacer, &stop).await?;
            }
        }
        Ok(Verdict::Good)
    })
}

/// What is shown.
struct Plan {
    speeds: Vec<f64>,
    ttft: Span,
    text: String,
    /// Where each token ends, for one pass over the text.
    ends: Vec<usize>,
    /// Time of text at each speed; `None` for one pass over the text.
    seconds: Option<f64>,
}

impl Plan {
    fn of(flags: &Flags) -> Result<Plan> {
        for speed in &flags.speeds {
            ensure!(
                *speed > 0.0 && *speed <= MAX_SPEED,
                "read the speed: {speed} is not between 0 and {MAX_SPEED} tokens per second"
            );
        }
        let ttft = flags.ttft.as_deref().map(quantity::span).transpose().context("read --ttft")?;
        ensure!(
            flags.seconds.is_none_or(|seconds| seconds > 0.0 && seconds <= 86_400.0),
            "read --seconds: it must be a number above 0 and at most 86400"
        );
        let text = match &flags.text {
            Some(path) => reading::text_of(path, MAX_DATA_BYTES)
                .with_context(|| format!("read {}; it must be a file of UTF-8 text", path.display()))?,
            None => TEXT.to_owned(),
        };
        ensure!(!text.is_empty(), "read --text: the file is empty");
        let mut ends = Vec::new();
        token_ends(Encoding::O200kBase, &text, &mut ends);
        let seconds = flags.seconds.or(if flags.text.is_none() { Some(DEFAULT_SECONDS) } else { None });
        Ok(Plan { speeds: flags.speeds.clone(), ttft: ttft.unwrap_or(Span::ZERO), text, ends, seconds })
    }

    /// Tokens to be shown at a speed.
    fn tokens(&self, speed: f64) -> usize {
        self.seconds.map_or(self.ends.len(), |seconds| (seconds * speed).clamp(2.0, MAX_TOKENS) as usize)
    }

    /// Bytes of the `index`-th token; the text begins anew after its end. A token may end inside a character: what is
    /// written then is completed by the next one.
    fn token(&self, index: usize) -> &[u8] {
        let place = index % self.ends.len();
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text.as_bytes()[start..self.ends[place]]
    }

    fn words_per_token(&self) -> f64 {
        self.text.split_whitespace().count() as f64 / self.ends.len() as f64
    }

    async fn show(&self, speed: f64, pacer: &Pacer, stop: &Stop) -> Result<()> {
        let wrote = || "write to the terminal";
        let band = Comfort::of(speed);
        let mut out = std::io::stdout();
        anstream::println!("-- {speed} tok/s for one reader: {} ({} tok/s) --", band.name(), band.range());
        let clock = pacer.clock();
        let first_due = clock.now() + self.ttft;
        let (mut first_at, mut last_at, mut shown) = (None, Tick::ZERO, 0);
        for index in 0..self.tokens(speed) {
            let due = first_due + Span::from_secs_f64(index as f64 / speed);
            tokio::select! {
                biased;
                () = stop.wait() => break,
                _ = pacer.sleep_until(due) => {}
            }
            out.write_all(self.token(index)).and_then(|()| out.flush()).with_context(wrote)?;
            last_at = clock.now();
            first_at.get_or_insert(last_at);
            shown = index + 1;
        }
        let took = first_at.map_or(Span::ZERO, |first_at| last_at - first_at);
        anstream::println!("\n-- {} --\n", summary_line(shown, took, self.words_per_token()));
        Ok(())
    }
}

/// What was really shown, of a text with so many words for each token.
fn summary_line(tokens: usize, took: Span, words_per_token: f64) -> String {
    if tokens < 2 || took.is_zero() {
        return format!("{tokens} {} shown", if tokens == 1 { "token" } else { "tokens" });
    }
    let speed = (tokens - 1) as f64 / took.as_secs_f64();
    let words = speed * words_per_token * 60.0;
    format!("{tokens} tokens in {took}: {speed:.1} tok/s, {words:.0} words a minute; people read 200 to 250")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seconds: Option<f64>) -> Plan {
        Plan::of(&Flags { speeds: vec![30.0], seconds, ..Flags::default() }).expect("good flags")
    }

    #[test]
    fn the_tokens_are_the_text_over_and_over() {
        let plan = plan(Some(30.0));
        assert_eq!(plan.tokens(30.0), 900);
        let shown: Vec<u8> = (0..plan.ends.len() + 3).flat_map(|index| plan.token(index)).copied().collect();
        let again = [TEXT, &TEXT[..plan.ends[2]]].concat();
        assert_eq!(String::from_utf8(shown).expect("whole characters"), again);
    }

    #[test]
    fn the_summary_is_of_what_was_shown() {
        let line = summary_line(61, Span::from_secs(2), 0.75);
        assert_eq!(line, "61 tokens in 2.00 s: 30.0 tok/s, 1350 words a minute; people read 200 to 250");
    }
}
