//! Compares the client's measurements with the engine's log of the same requests.
//!
//! Invariant: a request that the log lacks is left out.

use tokrate_core::{Sketch, Tick};
use tokrate_host::{Kinds, Truth};
use tokrate_meter::request::Chunk;
use tokrate_meter::{ClientBias, ClientError, ClientErrorSource, RequestNumbers};

/// The requests of the client with the same as the engine's log has them; `id_prefix` and its index name a request there.
fn logged<'a>(rows: &'a [RequestNumbers], id_prefix: &str, truth: &Truth) -> Vec<(&'a RequestNumbers, RequestNumbers)> {
    let pairs = rows.iter().filter_map(|row| {
        let written = truth.request(&format!("{id_prefix}-{}", row.index))?;
        let texts = written.writes.iter().filter(|write| write.tokens > 0);
        let chunks =
            texts.map(|write| Chunk { at: write.written_at, tokens: write.tokens, events: write.events }).collect();
        let done = written.writes.iter().rfind(|write| write.kinds.contains(Kinds::DONE)).or(written.writes.last())?;
        Some((row, row.with_server_times(written.received_at, chunks, done.written_at)))
    });
    pairs.collect()
}

/// Compares what the client measured with what the engine wrote, request by request.
///
/// Added TTFT = the client's TTFT minus (first text written minus request received). Added gap = how much the delay
/// between a write and its arrival changed from one chunk to the next.
pub fn compare_with_log(
    source: ClientErrorSource,
    rows: &[RequestNumbers],
    id_prefix: &str,
    truth: &Truth,
    lateness: &Sketch,
) -> ClientError {
    let pairs = logged(rows, id_prefix, truth);
    let measured = pairs.iter().filter(|(row, _)| row.failure.is_none() && !row.warmup);
    let (seen, logged): (Vec<&RequestNumbers>, Vec<&RequestNumbers>) = measured.map(|(row, log)| (*row, log)).unzip();
    let both = || seen.iter().zip(&logged);
    let mut ttft_added: Vec<i64> =
        both().filter_map(|(row, log)| Some(row.ttft_ns? as i64 - log.ttft_ns? as i64)).collect();
    let mut gap_added: Vec<u64> = both().flat_map(|(row, log)| gaps_added(row, log)).collect();
    ttft_added.sort_unstable();
    gap_added.sort_unstable();
    ClientError {
        source,
        ttft_added_p50_ns: rank(&ttft_added, 0.5),
        ttft_added_p99_ns: rank(&ttft_added, 0.99),
        gap_added_p50_ns: rank(&gap_added, 0.5),
        gap_added_p99_ns: rank(&gap_added, 0.99),
        moved: (!seen.is_empty()).then(|| match source {
            ClientErrorSource::Truth => ClientBias::between(&seen, &logged),
            _ => ClientBias::expected_between(&seen, &logged),
        }),
        engine_lateness_p99_ns: lateness.quantile(0.99),
        n: ttft_added.len() as u64,
        ..ClientError::default()
    }
}

/// By how much each gap that the client saw differs from that between the writes, as a size (ns).
fn gaps_added(row: &RequestNumbers, log: &RequestNumbers) -> Vec<u64> {
    let gap = |pair: &[(Tick, Tick)]| ((pair[1].0 - pair[0].0).as_nanos(), (pair[1].1 - pair[0].1).as_nanos());
    arrivals(row, log).windows(2).map(gap).map(|(seen, written)| seen.abs_diff(written)).collect()
}

/// When each chunk that the client saw arrived, and when its last byte was written.
fn arrivals(row: &RequestNumbers, log: &RequestNumbers) -> Vec<(Tick, Tick)> {
    // A chunk that the client saw ends with the write up to which the engine had written as many tokens.
    let mut arrivals = Vec::with_capacity(row.chunk_list.len());
    let mut writes = log.chunk_list.iter();
    let (mut seen, mut written, mut written_at) = (0_u64, 0_u64, None);
    for chunk in &row.chunk_list {
        seen += u64::from(chunk.tokens);
        while written < seen {
            let Some(write) = writes.next() else { break };
            written += u64::from(write.tokens);
            written_at = Some(write.at);
        }
        arrivals.extend(written_at.filter(|_| written == seen).map(|written_at| (chunk.at, written_at)));
    }
    arrivals
}

