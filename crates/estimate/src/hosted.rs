//! How a hosted endpoint answers under load, by calls that were measured: a law of the load and of the prompt's length for
//! planning, without knowing what it runs on.
//!
//! Time = (base + a token's share × prompt) × load^exponent, fitted to medians on logarithms, with the scatter of calls about it.
//! Invariant: within the loads and prompts that were measured it says what was seen; a little beyond it says that it is
//! extrapolated, and further it refuses.

use crate::capacity::{Figure, Objective};
use crate::interval::Value;
use crate::traffic::quantile;
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_stats::{Level, Quantile};

/// A measured call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// Requests in flight at the endpoint, this one included.
    pub load: f64,
    /// Tokens of its prompt.
    pub prompt: f64,
    /// Seconds to the first token.
    pub ttft: Option<f64>,
    /// Seconds a token after the first.
    pub tpot: Option<f64>,
}

/// The law of an endpoint.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosted {
    /// Which form this is.
    pub form: String,
    /// What was measured.
    pub name: String,
    /// Where the calls are from.
    pub source: String,
    /// Calls that it is fitted to.
    pub calls: u64,
    /// Share of calls that failed.
    pub failures: f64,
    /// Fewest and most requests in flight that were measured.
    pub load: (f64, f64),
    /// Shortest and longest prompt that was measured.
    pub prompt: (f64, f64),
    /// Time to the first token.
    pub ttft: Law,
    /// Time a token after it.
    pub tpot: Law,
}

/// Time over load and prompt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Law {
    /// Of the median.
    pub law: Terms,
    /// 95th percentile of calls over their median.
    pub slow: f64,
    /// The same fitted to calls drawn anew, for intervals.
    pub refits: Vec<Terms>,
}

/// The numbers of a law.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Seconds of an empty prompt at one request in flight.
    pub base: f64,
    /// Seconds more for a token of the prompt.
    pub a_token: f64,
    /// Exponent of the load.
    pub exponent: f64,
}

/// What is expected of calls at a load and prompt length.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Expected {
    /// Seconds to the first token, median.
    pub ttft: Value,
    /// Tokens/s of one request, median.
    pub speed: Value,
    /// In what it lies outside of what was measured.
    pub extrapolated: Vec<String>,
}

/// A load and prompt length that was measured, beside the law.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Seen {
    /// Requests in flight.
    pub load: f64,
    /// Median prompt, tokens.
    pub prompt: f64,
    /// Calls.
    pub n: usize,
    /// Measured seconds to the first token, median.
    pub ttft: Option<f64>,
    /// Measured tokens/s, median.
    pub speed: Option<f64>,
}

impl Hosted {
    /// The name of this form.
    pub const FORM: &'static str = "tokrate.hosted.v1";
}

/// Fewest calls with a time that a law is fitted to.
const FEWEST: usize = 20;
/// Calls that a law is fitted to at most: of more, every n-th.
const MOST: usize = 2_000;
/// Refits: the tenth and ninetieth percentile of so many are steady to a few per cent.
const REFITS: usize = 100;
/// How far apart loads or prompts have to be for their effect to be known.
const APART: f64 = 1.5;
/// How far beyond what was measured a law is still taken.
const BEYOND: f64 = 2.0;
/// Shares of the base that a token of the prompt may cost: none, or from a millionth to a tenth.
const SHARES: usize = 36;

impl Terms {
    fn at(&self, load: f64, prompt: f64) -> f64 {
        (self.base + self.a_token * prompt) * load.powf(self.exponent)
    }

    fn is_possible(&self) -> bool {
        let Terms { base, a_token, exponent } = *self;
        base.is_finite() && base > 0.0 && a_token.is_finite() && a_token >= 0.0 && exponent.is_finite()
    }
}

/// A time of a call: logarithm of the load, prompt, logarithm of the time.
type Point = (f64, f64, f64);

