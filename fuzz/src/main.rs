//! The one program of all targets: with the feature `engine` libFuzzer on the target that `TOKRATE_FUZZ_TARGET` names, without
//! it a run over files: `cargo run -p tokrate-fuzz -- TARGET FILE…`, to look at a failure under a debugger.
//!
//! It does not look for inputs itself. Invariant: both run the same functions.

// Clippy sees libFuzzer's side, so that it is checked although the tests do not link it.
#![cfg_attr(any(feature = "engine", clippy), no_main)]

#[cfg(any(feature = "engine", clippy))]
mod engine {
    use std::sync::OnceLock;
    use tokrate_fuzz::{Target, target};

    static CHOSEN: OnceLock<Target> = OnceLock::new();

    fn chosen() -> Target {
        let name = std::env::var("TOKRATE_FUZZ_TARGET").unwrap_or_default();
        *target(&name).unwrap_or_else(|| panic!("TOKRATE_FUZZ_TARGET names no target: `{name}`"))
    }

    libfuzzer_sys::fuzz_target!(|input: &[u8]| (CHOSEN.get_or_init(chosen).run)(input));
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
