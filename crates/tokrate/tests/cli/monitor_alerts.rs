//! Alerts of `tokrate monitor`: settings, a test alert, and what a receiver gets over two runs.

use crate::folder::Folder;
use crate::tool::{finish, run, start, tokrate};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;

const TARGET: &str = "[monitor.targets.sim]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n";

fn settings(folder: &Folder, more: &str) {
    folder.write("m.toml", &format!("[monitor]\nendpoints = [\"sim\"]\nprober = \"p\"\n{TARGET}{more}"));
}

fn receiver(keys: &str) -> String {
    format!("[monitor.alerts.receivers.ops]\n{keys}\n")
}

#[test]
fn settings_that_cannot_work_are_refused_with_their_line() {
    let folder = Folder::new("alerts-settings");
    let hook = receiver("kind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"");
    let rule = |keys: &str| format!("{hook}[monitor.alerts.rules.slow]\n{keys}\n");
    let texts = [
        receiver("url = \"http://127.0.0.1:9/\""),
        receiver("kind = \"pager\"\nurl = \"http://127.0.0.1:9/\""),
        receiver("kind = \"slack\""),
        receiver("kind = \"slack\"\nurl = \"http://127.0.0.1:9/\"\nurl_env = \"URL\""),
        receiver("kind = \"slack\"\nurl_env = \"SLACK_URL\""),
        receiver("kind = \"slack\"\nurl = \"hooks.slack.com/SECRET\""),
        receiver("kind = \"webhook\"\nurl = \"https://me:SECRET@host/\""),
        receiver("kind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\ncommand = [\"true\"]"),
        receiver("kind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\nkey_env = \"NO_KEY\""),
        receiver("kind = \"command\""),
        receiver("kind = \"email\"\nurl = \"smtps://mail.example\""),
        receiver("kind = \"email\"\nurl = \"smtps://mail.example\"\nfrom = \"a@a.example\""),
        receiver("kind = \"email\"\nurl = \"mail.example\"\nfrom = \"a@a.example\"\nto = [\"b@b.example\"]"),
        receiver("kind = \"email\"\nurl = \"smtps://mail.example\"\nfrom = \"a@a.example\"\nto = [\"b\"]"),
        receiver(
            "kind = \"email\"\nurl = \"smtps://m.example\"\nfrom = \"a@a.example\"\nto = [\"b@b.example\"]\nuser = \"u\"",
        ),
        "[monitor.alerts.rules.slow]\nslo = [\"ttft<1s\"]\n".to_owned(),
        rule("slo = [\"ttft<1s\"]\nsilent = \"1h\""),
        rule("slo = []"),
        rule("slo = [\"ttft>1s\"]"),
        rule("slo = [\"tpot<50ms\"]"),
        rule("changes = [\"worse\"]"),
        rule("silent = \"1m\""),
        rule("failing = 2"),
        rule("slo = [\"ttft<1s\"]\nfailing = 3\nof = 2"),
        rule("slo = [\"ttft<1s\"]\nof = 99"),
        rule("receivers = [\"ops\", \"nobody\"]"),
        rule("receivers = []"),
        rule("quiet = \"22-7\""),
        rule("remind_after = \"often\""),
        rule("colour = 1"),
    ];
    let mut refused = String::new();
    for text in texts {
        settings(&folder, &text);
        let finished = run(&folder, &["monitor", "--check", "--config", "m.toml"]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{text}");
        assert!(!finished.stderr.contains("SECRET"), "{}", finished.stderr);
        refused += &finished.stderr;
    }
    insta::assert_snapshot!("alerts_refused", refused);
}

const ALL: &str = "
[monitor.alerts]
board_url = \"https://board.example\"
[monitor.alerts.receivers.chat]
kind = \"slack\"
url_env = \"CHAT_URL\"
[monitor.alerts.receivers.hook]
kind = \"webhook\"
url = \"https://hook.example/a/SECRET-path\"
key_env = \"HOOK_KEY\"
[monitor.alerts.receivers.am]
kind = \"alertmanager\"
url = \"http://127.0.0.1:9093\"
[monitor.alerts.receivers.mail]
kind = \"email\"
url = \"smtps://mail.example\"
user = \"me\"
key_env = \"MAIL_KEY\"
from = \"tokrate <a@a.example>\"
to = [\"b@b.example\"]
[monitor.alerts.receivers.script]
kind = \"command\"
command = [\"notify-send\", \"tokrate\", \"SECRET-argument\"]
[monitor.alerts.rules.worse]
receivers = [\"chat\", \"mail\"]
[monitor.alerts.rules.slow]
slo = [\"ttft<2s\", \"output_speed>30\"]
failing = 2
of = 3
places = 2
remind_after = \"12h\"
quiet = \"22:00-07:00\"
[monitor.alerts.rules.gone]
silent = \"1h\"
receivers = [\"script\"]
";

#[test]
fn a_check_shows_receivers_and_rules_without_keys() {
    let folder = Folder::new("alerts-check");
    settings(&folder, ALL);
    let mut command = tokrate(&folder, &["monitor", "--check", "--config", "m.toml"]);
    command.env("CHAT_URL", "https://hooks.slack.com/services/SECRET").env("HOOK_KEY", "SECRET-key");
    let finished = finish(start(command.env("MAIL_KEY", "SECRET-password")));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let shown = finished.stdout.split_once("Alerts go").expect("it shows them").1;
    assert!(!finished.stdout.contains("SECRET"), "{}", finished.stdout);
    insta::assert_snapshot!("alerts_check", format!("Alerts go{shown}"));
}

#[test]
fn settings_of_a_folder_that_name_receivers_need_trust() {
    let folder = Folder::new("alerts-trust");
    let receivers = "[monitor.alerts.receivers.script]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"rm x\"]\n\
                     [monitor.alerts.receivers.chat]\nkind = \"slack\"\nurl_env = \"CHAT_URL\"\n\
                     [monitor.alerts.receivers.hook]\nkind = \"webhook\"\nurl = \"https://hook.example/SECRET\"\n\
                     [monitor.push]\nhub = \"https://hub.example\"\n";
    settings(&folder, receivers);
    std::fs::rename(folder.join("m.toml"), folder.join("tokrate.toml")).expect("room");
    let refused = run(&folder, &["monitor", "alert-test", "script"]);
    assert_eq!(refused.code, Some(2));
    insta::assert_snapshot!("alerts_untrusted", refused.stderr);
    let trusted = tokrate(&folder, &["trust"]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&trusted.stdout).into_owned() + &String::from_utf8_lossy(&trusted.stderr);
    assert!(!shown.contains("SECRET"), "{shown}");
}

#[test]
fn a_test_alert_goes_to_one_receiver_and_what_it_answers_is_shown() {
    let folder = Folder::new("alerts-test");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let served = std::thread::spawn(move || {
        let mut bodies = Vec::new();
        for answer in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 403 Forbidden\r\ncontent-length: 7\r\n\r\nno_team"]
        {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = Vec::new();
            let mut piece = [0; 4_096];
            while !request.ends_with(b"}") {
                let read = stream.read(&mut piece).expect("a client");
                request.extend_from_slice(&piece[..read]);
            }
            stream.write_all(answer.as_bytes()).expect("a client");
            bodies.push(String::from_utf8(request).expect("text"));
        }
        bodies
    });
    let hook = receiver(&format!("kind = \"webhook\"\nurl = \"http://{address}/hook\""));
    settings(&folder, &hook);
    let arguments = ["monitor", "alert-test", "ops", "--config", "m.toml"];
    let (good, refused) = (run(&folder, &arguments), run(&folder, &arguments));
    let bodies = served.join().expect("two requests");
    let (_, body) = bodies[0].split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((body["rule"].as_str(), body["kind"].as_str()), (Some("test"), Some("firing")));
    let unknown = run(&folder, &["monitor", "alert-test", "chat", "--config", "m.toml"]);
    assert_eq!((good.code, refused.code, unknown.code), (Some(0), Some(2), Some(2)));
    let printed = good.stdout + &refused.stderr + &unknown.stderr;
    insta::assert_snapshot!("alert_test", printed.replace(&address.to_string(), "ADDRESS"));
}

/// The messages that a command has appended to a file.
fn received(folder: &Folder) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("received")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn an_alert_that_a_receiver_refuses_is_kept_for_the_next_run() {
    let folder = Folder::new("alerts-once");
    let command = "kind = \"command\"\ncommand = [\"sh\", \"-c\", \"cat >> received; test ! -e refuse\"]";
    // On a machine that is busy with other tests the reference may be off; then that is what is found.
    let rules = "[monitor.alerts.rules.failing]\nslo = [\"ttft<1s\"]\n\
                 [monitor.alerts.rules.quarantine]\nchanges = [\"quarantine\"]\n";
    settings(&folder, &format!("{}{rules}", receiver(command)));
    folder.write("refuse", "");
    let first = run(&folder, &["monitor", "once", "--config", "m.toml"]);
    assert!(first.stderr.contains("failed to send the alert `"), "{}", first.stderr);
    let refused = received(&folder);
    assert!((1..=2).contains(&refused.len()), "{refused:?}");
    let state = waiting_deliveries(&folder);
    assert_eq!(state, refused.len(), "what was refused waits");
    assert!(refused.iter().all(|message| message["kind"] == "firing"), "{refused:?}");
}

/// Deliveries that wait in the folder's database.
fn waiting_deliveries(folder: &Folder) -> usize {
    let store = tokrate_store::MonitorStore::open_reader(&folder.join("tokrate-monitor.db")).expect("it wrote one");
    store.deliveries().expect("readable").iter().filter(|row| row.given_up_unix_ms.is_none()).count()
}
