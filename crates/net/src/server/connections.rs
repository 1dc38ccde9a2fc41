//! Limits the connections of a process, in total and per peer, and evicts idle ones for new ones.
//!
//! Invariant: a connection with an open request is never evicted; of idle ones, unauthenticated ones go first, and the longest idle first.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokrate_core::Tick;

/// Most authenticated peers that are remembered.
const MAX_AUTHENTICATED_PEERS: usize = 4096;
/// An eviction closes 1/64 of the idle connections at once, so that not every new connection scans all others.
const EVICTION_SHARE: usize = 64;
/// File descriptors kept for everything but client connections: upstreams, files, listeners.
const RESERVED_DESCRIPTORS: u64 = 64;

/// Limits on the number of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// In total.
    pub total: usize,
    /// Of these, unauthenticated ones from peers that never authenticated.
    pub unauthenticated: usize,
    /// Of these, per peer: an IPv4 address or an IPv6 /64.
    pub per_peer: usize,
}

impl ConnectionLimits {
    /// As many as there are file descriptors, for listeners without keys.
    pub fn without_keys() -> ConnectionLimits {
        let total = usize::try_from(open_files().saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(usize::MAX).max(1);
        ConnectionLimits { total, unauthenticated: total, per_peer: total }
    }

    /// An eighth of `total` is reserved for authenticated clients; an unauthenticated peer has at most half of the rest.
    pub fn with_keys(total: usize) -> ConnectionLimits {
        let unauthenticated = (total - total / 8).max(1);
        ConnectionLimits { total, unauthenticated, per_peer: (unauthenticated / 2).max(1) }
    }
}

/// Limit on open file descriptors of this process (RLIMIT_NOFILE).
pub fn open_files() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The most that macOS takes, though it reports "unlimited" (OPEN_MAX of its limits.h).
const OPEN_MAX: u64 = 10_240;

/// Raises the soft limit on open files to the hard limit: the default of 1,024 exists for programs that use `select`. Failure is
/// ignored.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raise = |current| setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum }).is_ok();
    if !raise(limit.maximum) && limit.current.is_some_and(|current| current < OPEN_MAX) {
        let _ = raise(Some(OPEN_MAX));
    }
}

/// All client connections of a process.
#[derive(Debug)]
pub struct Connections {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Vec<Arc<Slot>>,
    unauthenticated: usize,
    /// Unauthenticated connections per peer.
    per_peer: HashMap<IpAddr, usize>,
    /// Peers that have authenticated.
    authenticated: HashSet<IpAddr>,
}

/// Bookkeeping of one connection.
#[derive(Debug)]
struct Slot {
    peer: IpAddr,
    /// [`BUSY`], [`EVICTED`], or since when it is idle (ns).
    state: AtomicU64,
    is_authenticated: AtomicBool,
    /// Its index in `open`, or [`REMOVED`].
    index: AtomicUsize,
    evicted: Notify,
}

const BUSY: u64 = 0;
const EVICTED: u64 = u64::MAX;
const REMOVED: usize = usize::MAX;

/// Permission for one connection; released when dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    of: Arc<Connections>,
    slot: Arc<Slot>,
}

impl Connections {
    /// Without connections.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, state: Mutex::default() })
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.state().open.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for a new connection, possibly by evicting idle ones; `None` if the limits are reached.
    pub(super) fn acquire(self: &Arc<Self>, peer: IpAddr, now: Tick) -> Option<ConnectionPermit> {
        let peer = peer_key(peer);
        let mut state = self.state();
        let is_authenticated = state.authenticated.contains(&peer);
        if !is_authenticated {
            let of_peer = state.per_peer.get(&peer).copied().unwrap_or(0);
            if of_peer >= self.limits.per_peer && !state.evict(|slot| !slot.is_authenticated() && slot.peer == peer) {
                return None;
            }
            if state.unauthenticated >= self.limits.unauthenticated && !state.evict(|slot| !slot.is_authenticated()) {
                return None;
            }
        }
        if state.open.len() >= self.limits.total
            && !state.evict(|slot| !slot.is_authenticated())
            && !state.evict(|_| true)
        {
            return None;
        }
        let slot = Arc::new(Slot {
            peer,
            state: AtomicU64::new(idle_state(now)),
            is_authenticated: AtomicBool::new(false),
            index: AtomicUsize::new(state.open.len()),
            evicted: Notify::new(),
        });
        state.open.push(Arc::clone(&slot));
        state.count_unauthenticated(peer);
        Some(ConnectionPermit { of: Arc::clone(self), slot })
    }
}

