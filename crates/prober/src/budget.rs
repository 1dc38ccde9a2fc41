//! What was spent in this month and on this day, and what is reserved for probes in flight.
//!
//! Invariant: what is spent and reserved together is within the budget when a reservation is made; a reservation is settled once.

use crate::config::{Budget, DAY_MS};
use tokrate_core::{Date, Money};

/// Further probes after a suspicion may use so much of a budget (percent); the rest is for the schedule.
const FURTHER_PERCENT: u64 = 15;

/// Which budget.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BudgetKind {
    /// Dollars a month.
    Money,
    /// Tokens a day.
    Tokens,
}

impl BudgetKind {
    /// Its key in the settings.
    pub const fn key(self) -> &'static str {
        match self {
            BudgetKind::Money => "usd_per_month",
            BudgetKind::Tokens => "tokens_per_day",
        }
    }
}

/// What probes used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// What they cost, in the month.
    pub money: Money,
    /// Their tokens, on the day.
    pub tokens: u64,
}

impl Spent {
    fn add(&mut self, tokens: u64, money: Money) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.money = self.money.saturating_add(money);
    }

    fn remove(&mut self, tokens: u64, money: Money) {
        self.tokens = self.tokens.saturating_sub(tokens);
        self.money = self.money.saturating_sub(money);
    }
}

/// What a probe in flight may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reservation {
    tokens: u64,
    money: Money,
    is_further: bool,
}

/// The account of a budget.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    budget: Budget,
    month: u64,
    day: u64,
    spent: Spent,
    /// The part of `spent` that went to further probes.
    further: Spent,
    reserved: Spent,
    reserved_further: Spent,
}

impl Account {
    pub fn new(budget: Budget) -> Account {
        Account {
            budget,
            month: 0,
            day: 0,
            spent: Spent::default(),
            further: Spent::default(),
            reserved: Spent::default(),
            reserved_further: Spent::default(),
        }
    }

    /// Begins a new month or day where one has begun. A clock that went back begins none: what was spent stays spent.
    pub fn turn(&mut self, wall_ms: u64) {
        let (month, day) = (month_of(wall_ms), wall_ms / DAY_MS);
        if month > self.month {
            self.month = month;
            (self.spent.money, self.further.money) = (Money::ZERO, Money::ZERO);
        }
        if day > self.day {
            self.day = day;
            (self.spent.tokens, self.further.tokens) = (0, 0);
        }
    }

    /// Takes over what earlier runs spent, and the part of it that went to further probes.
    pub fn restore(&mut self, wall_ms: u64, spent: Spent, further: Spent) {
        self.turn(wall_ms);
        self.spent.add(spent.tokens, spent.money);
        self.further.add(further.tokens, further.money);
    }

    /// Reserves what a probe may use, or says which budget it could exceed.
    pub fn reserve(&mut self, (tokens, money): (u64, Money), is_further: bool) -> Result<Reservation, BudgetKind> {
        let fits = |used: Spent, reserved: Spent, percent: u64| {
            let most = self.budget.usd_per_month.map(|most| part(most, percent));
            let sum = used.money.saturating_add(reserved.money).saturating_add(money);
            if most.is_some_and(|most| sum > most) {
                return Err(BudgetKind::Money);
            }
            let most = self.budget.tokens_per_day.map(|most| percent_of(most, percent));
            let sum = used.tokens.saturating_add(reserved.tokens).saturating_add(tokens);
            if most.is_some_and(|most| sum > most) { Err(BudgetKind::Tokens) } else { Ok(()) }
        };
        fits(self.spent, self.reserved, 100)?;
        if is_further {
            fits(self.further, self.reserved_further, FURTHER_PERCENT)?;
            self.reserved_further.add(tokens, money);
        }
        self.reserved.add(tokens, money);
        Ok(Reservation { tokens, money, is_further })
    }

    /// Replaces a reservation by what was used.
    pub fn settle(&mut self, reservation: Reservation, tokens: u64, money: Money) {
        let Reservation { tokens: reserved_tokens, money: reserved_money, is_further } = reservation;
        self.reserved.remove(reserved_tokens, reserved_money);
        self.spent.add(tokens, money);
        if is_further {
            self.reserved_further.remove(reserved_tokens, reserved_money);
            self.further.add(tokens, money);
        }
    }

    /// What is left for the schedule: dollars of the month, tokens of the day. `None` is without limit.
    pub fn left(&self) -> (Option<Money>, Option<u64>) {
        let money = self.budget.usd_per_month.map(|most| {
            let regular = self.spent.money.saturating_sub(self.further.money);
            part(most, 100 - FURTHER_PERCENT).saturating_sub(regular)
        });
        let tokens = self.budget.tokens_per_day.map(|most| {
            let regular = self.spent.tokens.saturating_sub(self.further.tokens);
            percent_of(most, 100 - FURTHER_PERCENT).saturating_sub(regular)
        });
        (money, tokens)
    }

    pub fn spent(&self) -> Spent {
        self.spent
    }
}

/// A percentage of an amount, rounded down.
fn part(amount: Money, percent: u64) -> Money {
    Money::from_pico_usd(amount.as_pico_usd() / 100 * u128::from(percent))
}

/// The same of tokens.
fn percent_of(tokens: u64, percent: u64) -> u64 {
    (u128::from(tokens) * u128::from(percent) / 100) as u64
}

/// Months since year 0.
fn month_of(wall_ms: u64) -> u64 {
    let date = Date::of_seconds(wall_ms / 1_000);
    date.year * 12 + date.month - 1
}

/// When the month of a wall time ends (ms since 1970).
pub(crate) fn month_end_ms(wall_ms: u64) -> u64 {
    let Date { year, month, .. } = Date::of_seconds(wall_ms / 1_000);
    let next =
        if month == 12 { Date { year: year + 1, month: 1, day: 1 } } else { Date { year, month: month + 1, day: 1 } };
    next.day_number().unsigned_abs() * DAY_MS
}
