//! Puts the simulated engine behind a real server and logs what was written.
