//! The prober under random clocks, outcomes and budgets.

use super::*;
use crate::config::{Budget, Endpoint, Workload};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use tokrate_core::{Money, Price, Rng};

const HOUR_MS: u64 = 3_600_000;
/// 2026-11-24 00:00 UTC.
const BEGIN: u64 = 1_795_478_400_000;

fn config(endpoints: usize, slots_a_day: u32, budget: Budget) -> Config {
    let workload = |name: &str, tokens, every| Workload {
        name: name.to_owned(),
        input_tokens: tokens,
        output_tokens: 300,
        requests: 1,
        every,
    };
    let endpoint = |number: usize| Endpoint {
        name: format!("p{number}/m"),
        provider: format!("p{number}"),
        // The first two share a host.
        host: format!("h{}", number.max(1)),
        price: Price::from_usd_per_million(1.0 + number as f64, 4.0),
        workloads: vec![0, 1],
    };
    Config {
        endpoints: (0..endpoints).map(endpoint).collect(),
        workloads: vec![workload("short", 100, 1), workload("long", 10_000, 4)],
        slots_a_day,
        budget,
        max_in_flight: 4,
        seed: 1,
    }
}

fn good(cost: Money) -> Outcome {
    Outcome { failed: false, ttft_ns: Some(400_000_000), output_speed: Some(80.0), tokens: 400, cost }
}

const SOUND: ReferenceResult = ReferenceResult { ttft_error_ns: 100_000, speed_error: 0.0, failure: None };

/// A prober, both clocks, and everything that was seen of it.
struct World {
    prober: Prober,
    now: Tick,
    wall_ms: u64,
    flights: Vec<(u64, Order)>,
    sent: Vec<Order>,
    closed: Vec<ClosedCycle>,
    notices: Vec<Notice>,
    /// How long a probe takes (ms).
    takes_ms: u64,
    ttft_of: fn(&Order, u64) -> u64,
    reference: ReferenceResult,
}

impl World {
    fn new(config: Config) -> World {
        World {
            prober: Prober::new(config).expect("a schedule"),
            now: Tick::from_nanos(5_000_000_000),
            wall_ms: BEGIN,
            flights: Vec::new(),
            sent: Vec::new(),
            closed: Vec::new(),
            notices: Vec::new(),
            takes_ms: 4_000,
            ttft_of: |_, _| 400_000_000,
            reference: SOUND,
        }
    }

    /// Lets both clocks run to a wall time.
    fn run_until(&mut self, until_ms: u64) {
        while self.wall_ms < until_ms {
            let wake = self.turn();
            let end = self.flights.iter().map(|(end, _)| *end).min().unwrap_or(u64::MAX);
            let wake_ms = self.wall_ms + wake.since(self.now).as_nanos().div_ceil(1_000_000);
            self.advance(wake_ms.min(end).min(until_ms).saturating_sub(self.wall_ms));
        }
    }

    fn advance(&mut self, ms: u64) {
        self.wall_ms += ms;
        self.now += Span::from_millis(ms);
        let over: Vec<(u64, Order)> = self.flights.extract_if(.., |(end, _)| *end <= self.wall_ms).collect();
        for (_, order) in over {
            let (_, most) = self.prober.config.most(order.endpoint, order.workload);
            let outcome = Outcome { ttft_ns: Some((self.ttft_of)(&order, self.wall_ms)), ..good(most) };
            self.prober.completed(order.number, outcome);
        }
    }

    /// Does everything that is to be done now.
    fn turn(&mut self) -> Tick {
        loop {
            match self.prober.poll(self.now, self.wall_ms) {
                Step::Reference { cycle } => self.prober.referenced(self.now, cycle, self.reference.clone()),
                Step::Probe(order) => {
                    let is_free = |(_, other): &(u64, Order)| {
                        let host = |order: &Order| &self.prober.config.endpoints[order.endpoint].host;
                        other.endpoint != order.endpoint && host(other) != host(&order)
                    };
                    assert!(self.flights.iter().all(is_free), "two at once: {order:?} beside {:?}", self.flights);
                    self.sent.push(order);
                    self.flights.push((self.wall_ms + self.takes_ms, order));
                    assert!(self.flights.len() < self.prober.config.endpoints.len().max(2), "all at once");
                }
                Step::WaitUntil(tick) => {
                    self.closed.extend(self.prober.take_closed());
                    self.notices.extend(self.prober.take_notices());
                    assert!(tick > self.now);
                    return tick;
                }
            }
        }
    }

