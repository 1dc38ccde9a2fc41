//! An audit without violations, and each kind of violation.

use super::*;
use crate::soak::plan::{Plan, Purpose, Task};
use tokrate_core::Rng;
use tokrate_record::AttemptRole;
use tokrate_sim::Words;

/// The engine's place and seed; an honest one.
const PLACE: usize = 0;
const SEED: u64 = 1_000;

/// A change after which the audit must find a violation.
type Corruption = fn(&mut World);

struct World {
    seen: Vec<ClientResult>,
    rows: Vec<Attempt>,
    ledger: Ledger,
}

fn text(words: u32) -> String {
    let mut text = String::new();
    Words::new(Rng::root(SEED).child("text").nth(3).next_u64(), 0, words).push_to(&mut text);
    text
}

/// One call that was answered whole with nine words.
fn world() -> World {
    let plan = Plan::new(1, 1.0);
    let is_call = |task: &Task| matches!(task.purpose, Purpose::Call(_));
    let task = (0..).map(|number| plan.task(number)).find(is_call).expect("most are calls");
    let lane = PROFILES[PLACE].name.to_owned();
    let row = Attempt {
        call: "c".to_owned(),
        end: AttemptEnd::Answered,
        won: true,
        key: Some(task.key.name().to_owned()),
        alias: task.alias.name().to_owned(),
        lane: lane.clone(),
        dialect_in: task.dialect.name().into(),
        sample: tokrate_record::Sample {
            stream: task.stream,
            input_tokens: Some(7),
            output_tokens: Some(9),
            output_tokens_std: 9,
            cost_usd: Some(25e-6),
            cost_basis: CostBasis::Reported,
            ..tokrate_record::Sample::default()
        },
        ..Attempt::default()
    };
    let outcome = Ok(Outcome::Whole { text: text(9), has_end_marker: true, malformed: 0 });
    let seen = ClientResult { task, call: Some("c".to_owned()), winner: Some(lane), outcome };
    let entry = Entry {
        engine: PLACE,
        request: 3,
        input_tokens: 7,
        written: 9,
        done: true,
        end: "complete".to_owned(),
        ..Entry::default()
    };
    let ledger = Ledger { entries: [("c-0".to_owned(), entry)].into(), repeated: Vec::new() };
    World { seen: vec![seen], rows: vec![row], ledger }
}

fn run(world: &World, uploads: &Uploads) -> Audit {
    Audit::run(&world.seen, world.rows.clone(), &world.ledger, uploads, &[SEED; PROFILES.len()])
}

fn violations(world: &World) -> Vec<String> {
    run(world, &Uploads::new()).violations
}

/// The one call failed before any text.
fn refuse(world: &mut World) {
    world.seen[0].outcome = Ok(Outcome::Refused { status: 502, message: "lane swift: server error".to_owned() });
    let row = &mut world.rows[0];
    (row.end, row.won, row.sample.output_tokens, row.sample.output_tokens_std) = (AttemptEnd::Failed, false, None, 0);
    (row.sample.cost_basis, row.sample.cost_usd) = (CostBasis::Free, Some(0.0));
}

#[test]
fn a_call_that_everybody_tells_the_same_of_balances() {
    assert_eq!(violations(&world()), Vec::<String>::new());
    let mut refused = world();
    refuse(&mut refused);
    assert_eq!(violations(&refused), Vec::<String>::new());
}

#[test]
fn a_probe_is_of_no_client_and_balances_with_its_engine_all_the_same() {
    let mut world = world();
    let row = &world.rows[0];
    let probe = Attempt { call: "p".to_owned(), role: AttemptRole::Probe, key: None, ..row.clone() };
    let entry = world.ledger.entries["c-0"].clone();
    world.rows.push(probe);
    world.ledger.entries.insert("p-0".to_owned(), entry);
    assert_eq!(violations(&world), Vec::<String>::new());
    world.rows[1].sample.output_tokens = Some(10);
    assert!(!violations(&world).is_empty(), "a token too many");
}

