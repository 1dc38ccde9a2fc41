//! `cargo xtask release`: the binary as it is handed out. It is built twice: once so that it counts what it does, and, after a
//! training, with functions laid out and optimised by those counts (profile-guided optimisation).
//!
//! It does not train on the scenes that `cargo xtask bench` measures. Invariant: merging, measuring, simulating and
//! serving are all trained, because the compiler makes small what it never saw run.

mod sbom;

use crate::bench::GuardedProcess;
use crate::soak::process::{START_STOP_TIMEOUT, Server, address_after};
use crate::{bench, soak};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::tools;

/// Where it is made, and what it is called there.
const FOLDER: &str = "target/guided";
/// The soak of the training: every dialect, mode and fault.
const SOAK: [&str; 6] = ["--minutes", "1", "--rate", "40", "--seed", "11"];
/// Loads of the training: requests, and flags of `tokrate bench`. Whole answers are most calls, streams most events.
const LOADS: [(u32, &str); 3] = [
    (10_000, "--concurrency 1,50 --no-stream --output-tokens 5"),
    (2_000, "--concurrency 1,50 --output-tokens 20"),
    (1_000, "--concurrency 50 --output-tokens 400"),
];
/// The part of the requests that the tests send.
const TESTED: u32 = 20;
/// Edits that are merged.
const EDITS: usize = 3000;
/// Choices without a branch are not counted: some are made of values that are undefined where nobody looks at them, and then
/// the counts are nonsense beside which all others are nothing (LLVM 22). Both builds have to agree on this.
const BRANCHES_ONLY: &str = "-Cllvm-args=-pgo-instr-select=false";
/// The linker keeps what ran often apart from what did not, so that a call touches fewer pages.
const APART: &str = "-Clink-arg=-Wl,-z,keep-text-section-prefix";

/// How it is called.
const USAGE: &str = "\
usage: cargo xtask release [--try BINARY]
       BINARY goes through a small part of the training and nothing is built; the tests do that with a debug build
";

/// What was asked for.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    match arguments {
        [] => release(root),
        [flag, binary] if flag == "--try" => attempt(&std::path::absolute(binary)?),
        _ => bail!("understand {}\n{USAGE}", arguments.join(" ")),
    }
}

/// Builds, trains, and builds again.
fn release(root: &Path) -> Result<()> {
    let merger = tools::profile_merger()?;
    let folder = root.join(FOLDER);
    let (counts, profile) = (folder.join("counts"), folder.join("merged.profdata"));
    if counts.exists() {
        std::fs::remove_dir_all(&counts).context("forget the counts of the last time")?;
    }
    std::fs::create_dir_all(&counts).with_context(|| format!("make {}", counts.display()))?;
    println!("lab: building the binary that counts (1 of 3)");
    let counting = build(root, "counting", &[format!("-Cprofile-generate={}", counts.display())])?;
    println!("lab: training it (2 of 3)");
    train(root, &counting, &folder)?;
    tools::run(Command::new(merger).arg("merge").arg("-o").arg(&profile).args(files(&counts)?))?;
    println!("lab: building the binary that is handed out (3 of 3)");
    let mut flags = vec![format!("-Cprofile-use={}", profile.display())];
    if cfg!(target_os = "linux") {
        flags.push(APART.to_owned());
    }
    let guided = build(root, "using", &flags)?;
    let tokrate = folder.join("tokrate");
    std::fs::copy(&guided, &tokrate).with_context(|| format!("copy {}", guided.display()))?;
    let materials = sbom::write(root, &folder)?;
    println!("lab: {} and {} are ready", tokrate.display(), materials.display());
    Ok(())
}

