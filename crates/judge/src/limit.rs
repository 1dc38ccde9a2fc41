//! What limits each level: a closed list of rules over what the client counted and what engine and processors said.
//!
//! Invariant: nothing is concluded without a figure of the level itself; a level that no rule fits has no limit, which does not mean
//! that nothing limits it.

use tokrate_record::timeline::{Gauge, Sampled};
use tokrate_record::{LevelLimit, LimitedBy, PhaseResult};

/// Readings of the engine that a conclusion takes.
const MIN_READINGS: u64 = 3;
/// Requests that wait on average where a queue is said to be there.
const MIN_WAITING: f64 = 1.0;
/// Share of the cache in use from which it counts as full (its largest reading), and its mean.
const FULL_CACHE: f64 = 0.95;
const MOSTLY_FULL_CACHE: f64 = 0.90;
/// By how much of its largest reading the number that run may vary and still stay at a limit; at least one request.
const STEADY_RUNNING: f64 = 0.05;
/// Share of the power limit from which the power counts as at it.
const AT_POWER_LIMIT: f64 = 0.95;
/// Share of the highest clock of the run below which clocks count as lowered.
const LOWERED_CLOCK: f64 = 0.95;
/// Share of refused requests from which a limit of rate is said to limit.
const REFUSED: f64 = 0.05;

/// The limit of each level, in their order.
pub fn limits(phases: &[PhaseResult]) -> Vec<Option<LevelLimit>> {
    let highest_clock =
        phases.iter().filter_map(|phase| Some(phase.sampled.as_ref()?.clock?.max)).max_by(f64::total_cmp);
    let waits_from = phases
        .iter()
        .filter(|phase| phase.sampled.as_ref().is_some_and(|sampled| queue(sampled).is_some()))
        .min_by(|a, b| a.load.amount().total_cmp(&b.load.amount()))
        .map(|phase| (phase.load, phase.name.split(", round ").next().unwrap_or(&phase.name)));
    let of = |phase: &PhaseResult| {
        let from = waits_from.filter(|(load, _)| *load != phase.load).map(|(_, name)| name);
        client(phase).or_else(|| rate_limit(phase)).or_else(|| {
            let sampled = phase.sampled.as_ref()?;
            cache(sampled, from).or_else(|| batch(sampled, from)).or_else(|| power(sampled, highest_clock?))
        })
    };
    phases.iter().map(of).collect()
}

fn limit(by: LimitedBy, sentence: String) -> Option<LevelLimit> {
    Some(LevelLimit { by, sentence })
}

fn client(phase: &PhaseResult) -> Option<LevelLimit> {
    let error = phase.client_error.as_ref().filter(|error| error.client_limited)?;
    let reason = error.reason.as_deref()?;
    limit(LimitedBy::Client, format!("{reason}: the measuring client limits"))
}

fn rate_limit(phase: &PhaseResult) -> Option<LevelLimit> {
    let (refused, started) = (phase.counts.rate_limited, phase.counts.started);
    let share = refused as f64 / started.max(1) as f64;
    let sentence =
        || format!("{refused} of {started} requests were refused for the rate: the provider limits the rate");
    (share > REFUSED).then(sentence).and_then(|sentence| limit(LimitedBy::RateLimit, sentence))
}

/// The queue of a level, if enough readings show one.
fn queue(sampled: &Sampled) -> Option<Gauge> {
    sampled.waiting.filter(|waiting| sampled.engine_readings >= MIN_READINGS && waiting.mean >= MIN_WAITING)
}

/// What waits, and from which load on.
fn waiting(queue: Gauge, from: Option<&str>) -> String {
    let from = from.map(|from| format!(", as they do from {from} on")).unwrap_or_default();
    format!("{:.1} requests wait on average{from}", queue.mean)
}

fn cache(sampled: &Sampled, from: Option<&str>) -> Option<LevelLimit> {
    let (queue, cache) = (queue(sampled)?, sampled.kv_cache_use?);
    if cache.max < FULL_CACHE || cache.mean < MOSTLY_FULL_CACHE {
        return None;
    }
    let lost = sampled.preemptions.filter(|lost| *lost >= 1.0);
    let lost = lost.map(|lost| format!(" and {lost:.0} requests lost their place")).unwrap_or_default();
    let used = cache.mean * 100.0;
    let sentence =
        format!("{} while the KV cache is {used:.0} % full{lost}: the KV cache limits", waiting(queue, from));
    limit(LimitedBy::KvCache, sentence)
}

fn batch(sampled: &Sampled, from: Option<&str>) -> Option<LevelLimit> {
    let (queue, running) = (queue(sampled)?, sampled.running?);
    if running.max < 1.0 || running.max - running.mean > (running.max * STEADY_RUNNING).max(1.0) {
        return None;
    }
    let (waits, stays) = (waiting(queue, from), format!("running stays at {:.0}", running.max));
    match sampled.kv_cache_use {
        Some(cache) if cache.mean >= MOSTLY_FULL_CACHE => None,
        Some(cache) => {
            let used = cache.mean * 100.0;
            let sentence = format!(
                "{stays} and {waits} while the KV cache is {used:.0} % full: the engine's batch is at its limit"
            );
            limit(LimitedBy::Batch, sentence)
        }
        None => {
            let sentence = format!(
                "{stays} and {waits}: the engine's batch is at its limit, or its cache, whose use it does not publish"
            );
            limit(LimitedBy::BatchOrCache, sentence)
        }
    }
}

