//! `tokrate gateway`: one door to all providers. Serves calls, carries out what `route` decides, logs what was true.
//!
//! It refuses to know the command line, the settings file and the environment: those belong to the binary.
//!
//! Architecture Invariant: nothing reaches a client but the bytes of one attempt, in order, once, or one clear error; and
//! every attempt that was begun ends as one row of the log, however the call ended.

#![forbid(unsafe_code)]