/// A build with flags of its own in a folder of its own. Naming the target keeps the flags from build scripts.
fn build(root: &Path, name: &str, flags: &[String]) -> Result<PathBuf> {
    let target = tools::host_target()?;
    let folder = root.join(FOLDER).join(name);
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--release", "--quiet", "--package", "tokrate", "--target", &target, "--target-dir"]);
    // Flags are summary apart by this character, so that paths may hold spaces.
    let flags = [flags, &[BRANCHES_ONLY.to_owned()]].concat();
    command.arg(&folder).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).current_dir(root);
    tools::run(&mut command)?;
    Ok(folder.join(target).join("release/tokrate"))
}

fn train(root: &Path, tokrate: &Path, folder: &Path) -> Result<()> {
    let work = folder.join("work");
    std::fs::create_dir_all(&work).with_context(|| format!("make {}", work.display()))?;
    merge_edits(root, tokrate, &work)?;
    carry_calls(tokrate, &work, 1)?;
    soak::with(root, tokrate, &SOAK.map(str::to_owned))?;
    std::fs::remove_dir_all(&work).context("forget what the training wrote")
}

/// Edits out of the history of this repository, one after the other.
fn merge_edits(root: &Path, tokrate: &Path, work: &Path) -> Result<()> {
    let (cases, merged) = (work.join("cases.jsonl"), work.join("merged.jsonl"));
    bench::write_edits(root, EDITS, &cases)?;
    let mut command = Command::new(tokrate);
    command.args(["apply", "--batch"]).arg(&cases).arg("--output").arg(&merged).stdout(Stdio::null());
    // Some of the edits are to be refused, which is a code of its own.
    let status = command.status().context("run apply --batch")?;
    ensure!(matches!(status.code(), Some(0 | 1)), "merge the edits: {status}");
    Ok(())
}

/// A part of the training, with a build that is there already.
fn attempt(tokrate: &Path) -> Result<()> {
    let work = std::env::temp_dir().join(format!("tokrate-training-{}", std::process::id()));
    std::fs::create_dir_all(&work).with_context(|| format!("make {}", work.display()))?;
    carry_calls(tokrate, &work, TESTED)?;
    std::fs::remove_dir_all(&work).with_context(|| format!("remove {}", work.display()))
}

/// Calls of `tokrate bench` through the gateway to an engine that answers as fast as it can; one of `part` of them.
fn carry_calls(tokrate: &Path, work: &Path, part: u32) -> Result<()> {
    let flags = "sim --listen 127.0.0.1:0 --slots 64 --delay 0ms --prefill 1e9 --speed inf";
    let engine = start(tokrate, flags, work.join("engine"))?;
    let engine_at = address_after(&engine, " at http://").context("start the engine")?;
    let settings = format!(
        "[gateway.lanes.engine]\nurl = \"http://{engine_at}/v1\"\nmodel = \"sim\"\n\
         [gateway.aliases.sim]\nlanes = [\"engine\"]\nmode = \"off\"\n"
    );
    std::fs::write(work.join("gateway.toml"), settings).context("write the gateway's settings")?;
    let flags = "gateway --config gateway.toml --listen 127.0.0.1:0 --admin 127.0.0.1:0 --log log.db";
    let gateway = start(tokrate, flags, work.join("gateway"))?;
    let gateway_at = address_after(&gateway, " at http://").context("start the gateway")?;
    for (requests, load) in LOADS {
        let mut command = Command::new(tokrate);
        command.args(["bench", "--url", &format!("http://{gateway_at}/v1"), "--model", "sim", "--calibration", "off"]);
        command.args(["--quiet", "--input-tokens", "200", "--requests", &(requests / part).to_string()]);
        tools::run(command.args(load.split(' ')).current_dir(work))?;
    }
    // Counts are written at a clean end only.
    gateway.stop(START_STOP_TIMEOUT)?;
    engine.stop(START_STOP_TIMEOUT)
}

fn start(tokrate: &Path, arguments: &str, log: PathBuf) -> Result<Server> {
    let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
    Ok(Server(GuardedProcess::start(tokrate, &arguments, &[], log)?))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("look into {}", folder.display()))?;
    let files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    ensure!(!files.is_empty(), "find counts in {}: the training left none", folder.display());
    Ok(files)
}
