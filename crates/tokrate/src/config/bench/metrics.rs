//! Which metrics the answers of a plan can have.
//!
//! Invariant: a metric that is not among them is refused before anything is sent, with those that are: no answer would ever meet it.

use anyhow::{Result, ensure};
use tokrate_bench::plan::Load;
use tokrate_bench::{AudioTask, Config, Realtime};
use tokrate_net::HttpVersion;
use tokrate_record::Metric;
use tokrate_wire::ItemTask;

/// What every answer has.
const OF_ANY: [Metric; 4] = [Metric::Ttfb, Metric::E2e, Metric::E2eFromDue, Metric::FailureShare];
/// What an answer of text has besides.
const OF_TEXT: [Metric; 9] = [
    Metric::Ttft,
    Metric::Ttfat,
    Metric::Itl,
    Metric::ChunkGap,
    Metric::LargestGap,
    Metric::Tpot,
    Metric::OutputSpeed,
    Metric::E2eSpeed,
    Metric::Throughput,
];
const OF_ITEMS: [Metric; 2] = [Metric::TimePerItem, Metric::ItemThroughput];
const OF_IMAGES: [Metric; 2] = [Metric::ImageThroughput, Metric::MegapixelThroughput];
/// Of sound with a length, made or heard.
const OF_SOUND: [Metric; 2] = [Metric::RealTimeFactor, Metric::AudioThroughput];
const OF_PLAYED_SOUND: [Metric; 2] = [Metric::TimeToFirstAudio, Metric::StalledTime];

/// Answers of a plan.
struct Answers {
    /// What they are, up to the verb.
    are: &'static str,
    /// What they can have.
    metrics: Vec<Metric>,
}

/// Refuses a metric that no answer of the plan has.
pub(super) fn check(named: &str, metric: Metric, config: &Config) -> Result<()> {
    let name = metric.name();
    let Answers { are, metrics } = answers(config);
    if metrics.contains(&metric) {
        return Ok(());
    }
    check_connection(named, metric, config)?;
    let elsewhere = elsewhere(metric).map_or_else(String::new, |flag| format!("give {flag}, or "));
    let known: Vec<&str> = metrics.iter().map(|metric| metric.name()).collect();
    ensure!(false, "hold answers to {named}: {are} no {name}; {elsewhere}use one that is there: {}", known.join(", "));
    Ok(())
}

fn answers(config: &Config) -> Answers {
    let request = &config.request;
    let (are, further): (_, Vec<&[Metric]>) = match (&request.audio, request.items.map(|items| items.task)) {
        (Some(AudioTask::Speech(_)), _) => ("speech has", vec![&OF_SOUND, &OF_PLAYED_SOUND]),
        (Some(AudioTask::Transcription(_)), _) => ("a transcript has", vec![&OF_TEXT, &OF_SOUND]),
        (Some(AudioTask::Realtime(Realtime { wants_sound: true, .. })), _) => {
            ("a realtime turn has", vec![&OF_TEXT, &OF_SOUND, &OF_PLAYED_SOUND, &[Metric::SessionOpen]])
        }
        (Some(AudioTask::Realtime(Realtime { clips: Some(_), .. })), _) => {
            ("a realtime turn of text has", vec![&OF_TEXT, &OF_SOUND, &[Metric::SessionOpen]])
        }
        (Some(AudioTask::Realtime(_)), _) => ("a realtime turn of text has", vec![&OF_TEXT, &[Metric::SessionOpen]]),
        (None, Some(ItemTask::Images)) => {
            ("images that are made have", vec![&OF_ITEMS, &OF_IMAGES, &[Metric::TimeToFirstImage]])
        }
        (None, Some(ItemTask::Batch)) => ("batches have", vec![&OF_ITEMS, &[Metric::BatchThroughput]]),
        (None, Some(_)) => ("vectors and scores have", vec![&OF_ITEMS]),
        (None, None) => return text(config),
    };
    let mut metrics = [&OF_ANY[..]].into_iter().chain(further).flatten().copied().collect::<Vec<Metric>>();
    if matches!(request.audio, Some(AudioTask::Transcription(_))) {
        metrics.extend(of_connections(config));
    }
    Answers { are, metrics }
}

/// Those of a chat, of calls of tools and of JSON.
fn text(config: &Config) -> Answers {
    let request = &config.request;
    let mut metrics: Vec<Metric> = OF_ANY.into_iter().chain(OF_TEXT).chain(of_connections(config)).collect();
    let task = request.structure.as_ref().map(|structure| structure.task());
    metrics.extend(task.map(|_| Metric::TimeToValid));
    metrics.extend(task.filter(|task| *task == "tools").map(|_| Metric::TimeToFirstArgument));
    if request.attachments.as_ref().is_some_and(|attached| attached.has_pictures()) {
        metrics.extend(OF_IMAGES);
    }
    if config.phases.iter().any(|phase| matches!(phase.load, Load::Agents { .. })) {
        metrics.push(Metric::SessionTime);
    }
    let are = match task {
        Some("tools") => "an answer with calls of tools has",
        Some(_) => "JSON has",
        None => "free text has",
    };
    Answers { are, metrics }
}

/// What requests have by how their connections are opened and shared.
fn of_connections(config: &Config) -> impl Iterator<Item = Metric> {
    let (is_new, is_http2) = (is_new(config), is_http2(config));
    Metric::ALL
        .into_iter()
        .filter(move |metric| (is_new && metric.is_of_opening()) || (is_http2 && *metric == Metric::StreamWait))
}

fn is_new(config: &Config) -> bool {
    config.target.remote().is_some_and(|remote| remote.new_connections)
}

