//! A virtual provider: law, faults, prices, background load, rate limits, and how they change over time.
//!
//! Invariant: a persona and a seed determine an engine.

use crate::background::Background;
use crate::faults::Faults;
use crate::law::{Law, LawError};
use crate::limits::Limits;
use crate::scheduled::Scheduled;
use crate::timetable::Timetable;
use std::borrow::Cow;
use tokrate_core::{Price, Rng, Span};

/// The settings of one virtual provider.
#[derive(Clone, PartialEq, Debug)]
pub struct Persona {
    /// Its name.
    pub name: String,
    /// Its performance without faults.
    pub law: Law,
    /// Its faults.
    pub faults: Faults,
    /// What it charges.
    pub price: Price,
    /// Its background load.
    pub background: Background,
    /// How it changes over time.
    pub timetable: Timetable,
    /// Its rate limits.
    pub limits: Limits,
    /// Speed of the clock of timetable and background load: at 1440, a day takes a minute. Law and limits stay in real
    /// time.
    pub time_scale: f64,
    /// A scheduler that decides in place of the law when tokens come; the law says only what answers look like.
    pub scheduled: Option<Scheduled>,
}

/// How the persona deviates from its law at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Deviation {
    /// Factor on the speed of streams.
    pub speed: f64,
    /// Factor on the time from slot to first chunk.
    pub ttft: f64,
    /// Background streams.
    pub background_streams: u32,
}

impl Default for Persona {
    /// The default engine, without a name, which never changes.
    fn default() -> Persona {
        Persona {
            name: String::new(),
            law: Law::default(),
            faults: Faults::default(),
            price: Price::default(),
            background: Background::default(),
            timetable: Timetable::default(),
            limits: Limits::default(),
            time_scale: 1.0,
            scheduled: None,
        }
    }
}

impl Persona {
    /// The state at a time since the engine's start. `rng` is the engine's generator for the background load.
    pub fn at(&self, elapsed: Span, rng: &Rng) -> Deviation {
        if self.timetable.is_empty() && self.background.streams == 0.0 {
            return Deviation { speed: 1.0, ttft: 1.0, background_streams: 0 };
        }
        let scaled_time = self.scaled_time(elapsed);
        Deviation {
            speed: self.timetable.speed_at(scaled_time),
            ttft: self.timetable.ttft_at(scaled_time),
            background_streams: self.background.streams_at(scaled_time, rng),
        }
    }

    /// The faults at a time since the engine's start.
    pub fn faults_at(&self, elapsed: Span) -> Cow<'_, Faults> {
        match self.timetable.change_at(self.scaled_time(elapsed)) {
            None => Cow::Borrowed(&self.faults),
            Some(change) => match (change.replacement.as_ref().unwrap_or(&self.faults), change.faults) {
                (faults, 1.0) => Cow::Borrowed(faults),
                (faults, factor) => Cow::Owned(faults.scaled(factor)),
            },
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), LawError> {
        self.law.check()?;
        self.faults.check()?;
        self.background.check()?;
        self.timetable.check()?;
        if !(f64::MIN_POSITIVE..=1e6).contains(&self.time_scale) {
            let (name, allowed) = ("time scale", "a number above 0, at most 1000000");
            return Err(LawError::Setting { name, value: self.time_scale, allowed });
        }
        let limits = [
            ("limit of requests per minute", self.limits.requests_per_minute),
            ("limit of tokens per minute", self.limits.tokens_per_minute),
        ];
        match limits.into_iter().find(|(_, limit)| *limit == Some(0)) {
            Some((name, _)) => Err(LawError::Zero { name }),
            None => Ok(()),
        }
    }

    /// Time on the scaled clock.
    fn scaled_time(&self, elapsed: Span) -> Span {
        match self.time_scale {
            1.0 => elapsed,
            scale => Span::from_nanos((elapsed.as_nanos() as f64 * scale).round() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timetable::{Change, Curve};

    fn regression(at: Span) -> Timetable {
        let mut replacement = Faults::default();
        replacement.set("short=0.1").expect("a fault");
        let change = Change { at, speed: 0.5, ttft: 3.0, faults: 2.0, replacement: Some(replacement) };
        Timetable { changes: vec![change], speed: None }
    }

    #[test]
    fn a_day_can_be_simulated_in_a_minute() {
        let curve = Curve { period: Span::from_secs(86_400), amplitude: 0.5, peak: Span::ZERO };
        let timetable = Timetable { speed: Some(curve), ..Timetable::default() };
        let persona = Persona { timetable, time_scale: 1440.0, ..Persona::default() };
        let speed = |seconds| persona.at(Span::from_secs(seconds), &Rng::root(0)).speed;
        assert_eq!((speed(0), speed(30), speed(60)), (1.5, 0.5, 1.5));
    }

    #[test]
    fn a_regression_changes_speed_and_faults_at_its_time() {
        let persona = Persona { timetable: regression(Span::from_secs(600)), ..Persona::default() };
        assert_eq!(persona.check(), Ok(()));
        let before = Span::from_secs(600) - Span::from_nanos(1);
        let after = Span::from_secs(600);
        assert_eq!(persona.faults_at(before).short, 0.0);
        assert_eq!(persona.faults_at(after).short, 0.2, "twice what takes its place");
        let rng = Rng::root(0);
        assert_eq!(persona.at(before, &rng), Deviation { speed: 1.0, ttft: 1.0, background_streams: 0 });
        assert_eq!(persona.at(after, &rng), Deviation { speed: 0.5, ttft: 3.0, background_streams: 0 });
    }

    #[test]
    fn invalid_settings_are_named() {
        let message = |persona: Persona| persona.check().expect_err("refused").to_string();
        let persona = Persona::default;
        let none = Limits { requests_per_minute: Some(0), tokens_per_minute: None };
        assert_eq!(
            message(Persona { limits: none, ..persona() }),
            "set the limit of requests per minute to 0; give at least 1"
        );
        assert!(message(Persona { time_scale: 0.0, ..persona() }).starts_with("set the time scale to 0"));
    }
}
