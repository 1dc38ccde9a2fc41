//! Statistics of one alias: calls and extra attempts of the last hour, by minute.

use super::last_hour::{AttemptMinutes, LastHour};
use tokrate_record::{Attempt as Row, AttemptRole};

/// One alias.
#[derive(Clone, Debug, Default)]
pub struct AliasStats {
    minutes: LastHour<AliasMinute>,
}

/// What started in one minute.
#[derive(Clone, Copy, Debug, Default)]
struct AliasMinute {
    calls: u64,
    extra: u64,
}

impl AliasStats {
    pub(crate) fn record(&mut self, row: &Row) {
        let Some((minute, _)) = self.minutes.at(AttemptMinutes::of(row)) else { return };
        minute.calls += u64::from(row.attempt == 0);
        // Every attempt that the budget for extra ones granted, whether it won or not.
        minute.extra += u64::from(matches!(row.role, AttemptRole::Hedge | AttemptRole::Race));
    }

    /// Calls and granted extra attempts from this minute on.
    pub fn since(&self, number: u64) -> (u64, u64) {
        let minutes = self.minutes.since(number);
        minutes.fold((0, 0), |(calls, extra), (_, minute)| (calls + minute.calls, extra + minute.extra))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_record::Sample;

    fn row(minute: u64, attempt: u32, role: AttemptRole) -> Row {
        // All of them end in the same minute.
        let total_ns = 160u64.saturating_sub(minute) * 60_000_000_000;
        Row {
            attempt,
            role,
            sample: Sample { started_unix_ms: minute * 60_000, total_ns, ..Sample::default() },
            ..Row::default()
        }
    }

    #[test]
    fn calls_and_extra_attempts_are_counted_for_an_hour() {
        let mut stats = AliasStats::default();
        for minute in [100, 101, 101, 100] {
            stats.record(&row(minute, 0, AttemptRole::First));
        }
        stats.record(&row(101, 1, AttemptRole::Hedge));
        stats.record(&row(101, 1, AttemptRole::Failover));
        stats.record(&row(101, 2, AttemptRole::Race));
        assert_eq!((stats.since(0), stats.since(101), stats.since(102)), ((4, 2), (2, 2), (0, 0)));
        stats.record(&row(160, 0, AttemptRole::First));
        assert_eq!(stats.since(0), (3, 2), "minute 100 is over");
        stats.record(&row(99, 0, AttemptRole::First));
        assert_eq!(stats.since(0), (3, 2));
    }
}
