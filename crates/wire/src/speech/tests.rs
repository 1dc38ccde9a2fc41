//! Both forms of answers, in any pieces, and what is no sound.

use super::*;
use crate::base64::encode;
use proptest::prelude::{any, prop, prop_assert_eq, proptest};
use tokrate_core::Span;

const AT: Tick = Tick::from_nanos(7);

/// What was decoded: bytes of sound, its length in ms, and everything else in order.
fn decode(mut decoder: SpeechDecoder, body: &[u8], piece: usize, is_complete: bool) -> (u64, Option<f64>, Vec<String>) {
    let mut batch = EventBatch::new();
    body.chunks(piece).for_each(|piece| decoder.push(AT, piece, &mut batch));
    decoder.end(AT, AT, is_complete, &mut batch);
    let (mut bytes, mut plays, mut others) = (0, None, Vec::new());
    for event in batch.events() {
        match event.kind {
            EventKind::Sound(piece) => {
                bytes += u64::from(piece.bytes);
                plays = piece.plays.map(|plays| plays.as_millis_f64());
            }
            EventKind::Failed { kind, message, .. } => others.push(format!("{kind:?}: {}", batch.text(message))),
            EventKind::Usage(usage) => others.push(format!("{:?} {:?}", usage.input, usage.output)),
            other => others.push(format!("{other:?}")),
        }
    }
    (bytes, plays, others)
}

fn pcm(delivery: SoundDelivery) -> SpeechDecoder {
    SpeechDecoder::new(SoundFormat::Pcm, delivery, PCM_RATE)
}

fn event(sound: &[u8]) -> String {
    format!("data: {{\"type\":\"speech.audio.delta\",\"audio\":\"{}\"}}\n\n", encode(sound))
}

#[test]
fn a_body_is_whole_where_http_says_so_and_events_where_the_last_one_came() {
    let done = |others: &[&str]| (4_800, Some(100.0), others.iter().map(|it| (*it).to_owned()).collect());
    assert_eq!(decode(pcm(SoundDelivery::Body), &[3; 4_800], 999, true), done(&["Done"]));
    assert_eq!(decode(pcm(SoundDelivery::Body), &[3; 4_800], 999, false), done(&[]), "the connection broke");
    let usage = r#"data: {"type":"speech.audio.done","usage":{"input_tokens":9,"output_tokens":40,"total_tokens":49}}"#;
    let body = [event(&[3; 1_600]), event(&[3; 3_200]), format!("{usage}\n\n")].concat();
    for piece in [1, 10, 10_000] {
        let decoded = decode(pcm(SoundDelivery::Events), body.as_bytes(), piece, true);
        assert_eq!(decoded, done(&["Some(9) Some(40)", "Done"]), "{piece}");
    }
    let cut = decode(pcm(SoundDelivery::Events), event(&[3; 4_800]).as_bytes(), 50, true);
    assert_eq!(cut, done(&[]), "no end came");
}

#[test]
fn a_body_whose_end_comes_long_after_its_last_sound_ends_then() {
    let ended_at = AT + Span::from_secs(3);
    let mut batch = EventBatch::new();
    let mut decoder = pcm(SoundDelivery::Body);
    decoder.push(AT, &[3; 4_800], &mut batch);
    decoder.end(AT, ended_at, true, &mut batch);
    let ticks: Vec<Tick> = batch.events().iter().map(|event| event.at).collect();
    assert_eq!((ticks, batch.events()[1].kind), (vec![AT, ended_at], EventKind::Done));
}

#[test]
fn what_the_answer_calls_itself_counts_more_than_what_was_asked_for() {
    let mut events = pcm(SoundDelivery::Body);
    events.set_content_type("text/event-stream; charset=utf-8");
    let body = event(&[3; 4_800]) + "data: [DONE]\n\n";
    assert_eq!(decode(events, body.as_bytes(), 64, true), (4_800, Some(100.0), vec!["Done".to_owned()]));
    let mut plain = pcm(SoundDelivery::Events);
    plain.set_content_type("audio/pcm");
    assert_eq!(decode(plain, &[3; 4_800], 64, true).0, 4_800);
    let mut text = pcm(SoundDelivery::Body);
    text.set_content_type("application/json");
    let refused = decode(text, b"{\"error\": \"no  such\nvoice\"}", 5, true);
    let why = "NotJson: the answer is text and no sound: {\"error\": \"no such voice\"}";
    assert_eq!(refused, (0, None, vec![why.to_owned()]));
}

#[test]
fn a_file_that_ends_before_its_head_says_is_cut_off_and_errors_in_events_are_failures() {
    let file = [crate::sound::wav_head(24_000, Some(24_000)).as_slice(), &[0; 24_000]].concat();
    let wav = SpeechDecoder::new(SoundFormat::Wav, SoundDelivery::Body, PCM_RATE);
    let why = "Truncated: the sound ends after 0.50 of the 1.00 s that its head names";
    assert_eq!(decode(wav, &file, 100, true), (24_000, Some(500.0), vec![why.to_owned()]));
    let body = event(&[3; 480]) + "data: {\"type\":\"error\",\"error\":{\"message\":\"out of\\nmemory\"}}\n\n";
    let failed = decode(pcm(SoundDelivery::Events), body.as_bytes(), 9, true);
    assert_eq!(failed, (480, Some(10.0), vec!["ErrorInStream: out of memory".to_owned()]));
    let odd = "data: {\"type\":\"speech.audio.delta\",\"audio\":\"?\"}\n\ndata: no\n\n";
    let odd = decode(pcm(SoundDelivery::Events), odd.as_bytes(), 9, true).2;
    assert_eq!(odd, ["Anomaly(Malformed)", "Anomaly(Unreadable)"]);
}

#[test]
fn requests_hold_what_is_asked_for_and_further_fields_replace_it() {
    let extra = [("voice".to_owned(), "\"b\"".to_owned()), ("speed".to_owned(), "1.5".to_owned())];
    let request = SpeechRequest {
        model: "m",
        input: "say \"it\"",
        voice: "a",
        format: SoundFormat::Opus,
        delivery: SoundDelivery::Body,
        extra: &extra,
    };
    let body: Value = serde_json::from_slice(&request.encode()).expect("JSON");
    let plain = json!({"model": "m", "input": "say \"it\"", "voice": "b", "response_format": "opus", "speed": 1.5});
    assert_eq!(body, plain);
    let events = SpeechRequest { delivery: SoundDelivery::Events, extra: &[], ..request };
    let body: Value = serde_json::from_slice(&events.encode()).expect("JSON");
    assert_eq!((&body["stream_format"], &body["voice"]), (&json!("sse"), &json!("a")));
}

proptest! {
    #[test]
    fn no_body_breaks_it_and_any_pieces_give_the_same(
        is_events in any::<bool>(), sounds in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5), noise in "[ -~\n]{0,60}", piece in 1_usize..50,
    ) {
        let delivery = if is_events { SoundDelivery::Events } else { SoundDelivery::Body };
        let body = sounds.iter().map(|sound| event(sound)).collect::<String>() + &noise;
        let whole = decode(pcm(delivery), body.as_bytes(), body.len().max(1), true);
        let cut = decode(pcm(delivery), body.as_bytes(), piece, true);
        prop_assert_eq!(whole.0, cut.0);
        prop_assert_eq!(whole.1, cut.1);
        prop_assert_eq!(whole.2.len(), cut.2.len());
    }
}
