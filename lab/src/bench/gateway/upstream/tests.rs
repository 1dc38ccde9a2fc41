//! The upstream over loopback. Nothing here looks at how long anything took.

use super::super::answer::AnswerReader;
use super::super::script::{PACED_EVENTS, ScriptName};
use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(20);

fn call(upstream: &Upstream, ask: ScriptName, id: u64) -> TcpStream {
    let mut stream = TcpStream::connect(upstream.address).expect("connects");
    ask_again(&mut stream, ask, id);
    stream
}

fn ask_again(stream: &mut TcpStream, ask: ScriptName, id: u64) {
    let body = ask.body(id, "m");
    write!(stream, "POST /v1/x HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).expect("writes");
}

fn whole_body(stream: &mut TcpStream) -> Vec<u8> {
    let (mut reader, mut body, mut buffer) = (AnswerReader::default(), Vec::new(), vec![0; 4096]);
    loop {
        let length = stream.read(&mut buffer).expect("reads");
        assert!(length > 0, "the answer broke off");
        if reader.push(&buffer[..length], &mut |bytes| body.extend_from_slice(bytes)).expect("an answer") {
            return body;
        }
    }
}

#[test]
fn every_complete_play_arrives_as_it_was_made_on_one_connection() {
    let upstream = Upstream::start(None).expect("starts");
    let mut stream = TcpStream::connect(upstream.address).expect("connects");
    for (id, ask) in [ScriptName::Instant, ScriptName::Kind, ScriptName::Paced, ScriptName::Unkind, ScriptName::Instant]
        .into_iter()
        .enumerate()
    {
        ask_again(&mut stream, ask, id as u64);
        assert!(whole_body(&mut stream) == ask.true_body(), "{ask:?}");
    }
    assert!(upstream.wait_for_open(0, TIMEOUT));
    let ended = upstream.take_ended();
    assert_eq!(ended.len(), 1, "only the paced one is kept");
    assert_eq!((ended[0].id, ended[0].writes.len()), (2, PACED_EVENTS as usize));
    assert!(ended[0].closed_at.is_none() && ended[0].writes.is_sorted());
    assert_eq!(upstream.take_errors(), Vec::<String>::new());
}

#[test]
fn what_is_held_ends_when_the_client_closes() {
    let upstream = Upstream::start(None).expect("starts");
    let streams: Vec<TcpStream> = (0..3)
        .map(|id| call(&upstream, [ScriptName::Held, ScriptName::Role, ScriptName::Mute][id as usize], id))
        .collect();
    assert!(upstream.wait_for_open(3, TIMEOUT));
    let from = now();
    drop(streams);
    assert!(upstream.wait_for_open(0, TIMEOUT));
    let mut ended = upstream.take_ended();
    ended.sort_by_key(|ended| ended.id);
    assert_eq!(ended.iter().map(|ended| ended.id).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(ended.iter().all(|ended| ended.closed_at.is_some_and(|at| at >= from)));
}

#[test]
fn a_call_that_asks_for_nothing_known_is_complained_of() {
    let upstream = Upstream::start(None).expect("starts");
    let mut stream = TcpStream::connect(upstream.address).expect("connects");
    write!(stream, "POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}").expect("writes");
    assert_eq!(stream.read(&mut [0; 16]).expect("reads"), 0);
    assert_eq!(upstream.take_errors().len(), 1);
}

#[test]
fn what_is_open_can_be_broken_off_and_nothing_else_is() {
    let upstream = Upstream::start(None).expect("starts");
    let mut idle = call(&upstream, ScriptName::Instant, 1);
    assert!(whole_body(&mut idle) == ScriptName::Instant.true_body());
    assert!(upstream.wait_for_open(0, TIMEOUT), "the whole answer is over for the upstream too");
    let mut held = call(&upstream, ScriptName::Mute, 2);
    assert!(upstream.wait_for_open(1, TIMEOUT));
    upstream.close_all();
    assert_eq!(held.read(&mut [0; 16]).expect("reads"), 0);
    assert!(upstream.wait_for_open(0, TIMEOUT));
    ask_again(&mut idle, ScriptName::Instant, 3);
    assert!(whole_body(&mut idle) == ScriptName::Instant.true_body());
}