/// Least squares over the logarithms, with the share of a prompt's token searched on a grid.
fn terms_of(points: &[Point], knows_load: bool, knows_prompt: bool) -> Option<Terms> {
    let shares = (0..=if knows_prompt { SHARES } else { 0 }).map(|step| match step {
        0 => 0.0,
        step => 10f64.powf(-6.0 + 5.0 * (step - 1) as f64 / (SHARES - 1) as f64),
    });
    let n = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    let fit = |share: f64| {
        let rest = |point: &Point| point.2 - (share * point.1).ln_1p();
        let mean = points.iter().map(rest).sum::<f64>() / n;
        let slope = if knows_load && spread > 0.0 {
            points.iter().map(|point| (point.0 - mean_x) * (rest(point) - mean)).sum::<f64>() / spread
        } else {
            0.0
        };
        let at_one = mean - slope * mean_x;
        let squares: f64 = points.iter().map(|point| (rest(point) - at_one - slope * point.0).powi(2)).sum();
        (squares, Terms { base: at_one.exp(), a_token: share * at_one.exp(), exponent: slope })
    };
    shares.map(fit).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, terms)| terms).filter(Terms::is_possible)
}

impl Law {
    fn fit(calls: &[Call], of: fn(&Call) -> Option<f64>, what: &str, known: (bool, bool)) -> Result<Law, String> {
        let point = |call: &Call| {
            let time = of(call).filter(|time| time.is_finite() && *time > 0.0)?;
            Some((call.load.ln(), call.prompt, time.ln()))
        };
        let all: Vec<Point> = calls.iter().filter_map(point).collect();
        if all.len() < FEWEST {
            return Err(format!("{} calls have {what}; {FEWEST} are needed", all.len()));
        }
        let points: Vec<Point> = all.iter().step_by(all.len().div_ceil(MOST)).copied().collect();
        let fit = |points: &[Point]| terms_of(points, known.0, known.1).ok_or_else(|| format!("{what}: no law fits"));
        // The law of logarithms is that of a mean; it is moved to where half of the calls are faster.
        let centred = |points: &[Point], terms: Terms| {
            let mut off: Vec<f64> =
                points.iter().map(|point| point.2 - terms.at(point.0.exp(), point.1).ln()).collect();
            off.sort_by(f64::total_cmp);
            let middle = quantile(&off, 0.5);
            let moved = Terms { base: terms.base * middle.exp(), a_token: terms.a_token * middle.exp(), ..terms };
            (moved, (quantile(&off, 0.95) - middle).exp())
        };
        let (law, slow) = centred(&points, fit(&points)?);
        let mut rng = Rng::root(0).child("hosted").child(what);
        let mut refits = Vec::with_capacity(REFITS);
        for _ in 0..REFITS {
            let drawn: Vec<Point> =
                (0..points.len()).map(|_| points[rng.below(points.len() as u64) as usize]).collect();
            refits.push(centred(&drawn, fit(&drawn)?).0);
        }
        Ok(Law { law, slow, refits })
    }

    /// The median with the interval of 80 % of the fit.
    fn value(&self, load: f64, prompt: f64) -> Value {
        let mut all: Vec<f64> = self.refits.iter().map(|terms| terms.at(load, prompt)).collect();
        all.sort_by(f64::total_cmp);
        let value = self.law.at(load, prompt);
        let end = |share| if all.is_empty() { value } else { quantile(&all, share) };
        Value { value, low: end(0.1).min(value), high: end(0.9).max(value) }
    }

    /// Time that so many of the calls keep.
    fn at_quantile(&self, terms: &Terms, load: f64, prompt: f64, share: f64) -> f64 {
        terms.at(load, prompt) * self.slow.powf(normal_quantile(share) / normal_quantile(0.95))
    }

    fn check(&self) -> Result<(), String> {
        let mut terms = std::iter::once(&self.law).chain(&self.refits);
        if !(terms.all(Terms::is_possible) && self.slow.is_finite() && self.slow >= 1.0) {
            return Err("it holds times that are no numbers above 0".to_owned());
        }
        Ok(())
    }
}

