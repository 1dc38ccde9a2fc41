//! Anthropic's models on a cloud whose streams have another form: clients of every dialect get them as from Anthropic itself.

use crate::client::{Answer, post, read_answer_after, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, whole};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tokrate_core::FailureKind;
use tokrate_gateway::{LaneConfig, Mode};
use tokrate_net::{Authorization, Authorize, AuthorizeFuture, Head, RewriteAnswer, Unauthorized};
use tokrate_record::{AttemptEnd, CostBasis};
use tokrate_wire::{Dialect, InvokeAnswer, anthropic_on_bedrock};

/// Events of an answer, and the same in base64.
const EVENTS: [(&str, &str); 6] = [
    (
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":11,"output_tokens":1}}}"#,
        "eyJ0eXBlIjoibWVzc2FnZV9zdGFydCIsIm1lc3NhZ2UiOnsiaWQiOiJtc2dfMSIsInR5cGUiOiJtZXNzYWdlIiwicm9sZSI6ImFzc2lzdGFudCIsIm1vZGVsIjoiY2xhdWRlLXgiLCJjb250ZW50IjpbXSwic3RvcF9yZWFzb24iOm51bGwsInVzYWdlIjp7ImlucHV0X3Rva2VucyI6MTEsIm91dHB1dF90b2tlbnMiOjF9fX0=",
    ),
    (
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        "eyJ0eXBlIjoiY29udGVudF9ibG9ja19zdGFydCIsImluZGV4IjowLCJjb250ZW50X2Jsb2NrIjp7InR5cGUiOiJ0ZXh0IiwidGV4dCI6IiJ9fQ==",
    ),
    (
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"yes"}}"#,
        "eyJ0eXBlIjoiY29udGVudF9ibG9ja19kZWx0YSIsImluZGV4IjowLCJkZWx0YSI6eyJ0eXBlIjoidGV4dF9kZWx0YSIsInRleHQiOiJ5ZXMifX0=",
    ),
    (r#"{"type":"content_block_stop","index":0}"#, "eyJ0eXBlIjoiY29udGVudF9ibG9ja19zdG9wIiwiaW5kZXgiOjB9"),
    (
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
        "eyJ0eXBlIjoibWVzc2FnZV9kZWx0YSIsImRlbHRhIjp7InN0b3BfcmVhc29uIjoiZW5kX3R1cm4ifSwidXNhZ2UiOnsib3V0cHV0X3Rva2VucyI6Mn19",
    ),
    (r#"{"type":"message_stop"}"#, "eyJ0eXBlIjoibWVzc2FnZV9zdG9wIn0="),
];

/// What rewrites requests and answers, as `targets` has it.
#[derive(Debug)]
struct OnBedrock;

impl Authorize for OnBedrock {
    fn authorize<'a>(&'a self, request: Unauthorized<'a>) -> AuthorizeFuture<'a> {
        Box::pin(async move {
            let betas = request.headers.get("anthropic-beta").and_then(|betas| betas.to_str().ok()).unwrap_or_default();
            let rewritten = anthropic_on_bedrock(request.path, request.body, betas);
            let rewritten = rewritten.map(|(path, body)| (path, body.into()));
            Ok(Authorization { rewritten, answer: Some(|| Box::new(Invoked(None))), ..Authorization::default() })
        })
    }
}

struct Invoked(Option<InvokeAnswer>);

impl RewriteAnswer for Invoked {
    fn head(&mut self, head: &mut Head) {
        let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let answer = InvokeAnswer::new(head.status.as_u16(), content_type);
        if let Some(content_type) = answer.content_type() {
            head.headers.insert("content-type", http::HeaderValue::from_static(content_type));
        }
        self.0 = Some(answer);
    }

    fn body(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.0.as_mut().expect("a head came").push(bytes, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.0.as_mut().expect("a head came").end(out);
    }
}

fn on_bedrock(name: &str, address: SocketAddr) -> LaneConfig {
    let mut lane = lane(name, address, &[Dialect::Anthropic]);
    lane.endpoints[0].base = tokrate_net::Target::parse(&format!("http://{address}")).expect("a URL");
    lane.endpoints[0].authorizer = Some(Arc::new(OnBedrock));
    lane
}

/// A binary message of AWS's.
fn message(kind: &str, name: &str, payload: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    for (header, value) in [(format!(":{kind}-type"), name), (":message-type".to_owned(), kind)] {
        headers.push(header.len() as u8);
        headers.extend_from_slice(header.as_bytes());
        headers.extend_from_slice(&[7, 0, value.len() as u8]);
        headers.extend_from_slice(value.as_bytes());
    }
    let length = 12 + headers.len() + payload.len() + 4;
    let mut bytes = [(length as u32).to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(&headers);
    bytes.extend_from_slice(payload.as_bytes());
    let crc = crc32fast::hash(&bytes).to_be_bytes();
    [bytes, crc.to_vec()].concat()
}

fn chunks(count: usize) -> Vec<u8> {
    let chunk = |(_, base64): &(&str, &str)| message("event", "chunk", &format!(r#"{{"bytes":"{base64}","p":"abc"}}"#));
    EVENTS[..count].iter().flat_map(chunk).collect()
}

fn stream(body: &[u8]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n";
    let mut bytes = format!("{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

const MESSAGE: &str = r#"{"model":"all","max_tokens":9,"stream":true,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}"#;

fn ask(gateway: &TestGateway, body: &str) -> Answer {
    let headers = [("anthropic-version", "2023-06-01"), ("anthropic-beta", "context-1m-2025-08-07")];
    crate::client::ask(gateway.address, "POST", "/v1/messages", &headers, body.as_bytes())
}

#[test]
fn a_client_of_anthropics_gets_anthropics_own_stream_and_the_model_all_that_it_sent() {
    let bedrock = Scripted::start(vec![Script::Send(vec![stream(&chunks(6))])]);
    let mut gateway = TestGateway::start(configured(vec![on_bedrock("one", bedrock.address)], Mode::Off));
    let answer = ask(&gateway, MESSAGE);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")), "{}", answer.text());
    let events: Vec<String> =
        answer.text().lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect();
    assert_eq!(events, EVENTS.map(|(event, _)| event.to_owned()));
    let sent = &bedrock.requests()[0];
    assert!(sent.head.starts_with("POST /model/model-one/invoke-with-response-stream HTTP/1.1\r\n"), "{}", sent.head);
    let body = String::from_utf8_lossy(&sent.body).into_owned();
    assert_eq!(
        body,
        r#"{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["context-1m-2025-08-07"],"max_tokens":9,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}"#
    );
    let rows = gateway.rows();
    let sample = &rows[0].sample;
    assert_eq!((sample.input_tokens, sample.output_tokens), (Some(11), Some(2)), "metered by tokens");
    assert_eq!((sample.cost_basis, sample.cost_usd), (CostBasis::Reported, Some((11.0 + 4.0) / 1e6)));
    assert!(sample.ttft_ns.is_some(), "{sample:?}");
}

#[test]
fn clients_of_other_dialects_are_translated_for_whole_and_streamed() {
    let whole_answer = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":11,"output_tokens":2}}"#;
    for (streams, answer) in [(true, stream(&chunks(6))), (false, whole("200 OK", whole_answer))] {
        let bedrock = Scripted::start(vec![Script::Send(vec![answer])]);
        let gateway = TestGateway::start(configured(vec![on_bedrock("one", bedrock.address)], Mode::Off));
        let body = format!(r#"{{"model":"all","stream":{streams},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let answer = post(gateway.address, "/v1/chat/completions", &body);
        assert!(answer.status == 200 && answer.text().contains("yes"), "{}", answer.text());
        assert_eq!(answer.text().contains("[DONE]"), streams, "{}", answer.text());
        let method = if streams { "invoke-with-response-stream" } else { "invoke" };
        let head = &bedrock.requests()[0].head;
        assert!(head.starts_with(&format!("POST /model/model-one/{method} HTTP/1.1\r\n")), "{head}");
    }
}

#[test]
fn a_failure_of_awss_is_an_error_in_the_clients_words_and_another_lane_is_asked_before_that() {
    let failure = message("exception", "throttlingException", r#"{"message":"slow down"}"#);
    let broken = stream(&[chunks(3), failure.clone()].concat());
    let (first, rest) = broken.split_at(broken.len() - failure.len());
    let bedrock = Scripted::start(vec![Script::SendHoldSend(first.to_vec(), rest.to_vec())]);
    let mut gateway = TestGateway::start(configured(vec![on_bedrock("one", bedrock.address)], Mode::Off));
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", "/v1/messages", &[], MESSAGE.as_bytes())).expect("it reads");
    let begun = read_until(&mut client, "yes");
    bedrock.release();
    let answer = read_answer_after(begun, &mut client).text();
    assert!(answer.contains("yes") && answer.contains("rate_limit_error") && answer.contains("slow down"), "{answer}");
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(FailureKind::ErrorInStream)));
    // Before the first token, and as a status.
    let refused = whole("400 Bad Request", r#"{"message":"The provided model identifier is invalid."}"#);
    for first in [stream(&failure), whole("503 Service Unavailable", r#"{"message":"busy"}"#)] {
        let lanes = [
            Scripted::start(vec![Script::Send(vec![first])]),
            Scripted::start(vec![Script::Send(vec![stream(&chunks(6))])]),
        ];
        let configs = ["one", "two"].into_iter().zip(&lanes).map(|(name, at)| on_bedrock(name, at.address)).collect();
        let gateway = TestGateway::start(configured(configs, Mode::Off));
        let answer = ask(&gateway, MESSAGE);
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("two")), "{}", answer.text());
    }
    let bedrock = Scripted::start(vec![Script::Send(vec![refused])]);
    let gateway = TestGateway::start(configured(vec![on_bedrock("one", bedrock.address)], Mode::Off));
    let answer = ask(&gateway, MESSAGE);
    let expected = r#"{"type":"error","error":{"type":"invalid_request_error","message":"The provided model identifier is invalid."}}"#;
    assert_eq!((answer.status, answer.text().as_str()), (400, expected));
}

#[test]
fn a_stream_that_breaks_off_or_cannot_be_read_is_never_taken_for_whole() {
    let cut = &chunks(4)[..chunks(4).len() - 3];
    let mut garbled = chunks(6);
    garbled[chunks(3).len() + 40] ^= 1;
    for body in [cut, &garbled[..]] {
        let bedrock = Scripted::start(vec![Script::Send(vec![stream(body)])]);
        let mut gateway = TestGateway::start(configured(vec![on_bedrock("one", bedrock.address)], Mode::Off));
        let answer = ask(&gateway, MESSAGE).text();
        assert!(answer.contains("\"type\":\"error\""), "{answer}");
        assert!(!answer.contains("message_stop"), "{answer}");
        assert_eq!(gateway.rows()[0].end, AttemptEnd::Failed);
    }
}
