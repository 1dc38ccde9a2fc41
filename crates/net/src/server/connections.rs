//! The connections of a process's listeners: how many there may be, over all and by peer, and which goes when another comes.
//!
//! It does not know requests. Invariant: a connection that has a request is never given up for another one; of those that wait
//! for one, who has shown no key goes before who has, and who has waited longest goes first.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokrate_core::Tick;

/// Peers of which it is remembered that they have shown a key.
const PEERS_MOST: usize = 4096;
/// When one has to go, so many of those that wait go with it: one in so many, so that not everyone who comes looks at all others.
const GIVEN_UP_AT_ONCE: usize = 64;
/// Descriptors that are left to all but connections of clients.
const DESCRIPTORS_KEPT: u64 = 64;

/// How many connections there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// Over all.
    pub all: usize,
    /// Of these, to those who have shown no key and come from where nobody has.
    pub unknown: usize,
    /// Of these, to one peer: an address of IPv4, or a network of 64 bits of IPv6.
    pub by_peer: usize,
}

impl ConnectionLimits {
    /// As many as there are descriptors for, where nobody has a key to show.
    pub fn without_keys() -> ConnectionLimits {
        let all = usize::try_from(open_files().saturating_sub(DESCRIPTORS_KEPT)).unwrap_or(usize::MAX).max(1);
        ConnectionLimits { all, unknown: all, by_peer: all }
    }

    /// So many, of which an eighth is kept for those who have shown a key, and no other peer has more than half of the rest.
    pub fn with_keys(all: usize) -> ConnectionLimits {
        let unknown = (all - all / 8).max(1);
        ConnectionLimits { all, unknown, by_peer: (unknown / 2).max(1) }
    }
}

/// Descriptors that this process may have open at once.
pub fn open_files() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Lets this process have as many descriptors open as it may allow itself: the usual limit of 1,024 is for programs from another
/// time. What the operating system refuses stays as it was.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Some systems say "without limit" and refuse to take it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// All connections of a process that serves.
#[derive(Debug)]
pub struct Connections {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Vec<Arc<Slot>>,
    unknown: usize,
    /// Connections without a key, by peer.
    by_peer: HashMap<IpAddr, usize>,
    /// Who has shown a key.
    shown: HashSet<IpAddr>,
}

/// A connection in the eyes of the others.
#[derive(Debug)]
struct Slot {
    peer: IpAddr,
    /// [`BUSY`], [`GIVEN_UP`], or since when it waits for a request.
    state: AtomicU64,
    has_shown_key: AtomicBool,
    /// Where it stands among the open ones; nowhere once it has been given up.
    place: AtomicUsize,
    given_up: Notify,
}

const BUSY: u64 = 0;
const GIVEN_UP: u64 = u64::MAX;
const NOWHERE: usize = usize::MAX;

/// A connection's place among all; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Connections>,
    slot: Arc<Slot>,
}

impl Connections {
    /// No connection yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, state: Mutex::default() })
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.state().open.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection, for which another one may have to go; `None` if there is none to be had.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr, now: Tick) -> Option<Place> {
        let peer = network_of(peer);
        let mut state = self.state();
        let is_known = state.shown.contains(&peer);
        if !is_known {
            let of_peer = state.by_peer.get(&peer).copied().unwrap_or(0);
            if of_peer >= self.limits.by_peer && !state.give_up(|slot| !slot.is_known() && slot.peer == peer) {
                return None;
            }
            if state.unknown >= self.limits.unknown && !state.give_up(|slot| !slot.is_known()) {
                return None;
            }
        }
        if state.open.len() >= self.limits.all && !state.give_up(|slot| !slot.is_known()) && !state.give_up(|_| true) {
            return None;
        }
        let slot = Arc::new(Slot {
            peer,
            state: AtomicU64::new(waiting_since(now)),
            has_shown_key: AtomicBool::new(false),
            place: AtomicUsize::new(state.open.len()),
            given_up: Notify::new(),
        });
        state.open.push(Arc::clone(&slot));
        state.count_unknown(peer);
        Some(Place { of: Arc::clone(self), slot })
    }
}

impl State {
    fn count_unknown(&mut self, peer: IpAddr) {
        self.unknown += 1;
        *self.by_peer.entry(peer).or_default() += 1;
    }

    fn forget_unknown(&mut self, peer: IpAddr) {
        self.unknown -= 1;
        if let Some(count) = self.by_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }

    /// Gives up those that have waited longest of them that may go; tells whether there was one.
    fn give_up(&mut self, may_go: impl Fn(&Slot) -> bool) -> bool {
        let waiting = self.open.iter().filter(|slot| may_go(slot));
        let mut waiting: Vec<(u64, &Arc<Slot>)> =
            waiting.filter_map(|slot| Some((slot.waits_since()?, slot))).collect();
        let count = waiting.len().div_ceil(GIVEN_UP_AT_ONCE);
        if count == 0 {
            return false;
        }
        waiting.select_nth_unstable_by_key(count - 1, |(since, _)| *since);
        // A request may have come in the meantime.
        let going = waiting.into_iter().take(count).filter(|(since, slot)| slot.change(*since, GIVEN_UP));
        let going: Vec<Arc<Slot>> = going.map(|(_, slot)| Arc::clone(slot)).collect();
        for slot in &going {
            self.remove(slot);
            slot.given_up.notify_one();
        }
        !going.is_empty()
    }

    fn remove(&mut self, slot: &Slot) {
        let place = slot.place.swap(NOWHERE, Ordering::Relaxed);
        if place == NOWHERE {
            return;
        }
        self.open.swap_remove(place);
        if let Some(moved) = self.open.get(place) {
            moved.place.store(place, Ordering::Relaxed);
        }
        if !slot.is_known() {
            self.forget_unknown(slot.peer);
        }
    }

