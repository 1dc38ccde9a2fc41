//! Pictures and sound of requests: how many a second, and what each adds to the time until the first token and to the prompt.
//!
//! Invariant: rates are of the steady window, everything else of the measured requests; what one more picture adds is stated only where
//! requests differ in it.

use super::Steady;
use super::items::rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_meter::Media;
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::{Distribution, least_squares};

/// Most groups that are told apart by their pictures.
const MAX_GROUPS: usize = 32;
const MEGA: f64 = 1e6;

/// The pictures and the sound of a phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MediaSummary {
    /// Measured requests, those without pictures among them.
    pub n: u64,
    /// Pictures of the measured requests.
    pub images: u64,
    /// Their pixels.
    pub pixels: u64,
    /// Sound of the measured requests (s).
    pub sound_seconds: f64,
    /// Pictures per second of the steady window; absent without one, or without pictures.
    pub images_per_second: Option<f64>,
    /// Their pixels per second, in millions.
    pub megapixels_per_second: Option<f64>,
    /// Seconds of sound per second of the steady window; absent without one, or without sound.
    pub sound_per_second: Option<f64>,
    /// What one more picture adds to the time until the first token (ms; E2E where answers were not streamed), by least squares over the
    /// measured requests; absent where all have as many.
    pub per_image_ms: Option<Slope>,
    /// What a million pixels more add to it (ms); absent where all have as many.
    pub per_megapixel_ms: Option<Slope>,
    /// What one more picture adds to the prompt tokens that the server counts, beyond those of the text.
    pub tokens_per_image: Option<Slope>,
    /// The requests by how many pictures they have, ascending.
    pub groups: Vec<MediaGroup>,
}

/// What one more adds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slope {
    /// The slope.
    pub value: f64,
    /// Its standard error, from what the line leaves over.
    pub error: f64,
}

/// Requests with as many pictures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MediaGroup {
    /// Pictures of each.
    pub images: u64,
    /// Measured requests.
    pub n: u64,
    /// Pixels of a request, mean.
    pub pixels: f64,
    /// Sent to first output text.
    pub ttft: Distribution,
    /// Sent to finish.
    pub e2e: Distribution,
    /// Prompt tokens as the server counts them, mean.
    pub input_reported: Option<f64>,
}

impl MediaSummary {
    /// Of all requests and the measured ones; `None` where none had pictures or sound.
    pub(super) fn of(
        steady: Option<&Steady>,
        requests: &[RequestNumbers],
        measured: &[&RequestNumbers],
    ) -> Option<MediaSummary> {
        requests.iter().find_map(|request| request.media)?;
        let sum = |of: fn(&Media) -> u64| measured.iter().filter_map(|row| row.media.as_ref()).map(of).sum::<u64>();
        let per_second = |of: fn(&Media) -> u64| {
            let parts = rate(steady?, requests, |row| row.media.as_ref().map(of));
            Some(parts.iter().sum::<f64>() / parts.len() as f64).filter(|rate| *rate > 0.0)
        };
        let mut groups: BTreeMap<u64, Vec<&RequestNumbers>> = BTreeMap::new();
        for row in measured {
            groups.entry(images_of(row)).or_default().push(row);
        }
        let delay = |row: &RequestNumbers| row.ttft_ns.or(row.e2e_ns).map(|time| time as f64 / 1e6);
        let beyond_text = |row: &RequestNumbers| Some(row.input_reported? as f64 - row.input_asked? as f64);
        Some(MediaSummary {
            n: measured.len() as u64,
            images: sum(|media| media.pictures),
            pixels: sum(|media| media.pixels),
            sound_seconds: sum(|media| media.sound_ns) as f64 / 1e9,
            images_per_second: per_second(|media| media.pictures),
            megapixels_per_second: per_second(|media| media.pixels).map(|pixels| pixels / MEGA),
            sound_per_second: per_second(|media| media.sound_ns).map(|nanoseconds| nanoseconds / 1e9),
            per_image_ms: slope(measured, |row| images_of(row) as f64, delay),
            per_megapixel_ms: slope(measured, |row| row.media.map_or(0.0, |it| it.pixels as f64 / MEGA), delay),
            tokens_per_image: slope(measured, |row| images_of(row) as f64, beyond_text),
            groups: groups.into_iter().take(MAX_GROUPS).map(|(images, rows)| MediaGroup::of(images, &rows)).collect(),
        })
    }
}

