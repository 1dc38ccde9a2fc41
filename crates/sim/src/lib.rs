//! A simulated inference engine: a deterministic state machine in virtual time.