/// Quantile of the standard normal distribution; of shares that are none, the median's.
fn normal_quantile(share: f64) -> f64 {
    tokrate_stats::normal_quantile(share).unwrap_or(0.0)
}

impl Hosted {
    /// Fits the law to calls. `failed` of all calls have no times.
    ///
    /// # Errors
    /// Too few calls, or calls without a load.
    pub fn fit(name: &str, source: &str, calls: &[Call], failed: u64) -> Result<Hosted, String> {
        let calls: Vec<Call> = calls
            .iter()
            .filter(|call| call.load.is_finite() && call.load >= 1.0 && call.prompt.is_finite() && call.prompt >= 0.0)
            .copied()
            .collect();
        if calls.is_empty() {
            return Err("it holds no call with times".to_owned());
        }
        let ends = |of: fn(&Call) -> f64| {
            calls.iter().map(of).fold((f64::MAX, 0.0f64), |ends, value| (ends.0.min(value), ends.1.max(value)))
        };
        let (load, prompt) = (ends(|call| call.load), ends(|call| call.prompt));
        let known = (is_apart(load), is_apart(prompt));
        let ttft = Law::fit(&calls, |call| call.ttft, "a TTFT", known)?;
        let tpot = Law::fit(&calls, |call| call.tpot, "a time a token", known)?;
        let all = calls.len() as u64 + failed;
        let failures = failed as f64 / all as f64;
        let form = Hosted::FORM.to_owned();
        let (name, source) = (name.to_owned(), source.to_owned());
        Ok(Hosted { form, name, source, calls: calls.len() as u64, failures, load, prompt, ttft, tpot })
    }

    /// Checks what was read.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self) -> Result<(), String> {
        if self.form != Hosted::FORM {
            return Err(format!("it has the form {:?}, and {:?} is read", self.form, Hosted::FORM));
        }
        let is_range =
            |(low, high): (f64, f64), least: f64| low.is_finite() && high.is_finite() && least <= low && low <= high;
        if !is_range(self.load, 1.0) || !is_range(self.prompt, 0.0) || !(0.0..1.0).contains(&self.failures) {
            return Err("its range or share of failures cannot be".to_owned());
        }
        self.ttft.check().and_then(|()| self.tpot.check())
    }

    /// What is expected at a load and prompt length.
    ///
    /// # Errors
    /// They lie too far outside of what was measured.
    pub fn expected(&self, load: f64, prompt: f64) -> Result<Expected, String> {
        let mut extrapolated = Vec::new();
        outside("requests in flight", load, self.load, &mut extrapolated)?;
        outside("prompt tokens", prompt, self.prompt, &mut extrapolated)?;
        let (ttft, tpot) = (self.ttft.value(load, prompt), self.tpot.value(load, prompt));
        Ok(Expected { ttft, speed: tpot.inverse(), extrapolated })
    }

    /// The value of an objective's figure at a load, by one of the fits: the law itself, or the refit of that place.
    fn value(&self, objective: &Objective, load: f64, (prompt, output): (f64, f64), refit: Option<usize>) -> f64 {
        let pick = |law: &Law| refit.and_then(|place| law.refits.get(place)).copied().unwrap_or(law.law);
        let ttft = |share| self.ttft.at_quantile(&pick(&self.ttft), load, prompt, share);
        let tpot = |share| self.tpot.at_quantile(&pick(&self.tpot), load, prompt, share);
        match objective.figure {
            Figure::Ttft => ttft(objective.quantile),
            Figure::Tpot => tpot(objective.quantile),
            Figure::OutputSpeed => 1.0 / tpot(1.0 - objective.quantile),
            // As if the slow starts were the slow streams too.
            Figure::E2e => ttft(objective.quantile) + (output - 1.0).max(0.0) * tpot(objective.quantile),
        }
    }

    /// Whether an objective is kept at a load.
    pub fn keeps(&self, objectives: &[Objective], load: f64, lengths: (f64, f64), refit: Option<usize>) -> bool {
        objectives.iter().all(|objective| {
            let value = self.value(objective, load, lengths, refit);
            if objective.figure == Figure::OutputSpeed { value >= objective.bound } else { value <= objective.bound }
        })
    }

    /// Most requests in flight, of those measured, that keep the objectives with prompts and answers of these lengths: by the
    /// law, and the tenth and ninetieth percentile of its refits. 0: not even the fewest.
    ///
    /// # Errors
    /// Prompts too far outside of what was measured.
    pub fn most_within(&self, objectives: &[Objective], lengths: (f64, f64)) -> Result<Value, String> {
        outside("prompt tokens", lengths.0, self.prompt, &mut Vec::new())?;
        let (least, most) = (self.load.0.ceil() as u32, self.load.1.floor() as u32);
        let of = |refit: Option<usize>| {
            let keeps = |load: u32| self.keeps(objectives, f64::from(load), lengths, refit);
            if !keeps(least) {
                return 0.0;
            }
            let (mut low, mut high) = (least, most);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if keeps(middle) { low = middle } else { high = middle - 1 }
            }
            f64::from(low)
        };
        let mut all: Vec<f64> = (0..self.ttft.refits.len()).map(|place| of(Some(place))).collect();
        all.sort_by(f64::total_cmp);
        let value = of(None);
        Ok(Value { value, low: quantile(&all, 0.1).min(value), high: quantile(&all, 0.9).max(value) })
    }
}

