//! The servers and the floor against each other, over loopback. Nothing here looks at how long anything took.

use super::blast::Blast;
use super::events::Script;
use super::floor::{FloorTask, measure};
use super::paced::{Pace, Paced};
use super::stream::Tls;

#[test]
fn the_floor_counts_every_line_that_the_blast_server_writes_plain_and_over_tls() {
    let folder = super::tempfolder().expect("a folder");
    let tls = Tls::make(&folder).expect("certificates");
    for (events_per_write, tls) in [(1, None), (64, None), (1, Some(&tls)), (64, Some(&tls))] {
        let server = Blast::start(vec![Script::new(500, events_per_write, true)], 1, true, tls).expect("starts");
        let tls = tls.cloned();
        let task = FloorTask { address: server.address, connections: 5, requests: 20, warmup: 0, body_bytes: 100, tls };
        let measured = measure(&task).expect("measures");
        let rows = measured["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 20);
        // The role, 500 texts, the finish reason, the end mark.
        assert!(rows.iter().all(|row| row["text_events"] == 503 && row["failure"].is_null()), "{rows:?}");
    }
    std::fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn a_cut_answer_ends_without_its_end_mark() {
    let server = Blast::start(vec![Script::new(20, 1, false)], 1, true, None).expect("starts");
    let task =
        FloorTask { address: server.address, connections: 1, requests: 1, warmup: 0, body_bytes: 100, tls: None };
    let measured = measure(&task).expect("measures");
    assert_eq!(measured["rows"][0]["text_events"], 21);
    assert_eq!(measured["rows"][0]["failure"]["kind"], "truncated");
}

#[test]
fn the_paced_server_logs_every_write_in_its_order() {
    let pace = Pace { ttft_ns: 2_000_000, gap_ns: 500_000, events: 5, spread: 3, tokens_per_event: 4 };
    let server = Paced::start(pace, None).expect("starts");
    let task =
        FloorTask { address: server.address, connections: 4, requests: 12, warmup: 0, body_bytes: 100, tls: None };
    let measured = measure(&task).expect("measures");
    let mut truths = server.finish().expect("ends well");
    truths.sort_by_key(|truth| truth.index);
    assert_eq!(truths.len(), 12);
    for (index, truth) in (0..).zip(&truths) {
        assert_eq!(truth.index, Some(index));
        assert!(truth.complete);
        assert_eq!(truth.writes.len(), pace.events_of(index) as usize);
        assert!(truth.writes[0] >= truth.read_at + pace.ttft_ns, "no text before it is due");
        assert!(truth.writes.windows(2).all(|pair| pair[0] < pair[1]));
    }
    for row in measured["rows"].as_array().expect("rows") {
        let truth = &truths[row["index"].as_u64().expect("an index") as usize];
        // The finish reason and the end mark come with the last text.
        assert_eq!(row["text_events"].as_u64(), Some(truth.writes.len() as u64 + 2));
        assert!(row["first_text_at_ns"].as_u64() >= Some(truth.writes[0]));
        assert!(row["last_text_at_ns"].as_u64() >= truth.writes.last().copied());
    }
}
