//! From stream events to numbers: requests, runs, curves, records.
