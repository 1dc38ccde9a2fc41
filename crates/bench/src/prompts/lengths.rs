//! Lengths of prompts and answers in tokens: always the same, or drawn from a distribution.
//!
//! Invariant: every length lies between [`Lengths::least`] and [`Lengths::most`], and the n-th is a function of distribution, seed
//! and n.

use crate::bad_input::{BadInput, hash, shown};
use crate::trace::MAX_TOKENS;
use std::fmt;
use std::sync::Arc;
use tokrate_core::Rng;
use tokrate_stats::{normal_cdf, normal_quantile};

/// Of a distribution without an end, the share above this is not drawn: one length in a thousand would be of any size, and most models
/// refuse it.
const TAIL: f64 = 0.999;
/// Quantiles that a mean is taken over.
const MEAN_POINTS: u32 = 2_000;

/// How long prompts or answers are.
#[derive(Clone, PartialEq, Debug)]
pub enum Lengths {
    /// Always so many tokens.
    Fixed(u32),
    /// Normally distributed, from 1 to the 99.9th percentile or the limit.
    Normal {
        /// Mean before the ends are cut.
        mean: f64,
        /// Standard deviation before that.
        deviation: f64,
        /// The most, if it is limited.
        limit: Option<u32>,
    },
    /// Log-normally distributed, from 1 to the 99.9th percentile or the limit.
    LogNormal {
        /// Median before the ends are cut.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// The most, if it is limited.
        limit: Option<u32>,
    },
    /// Every whole number from one to another, equally often.
    Uniform {
        /// The least.
        from: u32,
        /// The most.
        to: u32,
    },
    /// As often as in a file.
    Empirical(Arc<Empirical>),
}

/// Lengths and how often each is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Empirical {
    lengths: Vec<u32>,
    /// Share of draws up to and with each length; the last is 1.
    cumulative: Vec<f64>,
    hash: u64,
}

/// What is written for a distribution.
const FORMS: &str = "N, normal:MEAN,SD, lognormal:MEDIAN,SIGMA, lognormal:mean=MEAN,SIGMA or uniform:A..B";

