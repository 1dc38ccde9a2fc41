//! Builds the instrumented programs of the fuzz targets, runs one, and parses libFuzzer's output.
//!
//! Invariant: they are built from the working tree by the project's compiler, in a folder of their own, with debug
//! assertions and overflow checks; memory and the time of one input are bounded.

use crate::fuzz::inputs;
use crate::fuzz::report::{Crash, Ran};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use xtask::tools;

/// Flags that make the compiler count branches and comparisons: the same passes that cargo-fuzz asks for, which need no other compiler
/// than a stable one. No address sanitizer: the project has no unsafe code that reads input.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Optimised code with assertions, but quick to build.
const PROFILE: [(&str, &str); 6] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true"),
    ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only"),
];
/// An input that takes longer is a failure (s): a thousand times the slowest one of the corpus.
const MAX_INPUT_SECONDS: u32 = 10;
/// More memory is a failure (MiB): inputs have a few KiB.
const MAX_MEMORY_MIB: u32 = 2048;
/// Output of a failure that is shown (lines and bytes).
const MAX_OUTPUT_LINES: usize = 12;
const MAX_OUTPUT_BYTES: usize = 3000;

/// The built programs, one for each target.
pub struct Engine {
    folder: PathBuf,
}

/// One run of it.
pub struct Slice {
    pub length: Duration,
    pub seed: u32,
    /// Longest input that is tried (bytes).
    pub input_bytes_most: usize,
}

impl Engine {
    /// Builds the programs of some targets. All is compiled once, and linked for each of them.
    pub fn build(root: &Path, names: &[String]) -> Result<Engine> {
        let folder = inputs::folder(root);
        let (built, target) = (folder.join("build"), tools::host_target()?);
        println!("xtask: building the fuzz targets into {} (some minutes the first time)", built.display());
        for name in ["logs", "artifacts", "programs"] {
            fs::create_dir_all(folder.join(name)).with_context(|| format!("make {}", folder.join(name).display()))?;
        }
        // With --target, build scripts and macros are not instrumented.
        let arguments =
            ["build", "--release", "--package", "tokrate-fuzz", "--features", "engine", "--target", &target];
        let program = built.join(&target).join("release/fuzz");
        let engine = Engine { folder };
        for (at, name) in names.iter().enumerate() {
            let mut command = Command::new(env!("CARGO"));
            command.args(arguments).current_dir(root).envs(PROFILE).env("RUSTFLAGS", INSTRUMENTED);
            command.env("CARGO_TARGET_DIR", &built).env("TOKRATE_FUZZ_TARGET", name);
            // The first one compiles all that there is to compile.
            tools::run(command.args(if at > 0 { &["--quiet"][..] } else { &[] }))?;
            fs::copy(&program, engine.program(name)).with_context(|| format!("copy {}", program.display()))?;
        }
        Ok(engine)
    }

    /// Runs a target for some time, beginning with the inputs found before.
    pub fn run(&self, name: &str, slice: &Slice) -> Result<Ran> {
        let log = self.log(name);
        let artifacts = self.folder.join("artifacts").join(name);
        fs::create_dir_all(&artifacts).with_context(|| format!("make {}", artifacts.display()))?;
        let began = Instant::now();
        let status = self.call(
            name,
            &[
                format!("-max_total_time={}", slice.length.as_secs().max(1)),
                format!("-seed={}", slice.seed.max(1)),
                format!("-max_len={}", slice.input_bytes_most),
                format!("-artifact_prefix={}/", artifacts.display()),
                inputs::found(&self.folder, name).display().to_string(),
            ],
        )?;
        let output = fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        let output = String::from_utf8_lossy(&output);
        let mut ran = read(&output).with_context(|| format!("parse the output of {}", log.display()))?;
        ran.time = began.elapsed();
        if !status.success() {
            ran.crash = Some(crash(&output).with_context(|| {
                format!("find out why the target {name} ended with {status}; see {}", log.display())
            })?);
        }
        Ok(ran)
    }

    /// Adds the inputs of one folder that reach new code to another, the smallest first.
    pub fn merge(&self, name: &str, out: &Path, found: &Path) -> Result<()> {
        let arguments = ["-merge=1".to_owned(), out.display().to_string(), found.display().to_string()];
        let status = self.call(name, &arguments)?;
        if !status.success() {
            bail!("merge what was found for {name}: {status}; see {}", self.log(name).display());
        }
        Ok(())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("programs").join(name)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join("logs").join(name).with_extension("log")
    }

    fn call(&self, name: &str, arguments: &[String]) -> Result<ExitStatus> {
        let log = self.log(name);
        let file = File::create(&log).with_context(|| format!("write {}", log.display()))?;
        let program = self.program(name);
        let mut command = Command::new(&program);
        command
            .arg(format!("-timeout={MAX_INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MAX_MEMORY_MIB}"))
            .arg("-print_final_stats=1")
            .args(arguments)
            .stdout(file.try_clone().context("share the log")?)
            .stderr(file);
        command.status().with_context(|| format!("run {}", program.display()))
    }
}

/// Parses libFuzzer's output.
fn read(output: &str) -> Result<Ran> {
    let number = |name: &str| output.lines().rev().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let executions = number("stat::number_of_executed_units:").context("find the number of executions")?;
    let state = output.lines().rev().find(|line| line.starts_with('#') && line.contains(" cov: ")).unwrap_or_default();
    let after = |name: &str| {
        let word = state.split_whitespace().skip_while(|word| *word != name).nth(1)?;
        word.split('/').next()?.parse::<u64>().ok()
    };
    Ok(Ran {
        executions,
        features: after("ft:").unwrap_or(0),
        inputs: after("corp:").unwrap_or(0),
        time: Duration::ZERO,
        crash: None,
    })
}

/// Which input failed, and how.
fn crash(output: &str) -> Option<Crash> {
    let written =
        output.lines().find_map(|line| line.split_once("Test unit written to ").map(|(_, path)| path.trim()))?;
    let begins = output.lines().position(|line| line.contains("panicked at") || line.contains("ERROR: libFuzzer"))?;
    let mut why: String = output.lines().skip(begins).take(MAX_OUTPUT_LINES).collect::<Vec<_>>().join("\n");
    why.truncate(why.floor_char_boundary(MAX_OUTPUT_BYTES));
    Some(Crash { input: written.into(), output: why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fuzzer_says_is_read() {
        let output = "INFO: seed\n#2\tINITED cov: 9 ft: 12 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #4096\tpulse  cov: 90 ft: 120 corp: 17/1022b lim: 4096 exec/s: 2048 rss: 31Mb\n\
                    stat::number_of_executed_units: 4321\nstat::average_exec_per_sec:     2160\n";
        let ran = read(output).expect("good");
        assert_eq!((ran.executions, ran.features, ran.inputs), (4321, 120, 17));
        assert!(read("INFO: seed\n").is_err());
    }

    #[test]
    fn a_crash_is_told_with_its_input() {
        let output = "#7 NEW\nthread '<unnamed>' panicked at fuzz/src/x.rs:3:5:\nnot so\n==1== ERROR: libFuzzer: deadly signal\n\
                    artifact_prefix='a/'; Test unit written to a/crash-0123\n";
        let crash = crash(output).expect("there is one");
        assert_eq!(crash.input, Path::new("a/crash-0123"));
        assert!(crash.output.starts_with("thread") && crash.output.contains("not so"));
    }
}