fn power(sampled: &Sampled, highest_clock: f64) -> Option<LevelLimit> {
    let (power, cap, clock) = (sampled.power?, sampled.power_limit?, sampled.clock?);
    if cap <= 0.0 || power.mean < cap * AT_POWER_LIMIT || clock.mean > highest_clock * LOWERED_CLOCK {
        return None;
    }
    let down = (1.0 - clock.mean / highest_clock) * 100.0;
    let sentence = format!(
        "GPU power is at its cap ({:.0} of {cap:.0} W) and clocks are {down:.0} % below the highest of the run: power limits",
        power.mean
    );
    limit(LimitedBy::Power, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::ClientError;
    use tokrate_meter::fixtures::{rate_limited_request, steady_request};
    use tokrate_record::fixtures::{closed, phase};

    fn flat(value: f64) -> Option<Gauge> {
        Some(Gauge { mean: value, min: value, max: value })
    }

    /// A level at which the engine said so.
    fn level(concurrency: u32, sampled: Sampled) -> PhaseResult {
        let mut level = phase(&closed(concurrency), &[steady_request(0, 0, 10, 10, 40)]);
        level.sampled = Some(Sampled { engine_readings: 10, ..sampled });
        level
    }

    fn sentence(phases: &[PhaseResult]) -> String {
        let all = limits(phases);
        all.last().cloned().flatten().map_or_else(String::new, |limit| format!("{:?}: {}", limit.by, limit.sentence))
    }

    #[test]
    fn a_full_cache_with_a_queue_limits_and_an_empty_one_does_not() {
        let full = Sampled {
            waiting: flat(7.3),
            running: flat(24.0),
            kv_cache_use: flat(0.97),
            preemptions: Some(3.0),
            ..Sampled::default()
        };
        let earlier = level(16, Sampled { waiting: flat(1.0), ..full.clone() });
        assert_eq!(
            sentence(&[earlier, level(32, full.clone())]),
            "KvCache: 7.3 requests wait on average, as they do from concurrency 16 on while the KV cache is 97 % full and 3 requests \
             lost their place: the KV cache limits"
        );
        let gauge = |mean, max| Some(Gauge { mean, min: 0.0, max });
        for (what, sampled) in [
            ("nobody waits", Sampled { waiting: flat(0.9), ..full.clone() }),
            (
                "it is full at moments only",
                Sampled { kv_cache_use: gauge(0.89, 1.0), running: gauge(10.0, 24.0), ..full.clone() },
            ),
            ("it is never full", Sampled { kv_cache_use: gauge(0.94, 0.949), ..full.clone() }),
            ("its use is not known", Sampled { kv_cache_use: None, running: None, ..full.clone() }),
        ] {
            assert_eq!(sentence(&[level(32, sampled)]), "", "{what}");
        }
        let mut few = level(32, full);
        few.sampled.iter_mut().for_each(|sampled| sampled.engine_readings = 2);
        assert_eq!(sentence(&[few]), "", "two readings are none");
    }

    #[test]
    fn a_number_that_stays_with_room_in_the_cache_is_the_batch_limit() {
        let at_limit =
            Sampled { waiting: flat(40.0), running: flat(256.0), kv_cache_use: flat(0.4), ..Sampled::default() };
        assert_eq!(
            sentence(&[level(300, at_limit.clone())]),
            "Batch: running stays at 256 and 40.0 requests wait on average while the KV cache is 40 % full: the engine's batch is at its limit"
        );
        let unknown = Sampled { kv_cache_use: None, ..at_limit.clone() };
        assert!(sentence(&[level(300, unknown)]).starts_with("BatchOrCache: running stays at 256"));
        let varies = Sampled { running: Some(Gauge { mean: 240.0, min: 100.0, max: 256.0 }), ..at_limit };
        assert_eq!(sentence(&[level(300, varies)]), "");
    }

    #[test]
    fn power_limits_only_at_its_cap_and_with_clocks_down() {
        let cool = level(
            1,
            Sampled { power: flat(300.0), power_limit: Some(700.0), clock: flat(1980.0), ..Sampled::default() },
        );
        let hot = Sampled { power: flat(690.0), power_limit: Some(700.0), clock: flat(1742.0), ..Sampled::default() };
        assert_eq!(
            sentence(&[cool.clone(), level(64, hot.clone())]),
            "Power: GPU power is at its cap (690 of 700 W) and clocks are 12 % below the highest of the run: power limits"
        );
        assert_eq!(sentence(&[cool.clone(), level(64, Sampled { clock: flat(1979.0), ..hot.clone() })]), "");
        assert_eq!(sentence(&[cool.clone(), level(64, Sampled { power: flat(600.0), ..hot.clone() })]), "");
        assert_eq!(sentence(&[cool, level(64, Sampled { power_limit: None, ..hot })]), "");
    }

    #[test]
    fn the_client_and_refusals_come_first_and_need_no_metrics() {
        let mut own = phase(&closed(4), &[steady_request(0, 0, 10, 10, 40)]);
        own.client_error = Some(ClientError {
            client_limited: true,
            reason: Some("TTFT p50 of 54.8 ms could be off by 5.39 ms".to_owned()),
            ..ClientError::default()
        });
        assert_eq!(
            sentence(&[own]),
            "Client: TTFT p50 of 54.8 ms could be off by 5.39 ms: the measuring client limits"
        );
        let requests =
            [steady_request(0, 0, 10, 10, 40), rate_limited_request(1, 600, 610, tokrate_core::Span::from_secs(1))];
        let refused = phase(&closed(1), &requests);
        assert_eq!(
            sentence(&[refused]),
            "RateLimit: 1 of 2 requests were refused for the rate: the provider limits the rate"
        );
        assert_eq!(sentence(&[phase(&closed(1), &requests[..1])]), "");
    }
}
