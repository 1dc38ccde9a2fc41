//! What keys have spent this month is read back from the log when a gateway starts.

use crate::client::ask;
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_whole, whole};
use std::time::SystemTime;
use tokrate_core::Money;
use tokrate_gateway::{KeyConfig, KeyLimits, Mode, key_hash};
use tokrate_record::{Attempt, CostBasis, Sample};
use tokrate_store::Sqlite;
use tokrate_wire::Dialect;

const BODY: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;
/// Longer than any month.
const EARLIER_MS: u64 = 40 * 86_400_000;

/// A row of a key with that cost, started so long ago.
fn row(key: &str, cost_usd: f64, ago_ms: u64) -> Attempt {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    Attempt {
        key: Some(key.to_owned()),
        dialect_in: "openai-chat".into(),
        sample: Sample {
            started_unix_ms: now.as_millis() as u64 - ago_ms,
            cost_usd: Some(cost_usd),
            cost_basis: CostBasis::Reported,
            dialect: "openai-chat".into(),
            ..Sample::default()
        },
        ..Attempt::default()
    }
}

#[test]
fn a_spent_budget_stays_spent_after_a_restart() {
    let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])]);
    let mut config = configured(vec![lane("one", first_lane.address, &[Dialect::OpenAiChat])], Mode::Off);
    let key = |name: &str, usd_per_month: Option<f64>| KeyConfig {
        name: name.to_owned(),
        sha256: key_hash(&format!("sk-{name}")),
        aliases: Vec::new(),
        limits: KeyLimits { usd_per_month: usd_per_month.and_then(Money::from_usd), ..KeyLimits::default() },
    };
    config.keys = vec![
        key("spent", Some(1.0)),
        key("within", Some(3.0)),
        key("earlier", Some(1.0)),
        key("fresh", Some(1.0)),
        key("unlimited", None),
    ];
    let path = config.log.as_ref().map(|log| log.path.clone()).expect("it has one");
    let mut rows: Vec<Attempt> = ["spent", "within", "unlimited"]
        .iter()
        // Two rows, of which each is only a part.
        .flat_map(|key| [row(key, 0.9, 0), row(key, 0.9, 0)])
        .collect();
    rows.push(row("earlier", 50.0, EARLIER_MS));
    Sqlite::open(&path).and_then(|mut log| log.append(&rows)).expect("a new log");
    let gateway = TestGateway::start(config);
    let status = |key: &str| {
        let bearer = format!("Bearer sk-{key}");
        ask(gateway.address, "POST", "/v1/chat/completions", &[("authorization", &bearer)], BODY.as_bytes()).status
    };
    let keys = ["spent", "within", "earlier", "fresh", "unlimited"];
    assert_eq!(keys.map(status), [429, 200, 200, 200, 200]);
}
