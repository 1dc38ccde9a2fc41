//! The merge engine as a server, until Ctrl-C.

use crate::commands::{Verdict, interrupt};
use anyhow::Result;
use std::fmt::Write;
use std::net::SocketAddr;
use tokrate_apply_host::{HostConfig, Summary, run as serve};
use tokrate_bench::Stop;

/// Serves until interrupted; then prints how many edits were merged and refused.
pub fn run(config: HostConfig) -> Result<Verdict> {
    let stop = Stop::default();
    interrupt::watch_quietly(stop.clone())?;
    let fallback = config.fallback.as_ref().map(|model| format!("{} at {}", model.model, model.target));
    let requires_key = config.api_key.is_some();
    tokrate_net::server::raise_open_files();
    let ready = move |address: SocketAddr| anstream::print!("{}", opening(address, requires_key, fallback.as_deref()));
    let summary = serve(config, ready, async move { stop.wait().await })?;
    anstream::println!("{}", closing(&summary));
    Ok(Verdict::Good)
}

fn opening(address: SocketAddr, requires_key: bool, fallback: Option<&str>) -> String {
    let base = format!("http://{address}");
    let key = if requires_key { " -H 'authorization: Bearer KEY'" } else { "" };
    let fallback = fallback.map_or_else(String::new, |model| format!("what is refused is given to {model}\n"));
    format!(
        "merging edits at {base}/v1 (Ctrl-C ends)\n\
         try: curl {base}/v1/code/apply{key} -H 'content-type: application/json' \\\n       -d '{{\"initial_code\": \"a = 1\\n\", \"edit_snippet\": \
         \"{{\\\"old_string\\\": \\\"1\\\", \\\"new_string\\\": \\\"2\\\"}}\"}}'\n{fallback}"
    )
}

fn closing(summary: &Summary) -> String {
    let refused: u64 = summary.refused.values().sum();
    let mut text = format!("merged {} edits", summary.merged);
    if summary.unchanged > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, ", {} the file had already", summary.unchanged);
    }
    if summary.merged_by_model > 0 {
        let _ = write!(text, ", {} more by the model", summary.merged_by_model);
    }
    let _ = write!(text, ", refused {refused}");
    for (number, (code, count)) in summary.refused.iter().enumerate() {
        let sign = if number == 0 { ": " } else { ", " };
        let _ = write!(text, "{sign}{code} {count}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_came_of_the_edits() {
        assert_eq!(closing(&Summary::default()), "merged 0 edits, refused 0");
        let refused = [("no_anchor", 2), ("ambiguous_location", 1)].into();
        let summary = Summary { merged: 5, merged_by_model: 1, refused, ..Summary::default() };
        assert_eq!(
            closing(&summary),
            "merged 5 edits, 1 more by the model, refused 3: ambiguous_location 1, no_anchor 2"
        );
    }
}
