//! A lane that bills what a request tells it to, and responds only once every client was admitted or refused.
//!
//! Invariant: a response is complete and reports usage as its dialect does.

use crate::client::{Answer as ClientAnswer, ask};
use crate::every_route::shape_asked;
use crate::harness::TestGateway;
use crate::scripted::{read_request, whole};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokrate_core::{Channel, FinishReason, Usage};
use tokrate_wire::{Answer, Dialect, Encoder, Piece, Shape};

/// Only a fault of the test or the gateway makes anything wait this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Holds responses back until so many clients were admitted or refused.
pub struct Gate {
    clients: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    admitted: BTreeSet<String>,
    refused: usize,
}

impl Gate {
    pub fn of(clients: usize) -> Arc<Gate> {
        Arc::new(Gate { clients, state: Mutex::default(), changed: Condvar::new() })
    }

    /// A client was refused.
    pub fn refused(&self) {
        self.state.lock().expect("no panic holds it").refused += 1;
        self.changed.notify_all();
    }

    /// A call has reached a lane; returns when all clients are accounted for.
    fn pass(&self, call: &str) {
        let mut state = self.state.lock().expect("no panic holds it");
        state.admitted.insert(call.to_owned());
        self.changed.notify_all();
        let is_waiting = |state: &mut State| state.admitted.len() + state.refused < self.clients;
        drop(self.changed.wait_timeout_while(state, TIMEOUT, is_waiting).expect("no panic holds it"));
    }
}

/// What a request's text tells the lane of that index to bill, or to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bill {
    pub input: u64,
    pub output: u64,
    /// Whether the first of the lanes fails with 500.
    pub first_fails: bool,
}

impl Bill {
    /// As it is written in a prompt.
    pub fn text(self) -> String {
        format!("bill={},{},{}.", self.input, self.output, u8::from(self.first_fails))
    }

    fn find(body: &[u8]) -> Option<Bill> {
        let body = String::from_utf8_lossy(body);
        let (_, rest) = body.split_once("bill=")?;
        let (numbers, _) = rest.split_once('.')?;
        let numbers: Vec<u64> = numbers.split(',').filter_map(|number| number.parse().ok()).collect();
        let [input, output, first_fails] = numbers[..] else { return None };
        Some(Bill { input, output, first_fails: first_fails == 1 })
    }
}

/// Starts a lane, which lives as long as the process.
pub fn start(index: usize, gate: &Arc<Gate>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let gate = Arc::clone(gate);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || serve(stream, index, &gate));
        }
    });
    address
}

fn serve(mut stream: TcpStream, index: usize, gate: &Gate) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer) {
        let path = request.head.split(' ').nth(1).expect("a path");
        let asked = shape_asked(path, &request.body);
        let id =
            request.head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).expect("the gateway sends it");
        let bill = Bill::find(&request.body).unwrap_or(Bill { input: 0, output: 0, first_fails: false });
        gate.pass(id.rsplit_once('-').map_or(id, |(call, _)| call));
        let answer = match bill.first_fails && index == 0 {
            true => whole("500 Internal Server Error", "{}"),
            false => match asked {
                None => whole("200 OK", &passed(bill)),
                Some((dialect, Shape::Whole)) => whole("200 OK", &answer(dialect, bill)),
                Some((dialect, shape)) => streamed(dialect, shape, bill),
            },
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// The answer to what passes by the table of paths: an object with token counts.
fn passed(bill: Bill) -> String {
    let input = bill.input;
    format!(r#"{{"id":"obj-1","model":"m","usage":{{"prompt_tokens":{input},"total_tokens":{input}}}}}"#)
}

fn answer(dialect: Dialect, bill: Bill) -> String {
    let usage = Usage { input: Some(bill.input), output: Some(bill.output), ..Usage::default() };
    let answer = Answer {
        reasoning: "",
        answer: "yes",
        tools: &[],
        finish: FinishReason::Stop,
        usage: Some(usage),
        timings: None,
    };
    let bytes = Encoder::new(dialect, Shape::Whole, "x", "m", 1).encode_whole(&answer);
    String::from_utf8(bytes).expect("JSON")
}

/// The same answer as a stream.
fn streamed(dialect: Dialect, shape: Shape, bill: Bill) -> Vec<u8> {
    let usage = Usage { input: Some(bill.input), output: Some(bill.output), ..Usage::default() };
    let text = Piece::Text { channel: Channel::Answer, text: "yes" };
    let pieces = [Piece::Role, text, Piece::Finish(FinishReason::Stop), Piece::Usage(usage), Piece::Done];
    let (mut encoder, mut body) = (Encoder::new(dialect, shape, "x", "m", 1), Vec::new());
    pieces.iter().for_each(|piece| encoder.encode_event(piece, &mut body));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {}\r\n", dialect.content_type(shape));
    let mut bytes = format!("{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(&body);
    bytes
}

/// Sends all bodies concurrently, with the key `sk-k`.
pub fn at_once(gateway: &TestGateway, gate: &Arc<Gate>, path: &str, bodies: &[String]) -> Vec<ClientAnswer> {
    let address = gateway.address;
    std::thread::scope(|scope| {
        let clients: Vec<_> = bodies
            .iter()
            .map(|body| {
                scope.spawn(move || {
                    let answer = ask(address, "POST", path, &[("authorization", "Bearer sk-k")], body.as_bytes());
                    if answer.status == 429 {
                        gate.refused();
                    }
                    answer
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("an answer")).collect()
    })
}
