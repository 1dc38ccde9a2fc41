//! The cheapest mix of devices that carries a demand within objectives, from what one copy of each kind carries alone; and what
//! an API costs for all of it, or for what own hardware does not carry.
//!
//! Invariant: every fleet shown carries the demand by the sum of its copies; none is shown from which a copy could be left out.

use crate::cost::HOURS_A_MONTH;
use std::collections::BTreeSet;

/// A copy of the model on devices of one kind, at the most load that keeps the objectives.
#[derive(Clone, PartialEq, Debug)]
pub struct Kind {
    /// Device.
    pub device: String,
    /// Devices of a copy.
    pub devices: u32,
    /// Storage of the weights.
    pub precision: String,
    /// Load that one copy carries, users or requests a second.
    pub carries: f64,
    /// The same at the ends of the speed's interval.
    pub range: (f64, f64),
    /// Requests a second at that load.
    pub requests_a_second: f64,
    /// Dollars an hour of all its devices, from the lowest price to the highest.
    pub dollars_hour: (f64, f64),
    /// Whether it lies outside of what was measured.
    pub extrapolated: bool,
}

impl Kind {
    fn middle(&self) -> f64 {
        (self.dollars_hour.0 + self.dollars_hour.1) / 2.0
    }
}

/// How many copies of which kinds.
#[derive(Clone, PartialEq, Debug)]
pub struct Fleet {
    /// Place of the kind and its copies, at least one each.
    pub copies: Vec<(usize, u32)>,
    /// Load that all of them carry.
    pub carries: f64,
    /// The same at the ends of the speeds' intervals.
    pub range: (f64, f64),
    /// What is still carried when the largest copy is lost.
    pub one_lost: f64,
    /// Dollars an hour, from the lowest prices to the highest.
    pub dollars_hour: (f64, f64),
}

/// What has to be carried.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// Load of the busiest hour, users or requests a second.
    pub busiest: f64,
    /// That over the mean load; at least 1.
    pub peak: f64,
    /// Whether it is carried with one copy lost, too.
    pub spare: bool,
    /// Whether copies are counted with the low end of what they carry.
    pub cautious: bool,
}

/// How much cheaper a mix of two kinds has to be than one alone: as much as a search for what a copy carries is unsure of.
const WORTH: f64 = 0.03;
/// Most copies of one kind.
const MOST_COPIES: f64 = 10_000.0;

impl Fleet {
    fn of(kinds: &[Kind], copies: &[(usize, u32)]) -> Fleet {
        let sum = |of: &dyn Fn(&Kind) -> f64| copies.iter().map(|(at, n)| of(&kinds[*at]) * f64::from(*n)).sum::<f64>();
        let largest = copies.iter().map(|(at, _)| kinds[*at].carries).fold(0.0, f64::max);
        let carries = sum(&|kind| kind.carries);
        Fleet {
            copies: copies.to_vec(),
            carries,
            range: (sum(&|kind| kind.range.0), sum(&|kind| kind.range.1)),
            one_lost: carries - largest,
            dollars_hour: (sum(&|kind| kind.dollars_hour.0), sum(&|kind| kind.dollars_hour.1)),
        }
    }

    /// Dollars a month, from the lowest prices to the highest.
    pub fn month(&self) -> (f64, f64) {
        (self.dollars_hour.0 * HOURS_A_MONTH, self.dollars_hour.1 * HOURS_A_MONTH)
    }

    fn middle(&self) -> f64 {
        (self.dollars_hour.0 + self.dollars_hour.1) / 2.0
    }

    /// Whether it carries a demand.
    fn keeps(&self, demand: &Demand) -> bool {
        let scale = if demand.cautious { self.range.0 / self.carries } else { 1.0 };
        let carried = if demand.spare { self.one_lost } else { self.carries };
        carried * scale >= demand.busiest
    }
}

