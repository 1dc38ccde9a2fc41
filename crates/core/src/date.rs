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

/// A time in RFC 3339 format as milliseconds since 1970; a leap second is the second after it. `None` for what is no such time.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let digits = |text: &str, count: usize| -> Option<u64> {
        (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let [year, month, day] = <[&str; 3]>::try_from(date.split('-').collect::<Vec<&str>>()).ok()?;
    let date = Date { year: digits(year, 4)?, month: digits(month, 2)?, day: digits(day, 2)? };
    let exists = date.year >= 1 && (1..=12).contains(&date.month) && date.day >= 1;
    if !exists || (date.year >= 1970 && Date::of_day(u64::try_from(date.day_number()).ok()?) != date) {
        return None;
    }
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let offset_minutes = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes =
                digits(hours, 2).filter(|hours| *hours < 24)? * 60 + digits(minutes, 2).filter(|m| *m < 60)?;
            if zone.starts_with('-') { -(minutes as i64) } else { minutes as i64 }
        }
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = <[&str; 3]>::try_from(clock.split(':').collect::<Vec<&str>>()).ok()?;
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    let fraction_is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if hour > 23 || minute > 59 || second > 60 || !fraction_is_number {
        return None;
    }
    let millis = format!("{fraction:0<3.3}").parse::<i64>().ok()?;
    let seconds = date.day_number() * DAY_SECONDS as i64 + (hour * 3_600 + minute * 60 + second) as i64;
    Some((seconds - offset_minutes * 60) * 1_000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_zone_and_fraction() {
        let read = |text: &str| parse_rfc3339(text);
        assert_eq!(read("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(read("2026-11-24T10:00:00.25+02:00"), read("2026-11-24T08:00:00Z").map(|at| at + 250));
        assert_eq!(read("2026-11-24 10:00:00-00:30"), read("2026-11-24T10:30:00Z"));
        assert_eq!(read("2026-11-24T10:00:00.123456789Z").map(|at| at % 1_000), Some(123));
        for seconds in [0, 951_827_696, 1_764_000_000, 4_102_444_800] {
            assert_eq!(read(&rfc3339(seconds)), Some(seconds as i64 * 1_000));
        }
        for wrong in [
            "",
            "2026-11-24",
            "2026-11-24T10:00:00",
            "2026-02-30T10:00:00Z",
            "2026-13-01T10:00:00Z",
            "2026-11-24T24:00:00Z",
            "2026-11-24T10:60:00Z",
            "2026-11-24T10:00:00.Z",
            "2026-11-24T10:00:00+2:00",
            "+026-11-24T10:00:00Z",
            "1764000000",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

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
