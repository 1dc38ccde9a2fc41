//! What people see of chains, and what is refused of them.

use super::chain::{EXAMPLES, check, planned};
use super::*;
use crate::out::estimate as out;

#[test]
fn the_examples() {
    for (name, text) in EXAMPLES {
        let shown = planned(&Estimator::embedded(), text).expect(name);
        insta::assert_snapshot!(format!("chain_{name}"), out::chain::text(&shown));
        let json = out::chain::json(&shown);
        assert!(json["plans"][0]["seconds"]["p95"].as_f64() > json["plans"][0]["seconds"]["p50"].as_f64());
        let page = out::chain::html(&shown);
        assert!(page.matches("<svg").count() > shown.plans.len(), "a distribution, and a Gantt chart for each plan");
    }
}

const SPEED: &str = "name = \"x\"\n[speeds.a]\nttft = \"1s\"\noutput_speed = 50\n";

#[test]
fn impossible_chains_are_refused_by_name() {
    let step = "[[steps]]\nname = \"s\"\nrole = \"a\"\noutput = 5\n";
    let texts = [
        "name = \"x\"\n".to_owned(),
        format!("{SPEED}[[steps]]\nname = \"s\"\nrole = \"b\"\n"),
        format!("{SPEED}{step}{step}"),
        format!("{SPEED}{step}after = [\"t\"]\n"),
        format!("{SPEED}{step}after = [\"t\"]\n[[steps]]\nname = \"t\"\nrole = \"a\"\nafter = [\"s\"]\n"),
        format!("{SPEED}{step}colour = \"red\"\n"),
        format!("{SPEED}{step}tool = \"soon\"\n"),
        format!("{SPEED}{step}tool = {{ p50 = \"3s\", p95 = \"1s\" }}\n"),
        format!("{SPEED}{step}input = nan\n"),
        format!("{SPEED}[plans.p]\nb = \"a\"\n{step}"),
        format!("{SPEED}[plans.p]\na = \"c\"\n{step}"),
        format!("{SPEED}price = {{ input = 0, output = 0 }}\n{step}"),
        format!("{SPEED}listed = \"nobody/model\"\n{step}"),
        format!("{SPEED}failures = 1\n{step}"),
        format!("{SPEED}model = \"llama-3.1-8b\"\n{step}"),
        "name = \"x\"\n[speeds.a]\nlog = \"gateway.db\"\n".to_owned(),
        "name = \"x\"\n[speeds.a]\nttft = \"1s\"\noutput_speed = 0\n".to_owned(),
        "name = \"x\"\n[speeds.a]\noutput_speed = 10\n".to_owned(),
    ];
    let errors: Vec<String> =
        texts.iter().map(|text| format!("{:#}", check(text).map(|_| ()).expect_err(text))).collect();
    insta::assert_snapshot!("chain_refused", errors.join("\n---\n"));
}

#[test]
fn times_come_from_a_record_of_a_bench() {
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/src/out/testdata/record.json");
    let text = format!(
        "name = \"x\"\n[speeds.a]\nrecord = {record:?}\nfree = true\n[[steps]]\nname = \"s\"\nrole = \"a\"\noutput = 100\nrepeat = 3\n"
    );
    let shown = planned(&Estimator::embedded(), &text).expect("a record with requests");
    let seconds = &shown.plans[0].outcome.seconds;
    assert!(seconds[0] > 0.0 && shown.notes[0].starts_with("a: drawn from the level"), "{:?}", shown.notes);
    let text = text.replace("free = true", "free = true\nconcurrency = 7777");
    let error = planned(&Estimator::embedded(), &text).map(|_| ()).expect_err("no such level");
    assert!(error.to_string().contains("no such level"), "{error}");
}