/// Fleets of one kind or two that carry a demand, the cheapest of each set of devices, by the middle of their prices.
pub fn fleets(kinds: &[Kind], demand: &Demand) -> Vec<Fleet> {
    let mut found: Vec<Fleet> = Vec::new();
    let counted = |kind: &Kind| if demand.cautious { kind.range.0 } else { kind.carries };
    for (first, one) in kinds.iter().enumerate().filter(|(_, kind)| counted(kind) > 0.0) {
        let most = (demand.busiest / counted(one)).ceil().min(MOST_COPIES) as u32 + u32::from(demand.spare);
        found.extend(fewest(kinds, &[], first, demand));
        for (second, other) in kinds.iter().enumerate().skip(first + 1).filter(|(_, kind)| counted(kind) > 0.0) {
            let mixed = (1..=most).filter_map(|count| fewest(kinds, &[(first, count)], second, demand));
            // Of so many mixes of two kinds the cheapest.
            let best = mixed.min_by(|a, b| a.middle().total_cmp(&b.middle()));
            found.extend(best.filter(|fleet| {
                // A mix is worth its trouble only if it is cheaper than each kind alone.
                let alone = |at| fewest(kinds, &[], at, demand).map_or(f64::MAX, |fleet| fleet.middle());
                one.middle() > 0.0
                    && other.middle() > 0.0
                    && fleet.middle() < alone(first).min(alone(second)) * (1.0 - WORTH)
            }));
        }
    }
    found.sort_by(|a, b| a.middle().total_cmp(&b.middle()).then(b.carries.total_cmp(&a.carries)));
    // Of the same devices the cheapest: a list of one choice in many forms is none.
    let mut seen = BTreeSet::new();
    found.retain(|fleet| {
        let devices: BTreeSet<&str> = fleet.copies.iter().map(|(at, _)| kinds[*at].device.as_str()).collect();
        seen.insert(devices)
    });
    found
}

