//! Worlds of virtual time, run and checked; one binary, as each is linked with everything.

mod caching;
mod capacity;
mod faults;
mod gateway;
mod integrity;
mod load;
mod monitor;
mod racing;
mod ranks;
mod routing;
mod swarm;
mod truth;

/// Names the seeds of a run that is as long as it is told to be: `FROM..TO`.
const SEEDS: &str = "TOKRATE_SEEDS";

/// The seeds that the environment names, or these.
fn named_seeds(otherwise: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(named) = std::env::var(SEEDS) else { return otherwise };
    let (from, to) = named.split_once("..").expect("FROM..TO");
    from.parse().expect("a seed")..to.parse().expect("a seed")
}
