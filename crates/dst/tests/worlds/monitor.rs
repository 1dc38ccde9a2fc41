//! Weeks of a monitor: whatever happens to it, nothing is lost, probed twice or reported twice.

use std::path::PathBuf;
use tokrate_dst::monitor::{BEGUN_UNIX_MS, DAY_MS, History, Scenario, check, run};

/// A folder for one database; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("dst-monitor-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn history(scenario: &Scenario, name: &str) -> History {
    let folder = Folder::new(name);
    run(scenario, &folder.0.join("monitor.db")).expect("a database")
}

#[test]
fn whatever_happens_to_a_prober_nothing_is_lost_or_done_twice() {
    let seeds: u64 = std::env::var("TOKRATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    let (mut alerts, mut refused, mut unsure) = (0, 0, 0);
    for seed in 0..seeds {
        let scenario = Scenario::of_seed(seed);
        let history = history(&scenario, "swarm");
        let wrong = check(&scenario, &history);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}\n{scenario:?}\n{:?}", history.notices);
        assert!(!history.kept.is_empty());
        alerts += history.alerts.len();
        refused += history.refused;
        unsure += history.unsure;
    }
    // The checks of alerts had something to check.
    assert!(alerts as u64 > seeds && refused > seeds / 4, "{alerts} alerts, {refused} refused, {unsure} unsure");
}

#[test]
fn the_same_scenario_has_the_same_history() {
    let scenario = Scenario::of_seed(3);
    let (one, other) = (history(&scenario, "same-1"), history(&scenario, "same-2"));
    assert_eq!((one.kept, one.events, one.notices), (other.kept, other.events, other.notices));
}

#[test]
fn a_drop_is_found_in_two_months_and_nothing_is_missed() {
    let scenario = Scenario::months(6, 50);
    let history = history(&scenario, "months");
    assert_eq!(check(&scenario, &history), [] as [String; 0]);
    let drop_at = (BEGUN_UNIX_MS + 40 * DAY_MS) as i64;
    let found = history.events.iter().find(|event| {
        event.endpoint == "p0/m"
            && event.metric == "output_speed"
            && event.kind == "regression"
            && event.at_unix_ms >= drop_at
    });
    let found = found.expect("the drop is found");
    assert!(found.at_unix_ms - drop_at < 3 * DAY_MS as i64 && found.low < -0.3 && found.high > -0.5, "{found:?}");
}