    /// Remembers who has shown a key; when there are too many, those without a connection are forgotten.
    fn remember(&mut self, peer: IpAddr) {
        if self.shown.len() >= PEERS_MOST {
            let open: HashSet<IpAddr> = self.open.iter().map(|slot| slot.peer).collect();
            self.shown.retain(|known| open.contains(known));
        }
        self.shown.insert(peer);
    }
}

impl Slot {
    fn is_known(&self) -> bool {
        self.has_shown_key.load(Ordering::Relaxed)
    }

    fn waits_since(&self) -> Option<u64> {
        Some(self.state.load(Ordering::Acquire)).filter(|state| !matches!(*state, BUSY | GIVEN_UP))
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Place {
    /// A request begins; tells whether the connection may still have one.
    pub fn begins(&self) -> bool {
        match self.slot.state.load(Ordering::Acquire) {
            BUSY => true,
            GIVEN_UP => false,
            since => self.slot.change(since, BUSY),
        }
    }

    /// All requests have been answered; the next one is waited for.
    pub fn waits(&self, now: Tick) {
        // Of one that has a request nobody else changes anything.
        self.slot.change(BUSY, waiting_since(now));
    }

    /// A key was shown that is known here.
    pub fn shows_key(&self) {
        if self.slot.is_known() {
            return;
        }
        let mut state = self.of.state();
        if self.slot.place.load(Ordering::Relaxed) != NOWHERE && !self.slot.has_shown_key.swap(true, Ordering::Relaxed)
        {
            state.forget_unknown(self.slot.peer);
            state.remember(self.slot.peer);
        }
    }

    /// What is ready when the connection has to go.
    pub fn given_up(&self) -> impl Future<Output = ()> + 'static {
        let slot = Arc::clone(&self.slot);
        async move { slot.given_up.notified().await }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.state().remove(&self.slot);
    }
}

fn waiting_since(now: Tick) -> u64 {
    now.as_nanos().clamp(BUSY + 1, GIVEN_UP - 1)
}

/// What counts as one peer: whoever has one address of IPv6 has its whole network.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        canonical => canonical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));

    fn at(second: u64) -> Tick {
        Tick::from_nanos(second * 1_000_000_000)
    }

    fn is_given_up(place: &Place) -> bool {
        place.slot.state.load(Ordering::Relaxed) == GIVEN_UP
    }

    fn connections(all: usize, unknown: usize, by_peer: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { all, unknown, by_peer })
    }

    #[test]
    fn whoever_has_waited_longest_goes_when_another_comes() {
        let connections = connections(3, 3, 3);
        let places: Vec<Place> = (1..4).filter_map(|second| connections.take(HERE, at(second))).collect();
        assert!(places[0].begins());
        places[0].waits(at(9));
        let _fourth = connections.take(HERE, at(10)).expect("one goes");
        assert_eq!(places.iter().map(is_given_up).collect::<Vec<_>>(), [false, true, false]);
        assert!(!places[1].begins(), "it comes too late with a request");
        assert_eq!(connections.open(), 3);
        drop(places);
        assert_eq!(connections.open(), 1, "what was given up is counted out once");
    }

    #[test]
    fn who_has_a_request_is_never_given_up() {
        let connections = connections(2, 2, 2);
        let places: Vec<Place> = (1..3).filter_map(|second| connections.take(HERE, at(second))).collect();
        assert!(places.iter().all(Place::begins));
        assert!(connections.take(HERE, at(3)).is_none());
        places[1].waits(at(4));
        assert!(connections.take(HERE, at(5)).is_some());
        assert!(is_given_up(&places[1]) && !is_given_up(&places[0]));
    }

    #[test]
    fn who_has_shown_a_key_stays_when_others_have_to_go_and_its_peer_has_a_reserve() {
        let connections = connections(4, 3, 3);
        let known = connections.take(THERE, at(1)).expect("room");
        known.shows_key();
        known.shows_key();
        let others: Vec<Place> = (2..5).filter_map(|second| connections.take(HERE, at(second))).collect();
        assert!(others.iter().all(Place::begins), "and all of them are busy");
        assert!(connections.take(HERE, at(6)).is_none(), "it would have to go into the reserve");
        drop(others);
        let others: Vec<Place> = (2..5).filter_map(|second| connections.take(HERE, at(second))).collect();
        let _from_known = connections.take(THERE, at(7)).expect("the oldest of the others goes");
        assert!(is_given_up(&others[0]) && !is_given_up(&known));
    }

    #[test]
    fn one_peer_without_a_key_has_a_part_and_its_own_go_first() {
        let connections = connections(8, 6, 2);
        let other = connections.take(THERE, at(1)).expect("room");
        let places: Vec<Place> = (2..5).filter_map(|second| connections.take(HERE, at(second))).collect();
        assert_eq!(places.iter().map(is_given_up).collect::<Vec<_>>(), [true, false, false]);
        assert!(!is_given_up(&other));
        assert!(places[1].begins() && places[2].begins());
        assert!(connections.take(HERE, at(9)).is_none());
        places[1].shows_key();
        let more: Vec<Place> = (10..14).filter_map(|second| connections.take(HERE, at(second))).collect();
        assert_eq!(more.len(), 4, "a proxy that has shown a key has no limit of its own");
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let network = |text: &str| network_of(text.parse().expect("an address"));
        assert_eq!(network("fd00::1"), network("fd00::ffff:1:2:3"));
        assert_ne!(network("fd00::1"), network("fd00:0:0:1::1"));
        assert_eq!(network("::ffff:10.1.2.3"), THERE);
    }
}
