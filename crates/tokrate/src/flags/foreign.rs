//! Flags of other benchmarks, and their names here, for errors that name the right one.
//!
//! They are not accepted: they would mean almost the same, and the difference would be a wrong number. Invariant: what
//! an error suggests is a flag of `tokrate bench`, and no name of another tool is one of ours.

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Other tools' names, and ours.
const NAMES: &[(&[&str], &str)] = &[
    (
        &["--num-prompts", "--request-count", "--num-requests", "--max-num-completed-requests", "--number"],
        "--requests (tokrate's name for it: measured requests per load level)",
    ),
    (&["--request-rate", "--qps", "--rps"], "--rate (tokrate's name for it; for `inf` use --concurrency)"),
    (
        &["--max-concurrency", "--num-concurrent-requests", "--num-users", "--users", "--parallel"],
        "--concurrency (tokrate's name for it; a list such as 1,10,50 is a sweep)",
    ),
    (
        &["--rate-type", "--profile", "--arrival-pattern"],
        "--concurrency for a closed loop, or --rate with --arrivals constant or poisson; a list is a sweep",
    ),
    (
        &["--max-seconds", "--benchmark-duration", "--measurement-interval"],
        "--duration (tokrate's name for it, such as 30s)",
    ),
    (
        &["--target", "--base-url", "--host", "--port", "--endpoint"],
        "--url (tokrate's name for it, such as http://127.0.0.1:8000/v1)",
    ),
    (
        &["--backend", "--backend-type", "--endpoint-type", "--service-kind", "--api"],
        "--dialect (tokrate's name for it, such as openai-chat)",
    ),
    (&["--served-model-name"], "--model (the name as the endpoint knows it)"),
    (
        &[
            "--dataset-name",
            "--dataset-path",
            "--dataset",
            "--data",
            "--input-file",
            "--public-dataset",
            "--custom-dataset-type",
        ],
        "--prompts FILE for prompts of your own, or --input-tokens and --output-tokens for unique ones of that length",
    ),
    (
        &[
            "--random-input-len",
            "--sonnet-input-len",
            "--input-len",
            "--synthetic-input-tokens-mean",
            "--mean-input-tokens",
            "--isl",
        ],
        "--input-tokens (tokrate's name for it)",
    ),
    (
        &[
            "--random-output-len",
            "--sonnet-output-len",
            "--sharegpt-output-len",
            "--output-len",
            "--output-tokens-mean",
            "--mean-output-tokens",
            "--osl",
        ],
        "--output-tokens (tokrate's name for it)",
    ),
    (
        &["--random-prefix-len", "--prefix-len", "--shared-system-prompt-length"],
        "--shared-prefix (tokrate's name for it)",
    ),
    (
        &["--percentile-metrics", "--metric-percentiles"],
        "nothing: every percentile that the sample carries is in the table and in --json FILE",
    ),
    (&["--goodput"], "--slo, as in --slo 'ttft<200ms' --slo 'tpot<50ms'; --slo 'ttft:200 tpot:50' is understood too"),
    (
        &["--tokenizer", "--processor"],
        "nothing: output tokens are counted with o200k_base, and what the server reports stands beside",
    ),
    (
        &["--save-result", "--result-filename", "--result-dir"],
        "--vllm-json FILE for that layout, or --json FILE for the whole record",
    ),
    (
        &["--output-path", "--artifact-dir", "--save-detailed"],
        "--json FILE for the record, --jsonl FILE for a row per request",
    ),
    (&["--profile-export-file"], "--jsonl FILE (a row per request)"),
    (
        &["--num-warmups", "--warmup-request-count", "--warmup-percent", "--num-warmup-requests"],
        "--warmup (requests per load level)",
    ),
    (&["--random-seed"], "--seed (tokrate's name for it)"),
    (&["--max-errors", "--max-error-rate"], "--max-failures (a share, such as 5%)"),
    (&["--extra-body", "--extra-inputs", "--extra-request-body"], "--body NAME=JSON"),
    (&["--api-key"], "--key-env VAR: a key on a command line is seen by every user of the machine"),
    (&["--streaming", "--stream"], "nothing: answers are streamed unless --no-stream is given"),
    (&["--fixed-schedule"], "--trace FILE"),
    (&["--num-conversations", "--num-sessions"], "--sessions (conversations at the same time)"),
    (&["--session-turns-mean", "--num-turns"], "--turns"),
    (&["--session-turn-delay-mean"], "--think (time between an answer and the next turn)"),
    (&["--ramp-up-strategy", "--ramp-up-start-rps", "--ramp-up-end-rps"], "--ramp-rate R..S with --ramp-growth"),
    (&["--request-timeout-seconds", "--request-timeout"], "--timeout (of a whole request, such as 60s)"),
    (&["--workers-max"], "--workers (client threads)"),
    (&["--disable-tqdm"], "--quiet"),
];

/// Adds to an error of `tokrate bench` how a flag of another tool is called here.
pub fn explained(mut error: clap::Error, arguments: &[String]) -> clap::Error {
    let is_bench =
        arguments.iter().skip(1).find(|argument| !argument.starts_with('-')).is_some_and(|word| word == "bench");
    let typed = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(typed)) => typed.split('=').next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => {
            NAMES.iter().find(|(names, _)| names.contains(&typed.as_str())).map(|(_, ours)| *ours)
        }
        _ => None,
    };
    if let Some(ours) = tip.filter(|_| is_bench) {
        let text = match ours.strip_prefix("nothing: ") {
            Some(why) => format!("leave it out: {why}"),
            None => format!("did you mean {ours}?"),
        };
        error.remove(ContextKind::SuggestedArg);
        // The usage that clap has found belongs to the flag that it would have suggested.
        let mut command = crate::flags::Flags::command();
        command.build();
        if let Some(bench) = command.find_subcommand_mut("bench") {
            error.insert(ContextKind::Usage, ContextValue::StyledStr(bench.render_usage()));
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(text)]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut command = crate::flags::Flags::command();
        let error = command.try_get_matches_from_mut(&arguments).expect_err(line);
        let text = explained(error, &arguments).to_string();
        text.lines()
            .take_while(|line| !line.starts_with("For more"))
            .collect::<Vec<_>>()
            .join("\n")
            .trim_end()
            .to_owned()
    }

    #[test]
    fn what_is_named_is_a_flag_of_ours_and_what_is_not_understood_is_none() {
        let command = crate::flags::Flags::command();
        let bench = command.find_subcommand("bench").expect("a command");
        let ours: Vec<String> =
            bench.get_arguments().filter_map(|flag| Some(format!("--{}", flag.get_long()?))).collect();
        for (names, answer) in NAMES {
            for flag in answer.split([' ', ',', ';', ')', ':', '(']).filter(|word| word.starts_with("--")) {
                assert!(ours.contains(&flag.to_owned()), "{flag} of {names:?}");
            }
            for name in *names {
                assert!(!ours.contains(&(*name).to_owned()), "{name} is ours");
                let text = refused(&format!("tokrate bench {name} 3"));
                let tip = answer.strip_prefix("nothing: ").unwrap_or(answer);
                assert!(text.contains(tip), "{name}: {text}");
            }
        }
    }

    #[test]
    fn flags_of_other_tools_are_answered_with_ours() {
        let lines = [
            "tokrate bench --num-prompts 100",
            "tokrate bench --request-rate=inf",
            "tokrate bench --percentile-metrics ttft",
            "tokrate bench --concurency 3",
            "tokrate sim --num-prompts 3",
        ];
        insta::assert_snapshot!("foreign", lines.map(|line| format!("$ {line}\n{}", refused(line))).join("\n"));
    }
}