fn is_http2(config: &Config) -> bool {
    config.target.remote().is_some_and(|remote| remote.http == HttpVersion::Http2)
}

/// Refuses what connections of the plan do not have.
fn check_connection(named: &str, metric: Metric, config: &Config) -> Result<()> {
    let name = metric.name();
    ensure!(
        !metric.is_of_opening() || is_new(config),
        "hold answers to {named}: a kept connection is opened once, and its requests have no {name}; give --new-connections"
    );
    ensure!(
        metric != Metric::StreamWait || is_http2(config),
        "hold answers to {named}: HTTP/1.1 has no streams to wait for; give --http 2"
    );
    Ok(())
}

/// What a run is given that has a metric which most runs lack.
fn elsewhere(metric: Metric) -> Option<&'static str> {
    Some(match metric {
        Metric::TimeToFirstArgument => "--task tools",
        Metric::TimeToValid => "--task tools or json",
        Metric::TimePerItem | Metric::ItemThroughput => "--task embeddings, rerank, images or batch",
        Metric::ImageThroughput | Metric::MegapixelThroughput => "--images or --task images",
        Metric::TimeToFirstImage => "--task images",
        Metric::BatchThroughput => "--task batch",
        Metric::TimeToFirstAudio | Metric::StalledTime => "--task speech or realtime",
        Metric::RealTimeFactor | Metric::AudioThroughput => "--task speech, transcription or realtime",
        Metric::SessionOpen => "--task realtime",
        Metric::SessionTime => "--agents",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::config::bench::resolve;
    use crate::config::environment::Environment;
    use crate::config::file::File;
    use crate::flags::bench::{Flags, Task};
    use tokrate_record::Metric;

    fn resolved(task: Option<Task>, set: impl Fn(&mut Flags)) -> Result<(), String> {
        let mut flags = Flags::default();
        flags.target.targets = vec!["vllm@127.0.0.1:8001/m".to_owned()];
        flags.request.task = task;
        set(&mut flags);
        resolve(&flags, &Environment::default(), &File::default()).map(|_| ()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_objective_on_what_the_task_never_has_is_refused_with_what_it_has() {
        let slo = |task: Task, text: &str| resolved(Some(task), |flags| flags.verdict.slos = vec![text.to_owned()]);
        for (task, text, message) in [
            (Task::Transcription, "time_per_item<1s", "a transcript has no time_per_item; give --task embeddings"),
            (
                Task::Transcription,
                "time_to_valid<1s",
                "give --task tools or json, or use one that is there: ttfb, e2e,",
            ),
            (
                Task::Transcription,
                "time_to_first_image<1s",
                "a transcript has no time_to_first_image; give --task images",
            ),
            (Task::Realtime, "time_to_first_argument<1s", "a realtime turn has no time_to_first_argument"),
            (
                Task::Speech,
                "ttft<1s",
                "speech has no ttft; use one that is there: ttfb, e2e, e2e_from_due, failure_share, real_time_factor",
            ),
            (
                Task::Embeddings,
                "time_to_first_image<1s",
                "vectors and scores have no time_to_first_image; give --task images, or use one",
            ),
        ] {
            let refused = slo(task, text).expect_err("no answer has it");
            assert!(refused.contains(message), "{refused}");
        }
        for (task, text) in [
            (Task::Transcription, "ttft<1s"),
            (Task::Realtime, "session_open<1s"),
            (Task::Speech, "stalled_time<1s"),
            (Task::Images, "time_to_first_image<9s"),
        ] {
            assert_eq!(slo(task, text), Ok(()), "{task:?}");
        }
    }

    #[test]
    fn every_metric_is_one_that_some_run_has() {
        let asserted = |metric: Metric, task: Option<Task>, set: &dyn Fn(&mut Flags)| {
            let statistic = ["p50", "median", "per_second", "items_per_second", "seconds_per_second"];
            let statistic = statistic.iter().chain(&["output_tokens_per_second"]);
            statistic.into_iter().any(|statistic| {
                let run = resolved(task, |flags| {
                    let unit = if metric.is_in_milliseconds() { "ms" } else { "" };
                    flags.verdict.asserts = vec![format!("{}.{statistic} < 1{unit}", metric.name())];
                    set(flags);
                });
                run.is_ok()
            })
        };
        let tasks = [Task::Tools, Task::Images, Task::Batch, Task::Speech, Task::Transcription, Task::Realtime];
        // Of agents' sessions, of which a file is needed, and of a share that has a name of its own.
        let left_out = [Metric::SessionTime, Metric::FailureShare];
        for metric in Metric::ALL.into_iter().filter(|metric| !left_out.contains(metric)) {
            let is_of_task = tasks.iter().any(|task| asserted(metric, Some(*task), &|_| ()));
            let connected = |flags: &mut Flags| {
                flags.target.new_connections = metric.is_of_opening();
                flags.target.http = (metric == Metric::StreamWait).then_some(crate::flags::bench::HttpVersion::Http2);
            };
            assert!(is_of_task || asserted(metric, None, &connected), "{}", metric.name());
        }
    }

    #[test]
    fn a_run_goes_on_until_a_rate_of_sound_is_known_where_there_is_sound() {
        let until =
            |task: Option<Task>| resolved(task, |flags| flags.limits.until = vec!["audio_throughput ± 5%".to_owned()]);
        for task in [Task::Speech, Task::Transcription, Task::Realtime] {
            assert_eq!(until(Some(task)), Ok(()), "{task:?}");
        }
        assert!(
            until(None).is_err_and(|error| error.contains("free text has no audio_throughput; give --task speech"))
        );
    }
}
