//! A `tokrate.toml` that lies in a folder names no address, key, command or file until its user has said that it may.
//!
//! Invariant: what is refused has run nothing, asked nobody and written nothing.

use crate::folder::Folder;
use crate::running::Running;
use crate::tool::{Finished, finish, run, start, tokrate};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Runs a command that leaves a trace, and sends a key of the environment somewhere.
fn hostile(address: &str) -> String {
    format!(
        "[bench]\nmodel = \"m\"\nrequests = 1\nurl = \"http://{address}/v1\"\nkey_cmd = \"touch ran; echo $OPENAI_API_KEY\"\n"
    )
}

fn with_key(folder: &Folder, arguments: &[&str]) -> Finished {
    finish(start(tokrate(folder, arguments).env("OPENAI_API_KEY", "sk-secret-0042")))
}

fn ran(folder: &Folder) -> bool {
    folder.join("ran").exists()
}

/// Without what differs from run to run.
fn shown(folder: &Folder, text: &str) -> String {
    text.replace(&folder.path().display().to_string(), "FOLDER")
}

#[test]
fn a_strangers_file_sends_no_key_and_runs_no_command() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.set_nonblocking(true).expect("it can be asked");
    let address = listener.local_addr().expect("bound").to_string();
    let folder = Folder::new("trust-stranger");
    folder.write("tokrate.toml", &hostile(&address));
    let refused = with_key(&folder, &["bench"]);
    insta::assert_snapshot!("refused", shown(&folder, &refused.stderr));
    let gateway = format!(
        "{}[gateway]\nlisten = \"0.0.0.0:0\"\nlog = \"/tmp/elsewhere.db\"\n[gateway.lanes.a]\nurl = \"http://{address}/v1\"\n\
         model = \"m\"\nkey_env = \"OPENAI_API_KEY\"\nheaders.x-key = \"sk-in-the-file\"\n",
        hostile(&address)
    );
    for (text, command) in [
        (hostile(&address), &["bench"][..]),
        (hostile(&address), &["bench", "--model", "typed", "--key-env", "OPENAI_API_KEY"]),
        (gateway.clone(), &["gateway"]),
        (gateway.clone(), &["gateway", "--check"]),
        (gateway.clone(), &["race", "Hello"]),
        (gateway, &["log"]),
    ] {
        folder.write("tokrate.toml", &text);
        let refused = with_key(&folder, command);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{command:?}: {refused:?}");
        assert!(refused.stderr.contains("`tokrate trust`"), "{command:?}: {}", refused.stderr);
        assert!(!refused.stderr.contains("sk-"), "{command:?}: {}", refused.stderr);
        assert_eq!(folder.names(), ["tokrate.toml"], "{command:?} wrote or ran something");
        let asked = listener.accept().expect_err("nobody was asked");
        assert_eq!(asked.kind(), ErrorKind::WouldBlock);
    }
    // Named on the command line it counts.
    folder.write("tokrate.toml", &hostile("127.0.0.1:9"));
    let taken = with_key(&folder, &["bench", "--config", "tokrate.toml", "--calibration", "off", "--warmup", "0"]);
    assert!(ran(&folder), "{taken:?}");
}

