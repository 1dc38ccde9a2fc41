//! A prober that pushes and a hub that is away, killed with SIGKILL, and sent what nobody signed.

use crate::folder::Folder;
use crate::tool::{BOUND, Finished, run, start, tokrate};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use tokrate_monitor::PushKey;
use tokrate_net::Clock;
use tokrate_store::{MonitorStore, ProbeQuery, ProbeStore};

/// A hub that serves, and where.
struct Hub {
    process: Child,
    address: String,
    /// What it goes on to say.
    lines: Receiver<String>,
}

fn hub(folder: &Folder, board: &str) -> Hub {
    let text = folder.read("hub.key.toml");
    folder
        .write("hub.toml", &format!("[monitor]\nprober = \"hub\"\ndatabase = \"hub.db\"\nboard = \"{board}\"\n{text}"));
    let mut process = start(&mut tokrate(folder, &["monitor", "--config", "hub.toml"]));
    let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
    let address = loop {
        let line = lines.next().expect("it says where").expect("text");
        if let Some(at) = line.split("the board is at http://").nth(1) {
            break at.trim_end_matches('/').to_owned();
        }
    };
    // Read to its end, so that the hub never waits for a full pipe.
    let (sender, later) = channel();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    Hub { process, address, lines: later }
}

impl Hub {
    fn kill(mut self) -> String {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it was killed");
        std::mem::take(&mut self.address)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One cycle of the prober, of an endpoint that is not there.
fn once(folder: &Folder, hub: &str) -> Finished {
    folder.write(
        "prober.toml",
        &format!(
            "[monitor]\nendpoints = [\"sim\"]\nworkloads = [\"tiny\"]\nprober = \"fra-1\"\nplace = \"fra\"\n\
             database = \"prober.db\"\n[monitor.workload.tiny]\ninput_tokens = 40\noutput_tokens = 40\n\
             [monitor.targets.sim]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"sim\"\n\
             [monitor.push]\nhub = \"http://{hub}\"\nkey_file = \"fra.key\"\n"
        ),
    );
    run(folder, &["monitor", "once", "--config", "prober.toml"])
}

/// Makes the prober's key; the hub's settings for it lie in a file.
fn make_key(folder: &Folder) {
    let made = run(folder, &["monitor", "push-key", "fra.key", "--prober", "fra-1"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert!(!made.stdout.contains(folder.read("fra.key").trim()), "the private half is in the file alone");
    let public = made.stdout.lines().skip_while(|line| !line.starts_with('[')).take(2).collect::<Vec<_>>().join("\n");
    folder.write("hub.key.toml", &format!("{public}\n"));
    let again = run(folder, &["monitor", "push-key", "fra.key"]);
    assert_eq!(again.code, Some(2), "a key is never overwritten");
}

fn ids(folder: &Folder, database: &str) -> Vec<String> {
    let store = MonitorStore::open_reader(&folder.join(database)).expect("it wrote one");
    let mut ids: Vec<String> =
        store.probes(&ProbeQuery::default()).expect("readable").into_iter().map(|row| row.probe.id).collect();
    ids.sort();
    ids
}

#[test]
fn what_was_kept_while_the_hub_was_away_or_killed_is_there_once() {
    let folder = Folder::new("push");
    make_key(&folder);
    // Nobody listens there yet.
    let away = once(&folder, "127.0.0.1:9");
    assert!(away.stderr.contains("failed to push to the hub: http://127.0.0.1:9"), "{}", away.stderr);
    let first = hub(&folder, "127.0.0.1:0");
    let came = once(&folder, &first.address);
    assert!(!came.stderr.contains("failed to push"), "{}", came.stderr);
    assert_eq!(ids(&folder, "hub.db"), ids(&folder, "prober.db"));
    // Killed, and asked while it is gone.
    let gone = first.kill();
    assert!(once(&folder, &gone).stderr.contains("failed to push"));
    let second = hub(&folder, "127.0.0.1:0");
    once(&folder, &second.address);
    let (here, there) = (ids(&folder, "prober.db"), ids(&folder, "hub.db"));
    assert_eq!((there.len(), &there), (4, &here));
    let store = MonitorStore::open_reader(&folder.join("hub.db")).expect("it wrote one");
    let probers = store.probers().expect("readable");
    let pushed = probers.iter().find(|prober| prober.name == "fra-1").expect("it pushed");
    assert_eq!((pushed.place.as_str(), pushed.requests), ("fra", 4));
    assert!(pushed.skew_ms.is_some_and(|skew| skew.abs() < 60_000), "{pushed:?}");
    assert!(store.open_cycles("fra-1").expect("readable").is_empty());
    let here = MonitorStore::open_reader(&folder.join("prober.db")).expect("it wrote one");
    assert_eq!(here.spool_len().expect("readable"), 0);
}

/// Posts a body; the answer.
fn post(address: &str, prober: &str, signature: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ntokrate-prober: {prober}\r\n\
         tokrate-signature: {signature}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_hub_says_why_it_takes_nothing_that_nobody_signed() {
    let folder = Folder::new("push-forged");
    make_key(&folder);
    let hub = hub(&folder, "127.0.0.1:0");
    let answers = [
        post(&hub.address, "nobody", "AAAA", "{}"),
        post(&hub.address, "fra-1", "AAAA", "{}"),
        post(&hub.address, "fra-1", "", &"x".repeat(100)),
    ];
    let shown: Vec<String> = answers
        .iter()
        .map(|answer| {
            let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
            format!("{}\n{body}", head.lines().next().unwrap_or_default())
        })
        .collect();
    insta::assert_snapshot!("push_refused", shown.join("\n"));
    // Larger than a batch may be: refused by its length, unread.
    let mut stream = TcpStream::connect(&hub.address).expect("it listens");
    let head = format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ntokrate-prober: fra-1\r\n\
         connection: close\r\ncontent-length: 99999999\r\n\r\n",
        hub.address
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("it answers");
    assert_eq!(line.trim(), "HTTP/1.1 413 Payload Too Large");
    // It says so, and then the board does, and without a name that a stranger chose.
    let mut notices = Vec::new();
    while notices.len() < 3 {
        notices.push(hub.lines.recv_timeout(BOUND).expect("three kinds of refusals"));
    }
    assert!(notices[2].contains("refused a batch of `fra-1`: the batch is larger"), "{notices:?}");
    let store = MonitorStore::open_reader(&folder.join("hub.db")).expect("it wrote one");
    let notices: Vec<String> = store.notices(0).expect("readable").into_iter().map(|notice| notice.text).collect();
    assert!(notices.iter().any(|text| text.starts_with("refused a batch of `fra-1`: the signature")), "{notices:?}");
    assert!(!notices.iter().any(|text| text.contains("nobody")), "{notices:?}");
}

#[test]
fn a_hub_refuses_what_is_replayed_of_the_future_or_too_much_and_says_so() {
    let folder = Folder::new("push-refused");
    make_key(&folder);
    let key = PushKey::parse(&folder.read("fra.key")).expect("a key");
    let hub = hub(&folder, "127.0.0.1:0");
    let now = Clock::monotonic().wall_nanos() / 1_000_000;
    let send = |made: u64, first: u64, at: u64| {
        let body = format!(
            "{{\"version\":1,\"prober\":\"fra-1\",\"place\":\"fra\",\"spool\":\"s\",\"made_unix_ms\":{made},\
             \"entries\":[[{first},{{\"seen\":{{\"at\":{at},\"missed\":1}}}}]]}}"
        );
        let answer = post(&hub.address, "fra-1", &key.sign(body.as_bytes()), &body);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        format!("{} {body}", head.split(' ').nth(1).expect("a status"))
    };
    assert_eq!(send(now, 1, now), "200 {\"last\":1}");
    let replayed = send(now, 1, now);
    assert!(replayed.starts_with("409 ") && replayed.contains("\"next\":2"), "{replayed}");
    let an_hour = 3_600_000;
    for (made, at) in [(now + an_hour, now), (now, now + an_hour)] {
        let refused = send(made, 2, at);
        assert!(refused.starts_with("400 ") && refused.contains("future_dated"), "{refused}");
    }
    let stale = send(now - 25 * an_hour, 2, now);
    assert!(stale.starts_with("400 ") && stale.contains("stale"), "{stale}");
    let flood = (2..2_000).map(|first| send(now, first, now)).find(|answer| !answer.starts_with("200 "));
    assert!(flood.as_ref().is_some_and(|answer| answer.starts_with("429 ") && answer.contains("flood")), "{flood:?}");
    // What is said of it is also on the board; what is sent again by a prober that does not know is no notice.
    let told = |part: &str| std::iter::from_fn(|| hub.lines.recv_timeout(BOUND).ok()).any(|line| line.contains(part));
    assert!(told("refused a batch of `fra-1`: the prober sends too much"));
    let store = MonitorStore::open_reader(&folder.join("hub.db")).expect("it wrote one");
    let notices: Vec<String> = store.notices(0).expect("readable").into_iter().map(|notice| notice.text).collect();
    for part in ["lies in the future", "was signed at", "sends too much"] {
        assert!(notices.iter().any(|text| text.contains(part)), "{part}: {notices:?}");
    }
    assert!(!notices.iter().any(|text| text.contains("is here already")), "{notices:?}");
}

#[test]
fn settings_of_push_and_hub_that_cannot_work_are_refused_with_their_line() {
    let folder = Folder::new("push-settings");
    folder.write("short.key", "AAAA-SECRET");
    let target = "endpoints = [\"sim\"]\n[monitor.targets.sim]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n";
    let key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    let texts = [
        format!("{target}[monitor.push]\nhub = \"http://hub\"\n"),
        format!("{target}[monitor.push]\nhub = \"hub.example\"\nkey_file = \"short.key\"\n"),
        format!("{target}[monitor.push]\nhub = \"http://hub\"\nkey_file = \"short.key\"\n"),
        format!("{target}[monitor.push]\nhub = \"http://hub\"\nkey_file = \"missing.key\"\n"),
        "[monitor.hub.probers.fra]\npublic_key = \"AAAA\"\n".to_owned(),
        format!("[monitor.hub.probers.a]\npublic_key = \"{key}\"\n[monitor.hub.probers.b]\npublic_key = \"{key}\"\n"),
        format!("prober = \"fra\"\n[monitor.hub.probers.fra]\npublic_key = \"{key}\"\n"),
    ];
    let mut refused = String::new();
    for text in texts {
        folder.write("m.toml", &format!("[monitor]\n{text}"));
        let finished = run(&folder, &["monitor", "--check", "--config", "m.toml"]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{text}");
        assert!(!finished.stderr.contains("SECRET"), "{}", finished.stderr);
        refused += &finished.stderr;
    }
    folder.write("m.toml", &format!("[monitor]\nboard = \"off\"\n[monitor.hub.probers.fra]\npublic_key = \"{key}\"\n"));
    refused += &run(&folder, &["monitor", "--config", "m.toml"]).stderr;
    insta::assert_snapshot!("push_settings_refused", refused);
}
