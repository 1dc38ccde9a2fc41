//! The gateway's log while another process works on it and the gateway is killed: what `/metrics` called written is there.
//!
//! It knows the log only by its file, as an operator does. Invariant: the database is opened in this process through SQLite alone.

use crate::folder::Folder;
use crate::scripted::{Server, answer};
use crate::tool::{finish, start, tokrate};
use rusqlite::{Connection, OpenFlags};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

/// Longer than anything here takes, on any machine.
const LONG: Duration = Duration::from_secs(60);

const ANSWER: &str = r#"{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}"#;

/// A gateway with one lane and one key that has a budget, which it reads back from the log at its start.
struct Running {
    folder: Folder,
    _lane: Server,
    process: Child,
    address: String,
    admin: String,
}

impl Running {
    fn start(name: &str) -> Running {
        Running::start_with(name, &[])
    }

    fn start_with(name: &str, flags: &[&str]) -> Running {
        let folder = Folder::new(name);
        let lane = Server::saying(answer("200 OK", "application/json", ANSWER));
        folder.write(
            "tokrate.toml",
            &format!(
                "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nregion = \"eu-west\"\n\
                 [gateway.lanes.own]\nurl = \"{}\"\nmodel = \"m\"\nprice = {{ input = 0.001, output = 0.001 }}\n\
                 [gateway.aliases.auto]\nlanes = [\"own\"]\n\
                 [gateway.keys.team]\nkey_env = \"TEAM_KEY\"\nusd_per_month = 1.0\n",
                lane.url()
            ),
        );
        let arguments: Vec<&str> = ["gateway", "--config", "tokrate.toml"].iter().chain(flags).copied().collect();
        let mut process = start(tokrate(&folder, &arguments).env("TEAM_KEY", "sk-team-and-secret"));
        let mut lines = BufReader::new(process.stdout.take().expect("piped"));
        let mut shown = String::new();
        while !shown.contains("/metrics") {
            if lines.read_line(&mut shown).expect("text") == 0 {
                panic!("it ended: {shown} {:?}", finish(process));
            }
        }
        let behind = |mark: &str| -> String {
            let (_, rest) = shown.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {shown}"));
            rest.split(['/', ' ']).next().unwrap_or_default().to_owned()
        };
        let (address, admin) = (behind(" at http://"), behind("page: http://"));
        Running { folder, _lane: lane, process, address, admin }
    }

    /// Asks once and returns the whole answer, head and all.
    fn ask(place: &str, line: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(place).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {place}\r\nauthorization: Bearer sk-team-and-secret\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200"), "{line}: {answer}");
        answer
    }

    fn call(&self, times: u32) {
        for _ in 0..times {
            let body = r#"{"model":"auto","messages":[{"role":"user","content":"hi"}]}"#;
            Running::ask(&self.address, "POST /v1/chat/completions", body);
        }
    }

