//! Hours of the day in which no message is sent.

use serde::{Deserialize, Serialize};

const MINUTE_MS: u64 = 60_000;
const DAY_MINUTES: u32 = 24 * 60;

/// From one time of day to another, UTC; over midnight where the end is before the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuietHours {
    from: u32,
    to: u32,
}

impl QuietHours {
    /// Quiet hours as they are written: `22:00-07:00`.
    ///
    /// # Errors
    /// A text of another form.
    pub fn parse(text: &str) -> Result<QuietHours, String> {
        let wrong = || format!("`{text:.40}` are no quiet hours; write 22:00-07:00 (UTC)");
        let minutes = |time: &str| {
            let (hours, minutes) = time.trim().split_once(':')?;
            let read = |digits: &str, below: u32| {
                let value: u32 = digits.parse().ok()?;
                (digits.len() == 2 && value < below).then_some(value)
            };
            Some(read(hours, 24)? * 60 + read(minutes, 60)?)
        };
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        match (minutes(from), minutes(to)) {
            (Some(from), Some(to)) if from != to => Ok(QuietHours { from, to }),
            _ => Err(wrong()),
        }
    }

    /// When they end (ms since 1970), if `now` lies in them.
    pub fn end(self, now_ms: u64) -> Option<u64> {
        let minute = (now_ms / MINUTE_MS % u64::from(DAY_MINUTES)) as u32;
        let length = (self.to + DAY_MINUTES - self.from) % DAY_MINUTES;
        let passed = (minute + DAY_MINUTES - self.from) % DAY_MINUTES;
        (passed < length).then(|| (now_ms / MINUTE_MS + u64::from(length - passed)) * MINUTE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: u64, minutes: u64) -> u64 {
        (hours * 60 + minutes) * MINUTE_MS
    }

    #[test]
    fn they_may_go_over_midnight() {
        let night = QuietHours::parse("22:00-07:00").expect("a range");
        assert_eq!(night.end(at(21, 59)), None);
        assert_eq!(night.end(at(22, 0)), Some(at(24 + 7, 0)));
        assert_eq!(night.end(at(6, 59) + 59_999), Some(at(7, 0)));
        assert_eq!(night.end(at(7, 0)), None);
        let noon = QuietHours::parse(" 12:00 - 13:30 ").expect("a range");
        assert_eq!((noon.end(at(12, 10)), noon.end(at(13, 30))), (Some(at(13, 30)), None));
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["", "22-7", "22:00", "24:00-07:00", "22:60-07:00", "7:00-9:00", "07:00-07:00", "-1:00-02:00"] {
            assert!(QuietHours::parse(text).is_err(), "{text}");
        }
    }
}