/// As few copies of a kind, beside others, as carry a demand; at least one, `None` if it would be too many.
fn fewest(kinds: &[Kind], beside: &[(usize, u32)], at: usize, demand: &Demand) -> Option<Fleet> {
    let with = |count: u32| Fleet::of(kinds, &[beside, &[(at, count)]].concat());
    let (mut low, mut high) = (1u32, 1u32);
    while !with(high).keeps(demand) {
        low = high + 1;
        high *= 2;
        if f64::from(high) > MOST_COPIES {
            return None;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if with(middle).keeps(demand) { high = middle } else { low = middle + 1 }
    }
    Some(with(high))
}

/// Share of all requests that come above a limit, of a load that falls evenly from the busiest hour to the quietest: to
/// (2 - peak) times the mean, or to nothing for the rest of the time where the peak is above 2. `limit` is over the busiest load.
pub fn overflow_share(peak: f64, limit: f64) -> f64 {
    if limit >= 1.0 {
        return 0.0;
    }
    // In units of the mean load: from `peak` down to `least` in the share `time` of all hours.
    let (least, time) = if peak <= 2.0 { (2.0 - peak, 1.0) } else { (0.0, 2.0 / peak) };
    let limit = limit.max(0.0) * peak;
    if limit <= least {
        return (1.0 - limit * time).clamp(0.0, 1.0);
    }
    let above = (peak - limit) / (peak - least).max(1e-12) * time;
    (above * (peak - limit) / 2.0).clamp(0.0, 1.0)
}

/// Own copies of one kind, and an API for what they do not carry.
#[derive(Clone, PartialEq, Debug)]
pub struct Mixed {
    /// Place of the kind; `None` where the API answers all.
    pub kind: Option<usize>,
    /// Copies.
    pub copies: u32,
    /// Share of requests that the API answers.
    pub share: f64,
    /// Dollars a month of both, from the lowest prices of devices to the highest.
    pub month: (f64, f64),
}

/// The cheapest number of own copies of any kind beside an API at so many dollars a request, for `requests` a month.
pub fn with_api(kinds: &[Kind], demand: &Demand, dollars_request: f64, requests: f64) -> Mixed {
    let all =
        Mixed { kind: None, copies: 0, share: 1.0, month: (dollars_request * requests, dollars_request * requests) };
    let mut best = all;
    for (at, kind) in kinds.iter().enumerate() {
        let counted = if demand.cautious { kind.range.0 } else { kind.carries };
        if counted <= 0.0 {
            continue;
        }
        let most = (demand.busiest / counted).ceil().min(MOST_COPIES) as u32;
        for copies in 1..=most {
            let share = overflow_share(demand.peak, f64::from(copies) * counted / demand.busiest);
            let own = |hour: f64| f64::from(copies) * hour * HOURS_A_MONTH + share * requests * dollars_request;
            let month = (own(kind.dollars_hour.0), own(kind.dollars_hour.1));
            if month.0 + month.1 < best.month.0 + best.month.1 {
                best = Mixed { kind: Some(at), copies, share, month };
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(device: &str, carries: f64, dollars: f64) -> Kind {
        Kind {
            device: device.to_owned(),
            devices: 4,
            precision: "fp8".to_owned(),
            carries,
            range: (carries * 0.8, carries * 1.2),
            requests_a_second: carries / 30.0,
            dollars_hour: (dollars * 0.5, dollars * 1.5),
            extrapolated: false,
        }
    }

    const DEMAND: Demand = Demand { busiest: 500.0, peak: 1.0, spare: false, cautious: false };

    #[test]
    fn the_cheapest_fleet_is_the_one_found_by_hand() {
        // 3 of a: 30; 6 of b: 27; 2 a and 1 b: 24.5; 1 a and 3 b: 23.5 carries 200 + 300.
        let kinds = [kind("a", 200.0, 10.0), kind("b", 100.0, 4.5)];
        let found = fleets(&kinds, &DEMAND);
        assert_eq!(found[0].copies, [(1, 5)], "5 of b are 22.5");
        assert_eq!((found[0].carries, found[0].one_lost, found[0].dollars_hour), (500.0, 400.0, (11.25, 33.75)));
        let dearer = [kind("a", 200.0, 10.0), kind("b", 100.0, 5.5)];
        assert_eq!(fleets(&dearer, &DEMAND)[0].copies, [(0, 2), (1, 1)], "20 + 5.5 against 30 and 27.5");
    }

    #[test]
    fn every_fleet_carries_the_demand_and_no_copy_is_idle() {
        let kinds = [kind("a", 170.0, 9.0), kind("b", 64.0, 4.0), kind("c", 31.0, 2.0), kind("none", 0.0, 1.0)];
        for spare in [false, true] {
            for cautious in [false, true] {
                let demand = Demand { spare, cautious, ..DEMAND };
                let found = fleets(&kinds, &demand);
                assert!(found.len() >= 3);
                for fleet in &found {
                    assert!(fleet.keeps(&demand), "{fleet:?}");
                    let (at, count) = *fleet.copies.last().expect("one kind");
                    let mut less = fleet.copies.clone();
                    less.pop();
                    if count > 1 {
                        less.push((at, count - 1));
                    }
                    assert!(less.is_empty() || !Fleet::of(&kinds, &less).keeps(&demand), "{fleet:?}");
                    assert!(fleet.copies.iter().all(|(at, _)| kinds[*at].carries > 0.0));
                }
                assert!(found.windows(2).all(|pair| pair[0].middle() <= pair[1].middle()));
            }
        }
    }

    #[test]
    fn overflow_is_the_area_above_the_limit() {
        for peak in [1.0, 1.5, 2.0, 3.0, 10.0] {
            assert!((overflow_share(peak, 0.0) - 1.0).abs() < 1e-12, "all of it at {peak}");
            assert_eq!(overflow_share(peak, 1.0), 0.0);
        }
        // A triangle from 3 to 0 in two thirds of the time: half of the peak cuts off a quarter of its area.
        assert!((overflow_share(3.0, 0.5) - 0.25).abs() < 1e-12);
        // From 1.5 to 0.5: above 1 lies a triangle of half the time and a height of a half.
        assert!((overflow_share(1.5, 1.0 / 1.5) - 0.125).abs() < 1e-12);
        assert!((overflow_share(1.0, 0.5) - 0.5).abs() < 1e-12, "a steady load");
    }

    #[test]
    fn an_api_takes_the_peak_where_that_is_cheaper() {
        let kinds = [kind("a", 100.0, 10.0)];
        let demand = Demand { peak: 5.0, ..DEMAND };
        let requests = 1e7;
        let at = |dollars: f64| with_api(&kinds, &demand, dollars, requests);
        assert_eq!(at(1e-6).kind, None, "nearly free");
        assert_eq!((at(1.0).copies, at(1.0).share), (5, 0.0), "too dear for any overflow");
        let between = at(0.005);
        assert!((1..5).contains(&between.copies) && between.share > 0.0 && between.share < 0.5, "{between:?}");
    }
}
