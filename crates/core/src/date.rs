//! Converts dates of the Gregorian calendar (UTC) to days since 1970 and back.
//!
//! Invariant: `Date::of_day(date.day_number())` is the date, for every date from 1970 on.
//!
//! After Howard Hinnant, "chrono-compatible low-level date algorithms" (public domain): years are counted from the first of
//! March, in eras of 400 years.

const DAY_SECONDS: u64 = 86_400;
/// Days of an era of 400 years, and from the beginning of era 0 to 1970.
const ERA_DAYS: u64 = 146_097;
const DAYS_TO_1970: u64 = 719_468;

/// A day of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date {
    /// Its year.
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// 1 to 31.
    pub day: u64,
}

impl Date {
    /// The date of a day since 1970.
    pub fn of_day(number: u64) -> Date {
        let shifted = number + DAYS_TO_1970;
        let (era, day_of_era) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Date { year: year_of_era + era * 400 + u64::from(month <= 2), month, day }
    }

    /// The date of a Unix time in seconds.
    pub fn of_seconds(seconds: u64) -> Date {
        Date::of_day(seconds / DAY_SECONDS)
    }

    /// Days since 1970; negative before. An invalid date such as the 30th of February counts on into the next month.
    pub fn day_number(self) -> i64 {
        let Date { year, month, day } = self;
        let (year, month_from_march) = if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
        let (era, year_of_era) = (year / 400, year % 400);
        let day_of_year = (153 * month_from_march + 2) / 5 + day;
        let days = era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        days as i64 - (DAYS_TO_1970 + 1) as i64
    }
}

/// A Unix time in RFC 3339 format, UTC. Years beyond 9999 have more digits.
pub fn rfc3339(seconds: u64) -> String {
    let Date { year, month, day } = Date::of_seconds(seconds);
    let rest = seconds % DAY_SECONDS;
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_convert_both_ways() {
        let mut before = Date { year: 1969, month: 12, day: 31 };
        assert_eq!(before.day_number(), -1);
        for number in 0..200_000 {
            let date = Date::of_day(number);
            assert_eq!(date.day_number(), number as i64);
            assert!(date > before && (1..=12).contains(&date.month) && (1..=31).contains(&date.day));
            before = date;
        }
    }

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        // From `date -u -d @SECONDS +%FT%TZ`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_784_300_000, "2026-07-17T14:53:20Z"),
            (1_795_219_200, "2026-11-21T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