#[test]
fn whatever_is_missing_or_differs_is_found() {
    let corruptions: [(&str, Corruption); 17] = [
        ("a client that saw a probe", |world| world.rows[0].role = AttemptRole::Probe),
        ("a lost row", |world| world.rows.clear()),
        ("a row twice", |world| world.rows.push(world.rows[0].clone())),
        ("an engine that nobody asked", |world| world.ledger.entries.clear()),
        ("an engine asked twice", |world| world.ledger.repeated.push("c-0".to_owned())),
        ("an attempt without a row", |world| {
            let entry = world.ledger.entries["c-0"].clone();
            world.ledger.entries.insert("c-1".to_owned(), entry);
        }),
        ("another lane", |world| world.rows[0].lane = PROFILES[1].name.to_owned()),
        ("a token too many", |world| world.rows[0].sample.output_tokens = Some(10)),
        ("a cent too many", |world| world.rows[0].sample.cost_usd = Some(0.01)),
        ("more counted than written", |world| {
            (world.rows[0].sample.cost_basis, world.rows[0].sample.output_tokens_std) = (CostBasis::Estimated, 10);
            world.rows[0].end = AttemptEnd::Lost;
        }),
        ("another end", |world| world.rows[0].end = AttemptEnd::Failed),
        ("a text cut short", |world| {
            world.seen[0].outcome = Ok(Outcome::Whole { text: text(8), has_end_marker: true, malformed: 0 });
        }),
        ("a mixed text", |world| {
            let mixed = text(9).replacen(' ', " x", 1);
            world.seen[0].outcome = Ok(Outcome::Broken { text: mixed, error: "lane swift: stalled".to_owned() });
            world.rows[0].end = AttemptEnd::Failed;
        }),
        ("a mark that got lost", |world| {
            world.seen[0].outcome = Ok(Outcome::Whole { text: text(9), has_end_marker: false, malformed: 0 });
        }),
        ("a call whose client got nothing of it", |world| {
            world.seen[0].call = None;
            world.seen[0].outcome = Ok(Outcome::Refused { status: 503, message: "`x`: no lane".to_owned() });
        }),
        ("an error beside a whole answer", |world| {
            world.seen[0].outcome = Ok(Outcome::Refused { status: 502, message: "lane swift: stalled".to_owned() });
        }),
        ("an error that does not name its call", |world| {
            refuse(world);
            world.seen[0].call = None;
        }),
    ];
    for (what, corrupt) in corruptions {
        let mut world = world();
        corrupt(&mut world);
        assert!(!violations(&world).is_empty(), "{what}");
    }
}

#[test]
fn a_key_that_spends_more_than_its_budget_is_found_although_each_of_its_calls_balances() {
    let many = |calls: usize| {
        let mut world = world();
        (world.seen[0].task.key, world.rows[0].key) = (Key::Budgeted, Some(Key::Budgeted.name().to_owned()));
        let (row, seen) = (world.rows.remove(0), world.seen.remove(0));
        let entry = world.ledger.entries.remove("c-0").expect("its entry");
        for call in (0..calls).map(|number| format!("c{number}")) {
            world.ledger.entries.insert(format!("{call}-0"), entry.clone());
            world.rows.push(Attempt { call: call.clone(), ..row.clone() });
            world.seen.push(ClientResult { call: Some(call), ..seen.clone() });
        }
        violations(&world)
    };
    // 25 millionths each.
    assert_eq!(many(80), Vec::<String>::new());
    assert_eq!(many(81).len(), 1, "{:?}", many(81));
}

/// A transcript that was asked for, and what its lane got.
fn upload() -> (World, Uploads) {
    let mut world = world();
    let plan = Plan::new(1, 1.0);
    let is_upload = |task: &Task| matches!(task.purpose, Purpose::Upload(upload) if upload.is_transcript);
    let task = (0..).map(|number| plan.task(number)).find(is_upload).expect("some are uploads");
    let row = Attempt {
        call: "u".to_owned(),
        end: AttemptEnd::Answered,
        won: true,
        lane: archive::LANE.to_owned(),
        sample: tokrate_record::Sample {
            request_bytes: Some(900),
            cost_usd: Some(archive::FEE),
            cost_basis: CostBasis::Estimated,
            ..tokrate_record::Sample::default()
        },
        ..Attempt::default()
    };
    world.rows.push(row);
    let (call, winner) = (Some("u".to_owned()), Some(archive::LANE.to_owned()));
    world.seen.push(ClientResult { task, call, winner, outcome: Ok(Outcome::Stored { bytes: 900 }) });
    let got = archive::Upload { bytes: 900, digest: 7, is_transcript: true };
    (world, Uploads::from([("u-0".to_owned(), got)]))
}

#[test]
fn forms_are_held_against_what_their_lane_got_and_what_it_costs() {
    let (world, uploads) = upload();
    let audit = run(&world, &uploads);
    assert_eq!((audit.violations.as_slice(), audit.forms, audit.form_bytes), (&[][..], 1, 900));
    let changes: [Corruption; 5] = [
        |world| world.rows[1].sample.request_bytes = Some(899),
        |world| world.rows[1].sample.cost_usd = Some(0.0),
        |world| drop(world.rows.pop()),
        |world| world.rows[1].end = AttemptEnd::Failed,
        |world| {
            let again = world.rows[1].clone();
            world.rows.push(again);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (mut world, uploads) = upload();
        change(&mut world);
        assert!(!run(&world, &uploads).violations.is_empty(), "{number}");
    }
    let (world, _) = upload();
    assert!(!run(&world, &Uploads::new()).violations.is_empty(), "its lane knows nothing of it");
}
