//! Probes that are planned, and those in flight.
//!
//! Invariant: an endpoint and a host have at most one probe in flight, and fewer endpoints than there are have one.

use crate::budget::Reservation;
use crate::config::Config;
use crate::schedule::SeriesId;
use std::collections::{BTreeMap, BTreeSet};

/// A probe that is planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    pub series: SeriesId,
    pub endpoint: usize,
    pub cycle: u64,
    /// When its slot began (ms since 1970).
    pub slot_ms: u64,
    pub is_further: bool,
}

/// A probe in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    pub series: SeriesId,
    pub endpoint: usize,
    pub cycle: u64,
    pub reservation: Reservation,
}

/// What is planned and in flight.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// By the time at which each is due (ms since 1970), and its number.
    planned: BTreeMap<(u64, u64), Planned>,
    flights: BTreeMap<u64, Flight>,
    /// The host of each endpoint, by a number.
    hosts: Vec<usize>,
    busy_hosts: BTreeSet<usize>,
    max_in_flight: usize,
}

impl Queue {
    pub fn new(config: &Config) -> Queue {
        let mut numbers = BTreeMap::new();
        let hosts = config.endpoints.iter().map(|endpoint| {
            let next = numbers.len();
            *numbers.entry(endpoint.host.clone()).or_insert(next)
        });
        let hosts: Vec<usize> = hosts.collect();
        let max_in_flight = config.max_in_flight.min(config.endpoints.len().saturating_sub(1)).max(1);
        Queue { planned: BTreeMap::new(), flights: BTreeMap::new(), hosts, busy_hosts: BTreeSet::new(), max_in_flight }
    }

    pub fn plan(&mut self, due_ms: u64, number: u64, planned: Planned) {
        self.planned.insert((due_ms, number), planned);
    }

    /// The first probe that is due by `wall_ms` and may start: its time, its number and what it is.
    pub fn ready(&self, wall_ms: u64) -> Option<(u64, u64, Planned)> {
        if self.flights.len() >= self.max_in_flight {
            return None;
        }
        let due = self.planned.range(..=(wall_ms, u64::MAX));
        let free = |planned: &Planned| !self.busy_hosts.contains(&self.hosts[planned.endpoint]);
        due.map(|(&(due, number), planned)| (due, number, *planned)).find(|(.., planned)| free(planned))
    }

    /// Takes a planned probe out.
    pub fn remove(&mut self, due_ms: u64, number: u64) {
        self.planned.remove(&(due_ms, number));
    }

    /// Takes out the first probe that was due before a time.
    pub fn pop_before(&mut self, wall_ms: u64) -> Option<Planned> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 < wall_ms)?;
        Some(entry.remove())
    }

    /// Takes out everything that is planned.
    pub fn clear(&mut self) -> Vec<Planned> {
        std::mem::take(&mut self.planned).into_values().collect()
    }

    pub fn start(&mut self, number: u64, flight: Flight) {
        self.busy_hosts.insert(self.hosts[flight.endpoint]);
        self.flights.insert(number, flight);
    }

    pub fn end(&mut self, number: u64) -> Option<Flight> {
        let flight = self.flights.remove(&number)?;
        self.busy_hosts.remove(&self.hosts[flight.endpoint]);
        Some(flight)
    }

    /// When something happens without a completion (ms since 1970): a probe is due, or is too late.
    pub fn wake_ms(&self, wall_ms: u64, tolerance_ms: u64) -> Option<u64> {
        let first = self.planned.keys().next().map(|(due, _)| *due)?;
        let too_late = if first <= wall_ms { first.saturating_add(tolerance_ms).saturating_add(1) } else { first };
        let next = self.planned.range((wall_ms.saturating_add(1), 0)..).next().map(|((due, _), _)| *due);
        next.into_iter().chain([too_late]).min()
    }

    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }
}
