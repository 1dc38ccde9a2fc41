//! Policies and modes as text, spelled as in the settings file.

use tokrate_route::{Mode, Policy};

/// A policy as the settings file spells it.
pub fn format_policy(policy: &Policy) -> String {
    match policy {
        Policy::Completion => "completion".to_owned(),
        Policy::OwnCompletion => "own-completion".to_owned(),
        Policy::Cheapest { max_ttft, min_speed } => {
            let ttft = max_ttft.map_or(String::new(), |most| format!(", TTFT at most {most}"));
            let speed = min_speed.map_or(String::new(), |least| format!(", at least {least} tok/s of output speed"));
            format!("cheapest{ttft}{speed}")
        }
        Policy::Weighted { usd_per_second } => format!("weighted, ${usd_per_second} a second"),
        Policy::PeakEwma => "peak-ewma".to_owned(),
        Policy::RoundRobin => "round-robin".to_owned(),
        Policy::LeastBusy => "least-busy".to_owned(),
        Policy::LowestLatency => "lowest-latency".to_owned(),
        Policy::Fixed => "fixed".to_owned(),
    }
}

/// A mode as the settings file spells it.
pub fn format_mode(mode: Mode) -> String {
    match mode {
        Mode::Off => "off".to_owned(),
        Mode::Hedge => "hedge".to_owned(),
        Mode::Race { lanes } => format!("race={lanes}"),
    }
}
