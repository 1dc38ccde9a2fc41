//! `tokrate targets`: the list of presets, and what is found on the ports of this machine.
//!
//! Invariant: whatever listens, the answer comes at once and shows no key.

use crate::folder::Folder;
use crate::scripted::{Server, Then, answer};
use crate::tool::{Finished, finish, run, start, tokrate};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::time::{Duration, Instant};

/// A server that knows these paths, with a `Server` header of that name.
fn engine(name: &'static str, answers: &[(&'static str, Value)]) -> Server {
    let answers: Vec<(&str, String)> = answers.iter().map(|(path, body)| (*path, body.to_string())).collect();
    Server::start(move |asked, stream| {
        let path = asked.head.split(' ').nth(1).unwrap_or_default().to_owned();
        assert!(asked.head.starts_with("GET ") && asked.header("authorization").is_none(), "{}", asked.head);
        let text = match answers.iter().find(|(known, _)| *known == path) {
            Some((_, body)) => answer("200 OK", "application/json", body),
            None => answer("404 Not Found", "application/json", "{\"error\": \"no such path\"}"),
        };
        stream.write_all(text.replacen("\r\n", &format!("\r\nServer: {name}\r\n"), 1).as_bytes())?;
        Ok(Then::Close)
    })
}

fn models(owner: &str, names: &[&str]) -> Value {
    let data = names.iter().map(|name| json!({"id": name, "object": "model", "owned_by": owner}));
    json!({"object": "list", "data": data.collect::<Vec<_>>()})
}

fn port(server: &Server) -> u16 {
    server.place().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

fn search(ports: &[u16]) -> (Finished, Value) {
    let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let finished = run(&Folder::new("search"), &["targets", "--json", "--port", &ports]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    let value = serde_json::from_str(&finished.stdout).expect("JSON");
    (finished, value)
}

fn found(servers: &[&Server]) -> Vec<Value> {
    let ports: Vec<u16> = servers.iter().map(|server| port(server)).collect();
    let (_, value) = search(&ports);
    assert_eq!(value["schema"], "tokrate.targets.v1");
    let all = value["found"].as_array().expect("a list");
    ports.iter().map(|port| all.iter().find(|found| found["port"] == *port).cloned().unwrap_or_default()).collect()
}

#[test]
fn every_engine_is_told_by_what_it_answers() {
    let engines = [
        ("vllm", engine("uvicorn", &[("/v1/models", models("vllm", &["a/b"])), ("/version", json!({"version": "1"}))])),
        ("sglang", engine("uvicorn", &[("/v1/models", models("sglang", &["a/b"]))])),
        ("trtllm", engine("uvicorn", &[("/v1/models", models("tensorrt_llm", &["a/b"]))])),
        ("llama-cpp", engine("llama.cpp", &[("/v1/models", models("llamacpp", &["a/b"]))])),
        (
            "llama-cpp",
            engine(
                "x",
                &[("/v1/models", models("me", &["a/b"])), ("/props", json!({"default_generation_settings": {}}))],
            ),
        ),
        (
            "ollama",
            engine(
                "x",
                &[("/api/version", json!({"version": "0.9"})), ("/api/tags", json!({"models": [{"name": "a/b"}]}))],
            ),
        ),
        (
            "lm-studio",
            engine(
                "x",
                &[
                    ("/v1/models", models("organization_owner", &["a/b"])),
                    ("/api/v0/models", json!({"data": [{"id": "a/b", "publisher": "a"}]})),
                ],
            ),
        ),
        ("tgi", engine("x", &[("/info", json!({"model_id": "a/b", "max_concurrent_requests": 128}))])),
        (
            "mlx",
            engine(
                "BaseHTTP/0.6 Python/3.12",
                &[("/v1/models", json!({"object": "list", "data": [{"id": "a/b", "object": "model"}]}))],
            ),
        ),
    ];
    let servers: Vec<&Server> = engines.iter().map(|(_, server)| server).collect();
    for ((name, server), found) in engines.iter().zip(found(&servers)) {
        assert_eq!((found["what"].as_str(), found["engine"].as_str()), (Some("engine"), Some(*name)), "{found}");
        assert_eq!(found["models"], json!(["a/b"]), "{found}");
        assert_eq!(found["commands"], json!([format!("tokrate bench {name}@{}/a/b", server.place())]));
    }
}

#[test]
fn what_is_no_engine_is_called_so() {
    let other = engine("nginx", &[("/v1/models", models("someone", &["m one", "m2"]))]);
    let page = engine("nginx", &[]);
    let locked = Server::saying(answer("401 Unauthorized", "application/json", "{}"));
    let garbage = Server::saying(&b"\x00\xff not HTTP at all\r\n\r\n"[..]);
    let broken = Server::saying(answer("200 OK", "application/json", "{\"data\": [{\"id\": 3}, 7, {"));
    let found = found(&[&other, &page, &locked, &garbage, &broken]);
    let what: Vec<&Value> = found.iter().map(|found| &found["what"]).collect();
    assert_eq!(what, ["openai-like", "unknown", "locked", "unknown", "unknown"], "{found:?}");
    assert_eq!(
        found[0]["commands"],
        json!([
            format!("tokrate bench --url {} --model 'm one'", other.url()),
            format!("tokrate bench --url {} --model m2", other.url())
        ])
    );
}

#[test]
fn a_server_that_says_nothing_or_too_much_costs_little_time() {
    let silent = Server::accepting(|stream| {
        // Until the other side leaves.
        let _ = BufReader::new(stream).lines().map_while(Result::ok).count();
    });
    let endless = Server::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")?;
        while stream.write_all(&[b' '; 65536]).is_ok() {}
        Ok(Then::Close)
    });
    let started = Instant::now();
    let found = found(&[&silent, &endless]);
    assert_eq!(found[0]["what"], "silent");
    assert!(["silent", "unknown"].contains(&found[1]["what"].as_str().unwrap_or_default()), "{found:?}");
    // Far above the few seconds that each is given.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn a_model_name_cannot_reach_the_terminal_as_it_is() {
    let server = engine("x", &[("/v1/models", models("vllm", &["m\u{1b}]0;evil\u{7}\n$(id)"]))]);
    let port = port(&server).to_string();
    let finished = run(&Folder::new("hostile-name"), &["targets", "--port", &port]);
    assert_eq!(finished.code, Some(0));
    let line = finished.stdout.lines().find(|line| line.contains("evil")).expect("it is listed");
    assert_eq!(line.trim(), format!("tokrate bench 'vllm@127.0.0.1:{port}/m?]0;evil??$(id)'"));
}

