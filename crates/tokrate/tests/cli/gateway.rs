//! `tokrate gateway` as a process: engines inside of it, what `tokrate init` wrote for it, and its limit of open files.
//!
//! Invariant: it listens on loopback, on a port of its own, and reaches nothing but servers of the test.

use crate::apply::{AMBIGUOUS, FILE, GOOD, MERGED};
use crate::apply_fallback::SNIPPET;
use crate::folder::Folder;
use crate::scripted::{Server, Then};
use crate::tool::{BOUND, finish, start, tokrate};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::mpsc::channel;

/// A gateway until it is dropped.
struct Served {
    child: Child,
    address: String,
}

/// An answer of it.
struct Answer {
    head: String,
    body: Value,
}

impl Served {
    fn start(command: &mut Command) -> Served {
        let mut child = start(command);
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = sender.send(line);
            // What follows is read so that the pipe never fills.
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        });
        let first = lines.recv_timeout(BOUND).expect("it says where it listens");
        let address = first.split_once("http://").and_then(|(_, rest)| rest.split('/').next()).map(str::to_owned);
        let address = address.unwrap_or_else(|| panic!("no address in {first:?}: {:?}", finish_now(&mut child)));
        Served { child, address }
    }

    fn ask(&self, model: &str, content: &str) -> Answer {
        let body = json!({"model": model, "messages": [{"role": "user", "content": content}]}).to_string();
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(BOUND)).expect("a bound");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer within the bound");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        Answer { head: head.to_lowercase(), body }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn finish_now(child: &mut Child) -> String {
    let _ = child.kill();
    let mut text = String::new();
    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut text));
    text
}

fn gateway(folder: &Folder, settings: &str) -> Command {
    let top = "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"off\"\nlog = \"off\"\n";
    folder.write("gateway.toml", &format!("{top}{settings}"));
    tokrate(folder, &["gateway", "--config", "gateway.toml"])
}

fn edit(update: &str) -> String {
    format!("<instruction>I set x</instruction>\n<code>{FILE}</code>\n<update>{update}</update>")
}

/// What a model makes of a snippet that two places of the file would do.
fn by_model() -> String {
    FILE.replacen("    let x = 1;\n", "    let x = 1;\n    let y = 2;\n", 1)
}

#[test]
fn the_merge_engine_answers_edits_and_a_model_those_that_it_refuses() {
    let model = Server::start(|asked, stream| {
        assert!(String::from_utf8_lossy(&asked.body).contains("<update>"), "the whole edit comes");
        let body = json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": by_model()}}],
        })
        .to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).map(|()| Then::Keep)
    });
    let folder = Folder::new("gateway-merge");
    let served = Served::start(&mut gateway(
        &folder,
        &format!(
            "[gateway.lanes.merge]\nlocal = \"apply\"\n[gateway.lanes.model]\nurl = \"{}\"\nmodel = \"m\"\n\
             [gateway.aliases.apply]\nlanes = [\"merge\", \"model\"]\nobjective = \"fixed\"\n",
            model.url()
        ),
    ));
    // More refusals than failures open a breaker: the engine is asked first every time.
    for _ in 0..12 {
        let refused = served.ask("apply", &edit(SNIPPET));
        assert_eq!(refused.body["choices"][0]["message"]["content"], by_model(), "{}", refused.head);
        assert!(refused.head.contains("x-tokrate-winner: model"), "{}", refused.head);
    }
    let merged = served.ask("apply", &edit(GOOD));
    assert_eq!(merged.body["choices"][0]["message"]["content"], MERGED, "{}", merged.body);
    assert!(merged.head.contains("x-tokrate-winner: merge"), "{}", merged.head);
    // Asked for alone, it says itself why.
    let refused = served.ask("merge", &edit(AMBIGUOUS));
    assert!(refused.head.starts_with("http/1.1 422"), "{}", refused.head);
    assert_eq!(refused.body["error"]["code"], "ambiguous_location", "{}", refused.body);
}

