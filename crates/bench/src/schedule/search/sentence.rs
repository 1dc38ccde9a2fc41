//! The result of a search in one sentence: the load, its certainty, and what missed at the next higher load.
//!
//! Invariant: every share comes with its counts and interval.

use super::{MAX_LEVEL_SECONDS, Search, needed};
use tokrate_record::{PhaseResult, SearchLevel, SearchStatus, ShareVerdict};

/// A search and its levels.
pub(super) struct SearchSentence<'a> {
    pub search: &'a Search,
    pub levels: &'a [SearchLevel],
    pub results: &'a [PhaseResult],
    pub met: Option<f64>,
    pub missed: Option<f64>,
}

impl SearchSentence<'_> {
    /// All of it in a sentence.
    pub fn sentence(&self, status: SearchStatus) -> String {
        let objectives = self.objectives();
        let share = percent(self.search.share);
        match status {
            SearchStatus::Found => format!(
                "the highest {} at which at least {share} % of the requests keep {objectives} is {}: {}; {}",
                self.search.axis.name(),
                load_text(self.met),
                self.seen(self.met),
                self.why_missed()
            ),
            SearchStatus::NoneMet => format!(
                "no {}{} keeps {objectives} for {share} % of the requests: {}{}",
                self.search.axis.name(),
                if self.search.is_closed() { String::new() } else { format!(" from {} up", load_text(self.missed)) },
                self.why_missed(),
                self.why_no_lower()
            ),
            SearchStatus::AllMet => format!(
                "{} still keeps {objectives} for at least {share} % of the requests: {}; it is the highest that was allowed \
                 (--max-load)",
                self.load(self.met),
                self.seen(self.met)
            ),
            SearchStatus::NeedsMoreRequests => self.needs_more(&objectives),
            SearchStatus::LacksMetric => {
                let open = self.open();
                format!(
                    "cannot be determined: at {}, {} of {} answers lack a metric that an objective is about (the result says why); {}",
                    self.load(open.map(|level| level.load)),
                    open.map_or(0, |level| level.undecided),
                    open.map_or(0, |level| level.of),
                    self.known()
                )
            }
            SearchStatus::Unfinished => format!("the search for {objectives} is not over; {}", self.known()),
        }
    }

    fn needs_more(&self, objectives: &str) -> String {
        let open = self.open();
        let needed = open.and_then(|level| needed(level, self.search.share));
        let needed = needed.map_or_else(String::new, |needed| format!(" (about {needed})"));
        let at = open.map(|level| level.load);
        format!(
            "needs more requests{needed}: at {}, {}, too near to {} % to tell whether so many keep {objectives}; {}{}",
            self.load(at),
            self.seen(at),
            percent(self.search.share),
            self.known(),
            at.map_or_else(String::new, |load| self.time_limit(load))
        )
    }

    /// Why no lower rate was tried.
    fn why_no_lower(&self) -> String {
        if self.search.is_closed() {
            return String::new();
        }
        format!(
            "; at a lower rate the requests that a verdict needs take more than {:.0} minutes: measure it with --rate",
            MAX_LEVEL_SECONDS / 60.0
        )
    }

    /// That the time of a rate is used up, if that is what ended the search.
    fn time_limit(&self, load: f64) -> String {
        if self.search.max_requests_at(load) == self.search.max_requests {
            return String::new();
        }
        format!(
            "; a search measures a rate for {:.0} minutes at most, --rate {load} --requests N for longer",
            MAX_LEVEL_SECONDS / 60.0
        )
    }

    /// What is certain, however it ended.
    fn known(&self) -> String {
        match (self.met, self.missed) {
            (None, None) => "known so far: nothing".to_owned(),
            (Some(_), None) => format!("known so far: {} keeps them, {}", self.load(self.met), self.seen(self.met)),
            (None, Some(_)) => format!("known so far: {}", self.why_missed()),
            (Some(_), Some(_)) => {
                format!(
                    "known so far: {} keeps them, {}; {}",
                    self.load(self.met),
                    self.seen(self.met),
                    self.why_missed()
                )
            }
        }
    }

    fn open(&self) -> Option<&SearchLevel> {
        self.levels.iter().find(|level| level.verdict == ShareVerdict::Undecided)
    }

    /// The objectives as they are written.
    fn objectives(&self) -> String {
        let goodput = self.results.iter().find_map(|result| result.goodput.as_ref());
        let slos: Vec<&str> =
            goodput.into_iter().flat_map(|goodput| &goodput.slos).map(|slo| slo.slo.as_str()).collect();
        if slos.is_empty() { "the objectives".to_owned() } else { slos.join(" and ") }
    }

    /// Share of a level's requests that met all objectives, with its interval.
    fn seen(&self, load: Option<f64>) -> String {
        let level = self.levels.iter().find(|level| Some(level.load) == load);
        let Some(level) = level else { return "not measured".to_owned() };
        let interval = level.interval.map_or_else(String::new, |interval| {
            format!(" ({} to {} % at 95 % confidence)", percent(interval.low), percent(interval.high))
        });
        format!("{} of {} kept them{interval}", level.met, level.of)
    }

    /// Which level missed, by how much, and by what most often.
    fn why_missed(&self) -> String {
        let by = self.missed.and_then(|load| self.missed_by(load)).map_or_else(String::new, |by| format!("; {by}"));
        format!("at {}, {}{by}", self.load(self.missed), self.seen(self.missed))
    }

    /// What the requests of a level missed most often.
    fn missed_by(&self, load: f64) -> Option<String> {
        let goodputs = || {
            let of_level = self.results.iter().filter(move |result| result.load_level().load == load);
            of_level.filter_map(|result| result.goodput.as_ref())
        };
        let sum = |of: fn(&tokrate_record::Goodput) -> u64| goodputs().map(of).sum::<u64>();
        let (of, failed, refused) =
            (sum(|seen| seen.of), sum(|seen| seen.missed_failed), sum(|seen| seen.missed_rate_limited));
        let slos = goodputs().next()?.slos.iter().enumerate().map(|(place, slo)| {
            let kept: u64 =
                goodputs().filter_map(|seen| seen.slos.get(place)).map(|slo| slo.met + slo.without_metric).sum();
            // A failed request misses every objective, but not because of any of them.
            (of.saturating_sub(kept + failed + refused), format!("missed {}", slo.slo))
        });
        let causes = slos.chain([(failed, "failed".to_owned()), (refused, "were refused for the rate".to_owned())]);
        // Ties go to the first objective.
        let (count, by) = causes.reduce(|most, next| if next.0 > most.0 { next } else { most })?;
        (count > 0).then(|| format!("{count} of {of} {by}"))
    }

    fn load(&self, load: Option<f64>) -> String {
        format!("{} {}", self.search.axis.name(), load_text(load))
    }
}

fn load_text(load: Option<f64>) -> String {
    load.map_or_else(|| "none".to_owned(), |load| load.to_string())
}

/// A share in per cent with at most one decimal.
fn percent(share: f64) -> f64 {
    (share * 1e3).round() / 10.0
}
