//! Asks the linker for a smaller file. Invariant: nothing of the program depends on it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("PROFILE", "release") {
        // Strings that end another string are kept once. Every linker of Linux knows it.
        println!("cargo::rustc-link-arg-bins=-Wl,-O2");
    }
}