/// Two engines by script: one writes the blocks that it is told to write, the other talks or changes what it should not.
#[test]
fn a_general_model_behind_the_engine_is_told_how_and_its_blocks_are_merged_and_checked() {
    let blocks = "<<<<<<< SEARCH\nfn one() -> u32 {\n    let x = 1;\n=======\nfn one() -> u32 {\n    let x = 1;\n    let y = 2;\n>>>>>>> REPLACE\n";
    let wrong = blocks.replace("    let x = 1;\n    let y", "    let x = 7;\n    let y");
    let scripted = |name: &str, told: &str| {
        let folder = Folder::new(name);
        let rule = |contains: &str, text: &str| format!("[[answer]]\ncontains = {contains:?}\ntext = {text:?}\n");
        folder.write("script.toml", &(rule("blocks of this form", told) + &rule("update", "nobody told me")));
        let served =
            Served::start(&mut tokrate(&folder, &["sim", "--script", "script.toml", "--listen", "127.0.0.1:0"]));
        (folder, served)
    };
    for (dialect, base) in [("openai-chat", "/v1"), ("anthropic", "/v1"), ("gemini", "/v1beta")] {
        let name = format!("gateway-told-{dialect}");
        let (_script, engine) = scripted(&format!("{name}-sim"), blocks);
        let (_bad_script, bad) = scripted(&format!("{name}-bad"), &wrong);
        let folder = Folder::new(&name);
        let settings = |lanes: &str| {
            let lane = |name: &str, engine: &Served| {
                format!(
                    "[gateway.lanes.{name}]\nurl = \"http://{}{base}\"\nmodel = \"small\"\ndialect = \"{dialect}\"\n",
                    engine.address
                )
            };
            let of_lanes = lane("good", &engine) + &lane("bad", &bad);
            format!(
                "[gateway.lanes.merge]\nlocal = \"apply\"\n{of_lanes}[gateway.aliases.apply]\nlanes = [\"merge\", {lanes}]\nobjective = \"fixed\"\n"
            )
        };
        let served = Served::start(&mut gateway(&folder, &settings("\"bad\", \"good\"")));
        let merged = served.ask("apply", &edit(SNIPPET));
        assert_eq!(
            merged.body["choices"][0]["message"]["content"],
            by_model(),
            "{dialect}: {}{}",
            merged.head,
            merged.body
        );
        assert!(merged.head.contains("x-tokrate-winner: good"), "{}", merged.head);
        let direct = served.ask("apply", &edit(GOOD));
        assert!(direct.head.contains("x-tokrate-winner: merge"), "the engine is asked first: {}", direct.head);
        drop(served);
        let served = Served::start(&mut gateway(&folder, &settings("\"bad\"")));
        let refused = served.ask("apply", &edit(SNIPPET));
        assert!(refused.head.starts_with("http/1.1 422"), "{}{}", refused.head, refused.body);
        assert!(refused.body.to_string().contains("the model's answer was not accepted"), "{}", refused.body);
    }
}

#[test]
fn a_model_that_the_merge_engine_does_not_have_is_refused_at_the_start() {
    let folder = Folder::new("gateway-merge-model");
    let settings = "[gateway.lanes.merge]\nlocal = \"apply\"\nmodel = \"gpt-4\"\n";
    let refused = finish(start(&mut gateway(&folder, settings)));
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    insta::assert_snapshot!(refused.stderr);
}

#[test]
fn what_init_writes_for_several_keys_is_accepted_and_its_aliases_are_named() {
    let folder = Folder::new("gateway-init");
    let keys = ["OPENAI_API_KEY", "CEREBRAS_API_KEY", "GROQ_API_KEY", "MORPH_API_KEY"];
    let with_keys = |arguments: &[&str]| {
        let mut command = tokrate(&folder, arguments);
        command.envs(keys.map(|key| (key, "not-a-key")));
        finish(start(&mut command))
    };
    let wrote = with_keys(&["init"]);
    assert_eq!(wrote.code, Some(0), "{}", wrote.stderr);
    let checked = with_keys(&["gateway", "--check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let aliases: Vec<&str> = checked.stdout.lines().filter(|line| line.starts_with("gateway.aliases.")).collect();
    let text = format!("{}\n{}", wrote.stdout, aliases.join("\n"));
    insta::assert_snapshot!(text.replace(&folder.path().display().to_string(), "FOLDER"));
}

/// Programs under a small soft limit would end at a few hundred calls.
#[cfg(target_os = "linux")]
#[test]
fn the_limit_of_open_files_is_raised_as_far_as_the_system_lets_it() {
    let folder = Folder::new("gateway-files");
    let gateway = gateway(&folder, "[gateway.lanes.quick]\nlocal = \"sim:prompt\"\n");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 64 && exec \"$0\" \"$@\""]).arg(gateway.get_program()).args(gateway.get_args());
    limited.current_dir(folder.path()).env_clear();
    limited.envs(gateway.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let served = Served::start(&mut limited);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", served.child.id())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "soft and hard: {line}");
}

/// The line to try names an alias that answers questions.
#[test]
fn auto_is_what_the_start_suggests() {
    let folder = Folder::new("gateway-auto");
    let mut command = gateway(
        &folder,
        "[gateway.lanes.merge]\nlocal = \"apply\"\n[gateway.lanes.quick]\nlocal = \"sim:prompt\"\n\
         [gateway.aliases.apply]\nlanes = [\"merge\"]\n[gateway.aliases.auto]\nlanes = [\"quick\"]\n",
    );
    let mut child = start(&mut command);
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let (sender, found) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        while !text.contains("try: ") && stdout.read_line(&mut text).is_ok_and(|length| length > 0) {}
        let _ = sender.send(text);
    });
    let text = found.recv_timeout(BOUND);
    finish_now(&mut child);
    let _ = child.wait();
    let text = text.expect("it says what to try");
    assert!(text.contains("model `auto`"), "{text}");
}