    fn missed(&self, reason: impl Fn(MissedReason) -> bool) -> u64 {
        let counts = self.notices.iter().map(|notice| match notice {
            Notice::Missed { count, reason: why, .. } if reason(*why) => *count,
            _ => 0,
        });
        counts.sum()
    }
}

#[test]
fn a_week_has_its_probes_and_none_is_missed() {
    let mut world = World::new(config(5, 8, Budget::default()));
    world.run_until(BEGIN + 7 * DAY_MS);
    assert_eq!(world.notices, []);
    assert_eq!(world.sent.len(), 5 * 7 * 8 + 5 * 7 * 2);
    assert!(world.closed.iter().all(|cycle| cycle.quarantine.is_none()), "{:?}", world.closed);
    let judged: usize = world.closed.iter().map(|cycle| cycle.probes.len()).sum();
    assert_eq!(judged, world.sent.len());
}

#[test]
fn a_slow_endpoint_lets_others_go_first_and_what_is_late_is_counted() {
    let mut world = World::new(config(3, 96, Budget::default()));
    world.takes_ms = 20 * 60_000;
    world.run_until(BEGIN + DAY_MS);
    let busy = world.missed(|reason| reason == MissedReason::Busy);
    assert!(busy > 100, "{busy}");
    let planned = 3 * 96 + 3 * 24;
    assert_eq!(world.sent.len() as u64 + busy, planned);
}

#[test]
fn a_night_of_sleep_is_reported_and_nothing_piles_up() {
    let mut world = World::new(config(4, 8, Budget::default()));
    world.run_until(BEGIN + DAY_MS);
    let before = world.sent.len();
    // The steady clock stands still while a machine sleeps.
    world.wall_ms += 9 * HOUR_MS + HOUR_MS / 2;
    world.turn();
    assert!(matches!(world.notices[..], [Notice::ClockAhead { ms: 34_200_000 }, ..]), "{:?}", world.notices);
    assert!(world.sent.len() - before <= 3, "at most what is due now");
    world.run_until(BEGIN + 2 * DAY_MS);
    let missed = world.missed(|reason| reason == MissedReason::Away);
    assert_eq!(world.sent.len() as u64 + missed, 2 * (4 * 8 + 4 * 2));
}

#[test]
fn a_clock_that_was_years_ahead_begins_anew_when_it_is_set() {
    let mut world = World::new(config(4, 8, Budget::default()));
    world.run_until(BEGIN + DAY_MS / 2);
    world.wall_ms += 700 * DAY_MS;
    world.run_until(BEGIN + 700 * DAY_MS + DAY_MS);
    world.wall_ms -= 700 * DAY_MS;
    let before = world.sent.len();
    world.run_until(BEGIN + 3 * DAY_MS);
    assert!(world.notices.iter().any(|notice| matches!(notice, Notice::ClockBack { restarted: true, .. })));
    assert!(world.sent.len() >= before + 4 * 8, "{} after {before}", world.sent.len());
}

#[test]
fn a_budget_that_does_not_suffice_lowers_the_cadence_and_says_so() {
    let usd = Money::from_usd(1.0);
    let mut world = World::new(config(5, 8, Budget { usd_per_month: usd, tokens_per_day: None }));
    // From the first of December on.
    world.wall_ms = BEGIN + 7 * DAY_MS;
    world.run_until(BEGIN + 38 * DAY_MS - 1);
    let lowered = world.notices.iter().filter(|notice| matches!(notice, Notice::Lowered { .. })).count();
    assert!(lowered >= 1, "{:?}", world.notices);
    let spent = world.prober.spent().money;
    assert!(spent <= usd.expect("an amount") && spent.as_usd() > 0.6, "{spent}");
    for series in 0..world.prober.series().len() {
        assert!(world.sent.iter().any(|order| order.series == series), "series {series} was left out");
    }
    let plan = crate::Plan::of(&world.prober.config);
    assert_eq!((plan.lowered, plan.short.len()), (Some(BudgetKind::Money), 0));
    let usd: f64 = plan.series.iter().filter_map(|series| series.usd).sum();
    assert!((0.5..=0.85).contains(&usd), "{usd}");
}

