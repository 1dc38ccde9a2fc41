//! Images that are made: what is asked for, and what answers in one piece and as streams say.

use super::*;
use crate::items::{ItemDecoder, ItemForm};
use crate::media::{PictureFormat, mosaic, to_base64};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use tokrate_core::Rng;

fn picture(width: u32, height: u32) -> String {
    to_base64(&mosaic(PictureFormat::Png, width, height, &mut Rng::root(1)))
}

/// The events of a body that comes in pieces of that size, with the nanosecond of the piece that held the end of each.
fn read(asked: u32, body: &str, piece: usize) -> Vec<String> {
    let (mut decoder, mut batch) = (ItemDecoder::new(ItemForm::Images, asked), EventBatch::new());
    let mut at = 0;
    for bytes in body.as_bytes().chunks(piece.max(1)) {
        at += bytes.len() as u64;
        decoder.push(Tick::from_nanos(at), bytes, &mut batch);
    }
    decoder.end(Tick::from_nanos(at), &mut batch);
    let event = |kind: EventKind| match kind {
        EventKind::Model(name) => format!("model {}", batch.text(name)),
        EventKind::Usage(usage) => format!("usage {:?} {:?}", usage.input, usage.output),
        EventKind::Image { pixels, is_partial } => format!("{} {pixels}", if is_partial { "partial" } else { "image" }),
        EventKind::Failed { kind, message, .. } => format!("failed {kind:?}: {}", batch.text(message)),
        other => format!("{other:?}"),
    };
    batch.events().iter().map(|one| event(one.kind)).collect()
}

#[test]
fn images_in_one_piece_are_counted_and_their_sizes_read() {
    let (one, other) = (picture(32, 16), picture(8, 8));
    let body = format!(
        r#"{{"created": 1, "data": [{{"b64_json": "{one}", "revised_prompt": "x"}}, {{"b64_json": "{other}"}}],
            "usage": {{"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}}}}"#
    );
    assert_eq!(read(2, &body, 7), ["usage Some(5) Some(9)", "image 512", "image 64", "Items(2)", "Done"]);
    let linked = r#"{"data": [{"url": "http://127.0.0.1/a.png"}]}"#;
    assert_eq!(read(1, linked, 100), ["image 0", "Items(1)", "Done"], "the size of what is not there is not known");
    assert_eq!(
        read(2, linked, 100),
        ["image 0", "Items(1)", "failed Truncated: the answer holds 1 of 2 items", "Done"]
    );
    assert_eq!(read(1, r#"{"data": [{}]}"#, 9)[0], "Anomaly(Malformed)");
    assert_eq!(read(1, r#"{"data": "#, 9), ["Anomaly(Unreadable)"]);
    assert!(read(1, "", 9).is_empty());
}

#[test]
fn a_stream_shows_images_before_they_are_done() {
    let (early, done) = (picture(16, 16), picture(32, 32));
    let body = format!(
        "event: image_generation.partial_image\ndata: {{\"type\":\"image_generation.partial_image\",\"b64_json\":\"{early}\",\"partial_image_index\":0}}\n\n\
         event: image_generation.completed\ndata: {{\"type\":\"image_generation.completed\",\"b64_json\":\"{done}\",\"usage\":{{\"output_tokens\":3}}}}\n\n"
    );
    assert_eq!(read(1, &body, 64), ["partial 256", "usage None Some(3)", "image 1024", "Items(1)", "Done"]);
    let failed = "data: {\"type\":\"error\",\"error\":{\"message\":\"no memory\"}}\n\ndata: [DONE]\n\n";
    assert_eq!(read(1, failed, 11), ["failed ServerError: no memory"]);
    let cut = body.split_at(body.len() - 5).0;
    assert_eq!(read(1, cut, 64)[..2], ["partial 256", "Anomaly(UnfinishedEvent)"]);
}

#[test]
fn requests_say_how_many_how_large_and_what_is_to_come_before() {
    let asked = ImageOptions { size: Some((640, 480)), partial: Some(2) };
    let sent = Value::Object(body("m", "a cat", 3, asked));
    let expected =
        json!({"model": "m", "prompt": "a cat", "n": 3, "size": "640x480", "stream": true, "partial_images": 2});
    assert_eq!(sent, expected);
    assert_eq!(
        Value::Object(body("m", "a cat", 1, ImageOptions::default())),
        json!({"model": "m", "prompt": "a cat", "n": 1})
    );
}

proptest! {
    #[test]
    fn no_body_breaks_it_and_any_chunking_gives_the_same(
        body in "(data: )?[\\[\\]{}\":,a-z_0-9 \n]{0,120}", piece in 1_usize..50, of_image in any::<bool>(),
    ) {
        let body = if of_image { body.replace('a', "\"b64_json\":\"iVBORw0KGgo\"") } else { body };
        let (whole, cut) = (read(1, &body, body.len()), read(1, &body, piece));
        prop_assert_eq!(&whole, &cut);
        prop_assert!(whole.len() <= body.len() + 3);
    }
}
