//! Batches: what is sent, what states and results say, and that every request is counted once.

use super::*;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

#[test]
fn requests_are_lines_of_a_file_or_elements_of_a_list() {
    let entries = |form: BatchForm| -> Vec<Vec<u8>> {
        let entry = |number| {
            let mut out = Vec::new();
            form.entry(number, "/v1/chat/completions", br#"{"model":"m"}"#, &mut out);
            out
        };
        (0..2).map(entry).collect()
    };
    let file = BatchForm::OpenAi.document(&entries(BatchForm::OpenAi));
    let lines: Vec<Value> = file
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    let expected =
        json!({"custom_id": "request-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}});
    assert_eq!((lines.len(), &lines[1]), (2, &expected));
    let body: Value =
        serde_json::from_slice(&BatchForm::Anthropic.document(&entries(BatchForm::Anthropic))).expect("JSON");
    let expected = json!([{"custom_id": "request-0", "params": {"model": "m"}}, {"custom_id": "request-1", "params": {"model": "m"}}]);
    assert_eq!(body["requests"], expected);
    assert_eq!(BatchForm::of(Dialect::Gemini), None);
}

#[test]
fn states_say_whether_it_goes_on_and_where_results_are() {
    let open_ai = |json: Value| state(BatchForm::OpenAi, json.to_string().as_bytes());
    let open = open_ai(json!({"id": "b", "status": "in_progress", "created_at": 5})).expect("a batch");
    assert_eq!((open.stage, open.server_seconds), (BatchStage::Open, None));
    let ended = json!({"id": "b", "status": "completed", "created_at": 5, "completed_at": 47, "output_file_id": "o", "error_file_id": "e"});
    let ended = open_ai(ended).expect("a batch");
    assert_eq!(
        (ended.stage, ended.files, ended.server_seconds),
        (BatchStage::Ended, vec!["o".into(), "e".into()], Some(42))
    );
    let failed = json!({"id": "b", "status": "failed", "errors": {"data": [{"message": "line 3 is no JSON"}]}});
    let failed = open_ai(failed).expect("a batch").stage;
    assert_eq!(failed, BatchStage::Failed("the batch is failed: line 3 is no JSON".to_owned()));
    let expired = open_ai(json!({"id": "b", "status": "expired", "output_file_id": "o"})).expect("a batch").stage;
    assert_eq!(expired, BatchStage::Ended);
    assert!(open_ai(json!({"object": "batch"})).is_err());
    let anthropic = |status: &str| {
        let body = json!({"id": "msgbatch_1", "processing_status": status}).to_string();
        state(BatchForm::Anthropic, body.as_bytes()).map(|state| state.stage)
    };
    assert_eq!((anthropic("canceling"), anthropic("ended")), (Ok(BatchStage::Open), Ok(BatchStage::Ended)));
    assert_eq!(id_of(br#"{"id": "file-1"}"#), Ok("file-1".to_owned()));
    assert!(id_of(b"<html>").is_err());
}

#[test]
fn every_result_is_counted_once_and_what_has_none_is_missing() {
    let answered = br#"{"custom_id":"request-0","response":{"status_code":200,"body":{"usage":{"prompt_tokens":5,"completion_tokens":7}}},"error":null}"#;
    let refused = br#"{"custom_id":"request-1","response":{"status_code":429,"body":{"error":{"message":"x"}}}}"#;
    let strange = b"{\"custom_id\":\"request-9\"}\n{\"custom_id\":\"other\"}\nno JSON\n";
    let files = [[&answered[..], b"\n", answered, b"\n\n"].concat(), [&refused[..], b"\n", strange].concat()];
    let found = results(3, &files);
    assert_eq!((found.succeeded, found.failed, found.missing, found.unknown), (1, 1, 1, 4));
    assert_eq!((found.usage.input, found.usage.output), (Some(5), Some(7)));
    // As llama-stack 0.7 writes them: the body is a text.
    let quoted = br#"{"id":"r","custom_id":"request-0","response":{"status_code":200,"request_id":"r","body":"{\"choices\":[],\"usage\":{\"completion_tokens\":20,\"prompt_tokens\":100}}"}}"#;
    let refused = br#"{"id":"r","custom_id":"request-1","response":{"status_code":400,"body":"no"}}"#;
    let found = results(3, &[[&quoted[..], b"\n", refused, b"\n"].concat(), Vec::new()]);
    assert_eq!((found.succeeded, found.failed, found.missing, found.unknown), (1, 1, 1, 0));
    assert_eq!((found.usage.input, found.usage.output), (Some(100), Some(20)));
    let anthropic = b"{\"custom_id\":\"request-0\",\"result\":{\"type\":\"succeeded\",\"message\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}}\n\
        {\"custom_id\":\"request-1\",\"result\":{\"type\":\"errored\",\"error\":{}}}";
    let found = results(2, &[anthropic.to_vec()]);
    assert_eq!((found.succeeded, found.failed, found.missing, found.usage.output), (1, 1, 0, Some(4)));
}

proptest! {
    #[test]
    fn a_file_comes_out_of_its_upload_as_it_went_in(file in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (body, content_type) = upload(&file, "a-boundary-that-occurs-nowhere");
        prop_assert_eq!(uploaded(&body, &content_type), Some(&file[..]));
    }

    #[test]
    fn no_bytes_break_the_reading(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "[{}\":a-z_,0-9\n-]{0,80}") {
        for body in [&bytes[..], text.as_bytes()] {
            let found = results(4, &[body.to_vec()]);
            prop_assert_eq!(found.succeeded + found.failed + found.missing, 4);
            let _ = (state(BatchForm::OpenAi, body), state(BatchForm::Anthropic, body), id_of(body));
            prop_assert!(uploaded(body, "multipart/form-data; boundary=-").is_none_or(|file| file.len() <= body.len()));
        }
    }
}
