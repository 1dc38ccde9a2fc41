//! What people see of capacity, cost, what-if and claims.

use super::*;
use crate::flags::estimate::{CapacityFlags, ClaimFlags, CostFlags, LoadFlags, ObjectiveFlags, Subject, WhatIfFlags};
use crate::out::estimate as out;

fn subject() -> Subject {
    Subject {
        model: "llama-3.3-70b".to_owned(),
        hardware: "h100-sxm".to_owned(),
        gpus: 4,
        precision: Some("fp8".to_owned()),
        engine: Some("vllm".to_owned()),
        ..Subject::default()
    }
}

fn load() -> LoadFlags {
    LoadFlags { isl: 400, osl: 20, length_cv: 0.2, ..LoadFlags::default() }
}

fn capacity_flags(slos: &[&str]) -> CapacityFlags {
    CapacityFlags {
        subject: subject(),
        load: load(),
        objectives: ObjectiveFlags { slos: slos.iter().map(|slo| (*slo).to_owned()).collect() },
        users: Some(500),
        think: Some("5s".to_owned()),
        ..CapacityFlags::default()
    }
}

#[test]
fn the_users_that_are_carried() {
    let estimator = Estimator::embedded();
    let shown =
        capacity::found(&estimator, &capacity_flags(&["ttft p95 < 1s", "output_speed p5 > 40"])).expect("carries");
    insta::assert_snapshot!("capacity", out::capacity::text(&shown));
    let json = out::capacity::json(&shown);
    assert!(json["carries"]["value"].as_f64() > Some(1.0) && json["curve"].as_array().is_some_and(|all| all.len() > 3));
    let page = out::capacity::html(&shown);
    assert!(page.starts_with("<!doctype html>") && page.contains("carries") && page.contains("<svg"));
}

#[test]
fn objectives_that_nothing_keeps_name_the_nearest() {
    let flags = capacity_flags(&["ttft p95 < 1s", "output_speed p5 > 4000"]);
    let shown = capacity::found(&Estimator::embedded(), &flags).expect("an answer");
    assert!(!shown.carries());
    insta::assert_snapshot!("capacity_of_nothing", out::capacity::text(&shown));
}

#[test]
fn costs_against_the_catalog() {
    let flags = CostFlags {
        subject: Subject { price: Some(2.5), ..subject() },
        load: load(),
        objectives: ObjectiveFlags { slos: vec!["output_speed p5 > 40".to_owned(), "ttft p95 < 2s".to_owned()] },
        api_price: vec!["mine=0.01:0.02".to_owned(), "other=0.5:1.5:0.1".to_owned()],
        api_curve: Vec::new(),
        requests_a_month: Some(2e7),
        peak: 3.0,
        html: None,
        json: false,
    };
    let shown = cost::compared(&Estimator::embedded(), &flags).expect("a comparison");
    insta::assert_snapshot!("cost", out::cost::text(&shown));
    let json = out::cost::json(&shown);
    assert!(json["apis"].as_array().is_some_and(|all| all.len() > 3) && json["own"][0]["dollars_hour"] == 10.0);
}

#[test]
fn what_one_change_does() {
    let change =
        ["precision=bf16", "precision=int4", "gpus=1", "hardware=rtx-4090", "hardware=m4-max", "speculation=3:0.7"];
    let flags = WhatIfFlags {
        subject: Subject { gpus: 2, ..subject() },
        load: load(),
        users: 8,
        change: change.iter().map(|text| (*text).to_owned()).collect(),
        json: false,
    };
    let shown = what_if::changed(&Estimator::embedded(), &flags).expect("the base runs");
    insta::assert_snapshot!("what_if", out::what_if::text(&shown));
    assert!(out::what_if::json(&shown)["changes"][3]["refused"].is_string());
}

