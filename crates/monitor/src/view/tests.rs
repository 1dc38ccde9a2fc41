//! What a board is made of a small database.

use super::*;
use crate::testing::Folder;
use std::path::PathBuf;
use tokrate_core::FailureKind;
use tokrate_record::{Probe, Sample};
use tokrate_store::{MonitorStore, MonitorWrite};

const HOUR: u64 = 3_600_000;
const NOW: u64 = 1_780_000_000_000;

fn probe(id: &str, cycle: &str, slot: u64, sample: Sample) -> MonitorWrite {
    let probe = Probe {
        id: id.to_owned(),
        source: SampleSource::Monitor,
        endpoint: "north/large".to_owned(),
        workload: "1k-1k".to_owned(),
        place: "fra".to_owned(),
        prober: "p".to_owned(),
        quarantine: Some(CYCLE_IS_OPEN.to_owned()),
        sample: Sample { provider: "north".to_owned(), model: "large".to_owned(), started_unix_ms: slot, ..sample },
        ..Probe::default()
    };
    MonitorWrite::Probe(Box::new(ProbeRow {
        probe,
        cycle: cycle.to_owned(),
        slot_unix_ms: slot,
        ..ProbeRow::default()
    }))
}

fn begun(cycle: &str, at_unix_ms: u64) -> MonitorWrite {
    let (cycle, prober, place) = (cycle.to_owned(), "p".to_owned(), "fra".to_owned());
    MonitorWrite::CycleBegun { cycle, prober, place, at_unix_ms }
}

fn ended(cycle: &str, at_unix_ms: u64, quarantine: Option<&str>) -> MonitorWrite {
    let (cycle, quarantine) = (cycle.to_owned(), quarantine.map(str::to_owned));
    MonitorWrite::CycleEnded { cycle, at_unix_ms, reference: "{}".to_owned(), quarantine }
}

#[test]
fn slots_share_a_weight_and_open_cycles_are_left_out() {
    let folder = Folder::new("view-rows");
    let (mut store, _) = MonitorStore::open(&folder.0.join("tokrate-monitor.db"), NOW).expect("a new database");
    let answered = || Sample {
        ttft_ns: Some(250_000_000),
        output_speed: Some(90.0),
        total_ns: 4_000_000_000,
        in_flight: 1,
        ..Sample::default()
    };
    let failed = Sample { failure: Some(FailureKind::RateLimited), total_ns: 9, ..Sample::default() };
    let old = NOW - 31 * 24 * HOUR;
    let writes = [
        begun("a", NOW - 3 * HOUR),
        probe("1", "a", NOW - 3 * HOUR, answered()),
        probe("2", "a", NOW - 3 * HOUR, failed),
        ended("a", NOW - 2 * HOUR, None),
        begun("b", NOW - HOUR),
        probe("3", "b", NOW - HOUR, answered()),
        ended("b", NOW - HOUR, Some("the resolver failed")),
        begun("c", NOW),
        probe("4", "c", NOW, answered()),
        begun("old", old),
        probe("5", "old", old, answered()),
        ended("old", old, None),
    ];
    store.apply(&writes).expect("a database");
    let frame = BoardFrame { title: "t".to_owned(), ..BoardFrame::default() };
    let data = board_data(&store, &frame, NOW).expect("a database");
    assert_eq!((data.title.as_str(), data.series.len()), ("t", 1));
    let series = &data.series[0];
    assert_eq!((series.endpoint.as_str(), series.provider.as_str(), series.points.len()), ("north/large", "north", 3));
    let [one, two, three] = &series.points[..] else { panic!("three points") };
    assert_eq!((one.ttft_ms, one.output_speed, one.e2e_ms, one.weight), (Some(250.0), Some(90.0), Some(4_000.0), 0.5));
    assert_eq!((two.failure, two.e2e_ms, two.weight), (Some(FailureKind::RateLimited), None, 0.5));
    assert_eq!((three.quarantine.as_deref(), three.weight), (Some("the resolver failed"), 1.0));
    assert_eq!(store.newest_probe().expect("a database"), Some(NOW));
}

#[test]
fn prices_are_those_of_a_million_tokens() {
    let settings = crate::demo::settings(&crate::demo::DemoConfig { seed: 1 }, &PathBuf::from("none.db"), "0");
    let settings = settings.expect("the demo's settings");
    let frame = BoardFrame::of(&settings, "t", "");
    let written = settings.endpoints[0].price.expect("a price").output.as_usd();
    assert_eq!(frame.prices.len(), settings.endpoints.len());
    assert_eq!(frame.prices[0].output_usd_per_million, written);
    assert!((0.01..100.0).contains(&written), "dollars for a million tokens: {written}");
}
