//! Batches against a server that answers by a script, over loopback: what is left there when a run ends in the middle of one.

use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tokrate_net::{ClientConfig, Route, Target};

/// Status and body for a method and a path.
type Script = Arc<dyn Fn(&str) -> (u16, String) + Send + Sync>;

/// Serves until the process ends; what was asked for is in the log.
fn serve(script: Script) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let origin = format!("http://{}", listener.local_addr().expect("it is bound"));
    let log = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&log);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
            std::thread::spawn(move || answer(&stream, &*script, &asked));
        }
    });
    (origin, log)
}

fn answer(mut stream: &TcpStream, script: &dyn Fn(&str) -> (u16, String), log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        loop {
            let mut head = String::new();
            reader.read_line(&mut head).ok()?;
            match head.to_lowercase().strip_prefix("content-length:") {
                Some(value) => length = value.trim().parse().ok()?,
                None if head.trim().is_empty() => break,
                None => {}
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let asked = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        log.lock().expect("no test panics in it").push(asked.clone());
        let (status, body) = script(&asked);
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all([head, body].concat().as_bytes()).ok()?;
    }
}

/// A server at which a batch goes on for ever.
fn never_done(asked: &str) -> (u16, String) {
    match asked {
        "POST /v1/files" => (200, r#"{"id":"file-1"}"#.to_owned()),
        _ => (200, r#"{"id":"batch-1","status":"in_progress"}"#.to_owned()),
    }
}

/// A folder of its own for each test, gone afterwards.
struct Notes(PathBuf);

impl Notes {
    fn new() -> Notes {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Notes(std::env::temp_dir().join(format!("tokrate-batches-{}-{number}", std::process::id())))
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.0).map_or(0, Iterator::count)
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Carries out a batch of a request until `cancelled` completes.
fn carry_out(origin: &str, notes: &Path, cancelled: impl Future<Output = ()>) -> RequestTrace {
    let clock = Clock::monotonic();
    let target = Target::parse(&format!("{origin}/v1")).expect("an address");
    let config = ClientConfig::default();
    let route = Route::resolve_blocking(&target, &config, clock).expect("loopback");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let client = Client::new(config, route, clock).expect("plain HTTP");
        let second = Span::from_secs(60);
        let call = BatchCall {
            client: &client,
            clock,
            headers: HeaderMap::new(),
            secrets: Secrets::of(&HeaderMap::new()),
            form: BatchForm::OpenAi,
            origin,
            path: "/v1/files",
            request_path: "/v1/chat/completions".to_owned(),
            requests: 1,
            document: Bytes::from_static(b"{}\n"),
            options: BatchOptions { poll: Span::from_millis(1), keep: false, notes: Some(notes.into()) },
            limits: Limits { idle: second, total: second, max_body_bytes: 1 << 20 },
            due_at: clock.now(),
        };
        call.carry_out(cancelled).await
    })
}

/// A future that completes when the server was asked for something, and says so before it is answered.
fn when_asked(
    what: &'static str,
    script: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
) -> (Script, impl Future<Output = ()>) {
    let (asked, was_asked) = oneshot::channel();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let channels = Mutex::new(Some((asked, has_ended)));
    let script: Script = Arc::new(move |line: &str| {
        if line == what
            && let Some((asked, has_ended)) = channels.lock().expect("no test panics in it").take()
        {
            asked.send(()).expect("the run waits for it");
            has_ended.recv().expect("the run says so");
        }
        script(line)
    });
    let cancelled = async move {
        was_asked.await.expect("the server lives on");
        ended.send(()).expect("the server waits for it");
    };
    (script, cancelled)
}

#[test]
fn a_batch_that_is_being_begun_when_the_run_ends_is_cancelled_and_its_file_is_deleted() {
    for what in ["POST /v1/files", "POST /v1/batches"] {
        let notes = Notes::new();
        let (script, cancelled) = when_asked(what, never_done);
        let (origin, log) = serve(script);
        let trace = carry_out(&origin, &notes.0, cancelled);
        assert_eq!(trace.failure.map(|failure| failure.kind), Some(FailureKind::Cancelled));
        let given_up = trace.batch.and_then(|batch| batch.given_up).expect("it was begun");
        assert_eq!((given_up.id.as_str(), given_up.end), ("batch-1", GivenUpEnd::Cancelled));
        let log = log.lock().expect("no test panics in it").clone();
        let expected =
            ["POST /v1/files", "POST /v1/batches", "POST /v1/batches/batch-1/cancel", "DELETE /v1/files/file-1"];
        assert_eq!(log, expected, "cut off at {what}");
        assert_eq!(notes.files(), 0);
    }
}

#[test]
fn what_cannot_be_cancelled_or_deleted_has_a_note_that_says_how_to_be_rid_of_it() {
    let notes = Notes::new();
    let (script, cancelled) = when_asked("GET /v1/batches/batch-1", |asked| match asked {
        "POST /v1/batches/batch-1/cancel" | "DELETE /v1/files/file-1" => (503, "{}".to_owned()),
        other => never_done(other),
    });
    let (origin, _log) = serve(script);
    let trace = carry_out(&origin, &notes.0, cancelled);
    let batch = trace.batch.expect("it was one");
    let given_up = batch.given_up.expect("it was begun");
    assert_eq!((batch.left, given_up.id.as_str(), given_up.end), (1, "batch-1", GivenUpEnd::MayGoOn));
    assert_eq!(given_up.cancel, format!("POST {origin}/v1/batches/batch-1/cancel"));
    let [text] = left_by_batches(&notes.0).try_into().expect("one note");
    for part in ["may go on", "/v1/batches/batch-1/cancel\n", "-X DELETE", "/v1/files/file-1\n", "  rm "] {
        assert!(text.contains(part) && text.contains(&origin), "{part}: {text}");
    }
}

#[test]
fn the_note_of_a_batch_belongs_to_its_run_while_it_goes_on() {
    let notes = Notes::new();
    let folder = notes.0.clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (script, cancelled) = when_asked("GET /v1/batches/batch-1", move |asked| {
        let files = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        log.lock().expect("no test panics in it").push((files, left_by_batches(&folder).len()));
        never_done(asked)
    });
    let (origin, _log) = serve(script);
    carry_out(&origin, &notes.0, cancelled);
    let seen = seen.lock().expect("no test panics in it").clone();
    assert!(seen.len() >= 5 && seen.iter().all(|at| *at == (1, 0)), "{seen:?}");
    assert_eq!(notes.files(), 0);
}

#[test]
fn a_batch_that_never_reached_a_server_left_nothing_there() {
    let notes = Notes::new();
    let unused = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let trace = carry_out(&format!("http://{unused}"), &notes.0, std::future::pending());
    assert_eq!(trace.failure.map(|failure| failure.kind), Some(FailureKind::Connect));
    assert_eq!(notes.files(), 0);
}

#[test]
fn a_note_without_its_run_is_told_of() {
    let notes = Notes::new();
    check_notes(&notes.0).expect("a folder for notes");
    assert_eq!(notes.files(), 0);
    let begun_at = "2026-01-02T03:04:05Z".to_owned();
    let mut left = LeftAtServer::nothing("http://127.0.0.1:9", BatchForm::Anthropic, begun_at);
    left.is_unsure = true;
    drop(OpenNote::create(&notes.0, &left).expect("a note"));
    let told = left_by_batches(&notes.0);
    let what = "http://127.0.0.1:9 (2026-01-02T03:04:05Z): a batch may have been left there: what was last asked for had no answer";
    assert!(told.len() == 1 && told[0].starts_with(what), "{told:?}");
}

#[test]
fn a_note_that_was_being_written_when_its_run_was_killed_is_told_all_the_same() {
    let notes = Notes::new();
    std::fs::create_dir_all(&notes.0).expect("a folder");
    let begun = |text: &str| std::fs::write(notes.0.join("1-0.json"), text).expect("the note is written");
    let note = r#"{"origin":"http://127.0.0.1:9","is_anthropic":false,"begun_at":"2026-01-02T03:04:05Z","cancel":null,"delete":["/v1/files/file-1"],"is_unsure":false}"#;
    for (text, part) in [
        (format!("{note}ue}}"), "/v1/files/file-1\n"),
        (note[..note.len() - 40].to_owned(), "of which the note cannot be read"),
    ] {
        begun(&text);
        let [told] = left_by_batches(&notes.0).try_into().expect("one note");
        assert!(told.contains(part) && told.contains("  rm "), "{told}");
    }
    begun("");
    assert_eq!(left_by_batches(&notes.0), Vec::<String>::new(), "nothing was begun");
}

#[test]
fn what_a_server_or_a_note_names_is_no_command_of_the_lines_to_paste() {
    let notes = Notes::new();
    std::fs::create_dir_all(&notes.0).expect("a folder");
    let mut left = LeftAtServer::nothing("http://127.0.0.1:9", BatchForm::OpenAi, "today\ntouch a".to_owned());
    left.cancel = Some("/v1/batches/x$(touch${IFS}/tmp/y)\ntouch b/cancel".to_owned());
    drop(OpenNote::create(&notes.0, &left).expect("a note"));
    let [told] = left_by_batches(&notes.0).try_into().expect("one note");
    assert!(told.contains(" 'http://127.0.0.1:9/v1/batches/x$(touch${IFS}/tmp/y)?touch b/cancel'\n"), "{told}");
    assert_eq!(told.lines().filter(|line| line.starts_with("touch")).count(), 0, "{told}");
}
