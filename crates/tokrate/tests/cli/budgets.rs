//! What `tokrate gateway` says of limits in dollars that cannot be kept, or that users will stumble over.
//!
//! It does not start a gateway that listens. Invariant: everything is said with `--check` as well.

use crate::folder::Folder;
use crate::tool::{Finished, run};

/// A lane that nobody has a price of, one that has one, and a key with a dollar a month.
fn checked(top: &str, flags: &[&str]) -> Finished {
    let folder = Folder::new("budgets");
    let hash = "0".repeat(64);
    let settings = format!(
        "[gateway]\n{top}\n\n[gateway.lanes.own]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n\n\
         [gateway.lanes.dear]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nprice = {{ input = 3.0, output = 15.0 }}\n\n\
         [gateway.aliases.auto]\nlanes = [\"own\", \"dear\"]\n\n\
         [gateway.keys.team]\nsha256 = \"{hash}\"\nusd_per_month = 1.0\n"
    );
    std::fs::write(folder.join("tokrate.toml"), settings).expect("the folder is there");
    run(&folder, &[&["gateway", "--config", "tokrate.toml", "--check"], flags].concat())
}

#[test]
fn a_check_names_lanes_that_a_key_with_a_budget_cannot_use_or_only_one_call_at_a_time() {
    let finished = checked("", &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    insta::assert_snapshot!(finished.stderr);
}

#[test]
fn a_budget_without_a_log_or_with_one_that_forgets_is_refused_by_a_check_and_at_the_start() {
    for (top, flags, message) in [
        ("log = \"off\"", &[][..], "without a log a restart forgets"),
        ("", &["--log", "off"], "without a log a restart forgets"),
        ("log_retention = \"48h\"", &[], "raise `log_retention`"),
    ] {
        let finished = checked(top, flags);
        assert_eq!(finished.code, Some(2), "{top} {flags:?}");
        assert!(finished.stderr.contains("key `team`") && finished.stderr.contains(message), "{}", finished.stderr);
    }
}