#[test]
fn a_trusted_file_counts_until_it_is_changed_or_lies_elsewhere() {
    let folder = Folder::new("trust-once");
    let text = "[bench]\nmodel = \"m\"\nkey_cmd = \"touch ran; exit 3\"\nurl = \"http://127.0.0.1:9/v1\"\n";
    folder.write("tokrate.toml", text);
    let trust = run(&folder, &["trust"]);
    assert_eq!((trust.code, trust.stderr.as_str()), (Some(0), ""), "{trust:?}");
    assert!(!ran(&folder), "to trust is not to run");
    insta::assert_snapshot!("trusted", shown(&folder, &trust.stdout));
    assert!(run(&folder, &["bench"]).stderr.contains("--key-cmd) ended with") && ran(&folder));
    std::fs::remove_file(folder.join("ran")).expect("removed");
    let list = run(&folder, &["trust", "--list"]);
    assert_eq!(shown(&folder, &list.stdout), "FOLDER/tokrate.toml\n");
    // One sign more.
    folder.write("tokrate.toml", &format!("{text} "));
    let refused = run(&folder, &["bench"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("it has changed since it was trusted"), "{refused:?}");
    assert_eq!(
        shown(&folder, &run(&folder, &["trust", "--list"]).stdout),
        "FOLDER/tokrate.toml   (has changed since)\n"
    );
    // The same text in another folder.
    std::fs::create_dir(folder.join("other")).expect("made");
    folder.write("other/tokrate.toml", text);
    let elsewhere = finish(start(tokrate(&folder, &["bench"]).current_dir(folder.join("other"))));
    assert!(elsewhere.code == Some(2) && elsewhere.stderr.contains("it was never trusted"), "{elsewhere:?}");
    // As it was, it still counts; taken back, it does not.
    folder.write("tokrate.toml", text);
    assert!(run(&folder, &["bench"]).stderr.contains("--key-cmd) ended with") && ran(&folder));
    std::fs::remove_file(folder.join("ran")).expect("removed");
    assert_eq!(run(&folder, &["trust", "--remove"]).code, Some(0));
    let refused = run(&folder, &["bench"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("it was never trusted"), "{refused:?}");
    assert!(!ran(&folder));
    assert_eq!(run(&folder, &["trust", "--list"]).stdout, "");
    assert!(run(&folder, &["trust", "--remove"]).stdout.ends_with("was not trusted\n"));
}

#[test]
fn settings_that_harm_nobody_need_no_trust() {
    let folder = Folder::new("trust-harmless");
    let text = "[bench]\nrequests = 2\nconcurrency = [1]\nassert = [\"failures.share < 1\"]\n\
                [gateway]\nworkers = 1\n[gateway.lanes.a]\nlocal = \"sim:swift\"\n[gateway.aliases.b]\nlanes = [\"a\"]\n";
    folder.write("tokrate.toml", text);
    let checked = run(&folder, &["gateway", "--check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stdout.contains("gateway.workers") && checked.stdout.contains("(tokrate.toml)"), "{checked:?}");
    let bench =
        run(&folder, &["bench", "--output-tokens", "3", "--calibration", "off", "--no-html", "--json", "record.json"]);
    assert_eq!(bench.code, Some(0), "{bench:?}");
    let trust = run(&folder, &["trust"]);
    assert!(trust.code == Some(0) && trust.stdout.contains("it needs no trust"), "{trust:?}");
    assert!(!folder.join("data").exists(), "nothing had to be recorded");
}

#[test]
fn what_init_writes_is_trusted_and_nothing_else_that_lies_there() {
    let folder = Folder::new("trust-init");
    let written = run(&folder, &["init"]);
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""), "{written:?}");
    assert_eq!(run(&folder, &["gateway", "--check"]).code, Some(0));
    let text = folder.read("tokrate.toml");
    folder.write("tokrate.toml", &text.replace("8411", "8499"));
    assert_eq!(run(&folder, &["gateway", "--check"]).code, Some(2));
    folder.write("tokrate.toml", &hostile("127.0.0.1:9"));
    assert_eq!(run(&folder, &["init"]).code, Some(2), "it is there already");
    assert_eq!(run(&folder, &["bench"]).code, Some(2), "it was not trusted by that");
    assert!(!ran(&folder));
}

#[test]
fn what_is_to_be_trusted_is_shown_whole_and_without_tricks() {
    let folder = Folder::new("trust-shown");
    let command = format!("true{}; touch ran", " ".repeat(300));
    folder.write(
        "tokrate.toml",
        &format!(
            "[bench]\nkey_cmd = \"{command}\"\n\"headers\" = [\"x-key: sk-in-the-file\"]\nurl = 'http://me:sk-1@h/\u{202e}v1'\n\
             [gateway.lanes.\"a\\u001b[2K\"]\nurl = '''x\r\ny'''\n"
        ),
    );
    let trust = run(&folder, &["trust"]);
    assert_eq!(trust.code, Some(0), "{trust:?}");
    assert!(trust.stdout.contains(&command), "{}", trust.stdout);
    assert!(!trust.stdout.contains("sk-"), "{}", trust.stdout);
    assert!(trust.stdout.chars().all(|sign| sign == '\n' || (!sign.is_control() && sign != '\u{202e}')), "{trust:?}");
    for (name, text) in [("unknown", "[bench]\nkey_cmdd = \"x\"\n"), ("broken", "[bench\n"), ("no text", "\u{0}")] {
        folder.write("tokrate.toml", text);
        let refused = run(&folder, &["trust"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{name}: {refused:?}");
    }
    for line in [&["trust", "other.toml"][..], &["trust", "nowhere/tokrate.toml"], &["trust", "--list", "--remove"]] {
        assert_eq!(run(&folder, line).code, Some(2), "{line:?}");
    }
}

#[cfg(unix)]
#[test]
fn who_else_can_write_is_said_and_a_store_of_others_is_not_relied_on() {
    use std::os::unix::fs::PermissionsExt;
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let folder = Folder::new("trust-modes");
    folder.write(
        "tokrate.toml",
        "[bench]\nkey_cmd = \"touch ran; exit 3\"\nmodel = \"m\"\nurl = \"http://127.0.0.1:9\"\n",
    );
    set(&folder.join("tokrate.toml"), 0o666);
    assert!(run(&folder, &["bench"]).stderr.contains("every user can change this file"));
    assert!(run(&folder, &["trust"]).stdout.contains("every user can change this file"));
    let store = folder.join("data/tokrate/trusted");
    let mode = store.metadata().expect("made").permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
    set(&store, 0o777);
    let refused = run(&folder, &["bench"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("can write there"), "{refused:?}");
    assert!(!ran(&folder));
    assert_eq!(run(&folder, &["trust"]).code, Some(2));
    set(&store, 0o700);
    assert!(run(&folder, &["bench"]).stderr.contains("--key-cmd) ended with"));
    // An entry that says something else is none.
    for entry in std::fs::read_dir(&store).expect("there") {
        std::fs::write(entry.expect("an entry").path(), "/elsewhere/tokrate.toml").expect("written");
    }
    assert_eq!(run(&folder, &["bench"]).code, Some(2));
    let homeless = finish(start(tokrate(&folder, &["trust"]).env_remove("HOME").env("XDG_DATA_HOME", "relative")));
    assert!(homeless.code == Some(2) && homeless.stderr.contains("set XDG_DATA_HOME or HOME"), "{homeless:?}");
    assert!(!folder.join("relative").exists());
}

#[cfg(unix)]
#[test]
fn a_running_gateway_takes_no_change_that_nobody_trusts() {
    let lanes = |names: &[&str]| {
        let lane = |name: &&str| format!("[gateway.lanes.{name}]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n");
        let lanes: String = names.iter().map(lane).collect();
        format!("[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"off\"\nlog = \"off\"\n{lanes}")
    };
    let ends = ["read the settings again: ", "kept the old settings"];
    let folder = Folder::new("trust-hangup");
    folder.write("tokrate.toml", &lanes(&["a"]));
    assert_eq!(run(&folder, &["trust"]).code, Some(0));
    let gateway = Running::start(tokrate(&folder, &["gateway"]));
    gateway.line_with(&["serving 1 lane at"]);
    folder.write(
        "tokrate.toml",
        &lanes(&["a", "b"]).replace("model = \"m\"", "model = \"m\"\nkey_cmd = \"touch ran; echo k\""),
    );
    gateway.signal("-HUP");
    let message = gateway.line_with(&ends);
    assert!(
        message.contains("kept the old settings") && message.contains("has changed since it was trusted"),
        "{message}"
    );
    assert!(gateway.line_with(&["`tokrate trust`"]).contains("read it"));
    assert!(!ran(&folder));
    assert_eq!(run(&folder, &["trust"]).code, Some(0));
    gateway.signal("-HUP");
    assert!(gateway.line_with(&ends).contains("read the settings again: 2 lanes"));
    assert!(ran(&folder));
    drop(gateway);
    // Named by hand, it is read again as it is.
    let named = Running::start(tokrate(&folder, &["gateway", "--config", "tokrate.toml"]));
    named.line_with(&["serving 2 lanes"]);
    folder.write("tokrate.toml", &lanes(&["a", "b", "c"]));
    named.signal("-HUP");
    assert!(named.line_with(&ends).contains("read the settings again: 3 lanes"));
}

/// A step of `action.yml`, to be run as GitHub runs it, with nothing of the environment but what it takes to find programs: those
/// of the folder's `bin` first.
pub fn step(folder: &Folder, name: &str) -> Command {
    let script = folder.write("step.sh", &script(name));
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(script).current_dir(folder.path()).env_clear();
    command.env("PATH", format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").expect("set")));
    command
}

/// Puts the built binary where the steps find it.
#[cfg(unix)]
pub fn install(folder: &Folder) {
    std::fs::create_dir_all(folder.join("bin")).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tokrate"), folder.join("bin/tokrate")).expect("a link");
}

/// The script of a step of `action.yml`.
fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../action.yml");
    let text = std::fs::read_to_string(path).expect("the action is there");
    let (_, behind) = text.split_once(&format!("- name: {name}\n")).expect("the step is there");
    let (_, script) = behind.split_once("      run: |\n").expect("it has a script");
    let lines = script.lines().take_while(|line| line.is_empty() || line.starts_with("        "));
    lines.map(|line| format!("{}\n", line.trim_start_matches("        "))).collect()
}

#[cfg(unix)]
#[test]
fn the_action_reads_no_settings_that_the_workflow_has_not_named() {
    let folder = Folder::new("trust-action");
    install(&folder);
    std::fs::create_dir(folder.join("checkout")).expect("made");
    // Were its harmless settings read, the bar would not be met.
    let assert = "assert = [\"failures.share > 2\"]\n";
    folder.write("checkout/tokrate.toml", &format!("{}{assert}", hostile("127.0.0.1:9")));
    folder.write(
        "checkout/named.toml",
        "[bench]\nkey_cmd = \"touch ran; exit 3\"\nmodel = \"m\"\nurl = \"http://127.0.0.1:9\"\n",
    );
    let small = "-c 1 -n 2 --output-tokens 3 --calibration off";
    let named = format!("{small} --config=named.toml");
    for (config, arguments, code, runs) in [
        ("", small, "exit-code=0", false),
        ("named.toml", small, "exit-code=2", true),
        ("", named.as_str(), "exit-code=2", true),
    ] {
        let mut command = step(&folder, "Measure");
        command.current_dir(folder.join("checkout")).env("HOME", folder.path()).env("RUNNER_TEMP", folder.path());
        command.env("GITHUB_OUTPUT", folder.write("output", "")).env("OPENAI_API_KEY", "sk-secret-0042");
        command.envs([("TARGET", ""), ("ARGUMENTS", arguments), ("BASELINE", ""), ("CONFIG", config)]);
        let finished = finish(start(&mut command));
        assert!(folder.read("output").contains(code), "{config} {arguments}: {finished:?}\n{}", folder.read("output"));
        let ran = folder.join("checkout/ran");
        assert_eq!(ran.exists(), runs, "{config} {arguments}: {finished:?}");
        let _ = std::fs::remove_file(ran);
    }
}
