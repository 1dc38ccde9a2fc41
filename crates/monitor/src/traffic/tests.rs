//! What the watch finds in a log of simulated weeks: a slow lane, and no change where only the load rose.

use super::*;
use crate::testing::Folder;
use tokrate_core::Rng;
use tokrate_detect::ChangeKind;
use tokrate_record::Sample as Numbers;

const DAY_MS: u64 = 86_400_000;
const BEGIN_MS: u64 = 20_000 * DAY_MS;

/// Twenty days of two lanes with four calls in each hour. From noon on each day there are sixteen open requests in place of one, and
/// speeds are a third; `alter` changes the speed by lane and time.
fn log(folder: &Folder, alter: impl Fn(&str, u64) -> f64) -> PathBuf {
    let path = folder.0.join("log.db");
    let mut store = Sqlite::open(&path).expect("a log");
    let mut rng = Rng::root(5);
    let mut rows = Vec::new();
    for quarter in 0..20 * 96 {
        let at = BEGIN_MS + quarter * STEP_MS;
        for lane in ["fast", "slow"] {
            let is_loaded = quarter % 96 >= 48;
            let speed = 100.0 * (0.1 * rng.normal()).exp() * if is_loaded { 0.33 } else { 1.0 } * alter(lane, at);
            rows.push(Attempt {
                call: format!("{lane}-{quarter}"),
                lane: lane.to_owned(),
                alias: "chat".to_owned(),
                sample: Numbers {
                    started_unix_ms: at + 1_000,
                    in_flight: if is_loaded { 16 } else { 1 },
                    input_tokens: Some(500),
                    output_speed: Some(speed),
                    total_ns: 1_000_000,
                    ..Numbers::default()
                },
                ..Attempt::default()
            });
        }
    }
    store.append(&rows).expect("rows");
    path
}

fn watch(path: PathBuf) -> Vec<Event> {
    let now = BEGIN_MS + 20 * DAY_MS + STEP_MS + SETTLE_MS;
    let mut watch = TrafficWatch::new(path, now);
    let mut events = Vec::new();
    loop {
        let found = watch.poll(now).expect("the log is read");
        events.extend(found.events);
        if !found.is_behind {
            break;
        }
    }
    assert!(watch.poll(now).expect("nothing is due").events.is_empty(), "each quarter is read once");
    events
}

#[test]
fn a_lane_that_got_slow_is_found_within_hours_and_no_other() {
    let began = BEGIN_MS + 15 * DAY_MS;
    let folder = Folder::new("traffic-slow");
    let path = log(&folder, |lane, at| if lane == "slow" && at >= began { 0.75 } else { 1.0 });
    let found: Vec<Event> = watch(path).into_iter().filter(|event| event.kind == ChangeKind::Regression).collect();
    let [event] = &found[..] else { panic!("{found:?}") };
    let delay_hours = (event.at as u64 - began) / 3_600_000;
    assert!(event.source.endpoint == "slow" && event.metric == "output_speed" && delay_hours < 12, "{event:?}");
    assert!(event.low <= -0.25 && -0.25 <= event.high, "{event:?}");
}

#[test]
fn a_load_that_rises_for_good_is_no_regression() {
    // From the fifteenth day on there is load all day: the speeds are those of that load.
    let folder = Folder::new("traffic-load");
    let path = folder.0.join("log.db");
    let mut store = Sqlite::open(&path).expect("a log");
    let mut rng = Rng::root(6);
    let rows: Vec<Attempt> = (0..20 * 96)
        .map(|quarter| {
            let is_loaded = quarter % 96 >= 48 || quarter >= 15 * 96;
            Attempt {
                call: format!("{quarter}"),
                lane: "one".to_owned(),
                sample: Numbers {
                    started_unix_ms: BEGIN_MS + quarter * STEP_MS,
                    in_flight: if is_loaded { 16 } else { 1 },
                    output_speed: Some(100.0 * (0.1 * rng.normal()).exp() * if is_loaded { 0.33 } else { 1.0 }),
                    total_ns: 1_000_000,
                    ..Numbers::default()
                },
                ..Attempt::default()
            }
        })
        .collect();
    store.append(&rows).expect("rows");
    let found = watch(path);
    assert!(found.is_empty(), "{found:?}");
}