fn claim(model: Subject, speed: Option<f64>, speedup: Option<f64>, from: Option<&str>) -> String {
    let flags = ClaimFlags {
        subject: model,
        speed,
        speedup,
        from: from.map(str::to_owned),
        concurrency: 1,
        isl: 1000,
        osl: 300,
        no_speculation: false,
        json: false,
    };
    let shown = super::claim::judged(&Estimator::embedded(), &flags).expect("a verdict");
    assert_eq!(out::claim::json(&shown)["verdict"], shown.verdict().name());
    out::claim::text(&shown)
}

/// The three public claims that the page audits.
#[test]
fn public_claims_are_audited() {
    let seven = Subject { model: "a 7B model".to_owned(), params_b: Some(7.6), gpus: 1, ..subject() };
    let on_wafers = Subject {
        hardware: "wse-3".to_owned(),
        gpus: 4,
        precision: Some("bf16".to_owned()),
        engine: None,
        ..subject()
    };
    let int4 = Subject { model: "llama-3.1-8b".to_owned(), precision: Some("int4".to_owned()), gpus: 1, ..subject() };
    let texts = [
        claim(seven, Some(10_500.0), None, None),
        claim(Subject { gpus: 8, ..subject() }, Some(2100.0), None, None),
        claim(on_wafers, Some(2100.0), None, None),
        claim(int4.clone(), None, Some(2.0), Some("fp8")),
        claim(int4.clone(), None, Some(2.0), Some("bf16")),
        claim(
            Subject { hardware: "rtx-4090".to_owned(), engine: None, precision: Some("Q4_K_M".to_owned()), ..int4 },
            None,
            Some(2.0),
            Some("Q8_0"),
        ),
    ];
    insta::assert_snapshot!("claims", texts.join("\n----\n"));
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let estimator = Estimator::embedded();
    let capacity = |change: fn(&mut CapacityFlags)| {
        let mut flags = capacity_flags(&["ttft p95 < 1s"]);
        flags.subject.gpus = 1;
        change(&mut flags);
        capacity::found(&estimator, &flags).map(|_| ()).expect_err("refused").to_string()
    };
    let cost = |change: fn(&mut CostFlags)| {
        let mut flags = CostFlags { subject: subject(), load: load(), peak: 3.0, ..CostFlags::default() };
        change(&mut flags);
        cost::compared(&estimator, &flags).map(|_| ()).expect_err("refused").to_string()
    };
    let lines = [
        capacity(|flags| flags.subject.precision = Some("bf16".to_owned())),
        capacity(|flags| flags.subject.gpus = 0),
        capacity(|flags| flags.objectives.slos = vec!["ttft p95".to_owned()]),
        capacity(|flags| flags.users = Some(0)),
        capacity(|flags| flags.rate = Some("0/s".to_owned())),
        capacity(|flags| flags.think = Some("soon".to_owned())),
        capacity(|flags| flags.load.isl = 0),
        capacity(|flags| flags.load.isl = 200_000),
        capacity(|flags| flags.load.shared_prefix = 400),
        capacity(|flags| flags.load.length_cv = f64::NAN),
        capacity(|flags| flags.load.scheduler = Some("lottery".to_owned())),
        capacity(|flags| flags.load.speculation = Some("3".to_owned())),
        capacity(|flags| flags.load.max_num_seqs = Some(0)),
        capacity(|flags| flags.subject.hardware = "wse-3".to_owned()),
        cost(|flags| flags.subject.price = Some(0.0)),
        cost(|flags| flags.subject.hardware = "h20".to_owned()),
        cost(|flags| flags.api_price = vec!["x=0:1".to_owned()]),
        cost(|flags| flags.api_price = vec!["x".to_owned()]),
        cost(|flags| {
            flags.api_price = vec!["x=1:2".to_owned()];
            flags.api_curve = vec!["missing.json".into()];
        }),
        cost(|flags| flags.api_curve = vec!["missing.json".into()]),
        cost(|flags| flags.peak = 0.5),
        cost(|flags| flags.requests_a_month = Some(f64::NAN)),
    ];
    insta::assert_snapshot!("planning_refused", lines.join("\n"));
}
