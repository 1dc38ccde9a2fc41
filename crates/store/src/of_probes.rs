//! A monitor's database read by the queries of the throughput log: each request that counts is an attempt.
//!
//! Invariant: rows of one source only, without those in quarantine and those whose cycle has not ended.

use crate::database::Database;
use crate::monitor::MONITOR;
use crate::row::sample_columns;
use crate::{Sqlite, StoreError};
use std::path::Path;
use tokrate_record::SampleSource;

/// No gateway refused anything.
const NO_REFUSALS: &str = "CREATE TEMP VIEW refusals AS SELECT 0 AS id, 0 AS minute_unix_ms, 0 AS first_unix_ms, \
                           0 AS last_unix_ms, NULL AS key, NULL AS alias, '' AS reason, 0 AS status, 0 AS count WHERE 0;";

impl Sqlite {
    /// Opens a monitor's database read-only as if it were a log: the endpoint is the lane, the workload is what was asked for, and
    /// each request is a call of its own.
    ///
    /// # Errors
    /// When there is no such file, or it is no monitor's database of a known form.
    pub fn open_probes(path: &Path, source: SampleSource) -> Result<Sqlite, StoreError> {
        let database = Database::open_reader(path, &MONITOR)?;
        let view = view(source);
        database.connection.execute_batch(&view).map_err(|error| database.error(&error))?;
        Ok(Sqlite::of_probes(database, source))
    }
}

/// Views of this connection alone; they stand before the tables of a log, which the file has not.
fn view(source: SampleSource) -> String {
    let (measured, shared) = sample_columns();
    let measured = measured.iter().map(|name| format!("p.{name} AS {name}"));
    let shared = shared.iter().map(|name| format!("s.{name} AS {name}"));
    let columns: Vec<String> = measured.chain(shared).collect();
    format!(
        "CREATE TEMP VIEW attempts AS SELECT p.id AS id, p.probe AS call, 0 AS attempt, 'first' AS role, \
         CASE WHEN p.reason IS NULL THEN 'answered' ELSE 'failed' END AS end, 1 AS won, NULL AS key, \
         s.workload AS alias, s.endpoint AS lane, s.dialect_out AS dialect_in, NULL AS session, NULL AS overhead_ns, \
         NULL AS responses, NULL AS response_bytes, NULL AS hold_ns, NULL AS expected_cached_tokens, {} \
         FROM probes p JOIN series s ON s.id = p.series WHERE s.source = '{}' AND p.quarantine IS NULL;{NO_REFUSALS}",
        columns.join(", "),
        source.name()
    )
}
