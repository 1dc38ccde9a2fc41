//! The slope of a time series by least squares.
//!
//! Invariant: a slope comes with its 95 % confidence interval, if the noise of different minutes is independent.

/// A straight line through a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Per hour, with the ends of its interval.
    pub slope: f64,
    pub low: f64,
    pub high: f64,
}

/// Fewer minutes give an interval too wide to be of use, and the approximation of Student's t below needs six degrees of
/// freedom.
const MIN_MINUTES: usize = 8;

/// The line through the means of minutes of samples `(seconds, value)`; nothing if they are too few.
pub fn trend(samples: &[(f64, f64)]) -> Option<Trend> {
    let mut minutes: Vec<(f64, f64, f64)> = Vec::new();
    for (seconds, value) in samples {
        let minute = (seconds / 60.0).floor();
        match minutes.last_mut().filter(|last| last.0 == minute) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1.0),
            None => minutes.push((minute, *value, 1.0)),
        }
    }
    let points: Vec<(f64, f64)> =
        minutes.into_iter().map(|(minute, sum, count)| (minute / 60.0, sum / count)).collect();
    if points.len() < MIN_MINUTES {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let variation: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / variation;
    let residual: f64 = points.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    let freedom = count - 2.0;
    let error = (residual / freedom / variation).sqrt();
    // Student's t for 95 %, within 1 % from six degrees of freedom on.
    let factor = 1.96 + 2.5 / (freedom - 0.8);
    Some(Trend { slope, low: slope - factor * error, high: slope + factor * error })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six samples a minute around a line, scattered by an amount that has no trend.
    fn around(per_hour: f64, minutes: usize) -> Vec<(f64, f64)> {
        let scatter = [3.0, -1.0, 2.0, -3.0, 0.0, -1.0, 1.0, -2.0, 3.0, -2.0, 1.0];
        let sample = |place: usize| {
            let seconds = place as f64 * 10.0;
            (seconds, 1000.0 + per_hour * seconds / 3600.0 + scatter[place % scatter.len()])
        };
        (0..minutes * 6).map(sample).collect()
    }

    #[test]
    fn a_slope_is_found_within_its_interval() {
        for per_hour in [0.0, 50.0, -20.0] {
            let trend = trend(&around(per_hour, 45)).expect("long enough");
            assert!(trend.low < per_hour && per_hour < trend.high, "{per_hour}: {trend:?}");
            assert!(trend.high - trend.low < 5.0, "{trend:?}");
        }
        assert!(trend(&around(50.0, 45)).expect("long enough").low > 40.0);
    }

    #[test]
    fn a_few_minutes_say_nothing() {
        assert_eq!(trend(&around(0.0, 7)), None);
        assert!(trend(&around(0.0, 8)).is_some());
    }
}