#[test]
fn the_simulated_engine_is_found_and_can_be_measured_by_its_name() {
    let folder = Folder::new("sim-found");
    let mut sim = start(&mut tokrate(&folder, &["sim", "--listen", "127.0.0.1:0", "--delay", "1ms", "--speed", "inf"]));
    let mut lines = BufReader::new(sim.stdout.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    let address = first.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let port: u16 = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let (_, value) = search(&[port]);
    let all = value["found"].as_array().expect("a list");
    let found = all.iter().find(|found| found["port"] == port).expect("it is found");
    assert_eq!(found["engine"], "sim", "{found}");
    let command = found["commands"][0].as_str().expect("a command").to_owned();
    let arguments =
        format!("{} -c 1 -n 2 --warmup 0 --calibration off --json -", command.trim_start_matches("tokrate "));
    let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<_>>());
    sim.kill().expect("it runs");
    sim.wait().expect("it has ended");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let record: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(record["conditions"]["provider"], "sim");
}

#[test]
fn the_list_says_which_keys_are_there_and_shows_none() {
    let folder = Folder::new("list");
    let mut command = tokrate(&folder, &["targets", "--no-search"]);
    let finished =
        finish(start(command.env("GROQ_API_KEY", "gsk-secret-1234567").env("DEEPINFRA_TOKEN", "di-secret-1234567")));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    assert!(!finished.stdout.contains("secret"), "{}", finished.stdout);
    insta::assert_snapshot!("list", finished.stdout);
    let mut command = tokrate(&folder, &["targets", "--no-search", "--json"]);
    let finished = finish(start(command.env("GROQ_API_KEY", "gsk-secret-1234567")));
    assert!(!finished.stdout.contains("secret"));
    let value: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let row = |name: &str| {
        let rows = value["providers"].as_array().expect("a list");
        rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(row("groq")["keys"], json!([{"variable": "GROQ_API_KEY", "set": true}]));
    assert_eq!(row("openai")["keys"], json!([{"variable": "OPENAI_API_KEY", "set": false}]));
    assert_eq!((&value["found"], &value["searched"]["ports"]), (&json!([]), &json!([])));
}
