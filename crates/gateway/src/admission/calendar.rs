//! Calendar months in UTC, for monthly budgets.

use tokrate_core::Date;
use tokrate_route::Month;

pub(crate) const DAY_SECONDS: u64 = 86_400;

/// The month of a wall time (seconds since 1970).
pub(crate) fn month_of(seconds: u64) -> Month {
    let Date { year, month, .. } = Date::of_seconds(seconds);
    Month { year: i32::try_from(year).unwrap_or(i32::MAX), month: u8::try_from(month).expect("1 to 12") }
}

/// When the month of a wall time began (seconds since 1970).
pub(crate) fn month_start(seconds: u64) -> u64 {
    let Date { day, .. } = Date::of_seconds(seconds);
    (seconds / DAY_SECONDS).saturating_sub(day - 1) * DAY_SECONDS
}

/// When the month after that of a wall time begins (seconds since 1970).
pub(crate) fn next_month_start(seconds: u64) -> u64 {
    // Every month has 28 to 31 days.
    month_start(month_start(seconds) + 31 * DAY_SECONDS)
}

/// The date of a wall time (YYYY-MM-DD).
pub(crate) fn date_of(seconds: u64) -> String {
    let Date { year, month, day, .. } = Date::of_seconds(seconds);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_the_calendar() {
        let of = |seconds| {
            let month = month_of(seconds);
            (month.year, month.month)
        };
        assert_eq!(of(0), (1970, 1));
        assert_eq!(of(951_782_399), (2000, 2));
        assert_eq!(of(951_868_800), (2000, 3));
        assert_eq!(of(1_795_219_200), (2026, 11));
    }

    #[test]
    fn a_month_begins_on_its_first_day() {
        assert_eq!(month_start(0), 0);
        assert_eq!(date_of(next_month_start(1_795_219_200)), "2026-12-01");
        assert_eq!(month_start(1_795_219_200 + 5), 1_793_491_200);
        for day in 0..4_000 {
            let seconds = 1_700_000_000 + day * DAY_SECONDS;
            let start = month_start(seconds);
            assert_eq!(month_of(start), month_of(seconds));
            assert_ne!(month_of(start - 1), month_of(seconds));
            let next = next_month_start(seconds);
            assert!(next > seconds && month_of(next - 1) == month_of(seconds) && month_of(next) != month_of(seconds));
        }
    }
}
