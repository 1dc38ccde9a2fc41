//! Words of a comparison as people type them.

use super::quantity;
use anyhow::{Result, anyhow};
use tokrate_judge::compare::{DEFAULT_METRICS, comparable_from_name};
use tokrate_record::Metric;

/// The metrics of these names; the usual ones without any.
pub fn metrics(names: &[String]) -> Result<Vec<Metric>> {
    if names.is_empty() {
        return Ok(DEFAULT_METRICS.to_vec());
    }
    names.iter().map(|name| comparable_from_name(name).map_err(|error| anyhow!("read --metric: {error}"))).collect()
}

/// A share, in per cent or plain; 5 % without one.
pub fn threshold(text: Option<&str>) -> Result<f64> {
    let Some(text) = text else { return Ok(0.05) };
    // A change can be more than the whole, a share cannot.
    let above = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match above.filter(|percent| (100.0..=1000.0).contains(percent)) {
        Some(percent) => Ok(percent / 100.0),
        None => quantity::share(text).map_err(|error| anyhow!("read --threshold: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_shares_or_per_cent() {
        let read = |text| threshold(Some(text)).ok();
        assert_eq!(
            (read("5%"), read("0.1"), read("12 %"), read("200%")),
            (Some(0.05), Some(0.1), Some(0.12), Some(2.0))
        );
        for bad in ["5", "1001%", "-1%", "five", "", "nan"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
