//! What a run goes on for: the conditions of `--until`, resolved from flags.
//!
//! Invariant: a condition that no level, no answer and no number of allowed requests can meet is refused before anything is sent.

use super::schedule_mode::DEFAULT_MAX_REQUESTS;
use crate::config::{quantity, verdicts};
use crate::flags::bench::{Flags, Workload};
use anyhow::{Context, Result, ensure};
use tokrate_bench::plan::{Load, PhaseSpec};
use tokrate_bench::schedule::{ScheduleMode, Until, Verdicts};
use tokrate_judge::Precision;
use tokrate_judge::compare::CompareOptions;
use tokrate_record::Metric;

/// What stands for a verdict of every comparison.
const VERDICT: &str = "verdict";

/// What people call the loads that follow from several levels.
const LOADS_OF_CURVES: [&str; 4] = ["knee", "slows", "nearly_all", "waits"];

/// What the run goes on for, with one round of each level; `None` where the plan says when it ends.
pub(super) fn until(
    flags: &Flags,
    phases: &[PhaseSpec],
    is_streamed: bool,
) -> Result<Option<(ScheduleMode, Vec<PhaseSpec>)>> {
    if flags.limits.until.is_empty() {
        return Ok(None);
    }
    let is_level =
        |phase: &PhaseSpec| matches!(phase.load, Load::Closed { .. } | Load::Batched { .. } | Load::Open { .. });
    ensure!(
        phases.iter().all(is_level) && !flags.request.workload.contains(&Workload::System),
        "read --until: it repeats a load that stays the same; give --concurrency or --rate"
    );
    let max_requests = flags.load.max_requests.unwrap_or(DEFAULT_MAX_REQUESTS);
    ensure!(max_requests > 0, "read --max-requests: at least one request is needed");
    if flags.limits.until.iter().any(|text| text.trim() == VERDICT) {
        ensure!(
            flags.limits.until.len() == 1,
            "read --until: `verdict` goes on until targets are compared, a width until a figure is known; ask for one of them"
        );
        ensure!(
            flags.load.duration.is_none(),
            "read --duration: with --until verdict rounds have a number of requests; limit them with --max-requests"
        );
        let metrics = if is_streamed { vec![Metric::Ttft, Metric::OutputSpeed] } else { vec![Metric::E2e] };
        let options = CompareOptions {
            threshold: verdicts::threshold(flags.verdict.threshold.as_deref())?,
            ..CompareOptions::default()
        };
        let verdicts = Verdicts { metrics, options, baseline: None, max_requests, comparisons: 1, looks: Vec::new() };
        return Ok(Some((ScheduleMode::Verdict(verdicts), phases.iter().map(Verdicts::round_of).collect())));
    }
    let read = |text: &String| {
        let name = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        ensure!(
            name != VERDICT,
            "read --until: `{VERDICT}` has no width: a difference that is searched for is named with --threshold; write --until {VERDICT}"
        );
        // Why is in docs/method.md, section 4.
        ensure!(
            !LOADS_OF_CURVES.contains(&name.to_lowercase().as_str()),
            "read --until: `{name}` is a load of a whole curve, and no figure of a level whose rounds could narrow it; --refine adds levels where \
             it is not known within a tenth"
        );
        Precision::parse(text).with_context(|| "read --until".to_owned())
    };
    let conditions = flags.limits.until.iter().map(read).collect::<Result<Vec<Precision>>>()?;
    for condition in &conditions {
        let names: Vec<String> = phases.iter().map(|phase| phase.load.name()).collect();
        ensure!(
            phases.iter().any(|phase| condition.is_for_load(phase.load.row())),
            "hold the run to --until '{condition}': no level of the plan has this load; planned are {}",
            names.join(", ")
        );
        let needed = condition.requests_needed();
        ensure!(
            needed <= max_requests,
            "hold the run to --until '{condition}': that takes {needed} requests a level, and --max-requests allows {max_requests}; allow more, or \
             ask for a lower percentile"
        );
    }
    let max_time = flags.load.duration.as_deref().map(quantity::span).transpose().context("read --duration")?;
    let until = Until { conditions, max_requests, max_time };
    let rounds = phases.iter().map(|phase| until.round_of(phase)).collect();
    Ok(Some((ScheduleMode::Until(until), rounds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::bench::resolve;
    use crate::config::environment::Environment;
    use crate::config::file::File;
    use tokrate_bench::Config;

    fn resolved(set: impl Fn(&mut Flags)) -> Result<Vec<Config>, String> {
        let mut flags = Flags::default();
        set(&mut flags);
        let resolved = resolve(&flags, &Environment::default(), &File::default());
        resolved.map(|(configs, _)| configs).map_err(|error| format!("{error:#}"))
    }

    fn asked(conditions: &[&str]) -> Result<Vec<Config>, String> {
        resolved(|flags| flags.limits.until = conditions.iter().map(|&text| text.to_owned()).collect())
    }

    #[test]
    fn without_a_load_one_request_at_a_time_is_asked_about() {
        let configs = asked(&["output_speed_p50 ± 2%"]).expect("a plan");
        let names: Vec<String> = configs[0].phases.iter().map(|phase| phase.load.name()).collect();
        assert_eq!(names, ["concurrency 1"]);
        assert!(matches!(configs[0].schedule_mode, ScheduleMode::Until(_)));
    }

    #[test]
    fn what_cannot_be_known_is_refused_before_anything_is_sent() {
        let refused = |conditions: &[&str]| asked(conditions).err().unwrap_or_default();
        assert!(refused(&["ttft_p50 ± 2% @ concurrency 4"]).contains("no level of the plan has this load"));
        assert!(refused(&["ttft_p99.9 ± 20%"]).contains("that takes 6636 requests a level"));
        assert!(refused(&["item_throughput ± 5%"]).contains("text has no item_throughput"));
        assert!(refused(&["speed ± 2%"]).starts_with("read --until: "));
        assert!(
            refused(&["knee ± 10%"]).contains("`knee` is a load of a whole curve")
                && refused(&["knee"]).contains("--refine")
        );
        assert!(refused(&["verdict ± 2%"]).contains("`verdict` has no width"));
        assert!(refused(&["verdict", "ttft_p50 ± 2%"]).contains("ask for one of them"));
        assert!(refused(&["verdict"]).contains("there is nothing to compare"));
        let ramp = resolved(|flags| {
            flags.limits.until = vec!["ttft_p50 ± 2%".to_owned()];
            flags.load.ramp = Some("1..5".to_owned());
        });
        assert!(ramp.is_err_and(|error| error.contains("it repeats a load that stays the same")));
    }

    #[test]
    fn a_target_that_is_checked_against_itself_is_two() {
        let checked = resolved(|flags| {
            flags.verdict.self_check = true;
            flags.limits.until = vec!["verdict".to_owned()];
        });
        let configs = checked.expect("the embedded engine twice");
        assert_eq!(configs.len(), 2);
        assert!(configs.iter().all(|config| matches!(config.schedule_mode, ScheduleMode::Verdict(_))));
    }
}