    /// The status of an answer to a request with these further header lines.
    fn status(&self, line: &str, headers: &str, body: &str) -> u16 {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        let (place, length) = (&self.address, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {place}\r\n{headers}connection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
    }

    /// A count of `/metrics`.
    fn metric(&self, name: &str) -> u64 {
        let page = Running::ask(&self.admin, "GET /metrics", "");
        let line = page.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {name} in {page}")) as u64
    }

    /// Waits until the gateway says that so many rows are written.
    fn until_written(&self, rows: u64) {
        let begun = Instant::now();
        while self.metric("tokrate_log_rows_written") < rows {
            assert!(begun.elapsed() < LONG, "never {rows} rows written");
        }
    }

    fn open(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        Connection::open_with_flags(self.folder.join("tokrate-log.db"), flags).expect("a log")
    }

    fn rows(&self) -> i64 {
        self.open().query_row("SELECT count(*) FROM attempts", [], |row| row.get(0)).expect("a log")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn rows_outlive_a_vacuum_by_another_process_and_a_kill() {
    let mut gateway = Running::start("log-kept");
    gateway.call(2);
    gateway.until_written(2);
    // As `sqlite3 tokrate-log.db "VACUUM INTO 'kept.db'"` does it: open, copy, close.
    let kept = gateway.folder.join("kept.db");
    gateway.open().execute("VACUUM INTO ?", [kept.to_str().expect("a plain name")]).expect("room");
    gateway.call(10);
    // What the page and the API ask, in the gateway's own process.
    for path in ["GET /api/summary", "GET /api/attempts"] {
        Running::ask(&gateway.admin, path, "");
        drop(gateway.open().query_row("SELECT count(*) FROM attempts", [], |_| Ok(())));
    }
    gateway.call(10);
    gateway.until_written(22);
    assert_eq!(gateway.metric("tokrate_log_rows_lost"), 0);
    // SIGKILL: no destructor and no flush.
    gateway.process.kill().expect("it runs");
    gateway.process.wait().expect("it was killed");
    assert_eq!(gateway.rows(), 22);
    let copied = Connection::open(kept).expect("a log");
    assert_eq!(copied.query_row("SELECT count(*) FROM attempts", [], |row| row.get::<_, i64>(0)).expect("a log"), 2);
}

#[test]
fn rows_say_where_they_were_measured() {
    let gateway = Running::start("log-region");
    gateway.call(1);
    gateway.until_written(1);
    let columns = "SELECT region, host, tokenizer, connect_ns FROM attempts";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let (region, host, tokenizer, connect_ns): (String, String, String, i64) =
        gateway.open().query_row(columns, [], read).expect("a row");
    assert_eq!((region.as_str(), tokenizer.as_str()), ("eu-west", "o200k_base"));
    assert!(!host.is_empty() && connect_ns > 0, "{host} {connect_ns}");
    let mut checked = tokrate(&gateway.folder, &["gateway", "--config", "tokrate.toml", "--check"]);
    let checked = finish(start(checked.env("TEAM_KEY", "sk-team-and-secret").env("TOKRATE_REGION", "us-east")));
    let line = checked.stdout.lines().find(|line| line.contains("region")).unwrap_or_default();
    assert!(line.contains("us-east") && line.contains("TOKRATE_REGION"), "the variable wins: {}", checked.stdout);
}

#[test]
fn a_log_whose_wal_is_removed_is_told_on_standard_error_and_counted() {
    let mut gateway = Running::start("log-displaced");
    let mut stderr = BufReader::new(gateway.process.stderr.take().expect("piped"));
    gateway.call(3);
    gateway.until_written(3);
    std::fs::remove_file(gateway.folder.join("tokrate-log.db-wal")).expect("it is there");
    gateway.call(2);
    let mut line = String::new();
    stderr.read_line(&mut line).expect("text");
    let line = line.replace(&gateway.folder.join("").display().to_string(), "");
    // Behind the time.
    let line = line.split_once("Z ").map_or("", |(_, line)| line.trim());
    insta::assert_snapshot!(line, @"ERROR calls go on, but the throughput log is not written error=write the database tokrate-log.db: its -wal or -shm was removed or replaced while it was written; up to 3 rows went with it, and later ones go to the file that is there now; stop what writes the log before you touch its files (docs/throughput-log.md)");
    gateway.until_written(2);
    assert_eq!((gateway.metric("tokrate_log_rows_written"), gateway.metric("tokrate_log_rows_lost")), (2, 3));
    gateway.process.kill().expect("it runs");
    gateway.process.wait().expect("it was killed");
    assert_eq!(gateway.rows(), 2);
}

#[test]
fn refused_requests_are_counted_by_reason_and_logged_without_a_key_or_a_prompt() {
    let mut gateway = Running::start_with("refused", &["--log-format", "json"]);
    let mut events = BufReader::new(gateway.process.stderr.take().expect("piped"));
    let (call, chat) =
        ("POST /v1/chat/completions", r#"{"model":"auto","messages":[{"role":"user","content":"my prompt"}]}"#);
    let key = "authorization: Bearer sk-team-and-secret\r\n";
    assert_eq!(gateway.status(call, "authorization: Bearer sk-wrong-and-secret\r\n", chat), 401);
    assert_eq!(gateway.status("GET /nowhere", key, ""), 404);
    assert_eq!(gateway.status("PUT /v1/chat/completions", key, chat), 405);
    let another_site = format!("{key}origin: https://evil.example\r\nsec-fetch-site: cross-site\r\n");
    assert_eq!(gateway.status(call, &another_site, chat), 403);
    for reason in ["unauthorized", "not_found", "wrong_request", "forbidden"] {
        let series = format!("tokrate_requests_refused_total{{reason=\"{reason}\"}}");
        assert_eq!(gateway.metric(&series), 1, "{series}");
        let mut line = String::new();
        events.read_line(&mut line).expect("text");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!((&event["level"], &event["reason"], &event["count"]), (&"WARN".into(), &reason.into(), &1.into()));
        assert!(event["message"].as_str().is_some_and(|text| text.starts_with("request refused: ")), "{line}");
        assert!(!line.contains("sk-") && !line.contains("my prompt"), "{line}");
    }
    // What a lane was asked is a row of the log and no refusal.
    gateway.call(1);
    assert_eq!(gateway.metric("tokrate_requests_refused_total{reason=\"bad_request\"}"), 0);
}
