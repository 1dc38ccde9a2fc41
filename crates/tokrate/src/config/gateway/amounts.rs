//! Amounts of dollars as they stand in the settings file.
//!
//! Invariant: a value of these types can be summed; anything else is refused
//! while the file is read, with its line.

use serde::Deserialize;
use tokrate_core::Money;

/// Dollars, none included: a price, or the limit of something that may be forbidden altogether.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(try_from = "f64")]
pub struct Dollars(Money);

/// A percentage, 0 or more.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(try_from = "f64")]
pub struct Percentage(f64);

/// Dollars above 0: a budget.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(try_from = "f64")]
pub struct Budget(Money);

impl Dollars {
    /// The plain number.
    pub fn usd(self) -> f64 {
        self.0.as_usd()
    }

    /// In whole units.
    pub fn money(self) -> Money {
        self.0
    }
}

impl Percentage {
    /// The plain number.
    pub fn percent(self) -> f64 {
        self.0
    }
}

impl Budget {
    /// In whole units.
    pub fn money(self) -> Money {
        self.0
    }
}

impl TryFrom<f64> for Dollars {
    type Error = &'static str;

    fn try_from(usd: f64) -> Result<Dollars, &'static str> {
        Money::from_usd(usd).map(Dollars).ok_or("write a number of dollars, 0 or more")
    }
}

impl TryFrom<f64> for Percentage {
    type Error = &'static str;

    fn try_from(percent: f64) -> Result<Percentage, &'static str> {
        let fits = percent.is_finite() && percent >= 0.0;
        fits.then_some(Percentage(percent)).ok_or("write a percentage, 0 or more")
    }
}

impl TryFrom<f64> for Budget {
    type Error = &'static str;

    fn try_from(usd: f64) -> Result<Budget, &'static str> {
        let money = Money::from_usd(usd).filter(|money| *money > Money::ZERO);
        money.map(Budget).ok_or("write a number of dollars above 0; without the key there is no limit")
    }
}

#[cfg(test)]
mod tests {
    use crate::config::file::File;

    /// The error of a value.
    fn refused(row: &str, value: &str) -> String {
        let text = format!("[gateway]\n\n[gateway.{row}]\n{value}\n");
        match toml::from_str::<File>(&text) {
            Ok(_) => format!("{value} was taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn amounts_that_no_sum_can_be_made_of_are_refused_with_their_line() {
        for value in ["-1", "-0.01", "nan", "inf", "-inf", "1e16"] {
            for (row, key) in [
                ("lanes.a.price", format!("input = {value}\noutput = 1")),
                ("lanes.a.price", format!("input = 1\noutput = {value}")),
                ("lanes.a.price", format!("input = 1\noutput = 1\ncached = {value}")),
                ("lanes.a.price", format!("input = 1\noutput = 1\ncache_write = {value}")),
                ("keys.a", format!("usd_per_month = {value}")),
                ("aliases.a", format!("lanes = []\nmax_extra_usd_per_hour = {value}")),
            ] {
                let message = refused(row, &key);
                let line = 4 + key.lines().position(|line| line.ends_with(value)).expect("it stands there");
                assert!(message.contains(&format!("line {line}")), "{row} {key}: {message}");
                assert!(message.contains("write a number of dollars"), "{row} {key}: {message}");
            }
        }
    }

    #[test]
    fn limits_of_nothing_are_refused_with_their_line_and_prices_of_nothing_are_not() {
        for key in ["usd_per_month = 0", "tokens_per_minute = 0", "requests_per_minute = 0", "streams = 0"] {
            let message = refused("keys.a", key);
            assert!(message.contains("line 4"), "{key}: {message}");
        }
        for value in ["-1", "nan", "inf"] {
            let message = refused("aliases.a", &format!("lanes = []\nmax_extra_cost_pct = {value}"));
            assert!(message.contains("line 5") && message.contains("percentage"), "{message}");
        }
        for key in ["max_output_tokens = 0", "max_input_tokens = 0"] {
            assert!(refused("lanes.a", key).contains("line 4"), "{key}");
        }
        let free = "[gateway.lanes.a.price]\ninput = 0\noutput = 0.0\ncached = 0\n";
        assert!(toml::from_str::<File>(free).is_ok());
    }
}
