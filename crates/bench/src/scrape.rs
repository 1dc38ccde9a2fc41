//! Reads a server's metrics page before and after a phase, for the difference. A page that cannot be read is a note, not an error.
//!
//! Invariant: requests are GET only.

use crate::page_reader::PageReader;
use crate::readings::Readings;
use std::time::Duration;
use tokrate_meter::RequestNumbers;
use tokrate_meter::server_metrics::{ClientTotals, Exposition, MetricsSnapshot, ServerReport};

/// Engines count a request slightly after its last byte, so the page is read again until all are counted.
const MAX_RETRIES: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The page of one server.
pub(crate) struct Scraper {
    reader: PageReader,
    model: String,
    /// Whether answers are streamed; the first token of one that is not comes with the last.
    streaming: bool,
    /// Where every page that is read is kept.
    readings: Readings,
    /// Why the page could not be read.
    pub note: Option<String>,
}

impl Scraper {
    /// For the server's page, as the endpoint is reached.
    pub fn new(reader: PageReader, model: &str, streaming: bool, readings: Readings) -> Scraper {
        Scraper { reader, model: model.to_owned(), streaming, readings, note: None }
    }

    /// The page as it is now; `None` if it could not be read, with a note.
    pub fn page(&mut self) -> Option<Exposition> {
        match self.reader.read() {
            Ok((at, page)) => {
                self.readings.add_engine(self.reader.engine(at, &page, &self.model));
                Some(page)
            }
            Err(reason) => {
                self.note = Some(format!(
                    "the server's own metrics were not read: {reason}; some servers publish them only when told to (docs/targets.md); --server-metrics off leaves them out"
                ));
                None
            }
        }
    }

    /// The server's counts since `before`, next to the client's figures.
    pub fn report_since(&mut self, before: &Exposition, rows: &[RequestNumbers]) -> Option<ServerReport> {
        let mut client = ClientTotals::of(rows);
        if !self.streaming {
            (client.ttft_mean_ms, client.ttft_p50_ms) = (None, None);
        }
        for _ in 0..MAX_RETRIES {
            let truth = self.truth(before, &client)?;
            if counts_all(&truth) {
                return Some(truth);
            }
            std::thread::sleep(RETRY_AFTER);
        }
        self.truth(before, &client)
    }

    fn truth(&mut self, before: &Exposition, client: &ClientTotals) -> Option<ServerReport> {
        let after = self.page()?;
        let family = self.reader.family();
        let reading = MetricsSnapshot::of(&after, family, &self.model)?;
        // A server may publish its metrics only after the first request.
        let empty = Exposition::default();
        let earlier = MetricsSnapshot::of(before, family, &self.model).unwrap_or_else(|| reading.zeroed(&empty));
        Some(ServerReport::between(&self.reader.url(), &earlier, &reading, client.clone()))
    }
}

/// Whether the server has counted everything that the client saw.
fn counts_all(truth: &ServerReport) -> bool {
    let requests = truth.requests.is_none_or(|requests| requests >= truth.client.answered);
    let tokens = truth.output_tokens.zip(truth.client.output_tokens).is_none_or(|(server, client)| server >= client);
    requests && tokens
}