fn is_apart((low, high): (f64, f64)) -> bool {
    high >= low.max(1.0) * APART
}

/// Notes or refuses what lies outside of a range; inside of one that is a single value nothing is known of others.
fn outside(what: &str, value: f64, range: (f64, f64), extrapolated: &mut Vec<String>) -> Result<(), String> {
    let (low, high) = range;
    if !value.is_finite() || value < 0.0 {
        return Err(format!("{what}: {value} is no number of at least 0"));
    }
    // As close as a measurement of such a length is.
    if value >= low / 1.1 && value <= high * 1.1 {
        return Ok(());
    }
    let shown = if low == high { format!("{high:.0}") } else { format!("{low:.0} to {high:.0}") };
    if !is_apart(range) {
        return Err(format!("{what}: {value:.0}, and only {shown} were measured; measure others too"));
    }
    if value > high * BEYOND || value < low / BEYOND {
        return Err(format!("{what}: {value:.0} is too far from what was measured, {shown}; measure there"));
    }
    extrapolated.push(format!("{what}: {value:.0}, measured {shown}"));
    Ok(())
}

/// Calls by load and length of prompt (in steps of a factor of two), to be held against the law.
pub fn seen(calls: &[Call]) -> Vec<Seen> {
    let mut groups: std::collections::BTreeMap<(u64, i32), Vec<&Call>> = std::collections::BTreeMap::new();
    for call in calls.iter().filter(|call| call.load >= 1.0 && call.prompt >= 0.0) {
        let key = (call.load.round() as u64, call.prompt.max(1.0).log2().floor() as i32);
        groups.entry(key).or_default().push(call);
    }
    let median = |calls: &[&Call], of: fn(&Call) -> Option<f64>| {
        let mut values: Vec<f64> = calls.iter().filter_map(|call| of(call)).filter(|it| it.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Quantile::of_sorted(&values, 0, Level::P50).nearest_rank()
    };
    let row = |((load, _), calls): ((u64, i32), Vec<&Call>)| Seen {
        load: load as f64,
        prompt: median(&calls, |call| Some(call.prompt)).unwrap_or(0.0),
        n: calls.len(),
        ttft: median(&calls, |call| call.ttft),
        speed: median(&calls, |call| call.tpot).filter(|tpot| *tpot > 0.0).map(|tpot| 1.0 / tpot),
    };
    groups.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of a known law with log-normal scatter.
    fn calls(loads: &[u32], prompts: &[f64]) -> Vec<Call> {
        let mut rng = Rng::root(7);
        let mut all = Vec::new();
        for load in loads {
            for prompt in prompts {
                for _ in 0..60 {
                    let load = f64::from(*load);
                    let ttft = (0.3 + prompt / 8000.0) * load.powf(0.2) * (0.25 * rng.normal()).exp();
                    let tpot = 0.0125 * load.powf(0.1) * (0.1 * rng.normal()).exp();
                    all.push(Call { load, prompt: *prompt, ttft: Some(ttft), tpot: Some(tpot) });
                }
            }
        }
        all
    }

    fn fitted() -> Hosted {
        Hosted::fit("api", "calls", &calls(&[1, 4, 16], &[200.0, 1000.0, 4000.0]), 5).expect("calls")
    }

    #[test]
    fn a_known_law_is_found_with_its_interval() {
        let found = fitted().expected(8.0, 2000.0).expect("within");
        let (ttft, speed) = ((0.3 + 0.25) * 8f64.powf(0.2), 80.0 / 8f64.powf(0.1));
        assert!((found.ttft.value / ttft - 1.0).abs() < 0.06, "{found:?} for {ttft}");
        assert!((found.speed.value / speed - 1.0).abs() < 0.03, "{found:?} for {speed}");
        assert!(found.ttft.low < found.ttft.value && found.ttft.high / found.ttft.low < 1.2, "{found:?}");
        assert!(found.extrapolated.is_empty());
        let hosted = fitted();
        assert!((hosted.ttft.slow / (0.25f64 * 1.645).exp() - 1.0).abs() < 0.1, "{}", hosted.ttft.slow);
        assert!((hosted.failures - 5.0 / 545.0).abs() < 1e-12);
    }

    #[test]
    fn beyond_what_was_measured_it_is_marked_and_then_refused() {
        let hosted = fitted();
        assert_eq!(hosted.expected(24.0, 1000.0).expect("near").extrapolated.len(), 1);
        for (load, prompt) in [(40.0, 1000.0), (4.0, 50_000.0), (f64::NAN, 1000.0), (4.0, -1.0)] {
            assert!(hosted.expected(load, prompt).is_err(), "{load} {prompt}");
        }
        let one = Hosted::fit("api", "calls", &calls(&[4], &[1000.0]), 0).expect("calls");
        assert_eq!((one.ttft.law.exponent, one.ttft.law.a_token), (0.0, 0.0), "nothing is known of either");
        assert!(one.expected(4.0, 1000.0).is_ok());
        let error = one.expected(8.0, 1000.0).expect_err("one load only");
        assert_eq!(error, "requests in flight: 8, and only 4 were measured; measure others too");
    }

    #[test]
    fn the_load_within_objectives_is_searched_among_the_measured() {
        let hosted = fitted();
        let ttft = |bound| Objective { figure: Figure::Ttft, quantile: 0.95, bound };
        let most = |bound| hosted.most_within(&[ttft(bound)], (1000.0, 300.0)).expect("within");
        // 0.425 s x load^0.2 x 1.51 = 0.9 at a load of 5.4.
        let found = most(0.9);
        assert!(
            (4.0..=8.0).contains(&found.value) && found.low <= found.value && found.value <= found.high,
            "{found:?}"
        );
        assert_eq!((most(100.0).value, most(0.01).value), (16.0, 0.0));
    }

    #[test]
    fn what_is_no_law_is_refused() {
        assert!(Hosted::fit("api", "calls", &[], 0).is_err());
        assert!(
            Hosted::fit("api", "calls", &calls(&[1], &[100.0])[..10], 0)
                .is_err_and(|text| text.contains("20 are needed"))
        );
        let mut wrong = fitted();
        wrong.check().expect("as it was fitted");
        wrong.ttft.refits[3].base = f64::NAN;
        assert!(wrong.check().is_err());
        assert!(Hosted { form: "x".to_owned(), ..fitted() }.check().is_err());
    }
}
