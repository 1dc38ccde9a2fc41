//! The fleet of the demo: twelve simulated providers of three models, with what happens to them in two weeks.
//!
//! Names are made up, so that no number is taken for a real provider's. Invariant: what was planted is said here and nowhere else.

use tokrate_core::{Price, Span};
use tokrate_sim::{Background, Change, Curve, Faults, Law, Persona, Timetable};

/// Days that the fleet lives.
pub const DAYS: u64 = 14;
const DAY: Span = Span::from_secs(86_400);

/// A provider of the demo.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its persona; the name is the provider's.
    pub persona: Persona,
    /// The model, by the name that it has at every provider.
    pub model: &'static str,
    /// Time to its servers and back.
    pub round_trip: Span,
}

/// A change that was planted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Planted {
    /// The endpoint.
    pub endpoint: &'static str,
    /// Which number got worse.
    pub metric: &'static str,
    /// When, since the beginning.
    pub at: Span,
}

/// The changes for the worse in the timetables.
pub const PLANTED: [Planted; 3] = [
    Planted { endpoint: "northwind/demo-70b", metric: "output_speed", at: hours(11, 9) },
    Planted { endpoint: "delta/demo-70b", metric: "ttft_ms", at: hours(12, 2) },
    Planted { endpoint: "quarry/demo-coder-30b", metric: "output_speed", at: hours(12, 15) },
];

/// When the prober's own network is bad: every connection takes seconds longer, whoever is asked.
pub const PROBER_FAULT: (Span, Span) = (hours(10, 6), hours(10, 9));
/// By how much.
pub const PROBER_FAULT_DELAY: Span = Span::from_secs(4);

const fn hours(days: u64, hours: u64) -> Span {
    Span::from_secs(days * 86_400 + hours * 3_600)
}

/// A provider by what differs: name, model, delay (ms), speed, jitters, prices, round trip (ms).
struct Row {
    name: &'static str,
    model: &'static str,
    delay_ms: u64,
    speed: f64,
    spread: f64,
    usd: (f64, f64),
    round_trip_ms: u64,
    /// How much slower its busiest hour is (0 to 1), at which hour.
    daily: (f64, u64),
    error_share: f64,
}

const ROWS: [Row; 12] = [
    row("swift", "demo-70b", 110, 310.0, 0.10, (0.85, 1.20), 20, (0.05, 15), 0.002),
    row("northwind", "demo-70b", 240, 160.0, 0.14, (0.60, 0.90), 35, (0.15, 16), 0.004),
    row("delta", "demo-70b", 190, 150.0, 0.15, (0.54, 0.80), 28, (0.12, 14), 0.003),
    row("harbor", "demo-70b", 320, 92.0, 0.18, (0.35, 0.40), 60, (0.25, 18), 0.008),
    row("lattice", "demo-70b", 260, 155.0, 0.14, (0.55, 0.85), 30, (0.15, 16), 0.003),
    row("swift", "demo-coder-30b", 90, 420.0, 0.10, (0.40, 0.80), 20, (0.05, 15), 0.002),
    row("quarry", "demo-coder-30b", 210, 180.0, 0.15, (0.20, 0.60), 45, (0.18, 17), 0.005),
    row("ember", "demo-coder-30b", 280, 120.0, 0.20, (0.12, 0.30), 55, (0.30, 20), 0.010),
    row("lattice", "demo-coder-30b", 230, 185.0, 0.14, (0.22, 0.60), 30, (0.15, 16), 0.003),
    row("juniper", "demo-120b", 350, 95.0, 0.16, (1.10, 3.20), 40, (0.10, 13), 0.004),
    row("meridian", "demo-120b", 300, 100.0, 0.16, (1.20, 3.40), 40, (0.12, 15), 0.004),
    row("harbor", "demo-120b", 520, 55.0, 0.22, (0.70, 1.80), 60, (0.25, 18), 0.012),
];

#[allow(clippy::too_many_arguments, reason = "a line of a table")]
const fn row(
    name: &'static str,
    model: &'static str,
    delay_ms: u64,
    speed: f64,
    spread: f64,
    usd: (f64, f64),
    round_trip_ms: u64,
    daily: (f64, u64),
    error_share: f64,
) -> Row {
    Row { name, model, delay_ms, speed, spread, usd, round_trip_ms, daily, error_share }
}

/// All twelve.
pub fn members() -> Vec<Member> {
    ROWS.iter().map(member).collect()
}

fn member(row: &Row) -> Member {
    let endpoint = format!("{}/{}", row.name, row.model);
    let (swing, busiest) = row.daily;
    let changes = PLANTED.iter().filter(|planted| planted.endpoint == endpoint).map(|planted| {
        let speed = if planted.metric == "output_speed" { 0.6 } else { 1.0 };
        let ttft = if planted.metric == "ttft_ms" { 2.2 } else { 1.0 };
        Change { at: planted.at, speed, ttft, faults: 1.0, replacement: None }
    });
    let persona = Persona {
        name: row.name.to_owned(),
        law: Law {
            base_delay: Span::from_millis(row.delay_ms),
            stream_tokens_per_second: row.speed,
            tokens_per_chunk: 4,
            ttft_jitter: row.spread * 1.5,
            gap_jitter: 0.3,
            contention: 0.01,
            ..Law::default()
        },
        faults: Faults { server_error: row.error_share, ..Faults::default() },
        price: Price::from_usd_per_million(row.usd.0, row.usd.1).unwrap_or_default(),
        // Other users make one probe differ from the next.
        background: Background {
            streams: 25.0,
            jitter: row.spread * 4.0,
            every: Span::from_secs(600),
            curve: Some(Curve { period: DAY, amplitude: swing, peak: Span::from_secs(busiest * 3_600) }),
        },
        timetable: Timetable { changes: changes.collect(), speed: None },
        ..Persona::default()
    };
    Member { persona, model: row.model, round_trip: Span::from_millis(row.round_trip_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_change_is_in_a_timetable() {
        let members = members();
        assert_eq!(members.len(), 12);
        for planted in PLANTED {
            let of = |member: &&Member| format!("{}/{}", member.persona.name, member.model) == planted.endpoint;
            let member = members.iter().find(of).expect("it is in the fleet");
            assert_eq!(member.persona.timetable.changes[0].at, planted.at);
            assert!(member.persona.check().is_ok());
        }
        assert_eq!(members.iter().filter(|member| !member.persona.timetable.is_empty()).count(), PLANTED.len());
    }
}
