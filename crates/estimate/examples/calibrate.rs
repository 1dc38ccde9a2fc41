//! Fits the coefficients of a device and engine to a measured trace: `calibrate TRACE.csv SETTINGS.json HARDWARE`. Beside it stands what
//! the priors of workstation cards alone make of it, which is how a trace is foretold that nothing was fitted to.

#![allow(clippy::print_stdout)]

use tokrate_estimate::asked::Facts;
use tokrate_estimate::calibrate::calibrate;
use tokrate_estimate::coefficients::{Coefficients, OF_GROUP, WORKSTATIONS};
use tokrate_estimate::replay::{Outcome, Replay, SettingsFile, TraceRequest, parse_trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [trace, settings, hardware] = &arguments[..] else { return Err("calibrate TRACE SETTINGS HARDWARE".into()) };
    let trace = parse_trace(&std::fs::read_to_string(trace)?)?;
    let file: SettingsFile = serde_json::from_str(&std::fs::read_to_string(settings)?)?;
    let mut settings = file.settings();
    settings.hardware = Some(hardware.clone());
    let (facts, before) = (Facts::embedded(), Coefficients::fitted());
    let show = |coefficients: &Coefficients| -> Result<(), String> {
        let outcomes = Replay::new(&settings, &facts, coefficients)?.run(&trace).outcomes;
        for (name, of) in [("ttft", 0), ("tpot", 1), ("latency", 2)] {
            let mut pairs: Vec<(f64, f64)> = trace.iter().zip(&outcomes).filter_map(|pair| times(pair, of)).collect();
            let mean = |of: fn(&(f64, f64)) -> f64, pairs: &[(f64, f64)]| pairs.iter().map(of).sum::<f64>();
            print!("{name}: mean {:+.1} %", (mean(|p| p.0, &pairs) / mean(|p| p.1, &pairs) - 1.0) * 100.0);
            for share in [50, 90, 99] {
                let at = pairs.len() * share / 100;
                pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
                let computed = pairs[at].0;
                pairs.sort_by(|a, b| a.1.total_cmp(&b.1));
                print!(", p{share} {:+.1} %", (computed / pairs[at].1 - 1.0) * 100.0);
            }
            println!();
        }
        Ok(())
    };
    show(&before)?;
    let mut unseen = before.clone();
    let own = WORKSTATIONS * OF_GROUP.len()..(WORKSTATIONS + 1) * OF_GROUP.len();
    unseen.0[own.clone()].copy_from_slice(&Coefficients::prior().0[own]);
    println!("workstations by their priors alone:");
    show(&unseen)?;
    let (after, changed) = calibrate(&trace, &settings, &facts, &before)?;
    for one in changed {
        println!("{} {:.5} -> {:.5} (se {:.3})", one.name, one.before, one.after, one.error);
    }
    show(&after)?;
    Ok(())
}

fn times((request, outcome): (&TraceRequest, &Outcome), of: usize) -> Option<(f64, f64)> {
    let (Outcome::Answered { times, .. }, Some(real)) = (outcome, request.real) else { return None };
    let pick = |t: &tokrate_estimate::replay::Times| [t.ttft_ms, t.tpot_ms, t.latency_ms][of];
    Some((pick(times), pick(&real)))
}