#[test]
fn tokens_of_a_day_are_kept() {
    let mut world = World::new(config(5, 24, Budget { usd_per_month: None, tokens_per_day: Some(40_000) }));
    for day in 1..20 {
        world.run_until(BEGIN + day * DAY_MS - 1);
        assert!(world.prober.spent().tokens <= 40_000, "day {day}: {:?}", world.prober.spent());
    }
}

#[test]
fn the_series_with_the_narrowest_interval_is_lowered_first() {
    let mut prober = Prober::new(config(3, 8, Budget { usd_per_month: Money::from_usd(4.0), ..Budget::default() }))
        .expect("a schedule");
    let mut rng = Rng::root(1);
    for series in 0..6 {
        let spread = if series == 2 { 0.01 } else { 0.3 };
        for _ in 0..24 {
            let ttft_ns = Some((4e8 * (spread * rng.normal()).exp()) as u64);
            prober.restore_probe(series, 0, true, Some(&Outcome { ttft_ns, ..good(Money::ZERO) }));
        }
    }
    prober.poll(Tick::ZERO, BEGIN + 7 * DAY_MS);
    assert!(prober.every[2] > prober.every[0] && prober.every[2] > prober.every[4], "{:?}", prober.every);
}

#[test]
fn a_suspect_gets_eight_further_probes_within_the_hour_and_one_slot() {
    let mut world = World::new(config(4, 8, Budget::default()));
    world.run_until(BEGIN + DAY_MS + 100 * 60_000);
    assert!(world.prober.suspect(3, world.wall_ms) && !world.prober.suspect(3, world.wall_ms + HOUR_MS));
    let asked_at = world.wall_ms;
    world.run_until(asked_at + 2 * HOUR_MS);
    let further: Vec<&Order> = world.sent.iter().filter(|order| order.is_further).collect();
    assert_eq!(further.len(), 8);
    for order in further {
        assert_eq!((order.series, order.slot_ms), (3, asked_at / (3 * HOUR_MS) * 3 * HOUR_MS));
        assert!((asked_at..=asked_at + HOUR_MS).contains(&order.due_ms));
    }
}

#[test]
fn a_cycle_does_not_count_when_its_reference_is_off_or_providers_move_together() {
    let mut world = World::new(config(6, 8, Budget::default()));
    world.ttft_of = |_, wall_ms| {
        let is_bad = (BEGIN + 4 * DAY_MS..BEGIN + 4 * DAY_MS + 3 * HOUR_MS).contains(&wall_ms);
        if is_bad { 6_000_000_000 } else { 400_000_000 }
    };
    world.run_until(BEGIN + 5 * DAY_MS);
    let away: Vec<&str> = world.closed.iter().filter_map(|cycle| cycle.quarantine.as_deref()).collect();
    assert_eq!(away, ["6 of 6 unrelated providers failed or were far slower at the same time"]);
    world.reference = ReferenceResult { ttft_error_ns: 80_000_000, ..SOUND };
    world.run_until(BEGIN + 5 * DAY_MS + 4 * HOUR_MS);
    let last = world.closed.last().and_then(|cycle| cycle.quarantine.clone());
    assert!(last.is_some_and(|why| why.contains("+80.0 ms")));
}

