//! Why a phase lacks a figure.
//!
//! Invariant: exactly the figures that are missing have a reason.

use super::{PhaseResult, Rounds, by_load};
use crate::metric::{Metric, MetricUnit, PhaseSource};
use tokrate_meter::request::NOT_STREAMED;

/// The metrics whose absence is explained, in the order in which it is.
const EXPLAINED_METRICS: [Metric; 4] = [Metric::Ttft, Metric::Itl, Metric::OutputSpeed, Metric::Throughput];

impl PhaseResult {
    /// Why the phase lacks a metric; `None` if it has it.
    pub fn missing_reason(&self, metric: Metric) -> Option<String> {
        let row = metric.row();
        let is_there = match row.of_phase {
            PhaseSource::Times(of, _) => !of(self).is_empty(),
            PhaseSource::Speeds(of) => of(self).median.value.or(of(self).median.descriptive).is_some(),
            PhaseSource::Throughput => self.throughput.is_some() && self.is_text(),
            PhaseSource::ItemThroughput => self.items.as_ref().is_some_and(|items| items.per_second.is_some()),
            PhaseSource::Rate(of) => of(self).is_some(),
            PhaseSource::FailureShare => self.counts.failed_share().is_some(),
        };
        if is_there {
            return None;
        }
        Some(match row.of_phase {
            PhaseSource::FailureShare => "no request was started".to_owned(),
            _ if self.counts.answered == 0 => "no request was answered".to_owned(),
            PhaseSource::ItemThroughput => {
                let no_items = "the answers were no vectors, scores or images".to_owned();
                self.steady_missing.clone().filter(|_| self.items.is_some()).unwrap_or(no_items)
            }
            PhaseSource::Rate(_) if row.metric == Metric::AudioThroughput => self.missing_audio_reason(),
            PhaseSource::Rate(_) => {
                let none = "the requests had none".to_owned();
                self.steady_missing.clone().filter(|_| self.media.is_some()).unwrap_or(none)
            }
            PhaseSource::Times(..) if row.metric == Metric::TimeToFirstImage => "no image came".to_owned(),
            _ if self.items.is_some() && row.metric != Metric::TimePerItem && row.unit != MetricUnit::Share => {
                match self.conditions.task.as_str() {
                    "images" => "images are no text".to_owned(),
                    "batch" => "a batch has no text of its own".to_owned(),
                    _ => "vectors and scores are no text".to_owned(),
                }
            }
            _ if matches!(
                row.metric,
                Metric::TimeToFirstAudio | Metric::RealTimeFactor | Metric::StalledTime | Metric::SessionOpen
            ) =>
            {
                self.missing_audio_reason()
            }
            _ if !self.is_text() && row.unit != MetricUnit::Share => "speech is no text".to_owned(),
            PhaseSource::Throughput => {
                let no_tokens = "no token arrived in the steady window".to_owned();
                self.steady_missing.clone().unwrap_or(no_tokens)
            }
            _ if self.counts.measured == 0 => "every answer was part of the warm-up".to_owned(),
            PhaseSource::Times(..) if row.metric.is_of_opening() && self.opening().is_none() => {
                "no request opened a connection".to_owned()
            }
            PhaseSource::Times(..) if row.metric == Metric::NameLookup => "no name was looked up".to_owned(),
            PhaseSource::Times(..) if row.metric == Metric::TlsHandshake => "the endpoint has no TLS".to_owned(),
            PhaseSource::Times(..) if row.metric == Metric::StreamWait => "HTTP/1.1 has no streams".to_owned(),
            PhaseSource::Speeds(_) => self.missing_speed_reason(),
            PhaseSource::Times(..) if row.needs_stream && !self.conditions.streaming => "not streamed".to_owned(),
            PhaseSource::Times(..) if row.needs_stream && self.came_in_one_piece() => NOT_STREAMED.to_owned(),
            PhaseSource::Times(..) if row.tokens_needed > 1 => "no answer came in more than one piece".to_owned(),
            PhaseSource::Times(..) => "no answer had any text".to_owned(),
        })
    }

    fn missing_audio_reason(&self) -> String {
        let audio = &self.audio;
        match &self.steady_missing {
            _ if !audio.is_there() => "there was no sound".to_owned(),
            _ if audio.unknown_length == audio.n => "the bytes do not say how long the sound plays".to_owned(),
            Some(missing) => missing.clone(),
            None => "no sound came back".to_owned(),
        }
    }

