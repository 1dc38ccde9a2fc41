//! Sessions as they are read: times, tokens, charges, whatever the reads are.

use super::*;
use tokrate_wire::websocket::{FrameKind, write_frame};

fn at(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

fn text(json: &str, mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(FrameKind::Text, json.as_bytes(), mask, &mut frame);
    frame
}

const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);
const DONE: &str = r#"{"type":"response.done","response":{"status":"completed","usage":{"input_tokens":7,"output_tokens":2,"input_token_details":{"cached_tokens":3}}}}"#;

#[test]
fn responses_are_timed_from_their_request_and_from_the_end_of_speech() {
    let (mut meter, mut charges) = (SessionMeter::new(Language::Responses), Vec::new());
    let mut lane = |meter: &mut SessionMeter, ms: u64, json: &str| {
        // A byte a read: what counts is the last.
        for byte in text(json, None) {
            meter.on_lane(at(ms), &[byte], |charge| charges.push(charge));
        }
    };
    lane(&mut meter, 1, r#"{"type":"session.created","session":{"model":"rt-1"}}"#);
    meter.on_client(&text(r#"{"type":"response.create"}"#, MASK));
    assert!(meter.waited_since.is_none(), "it was not handed on");
    meter.on_sent(at(10));
    lane(&mut meter, 30, r#"{"type":"response.created"}"#);
    lane(&mut meter, 60, r#"{"type":"response.output_text.delta","delta":"a"}"#);
    lane(&mut meter, 70, r#"{"type":"response.output_text.delta","delta":"b"}"#);
    assert!(meter.numbers().has_unreported, "the response has not ended");
    lane(&mut meter, 80, DONE);
    lane(&mut meter, 100, r#"{"type":"input_audio_buffer.speech_stopped"}"#);
    lane(&mut meter, 105, r#"{"type":"response.created"}"#);
    lane(&mut meter, 200, r#"{"type":"response.output_audio.delta","delta":"AAAA"}"#);
    lane(&mut meter, 210, DONE);
    let numbers = meter.numbers();
    assert_eq!((numbers.responses, numbers.deltas, numbers.has_unreported), (2, 3, false));
    assert_eq!(numbers.ttft, Some(Span::from_millis(50)), "the lower of 50 and 100");
    assert_eq!((numbers.usage.input, numbers.usage.output, numbers.usage.cached_input), (Some(14), Some(4), Some(6)));
    assert_eq!(numbers.model.as_deref(), Some("rt-1"));
    assert_eq!(charges, [Charge::Response(1), Charge::Tokens(9), Charge::Response(2), Charge::Tokens(9)]);
}

#[test]
fn a_transcript_is_an_answer_where_it_is_what_is_asked_for() {
    for is_transcription in [true, false] {
        let language = if is_transcription { Language::Transcripts } else { Language::Responses };
        let mut meter = SessionMeter::new(language);
        for (ms, json) in [
            (10, r#"{"type":"input_audio_buffer.speech_stopped"}"#),
            (40, r#"{"type":"conversation.item.input_audio_transcription.delta","delta":"a"}"#),
            (
                50,
                r#"{"type":"conversation.item.input_audio_transcription.completed","usage":{"type":"duration","seconds":2}}"#,
            ),
        ] {
            meter.on_lane(at(ms), &text(json, None), |_| ());
        }
        let numbers = meter.numbers();
        assert_eq!(numbers.ttft.is_some(), is_transcription);
        assert_eq!(
            (numbers.responses, numbers.has_unreported),
            (u32::from(is_transcription), true),
            "seconds are no tokens"
        );
    }
}

#[test]
fn ends_are_heard_and_frames_of_ours_go_between_others_only() {
    let mut meter = SessionMeter::new(Language::Responses);
    assert!(meter.is_client_at_boundary() && meter.is_lane_at_boundary());
    meter.on_client(&text("{}", MASK)[..4]);
    assert!(meter.is_client_at_boundary() && !meter.is_lane_at_boundary());
    let mut charges = Vec::new();
    meter.on_lane(at(1), b"HTTP/1.1 200 OK\r\n", |charge| charges.push(charge));
    assert!(charges == [Charge::Unreadable] && !meter.is_client_at_boundary());
    let mut meter = SessionMeter::new(Language::Responses);
    meter.on_lane(at(1), &tokrate_wire::websocket::close_frame(1011, "", None), |_| ());
    meter.on_client(&tokrate_wire::websocket::close_frame(1000, "", MASK));
    assert_eq!((meter.lane_close, meter.client_close), (Some(Some(1011)), Some(Some(1000))));
}
