//! Words of a comparison as people type them.

use anyhow::{Result, anyhow, ensure};
use tokrate_meter::compare::Metric;

/// The metrics of these names; the usual ones without any.
pub fn metrics(names: &[String]) -> Result<Vec<Metric>> {
    if names.is_empty() {
        return Ok(Metric::USUAL.to_vec());
    }
    names.iter().map(|name| Metric::from_name(name).map_err(|error| anyhow!("read --metric: {error}"))).collect()
}

/// A share, in per cent or plain; 5 % without one.
pub fn threshold(text: Option<&str>) -> Result<f64> {
    let Some(text) = text else { return Ok(0.05) };
    let (number, scale) = text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number.trim(), 0.01));
    let share = number.parse::<f64>().ok().map(|number| number * scale);
    let share = share.filter(|share| (0.0..=10.0).contains(share));
    let message = || anyhow!("read --threshold: `{text}` is no share; write for example 5% or 0.05");
    let share = share.ok_or_else(message)?;
    ensure!(
        share < 1.0 || text.contains('%'),
        "read --threshold: {text} is more than the whole; write {text}% for per cent"
    );
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_shares_or_per_cent() {
        let read = |text| threshold(Some(text)).ok();
        assert_eq!((read("5%"), read("0.1"), read("12 %")), (Some(0.05), Some(0.1), Some(0.12)));
        for bad in ["5", "-1%", "five", "", "nan"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