    /// Whether its answers came in one piece although a stream was asked for.
    fn came_in_one_piece(&self) -> bool {
        let whole = self.output_speed.missing.iter().find(|missing| missing.reason == NOT_STREAMED);
        whole.is_some_and(|whole| whole.count == self.counts.measured)
    }

    /// Why no speed is stated: it would be one of the slow answers only, or no answer has one.
    fn missing_speed_reason(&self) -> String {
        let speed = &self.output_speed;
        let most = speed.missing.iter().max_by_key(|missing| missing.count);
        let reason = speed.refused.clone().or_else(|| most.map(|missing| missing.reason.clone()));
        reason.unwrap_or_else(|| "no answer has one".to_owned())
    }
}

/// Every figure that loads lack in all of their rounds together, a sentence each: which, why, and at which loads if not at all of them.
pub fn missing_figures(phases: &[PhaseResult]) -> Vec<String> {
    let mut found: Vec<(Vec<Metric>, String, Vec<&str>)> = Vec::new();
    // Of what is no text nobody expects the figures of a text.
    let loads: Vec<_> = by_load(phases).into_iter().filter(Rounds::is_text).collect();
    for figure in EXPLAINED_METRICS {
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for load in &loads {
            let Some(reason) = load.missing_reason(figure) else { continue };
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, places)) => places.push(load.name()),
                None => reasons.push((reason, vec![load.name()])),
            }
        }
        for (reason, places) in reasons {
            match found.iter_mut().find(|(_, why, at)| *why == reason && *at == places) {
                Some((figures, ..)) => figures.push(figure),
                None => found.push((vec![figure], reason, places)),
            }
        }
    }
    let sentence = |(figures, reason, places): (Vec<Metric>, String, Vec<&str>)| {
        let place = if places.len() == loads.len() { String::new() } else { format!(" at {}", places.join("; ")) };
        let figures: Vec<&str> = figures.into_iter().map(|figure| figure.row().words).collect();
        format!("No {}{place}: {reason}.", figures.join(", no "))
    };
    found.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase};
    use tokrate_core::FailureKind;
    use tokrate_meter::fixtures::{failed_request, steady_request};

    #[test]
    fn exactly_missing_figures_have_a_reason_and_share_a_sentence_where_it_is_one() {
        let steady: Vec<_> = (1..=20).map(|i| steady_request(i, i * 2_000, 100, 10, 40)).collect();
        let whole = phase(&closed(1), &steady);
        assert_eq!(EXPLAINED_METRICS.map(|figure| whole.missing_reason(figure)), [None, None, None, None]);
        assert!(missing_figures(std::slice::from_ref(&whole)).is_empty());

        let failed = phase(&closed(1), &[failed_request(1, 0, 10, FailureKind::TimedOut)]);
        let actual = EXPLAINED_METRICS.map(|figure| failed.missing_reason(figure));
        let why = Some("no request was answered");
        // A window in which nothing was answered has a throughput: none.
        assert_eq!(actual.each_ref().map(Option::as_deref), [why, why, why, None]);
        let one = PhaseResult { name: "one".to_owned(), ..whole };
        let two = PhaseResult { name: "two".to_owned(), load: closed(2).load, ..failed };
        assert_eq!(
            missing_figures(&[one, two]),
            ["No time to first token, no time between tokens, no output speed at two: no request was answered."]
        );
    }

    #[test]
    fn answers_in_one_piece_have_no_first_token_and_say_why() {
        let whole = |index| {
            let mut row = steady_request(index, index * 2_000, 100, 0, 40);
            row.clear_streaming_figures();
            row
        };
        let phase = phase(&closed(1), &(1..=20).map(whole).collect::<Vec<_>>());
        assert!(phase.ttft.is_empty());
        assert_eq!(phase.missing_reason(Metric::Ttft).as_deref(), Some("not streamed: the answer came in one piece"));
    }

    #[test]
    fn answers_that_are_too_short_have_a_reason() {
        let short: Vec<_> = (1..=20).map(|i| steady_request(i, i * 2_000, 100, 40, 2)).collect();
        let phase = phase(&closed(1), &short);
        let reason = phase.missing_reason(Metric::OutputSpeed).expect("two tokens have no speed");
        assert_eq!(reason, phase.output_speed.missing[0].reason);
        assert_eq!(missing_figures(std::slice::from_ref(&phase)), [format!("No output speed: {reason}.")]);
    }
}