#[test]
fn a_restart_makes_no_probe_of_a_slot_again() {
    let config = config(4, 8, Budget::default());
    let mut first = World::new(config.clone());
    first.run_until(BEGIN + 12 * HOUR_MS + 5 * 60_000);
    let mut second = World::new(config);
    (second.now, second.wall_ms) = (first.now, first.wall_ms);
    for order in &first.sent {
        second.prober.restore_probe(order.series, order.due_ms, order.is_further, Some(&good(Money::ZERO)));
    }
    second.run_until(BEGIN + DAY_MS);
    let mut slots: Vec<(SeriesId, u64)> =
        first.sent.iter().chain(&second.sent).map(|order| (order.series, order.slot_ms)).collect();
    let all = slots.len();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), all);
}

#[test]
fn a_single_cycle_probes_everything_once_and_nothing_after() {
    let mut world = World::new(config(4, 8, Budget::default()));
    world.takes_ms = 20 * 60_000;
    world.prober.begin_single_cycle(BEGIN);
    world.run_until(BEGIN + 2 * DAY_MS);
    assert_eq!((world.sent.len(), world.closed.len(), world.prober.has_open_cycles()), (8, 1, false));
}

/// What happens to a prober next.
#[derive(Clone, Copy, Debug)]
enum Event {
    Pass(u64),
    /// The wall clock is set.
    Jump(i64),
    /// The process stands still.
    Stop(u64),
    Suspect(usize),
    Slow(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let day = DAY_MS as i64;
    let event = (0_u8..6, any::<u32>()).prop_map(move |(kind, number)| {
        let ms = u64::from(number) % (2 * DAY_MS);
        match kind {
            0 | 1 => Event::Pass(ms),
            2 => Event::Jump(i64::from(number) % (6 * day) - 3 * day),
            3 => Event::Stop(ms),
            4 => Event::Suspect(number as usize % 6),
            _ => Event::Slow(ms / 20),
        }
    });
    proptest::collection::vec(event, 1..12)
}

proptest! {
    #[test]
    fn whatever_happens_no_rule_is_broken(
        events in events(), endpoints in 1_usize..6, slots in 1_u32..50, cents in 1_u32..100, thousands in 1_u64..200
    ) {
        let budget = Budget {
            usd_per_month: Money::from_usd(f64::from(cents) / 100.0),
            tokens_per_day: Some(thousands * 1_000),
        };
        let mut world = World::new(config(endpoints, slots, budget));
        let slot_ms = world.prober.schedule.slot_ms;
        let tolerance = world.prober.schedule.tolerance_ms();
        let mut checked = 0;
        for event in events {
            match event {
                Event::Pass(ms) => world.run_until(world.wall_ms + ms),
                Event::Jump(ms) => world.wall_ms = world.wall_ms.saturating_add_signed(ms),
                Event::Stop(ms) => world.advance(ms),
                Event::Suspect(series) if series < world.prober.series().len() => {
                    world.prober.suspect(series, world.wall_ms);
                }
                Event::Suspect(_) => {}
                Event::Slow(ms) => world.takes_ms = ms.max(1),
            }
            let before = world.sent.len();
            world.turn();
            // What was due while nobody looked is not sent all at once.
            prop_assert!(world.sent.len() - before <= 4);
            let spent = world.prober.spent();
            prop_assert!(spent.money <= budget.usd_per_month.expect("a limit") && spent.tokens <= thousands * 1_000);
            for order in &world.sent[checked..] {
                prop_assert!(order.is_further || order.due_ms / slot_ms * slot_ms == order.slot_ms);
            }
            checked = world.sent.len();
        }
        let mut slots: Vec<(SeriesId, u64)> =
            world.sent.iter().filter(|order| !order.is_further).map(|order| (order.series, order.slot_ms)).collect();
        let all = slots.len();
        slots.sort_unstable();
        slots.dedup();
        prop_assert_eq!(slots.len(), all, "a slot has at most one regular probe of a series");
        prop_assert!(world.prober.queue.in_flight() <= 4);
        prop_assert!(tolerance <= slot_ms);
    }

    #[test]
    fn the_same_times_and_outcomes_make_the_same_probes(hours in 1_u64..100) {
        let run = || {
            let mut world = World::new(config(4, 24, Budget::default()));
            world.run_until(BEGIN + hours * HOUR_MS);
            (world.sent, world.closed)
        };
        prop_assert_eq!(run(), run());
    }
}