impl Lengths {
    /// Reads `1000`, `normal:1000,200`, `lognormal:800,1.2`, `lognormal:mean=900,1.2` or `uniform:100..2000`; those without an end take
    /// `,max=N` behind.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Lengths, String> {
        let text = text.trim();
        let Some((kind, rest)) = text.split_once(':') else {
            let tokens = text.parse().map_err(|_| format!("`{text}` is no length; write {FORMS}"))?;
            return within(tokens).map(Lengths::Fixed);
        };
        if kind == "uniform" {
            return uniform(rest);
        }
        let mut parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        let limit = parts.last().and_then(|part| part.strip_prefix("max=")).map(str::to_owned);
        let limit = limit.map(|limit| {
            parts.pop();
            limit
                .parse()
                .map_err(|_| format!("`{limit}` is no limit; write max=N with a whole number"))
                .and_then(within)
        });
        let limit = limit.transpose()?;
        let [centre, spread] = parts[..] else {
            return Err(format!("`{text}` does not hold two numbers; write {FORMS}"));
        };
        let (by_mean, centre) = centre.strip_prefix("mean=").map_or((false, centre), |mean| (true, mean));
        let (centre, spread) = (number(centre)?, number(spread)?);
        if !(1.0..=f64::from(MAX_TOKENS)).contains(&centre) {
            return Err(format!("{centre} is not between 1 and 10,000,000 tokens"));
        }
        match (kind, by_mean) {
            ("normal", false) => Ok(Lengths::Normal { mean: centre, deviation: spread, limit }),
            // Above this sigma the 99.9th percentile is 30 million times the median.
            ("lognormal", _) if spread > 5.0 => {
                Err(format!("a sigma of {spread} is above 5: it is that of the logarithm"))
            }
            ("lognormal", by_mean) => {
                let median = if by_mean { centre / (spread * spread / 2.0).exp() } else { centre };
                Ok(Lengths::LogNormal { median, sigma: spread, limit })
            }
            _ => Err(format!("`{kind}` is no distribution here; write {FORMS}")),
        }
        .and_then(Lengths::drawable)
    }

    /// Refuses a distribution of which next to nothing lies between its ends.
    fn drawable(self) -> Result<Lengths, String> {
        let (low, high) = self.share_drawn();
        if high - low < 0.01 {
            return Err(format!("less than 1 % of {self} lies between 1 and {} tokens", self.most()));
        }
        Ok(self)
    }

    /// Reads a file with a length on each line, or a length and its weight (such as a count) with a comma or a space between.
    ///
    /// # Errors
    /// The position of the first line that cannot be read.
    pub fn empirical(text: &str) -> Result<Lengths, BadInput> {
        let mut counted: Vec<(u32, f64)> = Vec::new();
        for (line, content) in (1..).zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines()) {
            let mut fields = content.split([',', ';', ' ', '\t']).filter(|field| !field.is_empty());
            let Some(length) = fields.next() else { continue };
            let weight = fields.next().unwrap_or("1");
            let read = (length.parse().ok().and_then(|length| within(length).ok()))
                .zip(weight.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight >= 0.0));
            match read.filter(|_| fields.next().is_none()) {
                Some(row) => counted.push(row),
                // Names of columns.
                None if line == 1 && content.starts_with(|letter: char| letter.is_alphabetic()) => {}
                None => {
                    let expected = "a length from 1 to 10,000,000 tokens, and perhaps its weight";
                    return Err(BadInput::at(line, 1, format!("{expected}; there is {}", shown(content))));
                }
            }
        }
        Lengths::weighted(counted, hash(text)).map_err(|expected| BadInput::at(1, 1, expected))
    }

    /// Lengths, each drawn as often as its weight says; `hash` stands for where they are from.
    ///
    /// # Errors
    /// What would have been expected.
    pub(crate) fn weighted(mut counted: Vec<(u32, f64)>, hash: u64) -> Result<Lengths, String> {
        counted.retain(|(_, weight)| *weight > 0.0);
        counted.sort_by_key(|(length, _)| *length);
        let whole: f64 = counted.iter().map(|(_, weight)| weight).sum();
        let is_valid = |(length, weight): &(u32, f64)| within(*length).is_ok() && weight.is_finite();
        if counted.is_empty() || !whole.is_finite() || !counted.iter().all(is_valid) {
            return Err("at least one length with a weight above 0, and none above 10,000,000 tokens".to_owned());
        }
        let mut sum = 0.0;
        let cumulative = counted.iter().map(|(_, weight)| {
            sum += weight;
            sum / whole
        });
        let mut cumulative: Vec<f64> = cumulative.collect();
        if let Some(last) = cumulative.last_mut() {
            *last = 1.0;
        }
        let lengths = counted.into_iter().map(|(length, _)| length).collect();
        Ok(Lengths::Empirical(Arc::new(Empirical { lengths, cumulative, hash })))
    }

    /// One length; `rng` is that request's own.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        match self {
            Lengths::Fixed(tokens) => *tokens,
            _ => self.quantile(rng.unit()),
        }
    }

    /// The mean of what is drawn.
    pub fn mean(&self) -> f64 {
        match self {
            Lengths::Fixed(tokens) => f64::from(*tokens),
            Lengths::Uniform { from, to } => (f64::from(*from) + f64::from(*to)) / 2.0,
            Lengths::Empirical(empirical) => {
                let mut before = 0.0;
                let share = |(length, cumulative): (&u32, &f64)| {
                    let share = cumulative - before;
                    before = *cumulative;
                    f64::from(*length) * share
                };
                empirical.lengths.iter().zip(&empirical.cumulative).map(share).sum()
            }
            Lengths::Normal { .. } | Lengths::LogNormal { .. } => {
                let at = |point| self.quantile((f64::from(point) + 0.5) / f64::from(MEAN_POINTS));
                (0..MEAN_POINTS).map(|point| f64::from(at(point))).sum::<f64>() / f64::from(MEAN_POINTS)
            }
        }
    }

    /// The mean as a whole number of at least 1.
    pub fn rounded_mean(&self) -> u32 {
        (self.mean().round() as u32).max(1)
    }

    /// The least that is drawn.
    pub fn least(&self) -> u32 {
        match self {
            Lengths::Fixed(tokens) => *tokens,
            Lengths::Uniform { from, .. } => *from,
            Lengths::Normal { .. } | Lengths::LogNormal { .. } => self.quantile(0.0),
            Lengths::Empirical(empirical) => empirical.lengths.first().copied().unwrap_or(1),
        }
    }

    /// The most that is drawn.
    pub fn most(&self) -> u32 {
        match self {
            Lengths::Fixed(tokens) => *tokens,
            Lengths::Uniform { to, .. } => *to,
            Lengths::Normal { .. } | Lengths::LogNormal { .. } => self.quantile(1.0),
            Lengths::Empirical(empirical) => empirical.lengths.last().copied().unwrap_or(1),
        }
    }

    /// Whether requests differ.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Lengths::Fixed(_))
    }

    /// The length below which that share of what is drawn lies.
    fn quantile(&self, share: f64) -> u32 {
        match self {
            Lengths::Fixed(tokens) => *tokens,
            Lengths::Uniform { from, to } => {
                let room = f64::from(to - from) + 1.0;
                (from + (share * room) as u32).min(*to)
            }
            Lengths::Empirical(empirical) => {
                let place = empirical.cumulative.partition_point(|cumulative| *cumulative <= share);
                empirical.lengths[place.min(empirical.lengths.len() - 1)]
            }
            Lengths::Normal { .. } | Lengths::LogNormal { .. } => {
                let (low, high) = self.share_drawn();
                let z = normal_quantile(low + share * (high - low)).unwrap_or(0.0);
                let value = match self {
                    Lengths::LogNormal { median, sigma, .. } => median * (sigma * z).exp(),
                    Lengths::Normal { mean, deviation, .. } => mean + deviation * z,
                    _ => 1.0,
                };
                (value.round() as u32).clamp(1, self.limit())
            }
        }
    }

    /// From which to which share of the whole distribution lengths are drawn: what rounds to at least 1 and to at most the limit.
    fn share_drawn(&self) -> (f64, f64) {
        let limit = f64::from(self.limit()) + 0.5;
        let up_to = |length: f64| match self {
            Lengths::LogNormal { median, sigma, .. } => normal_cdf((length / median).ln() / sigma),
            Lengths::Normal { mean, deviation, .. } => normal_cdf((length - mean) / deviation),
            _ => 1.0,
        };
        match self {
            // Everything is the centre: any share does, if the limit lets it through.
            Lengths::LogNormal { sigma: 0.0, median: centre, .. }
            | Lengths::Normal { deviation: 0.0, mean: centre, .. } => {
                if *centre <= limit {
                    (0.4, 0.6)
                } else {
                    (0.5, 0.5)
                }
            }
            _ => (up_to(0.5).max(f64::MIN_POSITIVE), up_to(limit).min(TAIL)),
        }
    }

    fn limit(&self) -> u32 {
        match self {
            Lengths::Normal { limit, .. } | Lengths::LogNormal { limit, .. } => limit.unwrap_or(MAX_TOKENS),
            _ => self.most(),
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limited = |limit: &Option<u32>| limit.map(|limit| format!(",max={limit}")).unwrap_or_default();
        match self {
            Lengths::Fixed(tokens) => write!(formatter, "{tokens}"),
            Lengths::Normal { mean, deviation, limit } => {
                write!(formatter, "normal:{mean},{deviation}{}", limited(limit))
            }
            Lengths::LogNormal { median, sigma, limit } => {
                // A median that was made of a mean has no end of digits.
                write!(formatter, "lognormal:{},{sigma}{}", (median * 100.0).round() / 100.0, limited(limit))
            }
            Lengths::Uniform { from, to } => write!(formatter, "uniform:{from}..{to}"),
            Lengths::Empirical(empirical) => {
                let (n, hash) = (empirical.lengths.len(), empirical.hash);
                write!(formatter, "empirical ({n} lengths, hash {hash:016x})")
            }
        }
    }
}

fn within(tokens: u32) -> Result<u32, String> {
    if (1..=MAX_TOKENS).contains(&tokens) {
        Ok(tokens)
    } else {
        Err(format!("{tokens} is not between 1 and 10,000,000"))
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| format!("`{text}` is no number of at least 0"))
}

fn uniform(range: &str) -> Result<Lengths, String> {
    let ends = range.split_once("..").and_then(|(from, to)| from.trim().parse().ok().zip(to.trim().parse().ok()));
    let (from, to) = ends.ok_or_else(|| format!("`{range}` is no range of whole numbers; write uniform:100..2000"))?;
    let (from, to) = (within(from)?, within(to)?);
    if from > to {
        return Err(format!("the range {from}..{to} is empty; write the smaller number first"));
    }
    Ok(Lengths::Uniform { from, to })
}

#[cfg(test)]
mod tests;
