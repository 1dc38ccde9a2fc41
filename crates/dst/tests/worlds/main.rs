//! Worlds of virtual time, run and checked; one binary, as each is linked with everything.

mod faults;
mod gateway;
mod load;
mod racing;
mod routing;
mod swarm;
mod truth;
