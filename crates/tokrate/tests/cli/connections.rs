//! New connections step by step, against a server behind TLS whose delays are known.

use crate::encrypted::{certified, read_request};
use crate::folder::Folder;
use crate::scripted::{Server, UNTIL_CLOSED, stream};
use crate::tool::{Bench, bench, folded, number, run};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokrate_host::{Host, HostConfig};

/// Before the server's first byte of TLS, before its head, and between that and its first token.
const DELAYS: [u64; 3] = [40, 60, 50];
/// What a busy machine may add to each.
const SLACK: u64 = 60;

fn delayed() -> (Server, PathBuf) {
    let (config, file) = certified("delayed", "localhost");
    let server = Server::accepting(move |socket| {
        let _ = serve(&config, socket);
    });
    (server, file)
}

fn serve(config: &Arc<ServerConfig>, socket: TcpStream) -> std::io::Result<()> {
    let pause = |step: usize| std::thread::sleep(Duration::from_millis(DELAYS[step]));
    let connection = ServerConnection::new(Arc::clone(config)).expect("a connection");
    pause(0);
    let mut reader = BufReader::new(StreamOwned::new(connection, socket));
    read_request(&mut reader)?;
    let mut socket = reader.into_inner();
    pause(1);
    socket.write_all(UNTIL_CLOSED.as_bytes())?;
    socket.flush()?;
    pause(2);
    socket.write_all(stream(3).concat().as_bytes())?;
    socket.conn.send_close_notify();
    socket.flush()
}

fn measured(name: &str, (server, file): (Server, PathBuf), further: &[&str]) -> Bench {
    let url = server.url().replace("http://127.0.0.1", "https://localhost");
    let flags = [&["--new-connections", "--ca-file", file.to_str().expect("UTF-8")], further].concat();
    let bench = bench(name, &url, 1, 8, &flags);
    std::fs::remove_file(file).expect("it was written");
    bench
}

#[test]
fn the_steps_of_a_new_connection_are_those_of_the_server() {
    let bench = measured("cold", delayed(), &["--html", "page.html"]);
    bench.expect(0, &[]);
    let phase = bench.phase();
    let opening = phase.opening().expect("every request opened a connection");
    assert_eq!(
        (opening.n, opening.tls_resumed, phase.conditions.connection.as_str()),
        (phase.counts.measured, 0, "new")
    );
    let truth = [DELAYS[0], DELAYS[1], DELAYS.iter().sum()];
    for (times, truth) in [&opening.tls_handshake, &opening.response_head, &opening.cold_ttft].into_iter().zip(truth) {
        let median = times.p50.nearest_rank().expect("there are requests");
        assert!((truth as f64..(truth + SLACK) as f64).contains(&median), "{median} for {truth}");
    }
    assert_eq!(opening.name_lookup.n, opening.n, "the name is looked up for each");
    for row in &bench.rows {
        let nested = |name: &str| row["opening"][name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
        let steps = number(row, "dns_ns") + number(row, "connect_ns") + number(row, "tls_ns") + nested("write_ns");
        let (known, whole) = (steps + number(row, "ttft_ns"), nested("first_text_ns"));
        assert!(known <= whole && whole - known < SLACK * 1_000_000, "{known} of {whole}: {row}");
    }
    let page = bench.folder.read("page.html");
    assert!(page.contains("From nothing to the first token") && page.contains(">token "), "{page}");
}

#[test]
fn sessions_of_tls_are_resumed_where_that_is_asked_for() {
    let bench = measured("resumed", delayed(), &["--tls-resume"]);
    bench.expect(0, &[]);
    let phase = bench.phase();
    let resumed = phase.opening().expect("every request opened a connection").tls_resumed;
    assert!(resumed > 0 && resumed <= phase.counts.measured, "{resumed}");
    assert_eq!(phase.conditions.connection, "new, TLS sessions resumed");
}

#[test]
fn streams_of_http_2_share_the_connections_that_were_asked_for() {
    let host = Host::start(HostConfig::default()).expect("loopback has a free port");
    let url = format!("http://{}/v1", host.address());
    let of = |name: &str, further: &[&str]| {
        let bench = bench(name, &url, 8, 24, &[&["--http", "2"], further].concat());
        bench.expect(0, &[]);
        bench
    };
    let shared = of("h2-two", &["--connections", "2"]);
    let streams = shared.phase().streams().expect("HTTP/2");
    assert_eq!((streams.connections, streams.most_sharing), (2, 4), "{streams:?}");
    assert!(streams.waited <= 6, "only until both connections are open: {streams:?}");
    assert_eq!(shared.phase().conditions.connection, "2 shared");
    let narrow = of("h2-narrow", &["--connections", "1", "--streams", "3", "--html", "page.html"]);
    let streams = narrow.phase().streams().expect("HTTP/2");
    assert_eq!((streams.connections, streams.most_sharing, streams.stream_wait.n), (1, 3, 24), "{streams:?}");
    assert!(streams.waited >= 20, "five of eight wait at any time: {streams:?}");
    assert_eq!(narrow.phase().conditions.connection, "1 shared, at most 3 streams each");
    let note = "requests waited for a stream of 1 HTTP/2 connection";
    assert!(narrow.record.notes.iter().any(|it| it.contains(note)), "{:?}", narrow.record.notes);
    assert!(narrow.folder.read("page.html").contains("HTTP/2 streams"));
    // What waits is not sent: the engine's own delay is all that a time to first token holds.
    let ttft = |bench: &Bench| bench.phase().ttft.p50.nearest_rank().expect("there are requests");
    assert!(ttft(&narrow) < 2.0 * ttft(&shared), "{} {}", ttft(&narrow), ttft(&shared));
    host.stop();
}

#[test]
fn what_belongs_to_new_connections_is_refused_without_them() {
    let folder = Folder::new("cold-refused");
    let refused = |line: &str| {
        let finished = run(&folder, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(finished.code, Some(2), "{finished:?}");
        folded(&finished.stderr)
    };
    let url = "bench --url http://127.0.0.1:9/v1 --model m";
    for (line, expected) in [
        (format!("{url} --tls-resume"), "read --tls-resume: kept connections shake hands once"),
        (format!("{url} --new-connections --tls-resume"), "read --tls-resume: http://127.0.0.1:9/v1 has no TLS"),
        (format!("{url} --assert cold_ttft_p50<2s"), "have no cold_ttft; give --new-connections"),
        (
            format!("{url} --connections 4"),
            "read --connections: over HTTP/1.1 each request in flight has a connection of its own",
        ),
        (
            format!("{url} --http 2 --streams 4 --new-connections"),
            "read --streams: with --new-connections no connection is shared",
        ),
        (format!("{url} --assert stream_wait_p50<2s"), "HTTP/1.1 has no streams to wait for; give --http 2"),
        ("bench --connections 4".to_owned(), "--connections and --streams need an endpoint"),
        ("bench --new-connections".to_owned(), "--new-connections and --tls-resume need an endpoint"),
    ] {
        let message = refused(&line);
        assert!(message.contains(expected), "{line}: {message}");
    }
}