/// The nearest-rank quantile of sorted values.
fn rank<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokrate_host::{RequestTruth, WriteTruth};
    use tokrate_wire::Dialect;

    const MS: u64 = 1_000_000;

    fn write(at: u64, tokens: u32, kinds: Kinds) -> WriteTruth {
        let written_at = Tick::from_nanos(at * MS);
        WriteTruth { sequence: 0, due_at: written_at, written_at, tokens, events: tokens.min(1), kinds, bytes: 9 }
    }

    /// Received at 2 ms; a role at 5 ms, three tokens at 12, 22 and 42 ms, the end at 43 ms.
    fn logged_request(id: &str) -> Arc<RequestTruth> {
        let texts = [12, 22, 42].map(|at| write(at, 1, Kinds::TEXT));
        let mut writes = vec![write(5, 0, Kinds::ROLE)];
        writes.extend(texts);
        writes.push(write(43, 0, Kinds::DONE));
        Arc::new(RequestTruth {
            request: 0,
            persona: "sim".into(),
            dialect: Dialect::OpenAiChat,
            id: Some(id.to_owned()),
            received_at: Tick::from_nanos(2 * MS),
            submitted_at: Tick::from_nanos(2 * MS),
            input_tokens: 1,
            output_limit: None,
            stream: true,
            pictures: 0,
            pixels: 0,
            sound: tokrate_core::Span::ZERO,
            writes,
            end: None,
        })
    }

    /// Due at 0, sent at 1 ms, over at 46 ms; the second and third tokens came in one read.
    fn row(index: u64) -> RequestNumbers {
        let chunk = |at: u64, tokens| Chunk { at: Tick::from_nanos(at * MS), tokens, events: tokens };
        RequestNumbers {
            index,
            sent_at_ns: Some(MS),
            ended_at_ns: 46 * MS,
            ttft_ns: Some(13 * MS),
            e2e_ns: Some(45 * MS),
            tokens_std: 3,
            tokens_first_chunk: 1,
            chunk_list: vec![chunk(14, 1), chunk(45, 2)],
            ..RequestNumbers::default()
        }
    }

    fn error(rows: &[RequestNumbers]) -> ClientError {
        let truth = Truth::new(vec![logged_request("7-0"), logged_request("7-1")], 0);
        compare_with_log(ClientErrorSource::Truth, rows, "7", &truth, &Sketch::new())
    }

    #[test]
    fn each_figure_is_held_against_the_same_of_the_log() {
        let error = error(&[row(0)]);
        // 13 ms where the log has 10; the gap of 31 ms where 30 were written.
        assert_eq!((error.n, error.ttft_added_p50_ns, error.gap_added_p50_ns), (1, Some(3 * MS as i64), Some(MS)));
        let moved = error.moved.expect("a request was joined");
        assert_eq!((moved.ttft_p50_ms, moved.ttft_p99_ms), (Some(3.0), Some(3.0)));
        // 15.5 ms for each of two tokens, where 10 and 20 ms were written.
        assert_eq!((moved.itl_p50_ms, moved.itl_p99_ms), (Some(5.5), Some(-4.5)));
        // Due to over is 46 ms, of which the engine had it for 41.
        assert_eq!((moved.e2e_p50_ms, moved.slot_mean_ms), (Some(4.0), Some(5.0)));
        assert_eq!((moved.tpot_p50_ms, moved.later_tokens), (None, 2.0), "two tokens have no speed");
    }

    #[test]
    fn what_the_log_lacks_failed_or_warmed_up_is_left_out() {
        let failed = |row: RequestNumbers| {
            let kind = tokrate_core::FailureKind::Truncated;
            let failure = tokrate_meter::FailureRow { kind, message: String::new(), retry_after_ns: None };
            RequestNumbers { failure: Some(failure), ..row }
        };
        let rows = [row(2), failed(row(0)), RequestNumbers { warmup: true, ..row(1) }];
        let error = error(&rows);
        assert_eq!((error.n, error.moved, error.ttft_added_p50_ns), (0, None, None));
        assert_eq!(error.engine_lateness_p99_ns, None);
    }
}
