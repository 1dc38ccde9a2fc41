//! Several models behind one endpoint, such as LoRA adapters: which of them a request asks for.
//!
//! Invariant: the model of the n-th request is a function of the adapters, the seed and n.

use crate::bad_input::{BadInput, hash, shown};
use std::fmt;
use tokrate_core::Rng;

/// More are a slip: servers hold some hundred at once.
const MAX_ADAPTERS: usize = 100_000;
/// Names that are written out in the conditions; of more the number and a hash stand there.
const MAX_NAMED: usize = 5;

/// Models, and how often each is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Adapters {
    names: Vec<String>,
    /// Share of requests up to and with each; the last is 1.
    cumulative: Vec<f64>,
    /// The list as it was written, for the conditions.
    written: String,
}

impl Adapters {
    /// Reads `NAME[:WEIGHT],…`; without weights all are asked for equally often.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Adapters, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let weighted = entries.map(|entry| {
            // A name may have a colon of its own (`base:free`).
            let split = entry.rsplit_once(':').and_then(|(name, weight)| Some((name, weight.parse::<f64>().ok()?)));
            split.map_or((entry.to_owned(), 1.0), |(name, weight)| (name.to_owned(), weight))
        });
        Adapters::weighted(weighted.collect())
    }

    /// Reads a file with a name on each line, or a name and its weight with white space between.
    ///
    /// # Errors
    /// The position of the first line that cannot be read.
    pub fn parse_file(text: &str) -> Result<Adapters, BadInput> {
        let mut weighted = Vec::new();
        for (number, line) in (1..).zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines()) {
            let mut fields = line.split_whitespace();
            let Some(name) = fields.next() else { continue };
            let weight = fields.next().map_or(Some(1.0), |weight| weight.parse::<f64>().ok());
            match weight.filter(|_| fields.next().is_none()) {
                Some(weight) => weighted.push((name.to_owned(), weight)),
                None => {
                    let expected = "a name, and perhaps its weight";
                    return Err(BadInput::at(number, 1, format!("{expected}; there is {}", shown(line))));
                }
            }
        }
        Adapters::weighted(weighted).map_err(|reason| BadInput::at(1, 1, format!("names of models: {reason}")))
    }

    /// The same models, the k-th asked for as often as 1 / k^skew says (Zipf's law).
    #[must_use]
    pub fn by_zipf(self, skew: f64) -> Adapters {
        let weights = (1..=self.names.len()).map(|rank| (rank as f64).powf(-skew)).collect();
        let cumulative = cumulative_of(weights);
        let written = format!("{}, Zipf {skew}", Listed(&self.names, None));
        Adapters { cumulative, written, ..self }
    }

    fn weighted(weighted: Vec<(String, f64)>) -> Result<Adapters, String> {
        let (names, weights): (Vec<String>, Vec<f64>) = weighted.into_iter().unzip();
        if names.is_empty() || names.len() > MAX_ADAPTERS {
            return Err(format!("{} names are not between 1 and {MAX_ADAPTERS}", names.len()));
        }
        if let Some((name, weight)) =
            names.iter().zip(&weights).find(|(_, weight)| !(weight.is_finite() && **weight > 0.0))
        {
            return Err(format!("the weight of `{name}` is {weight}, which is no number above 0"));
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("`{}` is named twice", pair[0]));
        }
        let is_even = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let written = Listed(&names, (!is_even).then_some(&weights)).to_string();
        let cumulative = cumulative_of(weights);
        Ok(Adapters { names, cumulative, written })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The model that the `number`-th request asks for; `rng` is that of all requests.
    pub(crate) fn of(&self, number: u64, rng: &Rng) -> &str {
        let share = rng.child("adapter").nth(number).unit();
        let last = self.names.len() - 1;
        &self.names[self.cumulative.partition_point(|cumulative| *cumulative <= share).min(last)]
    }
}

impl fmt::Display for Adapters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.written)
    }
}

/// Names with their weights, or how many there are and a hash of them.
struct Listed<'a>(&'a [String], Option<&'a Vec<f64>>);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = |place: usize| self.1.map_or_else(String::new, |weights| format!(":{}", weights[place]));
        let each: Vec<String> =
            self.0.iter().enumerate().map(|(place, name)| format!("{name}{}", weight(place))).collect();
        let whole = each.join(",");
        match self.0.len() {
            0..=MAX_NAMED => formatter.write_str(&whole),
            n => write!(formatter, "{n} models, hash {:016x}", hash(&whole)),
        }
    }
}

/// Shares up to and with each.
fn cumulative_of(weights: Vec<f64>) -> Vec<f64> {
    let whole: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let added = weights.into_iter().map(|weight| {
        sum += weight / whole;
        sum
    });
    added.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(adapters: &Adapters) -> Vec<(String, usize)> {
        let rng = Rng::root(3);
        let all: Vec<&str> = (0..10_000).map(|number| adapters.of(number, &rng)).collect();
        adapters.names.iter().map(|name| (name.clone(), all.iter().filter(|one| *one == name).count())).collect()
    }

    #[test]
    fn models_are_asked_for_by_their_weights() {
        let adapters = Adapters::parse("base:free:2, sql ,fr:1").expect("three models");
        assert_eq!(adapters.to_string(), "base:free:2,sql:1,fr:1");
        for ((_, count), expected) in counts(&adapters).iter().zip([5_000, 2_500, 2_500]) {
            assert!(count.abs_diff(expected) < 200, "{:?}", counts(&adapters));
        }
        assert_eq!(Adapters::parse("a,b").expect("two").to_string(), "a,b");
    }

    #[test]
    fn zipfs_law_takes_the_place_of_weights() {
        let many = (1..=10).map(|rank| format!("lora-{rank}\n")).collect::<String>();
        let adapters = Adapters::parse_file(&many).expect("ten models").by_zipf(1.0);
        let seen = counts(&adapters);
        // 1 / H(10) = 0.341.
        assert!(seen[0].1.abs_diff(3_414) < 200 && seen[9].1.abs_diff(341) < 80, "{seen:?}");
        assert!(adapters.to_string().starts_with("10 models, hash "), "{adapters}");
        assert!(adapters.to_string().ends_with(", Zipf 1"), "{adapters}");
    }

    #[test]
    fn what_is_no_list_of_models_is_refused() {
        for (text, expected) in [
            ("", "0 names are not between"),
            ("a:0", "the weight of `a` is 0"),
            ("a:-1,b", "the weight of `a` is -1"),
            ("a,b,a:3", "`a` is named twice"),
        ] {
            let reason = Adapters::parse(text).expect_err("no list");
            assert!(reason.starts_with(expected), "{text}: {reason}");
        }
        let bad = Adapters::parse_file("a 1\n\nb c d\n").expect_err("no list");
        assert_eq!((bad.line, bad.column), (3, 1), "{bad}");
        assert!(Adapters::parse_file("").expect_err("no list").to_string().contains("names of models: 0 names"));
    }
}
