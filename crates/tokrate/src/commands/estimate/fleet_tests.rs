//! What people see of fleets and of hosted endpoints.

use super::{fleet, hosted};
use crate::flags::estimate::{FitApiFlags, FleetFlags, LoadFlags, ObjectiveFlags};
use crate::out::estimate as out;
use tokrate_estimate::Estimator;

fn flags() -> FleetFlags {
    FleetFlags {
        model: "llama-3.3-70b".to_owned(),
        hardware: vec!["h100-sxm=2.5".to_owned(), "h200".to_owned()],
        precision: vec!["fp8".to_owned()],
        most_tp: 4,
        load: LoadFlags { isl: 400, osl: 20, length_cv: 0.2, ..LoadFlags::default() },
        objectives: ObjectiveFlags { slos: vec!["ttft p95 < 1s".to_owned(), "output_speed p5 > 40".to_owned()] },
        users: Some(3000),
        think: Some("5s".to_owned()),
        peak: 3.0,
        api_price: vec!["api=0.3:0.6".to_owned()],
        ..FleetFlags::default()
    }
}

#[test]
fn the_cheapest_fleets() {
    let shown = fleet::found(&Estimator::embedded(), &flags()).expect("devices that hold it");
    insta::assert_snapshot!("fleet", out::fleet::text(&shown));
    let json = out::fleet::json(&shown);
    assert!(json["fleets"][0]["carries"]["value"].as_f64() >= Some(3000.0), "{json}");
    let page = out::fleet::html(&shown);
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg") && page.contains("Dollars a month"));
    let spare = fleet::found(&Estimator::embedded(), &FleetFlags { spare: true, ..flags() }).expect("an answer");
    assert!(spare.fleets[0].one_lost >= 3000.0);
}

#[test]
fn objectives_that_no_fleet_keeps_are_said() {
    let objectives = ObjectiveFlags { slos: vec!["output_speed p5 > 5000".to_owned()] };
    let shown = fleet::found(&Estimator::embedded(), &FleetFlags { objectives, ..flags() }).expect("an answer");
    assert!(shown.fleets.is_empty());
    insta::assert_snapshot!("fleet_of_nothing", out::fleet::text(&shown));
}

#[test]
fn what_is_no_fleet_is_refused() {
    let refused = |change: fn(&mut FleetFlags)| {
        let mut flags = flags();
        change(&mut flags);
        fleet::found(&Estimator::embedded(), &flags).map(|_| ()).expect_err("refused").to_string()
    };
    let lines = [
        refused(|flags| flags.users = Some(0)),
        refused(|flags| flags.peak = 0.5),
        refused(|flags| flags.peak = f64::NAN),
        refused(|flags| flags.hardware = vec!["h900".to_owned()]),
        refused(|flags| flags.hardware = vec!["h100=0".to_owned()]),
        refused(|flags| flags.hardware = vec!["h20".to_owned()]),
        refused(|flags| {
            flags.hardware = vec!["rtx-4090=0.4".to_owned()];
            flags.most_tp = 1;
        }),
        refused(|flags| flags.precision = vec!["float3".to_owned()]),
        refused(|flags| flags.model = "llama-9-70b".to_owned()),
        refused(|flags| flags.api_price = vec!["api".to_owned()]),
        refused(|flags| flags.most_tp = 0),
        refused(|flags| flags.api_curve = vec!["missing.json".into()]),
    ];
    insta::assert_snapshot!("fleet_refused", lines.join("\n"));
}

/// The path of a file with this text; it is removed with the folder of temporary files.
fn file(name: &str, text: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("tokrate-{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn a_record_becomes_a_law_that_a_chain_takes() {
    let record = file("law-record.json", include_str!("../../out/testdata/record.json"));
    let fit = |change: fn(&mut FitApiFlags)| {
        let mut flags = FitApiFlags { records: vec![record.clone()], osl: 100, ..FitApiFlags::default() };
        change(&mut flags);
        hosted::fitted(&flags)
    };
    let shown = fit(|flags| flags.slos = vec!["ttft p95 < 1s".to_owned()]).expect("calls");
    let text = out::hosted::text(&shown).replace(&record.display().to_string(), "record.json");
    insta::assert_snapshot!("fit_api", text);
    assert!(out::hosted::html(&shown).contains("<svg") && out::hosted::json(&shown)["calls"].as_u64() > Some(20));
    let beyond = fit(|flags| flags.concurrency = vec![500]).map(|_| ()).expect_err("far beyond");
    assert!(beyond.to_string().contains("in flight"), "{beyond}");
    let law = file("law.json", &serde_json::to_string(&shown.hosted).expect("plain data"));
    let users = shown.hosted.load.0;
    let chain = format!(
        "name = \"c\"\n[speeds.api]\ncurve = {:?}\nusers = {users}\nfree = true\n[[steps]]\nname = \"a\"\nrole = \"api\"\ninput = 200\noutput = 100\n",
        law.display().to_string()
    );
    let planned = super::chain::planned(&Estimator::embedded(), &chain).expect("a chain");
    let seconds = tokrate_estimate::traffic::quantile(&planned.plans[0].outcome.seconds, 0.5);
    let expected = shown.hosted.expected(users, 200.0).expect("as measured");
    let by_hand = expected.ttft.value + 99.0 / expected.speed.value;
    assert!((seconds / by_hand - 1.0).abs() < 0.05, "{seconds} for {by_hand}");
    let long = chain.replace("input = 200", "input = 90000");
    let error =
        format!("{:#}", super::chain::planned(&Estimator::embedded(), &long).map(|_| ()).expect_err("too long"));
    assert!(error.contains("prompt tokens"), "{error}");
    for path in [record, law] {
        std::fs::remove_file(path).expect("removed");
    }
}
