//! Parses the conditions of a claim: model, hardware, load, lengths, statistic, date.
//!
//! Invariant: a number belongs to the words directly before or after it.

use super::Condition;
use super::figure::{Figure, begins, ends, figure};
use super::parser::{Parser, has_unit, word_length};
use super::vocabulary::*;

impl Parser<'_> {
    /// Reads the number as a condition; where it ends.
    pub(super) fn condition(&mut self, start: usize, figure: &Figure) -> Option<usize> {
        let at = start + figure.with_scale;
        if let Some(end) = self.hardware_count(start, start + figure.length) {
            return Some(end);
        }
        let size = self.lower[start + figure.length..].strip_prefix('b').map(|rest| rest.trim_start_matches("-a"));
        if size.is_some_and(|rest| ends(rest) || rest.starts_with(|next: char| next.is_ascii_digit())) {
            return Some(self.model(start, start));
        }
        let bits = self.lower[start + figure.length..].trim_start_matches(['-', ' ']);
        if begins(bits, &["bit", "bits"]).is_some() {
            let end = self.lower.len() - bits.len() + "bit".len();
            self.add_condition(Condition::Precision, start, end);
            return Some(end);
        }
        let behind = self.lower[at..].trim_start_matches(['-', ' ']);
        if let Some(rate) =
            begins(behind, &["req/s", "requests/s", "rps", "qps", "requests per second", "requests/sec", "req/sec"])
        {
            let end = self.lower.len() - behind.len() + rate.len();
            self.add_condition(Condition::Load, start, end);
            return Some(end);
        }
        self.labelled_condition(start, at, behind).or_else(|| self.date_or_percentile(start, at))
    }

    /// `8 x H100`, `64 GPUs`, `a 4090`: where it ends.
    fn hardware_count(&mut self, start: usize, at: usize) -> Option<usize> {
        let behind = self.lower[at..].trim_start_matches([' ', '-']);
        let times = behind
            .strip_prefix('x')
            .filter(|rest| rest.starts_with(' ') || HARDWARE.iter().any(|name| rest.starts_with(name)));
        let named = times.unwrap_or(behind).trim_start();
        let named_at = self.lower.len() - named.len();
        let vendor = begins(named, &["nvidia", "amd", "google", "intel"]).map_or(0, |vendor| vendor.len() + 1);
        let hardware = named.get(vendor..).filter(|rest| HARDWARE.iter().any(|name| rest.starts_with(name)));
        let cards = named.get(vendor..).filter(|rest| begins(rest, CARDS).is_some() && times.is_some());
        let end = if hardware.or(cards).is_some() {
            named_at + vendor + self.hardware(named_at + vendor)
        } else if let Some(word) = begins(named, MACHINES) {
            named_at + word.len()
        } else if begins(&self.lower[start..], CARDS).is_some() {
            at
        } else {
            return None;
        };
        self.add_condition(Condition::Provider, start, end);
        Some(end)
    }

    /// Named right before or right behind.
    fn labelled_condition(&mut self, start: usize, at: usize, behind: &str) -> Option<usize> {
        // `1k/1k`: in and out.
        if let Some(out) = self.lower[at..].strip_prefix('/').and_then(figure) {
            let end = at + 1 + out.with_scale;
            self.add_condition(Condition::InputTokens, start, at);
            self.add_condition(Condition::OutputTokens, at + 1, end);
            return Some(end);
        }
        let lists: [(Condition, &[&str], &[&str]); 4] = [
            (Condition::Load, LOAD_BEFORE, LOAD_AFTER),
            (Condition::InputTokens, INPUT_BEFORE, INPUT_AFTER),
            (Condition::OutputTokens, OUTPUT_BEFORE, OUTPUT_AFTER),
            (Condition::Sample, &["n", "over runs"], SAMPLE_AFTER),
        ];
        let before =
            lists.iter().find_map(|(condition, before, _)| Some((*condition, self.named_before(start, before)?)));
        // `200 in total` is no length.
        let is_label = |word: &str| {
            !matches!(word, "in" | "out")
                || !behind[word.len()..].trim_start().starts_with(|next: char| next.is_alphanumeric())
        };
        let after = lists.iter().filter_map(|(condition, _, list)| Some((begins(behind, list)?, *condition)));
        let after = after.filter(|(word, _)| is_label(word));
        let after = after.max_by_key(|(word, _)| word.len());
        let mut end = at;
        match (before, after) {
            // `in 2 users`: a short word before the number is weaker than a word after it.
            (Some((condition, from)), after) if after.is_none() || start - from > 4 => {
                if let Some(word) = begins(behind, &["tokens", "token", "requests", "users"]) {
                    end = self.lower.len() - behind.len() + word.len();
                }
                self.add_condition(condition, from, end);
            }
            (_, Some((word, condition))) => {
                end = self.lower.len() - behind.len() + word.len();
                self.add_condition(condition, start, end);
            }
            _ => return None,
        }
        Some(end)
    }

    /// A year, a date, or a percentile.
    fn date_or_percentile(&mut self, start: usize, at: usize) -> Option<usize> {
        let word = &self.lower[start..start + word_length(&self.lower[start..])];
        let year = |text: &str| text.len() == 4 && ("2020".."2040").contains(&text);
        if word.get(..4).is_some_and(year) && (word.len() == 4 || word.as_bytes()[4] == b'-') {
            self.add_condition(Condition::Place, start, start + word.len());
            return Some(start + word.len());
        }
        let rest = ["th", "st", "nd", "rd"].iter().find_map(|end| self.lower[at..].strip_prefix(end))?;
        let end = self.lower.len() - rest.trim_start().strip_prefix("percentile")?.len();
        self.add_condition(Condition::Statistic, start, end);
        Some(end)
    }

    /// Length of a hardware name with its suffixes.
    pub(super) fn hardware(&self, start: usize) -> usize {
        let mut end = start + word_length(&self.lower[start..]);
        let further = |part: &str| {
            HARDWARE.iter().any(|name| part.starts_with(name))
                || part.starts_with("v5")
                || part.starts_with("v6")
                || ["pro", "6000", "spark", "sxm", "pcie", "nvl", "gpus", "gpu"].contains(&part)
                || CARDS.contains(&part)
        };
        while let Some(part) = self.lower[end..].strip_prefix(' ').filter(|part| further(&part[..word_length(part)])) {
            end += 1 + word_length(part);
        }
        end - start
    }

    /// A model's name from its family on; where it ends.
    pub(super) fn model(&mut self, start: usize, family: usize) -> usize {
        let mut end = family + word_length(&self.lower[family..]);
        while let Some(part) = self.lower[end..].strip_prefix(' ') {
            let word = &part[..word_length(part)];
            let version = word.strip_prefix(['v', 'r', 'k']).unwrap_or(word);
            let size = version.split_once('x').map_or(version, |(_, size)| size);
            let number = size.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(size);
            let is_number = !number.is_empty() && number.chars().all(|sign| sign.is_ascii_digit() || sign == '.');
            let has_unit = figure(part).is_some_and(|figure| has_unit(&part[figure.with_scale..]));
            let is_part = MODEL_PARTS.contains(&word) || (is_number && !has_unit && number.len() <= 4);
            if !is_part {
                break;
            }
            end += 1 + word.len();
        }
        self.add_condition(Condition::Model, start, end);
        end
    }
}