impl State {
    fn count_unauthenticated(&mut self, peer: IpAddr) {
        self.unauthenticated += 1;
        *self.per_peer.entry(peer).or_default() += 1;
    }

    fn uncount_unauthenticated(&mut self, peer: IpAddr) {
        self.unauthenticated -= 1;
        if let Some(count) = self.per_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.per_peer.remove(&peer);
            }
        }
    }

    /// Evicts the longest idle of the matching connections; returns whether there was one.
    fn evict(&mut self, may_evict: impl Fn(&Slot) -> bool) -> bool {
        let idle = self.open.iter().filter(|slot| may_evict(slot));
        let mut idle: Vec<(u64, &Arc<Slot>)> = idle.filter_map(|slot| Some((slot.idle_since()?, slot))).collect();
        let count = idle.len().div_ceil(EVICTION_SHARE);
        if count == 0 {
            return false;
        }
        idle.select_nth_unstable_by_key(count - 1, |(since, _)| *since);
        // A request may have started meanwhile.
        let evicted = idle.into_iter().take(count).filter(|(since, slot)| slot.change(*since, EVICTED));
        let evicted: Vec<Arc<Slot>> = evicted.map(|(_, slot)| Arc::clone(slot)).collect();
        for slot in &evicted {
            self.remove(slot);
            slot.evicted.notify_one();
        }
        !evicted.is_empty()
    }

    fn remove(&mut self, slot: &Slot) {
        let permit = slot.index.swap(REMOVED, Ordering::Relaxed);
        if permit == REMOVED {
            return;
        }
        self.open.swap_remove(permit);
        if let Some(moved) = self.open.get(permit) {
            moved.index.store(permit, Ordering::Relaxed);
        }
        if !slot.is_authenticated() {
            self.uncount_unauthenticated(slot.peer);
        }
    }

    /// Remembers an authenticated peer; if there are too many, those without a connection are forgotten.
    fn remember(&mut self, peer: IpAddr) {
        if self.authenticated.len() >= MAX_AUTHENTICATED_PEERS {
            let open: HashSet<IpAddr> = self.open.iter().map(|slot| slot.peer).collect();
            self.authenticated.retain(|known| open.contains(known));
        }
        self.authenticated.insert(peer);
    }
}

impl Slot {
    fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }

    fn idle_since(&self) -> Option<u64> {
        Some(self.state.load(Ordering::Acquire)).filter(|state| !matches!(*state, BUSY | EVICTED))
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl ConnectionPermit {
    /// A request begins; `false` if the connection was evicted.
    pub fn start_request(&self) -> bool {
        match self.slot.state.load(Ordering::Acquire) {
            BUSY => true,
            EVICTED => false,
            since => self.slot.change(since, BUSY),
        }
    }

    /// All requests were answered.
    pub fn mark_idle(&self, now: Tick) {
        // Only its own connection changes a busy slot.
        self.slot.change(BUSY, idle_state(now));
    }

    /// A request presented a valid key.
    pub fn mark_authenticated(&self) {
        if self.slot.is_authenticated() {
            return;
        }
        let mut state = self.of.state();
        if self.slot.index.load(Ordering::Relaxed) != REMOVED
            && !self.slot.is_authenticated.swap(true, Ordering::Relaxed)
        {
            state.uncount_unauthenticated(self.slot.peer);
            state.remember(self.slot.peer);
        }
    }

    /// Ready when the connection is evicted.
    pub fn evicted(&self) -> impl Future<Output = ()> + 'static {
        let slot = Arc::clone(&self.slot);
        async move { slot.evicted.notified().await }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.of.state().remove(&self.slot);
    }
}

