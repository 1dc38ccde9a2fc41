//! The simulated engines of the soak: processes of their own, each with a profile, faults and a ledger.
//!
//! Invariant: together they have every fault of the simulator, and every engine's seed follows from the
//! soak's.

use super::process::{Server, address_after};
use crate::bench::GuardedProcess;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// One engine and the lane that leads to it.
pub struct EngineProfile {
    /// Name of the engine and of its lane.
    pub name: &'static str,
    /// Dialect of the lane.
    pub dialect: &'static str,
    /// Base path of that dialect.
    base: &'static str,
    /// The lane's `loser` setting.
    pub loser: &'static str,
    law: &'static str,
    faults: &'static [&'static str],
    /// Whether it reports other counts than it wrote, or writes text that is not its own.
    pub is_dishonest: bool,
}

/// US dollars per million tokens, of every engine.
pub const INPUT_PRICE: f64 = 1.0;
pub const OUTPUT_PRICE: f64 = 2.0;

/// The engines. Their speeds keep an answer within a few seconds, so that an hour has many of them. None of them breaks a
/// connection sooner than 50 ms after a request: the gateway would take it for a stale connection and retry.
pub const PROFILES: [EngineProfile; 8] = [
    EngineProfile {
        name: "swift",
        dialect: "openai-chat",
        base: "/v1",
        loser: "drain",
        law: "delay = \"60ms\"\nspeed = 400\ntokens_per_chunk = 4",
        faults: &["server_error=0.02", "disconnect=0.04", "missing_usage=0.05"],
        is_dishonest: false,
    },
    EngineProfile {
        name: "steady",
        dialect: "openai-chat",
        base: "/v1",
        loser: "cancel",
        law: "delay = \"80ms\"\nspeed = 200\ntokens_per_chunk = 4\njitter = 0.3",
        faults: &["stall=0.02", "malformed=0.04", "error_event=0.04", "no_done=0.04", "disconnect@0=0.02"],
        is_dishonest: false,
    },
    EngineProfile {
        name: "tardy",
        dialect: "openai-chat",
        base: "/v1",
        loser: "cancel",
        law: "delay = \"400ms\"\nttft_jitter = 0.8\nspeed = 300\ntokens_per_chunk = 6",
        faults: &["stall@0=0.01", "rate_limited=0.04", "empty=0.04"],
        is_dishonest: false,
    },
    EngineProfile {
        name: "crowded",
        dialect: "openai-chat",
        base: "/v1",
        loser: "cancel",
        law: "delay = \"60ms\"\nspeed = 150\ntokens_per_chunk = 4\nslots = 3\nqueue_limit = 2",
        faults: &["rate_limited=0.08", "disconnect=0.04"],
        is_dishonest: false,
    },
    EngineProfile {
        name: "letters",
        dialect: "anthropic",
        base: "/v1",
        loser: "drain",
        law: "delay = \"60ms\"\nspeed = 250\ntokens_per_chunk = 5",
        faults: &["server_error=0.03", "disconnect=0.04", "error_event=0.03", "stall=0.01", "malformed=0.02"],
        is_dishonest: false,
    },
    EngineProfile {
        name: "replies",
        dialect: "openai-responses",
        base: "/v1",
        loser: "cancel",
        law: "delay = \"70ms\"\nspeed = 250\ntokens_per_chunk = 5",
        faults: &["error_event=0.04", "disconnect=0.04", "no_done=0.04", "missing_usage=0.04", "empty=0.02"],
        is_dishonest: false,
    },
    EngineProfile {
        name: "twins",
        dialect: "gemini",
        base: "/v1beta",
        loser: "drain",
        law: "delay = \"90ms\"\nspeed = 300\ntokens_per_chunk = 8",
        faults: &["disconnect=0.04", "malformed=0.03", "burst=0.05", "server_error=0.04"],
        is_dishonest: false,
    },
    EngineProfile {
        name: "sly",
        dialect: "openai-chat",
        base: "/v1",
        loser: "cancel",
        law: "delay = \"60ms\"\nspeed = 300\ntokens_per_chunk = 4",
        faults: &[
            "replay=0.1",
            "repeat=0.1",
            "other_model=0.1",
            "short=0.2",
            "usage_inflated=0.2",
            "hidden_reasoning=0.2",
            "same_start=0.1",
            "burst=0.2",
        ],
        is_dishonest: true,
    },
];

/// A running engine.
pub struct Engine {
    pub profile: &'static EngineProfile,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The base URL of its lane.
    pub url: String,
    pub ledger: PathBuf,
    server: Server,
}

impl Engine {
    /// Starts the engine with that index.
    pub fn start(tokrate: &Path, folder: &Path, place: usize, seed: u64) -> Result<Engine> {
        let profile = &PROFILES[place];
        let own = folder.join(profile.name);
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        let faults: Vec<String> = profile.faults.iter().map(|fault| format!("\"{fault}\"")).collect();
        let settings = format!(
            "listen = \"127.0.0.1:0\"\n\n[[persona]]\nname = \"{}\"\nlisten = \"127.0.0.1:0\"\nmetrics = \"off\"\n\
             faults = [{}]\n[persona.law]\n{}\n",
            profile.name,
            faults.join(", "),
            profile.law
        );
        let (personas, ledger) = (own.join("personas.toml"), own.join("ledger.jsonl"));
        std::fs::write(&personas, settings).with_context(|| format!("write {}", personas.display()))?;
        let seed = seed.wrapping_mul(1000).wrapping_add(place as u64);
        let arguments = ["sim", "--personas", "personas.toml", "--truth-log", "ledger.jsonl", "--seed"];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        arguments.push(seed.to_string());
        let server = Server(GuardedProcess::start(tokrate, &arguments, &[], own.join("output"))?);
        let address =
            address_after(&server, "or `sim` at http://").with_context(|| format!("start {}", profile.name))?;
        Ok(Engine { profile, seed, url: format!("http://{address}{}", profile.base), ledger, server })
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        self.server.0.is_alive()
    }

    /// Stops it, so that its ledger is written.
    pub fn stop(&self) -> Result<()> {
        self.server.stop(super::process::START_STOP_TIMEOUT).with_context(|| format!("end {}", self.profile.name))
    }
}
