//! Arbitrary requests to a gateway: lanes would get valid requests, or the client gets an error in its own dialect.
//!
//! It does not know what is right. Invariant: the first bytes of the input say the path, the method and a header; the rest is the
//! request's body.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use serde_json::Value;
use std::mem::ManuallyDrop;
use tokrate_gateway::{
    AliasConfig, BudgetConfig, Config, Decision, DryRun, EndpointConfig, LaneConfig, LoserPolicy, Mode, Policy,
    ServicesConfig, TokenLimits, routes,
};
use tokrate_net::Target;
use tokrate_wire::{Dialect, Shape, decode_request};

const HEADERS: [&str; 6] =
    ["authorization", "x-tokrate-mode", "anthropic-version", "content-length", "content-type", "x-tokrate-model"];

thread_local! {
    /// Never dropped: what its clock keeps for the rest of the process would be reported as a leak when the fuzzer ends.
    static DRY_RUN: ManuallyDrop<DryRun> = ManuallyDrop::new(dry_run());
}

/// A lane for each dialect, and an alias over all of them.
fn dry_run() -> DryRun {
    let lane = |dialect: Dialect| LaneConfig {
        name: dialect.name().to_owned(),
        provider: "p".to_owned(),
        model: "m".to_owned(),
        endpoints: vec![EndpointConfig {
            dialect,
            base: Target::parse("http://127.0.0.1:9/v1").expect("a URL"),
            headers: HeaderMap::new(),
            authorizer: None,
            no_stream_options: false,
            max_tokens_field: false,
        }],
        price: None,
        token_limits: TokenLimits::default(),
        services: ServicesConfig::default(),
        stream_whole: true,
        max_in_flight: None,
        loser: LoserPolicy::CancelEstimate,
        curve: Vec::new(),
        forward_headers: Vec::new(),
    };
    let all = AliasConfig {
        name: "all".to_owned(),
        lanes: (0..Dialect::ALL.len()).collect(),
        policy: Policy::Fixed,
        mode: Mode::Off,
        max_attempts: 3,
        budget: BudgetConfig::default(),
        win: tokrate_gateway::WinRule::default(),
    };
    let config = Config { lanes: Dialect::ALL.map(lane).to_vec(), aliases: vec![all], ..Config::default() };
    DryRun::new(&config).expect("a gateway")
}

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[place, post, name, length], rest)) = input.split_first_chunk::<4>() else { return };
    let (value, body) = rest.split_at(usize::from(length).min(rest.len()));
    let routes = routes();
    let path = match routes.get(usize::from(place) % (routes.len() + 1)) {
        Some(row) => format!("/v1{}", row.path.replace("{model}", "all").replace(['{', '}'], "")),
        None => format!("/{}", String::from_utf8_lossy(value)),
    };
    let method = if post % 8 == 0 { Method::GET } else { Method::POST };
    let request = Request::builder().method(method).uri(&path);
    let request = request.header(HEADERS[usize::from(name) % HEADERS.len()], value);
    let Ok(request) = request.body(()) else { return };
    match DRY_RUN.with(|dry_run| dry_run.evaluate(request.into_parts().0, Bytes::copy_from_slice(body))) {
        Decision::Respond { status: 200, .. } => {}
        Decision::Respond { status, body, dialect } => {
            assert!((400..500).contains(&status), "{status}");
            let error: Value = serde_json::from_slice(&body).expect("an error is JSON");
            let message = error.pointer(dialect.error_message_pointer()).and_then(Value::as_str);
            assert!(message.is_some_and(|message| !message.is_empty()), "{dialect:?}: {error}");
        }
        Decision::Forward(requests) => {
            for upstream in requests {
                let Some(dialect) = upstream.dialect else { continue };
                let is_own = Dialect::of_path(&path).is_some_and(|routed| routed.dialect == dialect);
                let routed = Dialect::of_path(&dialect.path("m", Shape::Stream)).expect("a path of ours");
                assert!(is_own || decode_request(&routed, &upstream.body).is_ok(), "what was translated can be read");
            }
        }
    }
}
