//! With the feature `engine` libFuzzer on one target, without it a run over files: `cargo run -p tokrate-fuzz -- TARGET FILE…`, to
//! look at a failure under a debugger.
//!
//! It does not look for inputs itself. Invariant: both run the same functions. libFuzzer's target is the one that the variable
//! `TOKRATE_FUZZ_TARGET` named when this was compiled: after every input libFuzzer looks at all counters of the program, which takes
//! 35 µs with those of all targets and 1 µs with those of a small one.

// Clippy sees libFuzzer's side, so that it is checked although the tests do not link it.
#![cfg_attr(any(feature = "engine", clippy), no_main)]

#[cfg(any(feature = "engine", clippy))]
mod engine {
    use tokrate_fuzz::{TARGETS, Target, constant_target};

    /// Known while compiling, so that the linker leaves out the others with their counters.
    const CHOSEN: Target = match option_env!("TOKRATE_FUZZ_TARGET") {
        Some(name) => constant_target(name),
        None => TARGETS[0],
    };

    libfuzzer_sys::fuzz_target!(|input: &[u8]| (CHOSEN.run)(input));
}

#[cfg(not(any(feature = "engine", clippy)))]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chosen = arguments.split_first().and_then(|(name, files)| Some((tokrate_fuzz::target(name)?, files)));
    let Some((target, files)) = chosen.filter(|(_, files)| !files.is_empty()) else {
        let names: Vec<&str> = tokrate_fuzz::TARGETS.iter().map(|target| target.name).collect();
        eprintln!("usage: fuzz TARGET FILE…; the targets are {}", names.join(", "));
        return std::process::ExitCode::from(2);
    };
    for file in files {
        match std::fs::read(file) {
            Ok(input) => (target.run)(&input),
            Err(error) => {
                eprintln!("fuzz: failed to read {file}: {error}");
                return std::process::ExitCode::from(2);
            }
        }
    }
    std::process::ExitCode::SUCCESS
}
