//! The known quantities on one metrics page, at one moment.
//!
//! Invariant: series of one metric are summed, those of other models left out; a value that is not a number is ignored.

use super::family::same_name;
use super::{Exposition, Family, Quantity, Sample};

/// Labels under which engines name the model.
const MODEL_LABELS: [&str; 3] = ["model_name", "model", "served_model_name"];

/// The quantities on a page.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricsSnapshot<'a> {
    page: &'a Exposition,
    family: Family,
    /// The model whose series count; `None` counts all.
    model: Option<String>,
}

/// A histogram: how many values are at most as large as each bound.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Histogram {
    /// Values in all.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Bounds in rising order with the number of values up to them; the last bound may be infinite.
    pub buckets: Vec<(f64, f64)>,
}

impl<'a> MetricsSnapshot<'a> {
    /// Reads a page; `None` where it has no metric of the family, or, without one, of any that is known. If there are series
    /// of the model asked for, only those count.
    pub fn of(page: &'a Exposition, family: Option<Family>, model: &str) -> Option<MetricsSnapshot<'a>> {
        let names = || page.samples.iter().map(|sample| sample.name.as_str());
        let family = Family::of(names()).filter(|found| family.is_none_or(|family| family == *found))?;
        let named = |sample: &Sample| MODEL_LABELS.iter().any(|label| sample.label(label) == Some(model));
        let model = page.samples.iter().any(named).then(|| model.to_owned());
        Some(MetricsSnapshot { page, family, model })
    }

    /// The same server's page before its first request: all zero.
    pub fn zeroed(&self, empty: &'a Exposition) -> MetricsSnapshot<'a> {
        MetricsSnapshot { page: empty, ..self.clone() }
    }

    /// Whose names the page has.
    pub fn family(&self) -> Family {
        self.family
    }

    /// A counter or gauge.
    pub fn number(&self, quantity: Quantity) -> Option<f64> {
        self.family.names(quantity).iter().find_map(|name| self.sum_of(name))
    }

    /// A share, as the mean of its series.
    pub fn share(&self, quantity: Quantity) -> Option<f64> {
        self.family.names(quantity).iter().find_map(|name| {
            let series = self.series(name).count();
            Some(self.sum_of(name)? / series as f64)
        })
    }

    /// A histogram.
    pub fn histogram(&self, quantity: Quantity) -> Option<Histogram> {
        self.family.names(quantity).iter().find_map(|name| {
            let count = self.sum_of(&format!("{name}_count"))?;
            let sum = self.sum_of(&format!("{name}_sum"))?;
            let mut buckets: Vec<(f64, f64)> = Vec::new();
            for sample in self.series(&format!("{name}_bucket")) {
                let bound = match sample.label("le") {
                    Some("+Inf" | "Inf") => f64::INFINITY,
                    Some(bound) => bound.parse().ok().filter(|bound: &f64| bound.is_finite())?,
                    None => return None,
                };
                match buckets.iter_mut().find(|(known, _)| *known == bound) {
                    Some((_, values)) => *values += sample.value,
                    None => buckets.push((bound, sample.value)),
                }
            }
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            Some(Histogram { count, sum, buckets })
        })
    }

    fn sum_of(&self, name: &str) -> Option<f64> {
        let mut values = self.series(name).map(|sample| sample.value).peekable();
        values.peek()?;
        Some(values.sum::<f64>()).filter(|sum| sum.is_finite())
    }

    /// The series of a name that count.
    fn series<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Sample> {
        let counts = |sample: &Sample| {
            let label = MODEL_LABELS.iter().find_map(|label| sample.label(label));
            label.is_none() || self.model.as_deref().is_none_or(|model| label == Some(model))
        };
        self.page
            .samples
            .iter()
            .filter(move |sample| same_name(&sample.name, name) && sample.value.is_finite() && counts(sample))
    }
}

impl Histogram {
    /// What came in between an earlier state and this one; `None` if the counts fell, because the server began anew.
    pub(super) fn since(&self, before: &Histogram) -> Option<Histogram> {
        if self.count < before.count || self.sum < before.sum {
            return None;
        }
        let earlier = |bound: f64| before.buckets.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, n)| *n);
        let buckets = self.buckets.iter().map(|&(bound, values)| (bound, (values - earlier(bound)).max(0.0)));
        Some(Histogram { count: self.count - before.count, sum: self.sum - before.sum, buckets: buckets.collect() })
    }
}
