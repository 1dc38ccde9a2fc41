//! The report of small records.