fn idle_state(now: Tick) -> u64 {
    now.as_nanos().clamp(BUSY + 1, EVICTED - 1)
}

/// Identity of a peer: an IPv6 host usually controls its whole /64.
fn peer_key(peer: IpAddr) -> IpAddr {
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

    fn is_evicted(permit: &ConnectionPermit) -> bool {
        permit.slot.state.load(Ordering::Relaxed) == EVICTED
    }

    fn connections(total: usize, unauthenticated: usize, per_peer: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { total, unauthenticated, per_peer })
    }

    #[test]
    fn the_longest_idle_connection_is_evicted_for_a_new_one() {
        let connections = connections(3, 3, 3);
        let permits: Vec<ConnectionPermit> =
            (1..4).filter_map(|second| connections.acquire(HERE, at(second))).collect();
        assert!(permits[0].start_request());
        permits[0].mark_idle(at(9));
        let _fourth = connections.acquire(HERE, at(10)).expect("one goes");
        assert_eq!(permits.iter().map(is_evicted).collect::<Vec<_>>(), [false, true, false]);
        assert!(!permits[1].start_request(), "it comes too late with a request");
        assert_eq!(connections.open(), 3);
        drop(permits);
        assert_eq!(connections.open(), 1, "an evicted connection is released once");
    }

    #[test]
    fn a_connection_with_a_request_is_never_evicted() {
        let connections = connections(2, 2, 2);
        let permits: Vec<ConnectionPermit> =
            (1..3).filter_map(|second| connections.acquire(HERE, at(second))).collect();
        assert!(permits.iter().all(ConnectionPermit::start_request));
        assert!(connections.acquire(HERE, at(3)).is_none());
        permits[1].mark_idle(at(4));
        assert!(connections.acquire(HERE, at(5)).is_some());
        assert!(is_evicted(&permits[1]) && !is_evicted(&permits[0]));
    }

    #[test]
    fn authenticated_connections_are_evicted_last_and_their_peer_has_a_reserve() {
        let connections = connections(4, 3, 3);
        let known = connections.acquire(THERE, at(1)).expect("room");
        known.mark_authenticated();
        known.mark_authenticated();
        let others: Vec<ConnectionPermit> = (2..5).filter_map(|second| connections.acquire(HERE, at(second))).collect();
        assert!(others.iter().all(ConnectionPermit::start_request), "and all of them are busy");
        assert!(connections.acquire(HERE, at(6)).is_none(), "it would have to go into the reserve");
        drop(others);
        let others: Vec<ConnectionPermit> = (2..5).filter_map(|second| connections.acquire(HERE, at(second))).collect();
        let _from_known = connections.acquire(THERE, at(7)).expect("the oldest of the others goes");
        assert!(is_evicted(&others[0]) && !is_evicted(&known));
    }

    #[test]
    fn an_unauthenticated_peer_has_a_share_and_evicts_its_own() {
        let connections = connections(8, 6, 2);
        let other = connections.acquire(THERE, at(1)).expect("room");
        let permits: Vec<ConnectionPermit> =
            (2..5).filter_map(|second| connections.acquire(HERE, at(second))).collect();
        assert_eq!(permits.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, false]);
        assert!(!is_evicted(&other));
        assert!(permits[1].start_request() && permits[2].start_request());
        assert!(connections.acquire(HERE, at(9)).is_none());
        permits[1].mark_authenticated();
        let more: Vec<ConnectionPermit> = (10..14).filter_map(|second| connections.acquire(HERE, at(second))).collect();
        assert_eq!(more.len(), 4, "an authenticated proxy has no limit of its own");
    }

    #[test]
    fn an_ipv6_64_is_one_peer() {
        let network = |text: &str| peer_key(text.parse().expect("an address"));
        assert_eq!(network("fd00::1"), network("fd00::ffff:1:2:3"));
        assert_ne!(network("fd00::1"), network("fd00:0:0:1::1"));
        assert_eq!(network("::ffff:10.1.2.3"), THERE);
    }
}