impl MediaGroup {
    fn of(images: u64, rows: &[&RequestNumbers]) -> MediaGroup {
        let mean = |of: fn(&RequestNumbers) -> Option<u64>| {
            let known: Vec<u64> = rows.iter().filter_map(|row| of(row)).collect();
            (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64 / known.len() as f64)
        };
        let times = |of: fn(&RequestNumbers) -> Option<u64>| {
            Distribution::of_nanos(&mut rows.iter().filter_map(|row| of(row)).collect::<Vec<u64>>())
        };
        MediaGroup {
            images,
            n: rows.len() as u64,
            pixels: mean(|row| Some(row.media.map_or(0, |media| media.pixels))).unwrap_or(0.0),
            ttft: times(|row| row.ttft_ns),
            e2e: times(|row| row.e2e_ns),
            input_reported: mean(|row| row.input_reported),
        }
    }
}

fn images_of(row: &RequestNumbers) -> u64 {
    row.media.map_or(0, |media| media.pictures)
}

/// The slope of `y` over `x`, with an error from the residuals; `None` below three requests, or where all have the same `x`.
fn slope(
    rows: &[&RequestNumbers],
    x: impl Fn(&RequestNumbers) -> f64,
    y: impl Fn(&RequestNumbers) -> Option<f64>,
) -> Option<Slope> {
    let points: Vec<(f64, f64)> = rows.iter().filter_map(|row| Some((x(row), y(row)?))).collect();
    let columns = [vec![1.0; points.len()], points.iter().map(|point| point.0).collect()];
    let target: Vec<f64> = points.iter().map(|point| point.1).collect();
    let free = points.len().checked_sub(2).filter(|free| *free > 0)? as f64;
    let fit = least_squares(&columns, &target, &vec![1.0; points.len()])?;
    let [at_zero, value] = fit.coefficients;
    let left: f64 = points.iter().map(|(x, y)| (y - at_zero - value * x).powi(2)).sum();
    Some(Slope { value, error: fit.errors[1] * (left / free).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::steady_request;

    fn row(number: u64, pictures: u64, ttft_ms: u64) -> RequestNumbers {
        RequestNumbers {
            media: Some(Media { pictures, pixels: pictures * 500_000, sound_ns: 0 }),
            ttft_ns: Some(ttft_ms * 1_000_000),
            input_asked: Some(100),
            input_reported: Some(110 + pictures * 64),
            due_at_ns: number * 1_000_000_000,
            finished_at_ns: (number + 1) * 1_000_000_000,
            ..steady_request(number, number * 1_000, 1, 1, 4)
        }
    }

    #[test]
    fn requests_are_told_apart_by_their_pictures_and_one_more_adds_what_it_adds() {
        let rows: Vec<_> = (0..12).map(|number| row(number, number % 3, 50 + 20 * (number % 3))).collect();
        let steady = Steady { rule: String::new(), start_ns: 0, end_ns: 12_000_000_000 };
        let measured: Vec<&RequestNumbers> = rows.iter().collect();
        let media = MediaSummary::of(Some(&steady), &rows, &measured).expect("there were pictures");
        assert_eq!((media.n, media.images, media.pixels, media.sound_per_second), (12, 12, 6_000_000, None));
        assert!((media.images_per_second.expect("a window") - 1.0).abs() < 1e-9);
        assert!((media.megapixels_per_second.expect("a window") - 0.5).abs() < 1e-9);
        let close = |slope: Option<Slope>, value: f64| {
            slope.is_some_and(|slope| (slope.value - value).abs() < 1e-6 && slope.error < 1e-6)
        };
        assert!(close(media.per_image_ms, 20.0) && close(media.tokens_per_image, 64.0), "{media:?}");
        assert!(close(media.per_megapixel_ms, 40.0), "{media:?}");
        let groups: Vec<_> = media.groups.iter().map(|it| (it.images, it.n, it.pixels, it.input_reported)).collect();
        assert_eq!(groups, [(0, 4, 0.0, Some(110.0)), (1, 4, 5e5, Some(174.0)), (2, 4, 1e6, Some(238.0))]);
    }

    #[test]
    fn without_pictures_there_is_nothing_and_where_all_have_as_many_nothing_is_said_of_one_more() {
        let plain = [steady_request(0, 0, 1, 1, 4)];
        assert_eq!(MediaSummary::of(None, &plain, &plain.iter().collect::<Vec<_>>()), None);
        let same: Vec<_> = (0..5).map(|number| row(number, 2, 90)).collect();
        let media = MediaSummary::of(None, &same, &same.iter().collect::<Vec<_>>()).expect("there were pictures");
        assert_eq!((media.per_image_ms, media.images_per_second, media.groups.len()), (None, None, 1));
    }
}
