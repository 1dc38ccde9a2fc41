//! Files that are larger than what a gateway holds: they pass as they come, unchanged but for the model, to one lane.

use crate::client::read_answer;
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::whole;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokrate_gateway::Mode;
use tokrate_record::AttemptEnd;
use tokrate_wire::Dialect;

const TIMEOUT: Duration = Duration::from_secs(20);
/// What the gateways of these tests hold of a request (bytes).
const HELD: usize = 100_000;

/// A lane that reads one request as it comes: head and body, and whether the body was whole. It reads no further than `pause_at` until it is
/// told to.
struct FileLane {
    address: SocketAddr,
    received: Receiver<(String, Vec<u8>, bool)>,
    go_on: std::sync::mpsc::Sender<()>,
}

impl FileLane {
    fn start(pause_at: usize) -> FileLane {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ((sender, received), (go_on, may_go_on)) = (channel(), channel());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (mut bytes, mut piece) = (Vec::new(), [0; 16 * 1024]);
                let (mut head, mut length) = (None, usize::MAX);
                let mut has_paused = false;
                while bytes.len() < length {
                    if bytes.len() >= pause_at && !std::mem::replace(&mut has_paused, true) {
                        let _ = may_go_on.recv_timeout(TIMEOUT);
                    }
                    match stream.read(&mut piece) {
                        Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
                        _ => break,
                    }
                    if head.is_none()
                        && let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n")
                    {
                        let text = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
                        let announced = text.lines().find_map(|line| line.strip_prefix("content-length: "));
                        length = announced.and_then(|length| length.parse().ok()).expect("a length");
                        bytes.drain(..end + 4);
                        head = Some(text);
                    }
                }
                let is_whole = bytes.len() == length;
                let _ = sender.send((head.unwrap_or_default(), bytes, is_whole));
                if is_whole {
                    let _ = stream.write_all(&whole("200 OK", r#"{"id":"file-1","text":"heard"}"#));
                }
            }
        });
        FileLane { address, received, go_on }
    }

    fn received(&self) -> (String, Vec<u8>, bool) {
        self.received.recv_timeout(TIMEOUT).expect("it was asked")
    }
}

fn gateway(lane_address: SocketAddr) -> TestGateway {
    let mut config = configured(vec![lane("one", lane_address, &[Dialect::OpenAiChat])], Mode::Off);
    config.limits.request_bytes = HELD;
    config.limits.file_bytes = 40 << 20;
    config.limits.first_token = tokrate_core::Span::from_millis(500);
    TestGateway::start(config)
}

/// Bytes in which a boundary almost stands again and again.
fn file(length: usize) -> Vec<u8> {
    b"\r\n--cu\0data".iter().copied().cycle().take(length).collect()
}

fn field(name: &str, value: &str) -> Vec<u8> {
    format!("--cut\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").into_bytes()
}

fn file_field(bytes: &[u8]) -> Vec<u8> {
    let head = b"--cut\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n";
    [&head[..], bytes, b"\r\n"].concat()
}

fn form(fields: &[Vec<u8>]) -> Vec<u8> {
    [&fields.concat()[..], b"--cut--\r\n"].concat()
}

fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=cut\r\n\
         content-length: {length}\r\n\r\n"
    )
}

fn connect(gateway: &TestGateway) -> TcpStream {
    let client = TcpStream::connect(gateway.address).expect("it listens");
    client.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    client
}

#[test]
fn a_large_file_passes_byte_for_byte_but_for_the_model_and_leaves_a_row() {
    let bytes = file(3 << 20);
    for (path, body, expected) in [
        (
            "/v1/files",
            form(&[field("purpose", "batch"), file_field(&bytes)]),
            form(&[field("purpose", "batch"), file_field(&bytes)]),
        ),
        (
            "/v1/audio/transcriptions",
            form(&[field("model", "all"), file_field(&bytes), field("language", "en")]),
            form(&[field("model", "model-one"), file_field(&bytes), field("language", "en")]),
        ),
    ] {
        let lane = FileLane::start(usize::MAX);
        let mut gateway = gateway(lane.address);
        let mut client = connect(&gateway);
        client.write_all(head(path, body.len()).as_bytes()).expect("it reads");
        client.write_all(&body).expect("it reads");
        let answer = read_answer(&mut client);
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("one")), "{}", answer.text());
        let (head, received, is_whole) = lane.received();
        assert!(is_whole && received == expected, "{path}: {} of {} bytes", received.len(), expected.len());
        assert!(head.contains("content-type: multipart/form-data; boundary=cut"), "{head}");
        let rows = gateway.rows();
        assert_eq!((rows[0].end, rows[0].sample.request_bytes), (AttemptEnd::Answered, Some(expected.len() as u64)));
    }
}

#[test]
fn a_lane_that_reads_slowly_holds_back_its_client_and_is_given_its_time() {
    let bytes = file(30 << 20);
    let body = form(&[field("purpose", "batch"), file_field(&bytes)]);
    let lane = FileLane::start(1 << 20);
    let gateway = gateway(lane.address);
    let mut client = connect(&gateway);
    client.write_all(head("/v1/files", body.len()).as_bytes()).expect("it reads");
    // Longer than a first token may take.
    client.set_write_timeout(Some(Duration::from_millis(900))).expect("a socket");
    let mut written = 0;
    while let Ok(count) = client.write(&body[written..(written + (1 << 16)).min(body.len())]) {
        written += count;
        assert!(written < body.len(), "all of it was taken by nobody");
    }
    // The buffers of four sockets, and what the gateway holds.
    assert!(written < 24 << 20, "{written} bytes");
    client.set_write_timeout(None).expect("a socket");
    lane.go_on.send(()).expect("it waits");
    client.write_all(&body[written..]).expect("it reads");
    assert_eq!(read_answer(&mut client).status, 200);
    assert!(lane.received().1 == body);
}

#[test]
fn what_shows_behind_the_file_ends_the_upload_and_what_is_too_large_does_not_begin() {
    let bytes = file(1 << 20);
    let late = form(&[file_field(&bytes), field("model", "all")]);
    for (body, named, message) in [
        (late.clone(), "x-tokrate-model: all\r\n", "before the file"),
        (form(&[field("model", "all"), file_field(&bytes), field("model", "other")]), "", "comes twice"),
    ] {
        let lane = FileLane::start(usize::MAX);
        let gateway = gateway(lane.address);
        let mut client = connect(&gateway);
        let head = head("/v1/audio/transcriptions", body.len()).replacen("\r\n", &format!("\r\n{named}"), 1);
        client.write_all(head.as_bytes()).expect("it reads");
        client.write_all(&body).expect("it reads");
        let answer = read_answer(&mut client);
        assert!(answer.status == 400 && answer.text().contains(message), "{}: {}", answer.status, answer.text());
        assert!(!lane.received().2, "the lane got no whole form");
    }
    let lane = FileLane::start(usize::MAX);
    let gateway = gateway(lane.address);
    let mut client = connect(&gateway);
    client.write_all(head("/v1/files", (40 << 20) + 1).as_bytes()).expect("it reads");
    let answer = read_answer(&mut client);
    assert!(answer.status == 413 && answer.text().contains("`file_bytes`"), "{}", answer.text());
    // A client that leaves amid its file.
    let mut client = connect(&gateway);
    client.write_all(head("/v1/files", late.len()).as_bytes()).expect("it reads");
    client.write_all(&late[..600_000]).expect("it reads");
    drop(client);
    assert!(!lane.received().2);
}
