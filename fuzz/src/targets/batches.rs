//! What servers say of batches, and results of their requests: every request is counted once, whatever the bytes, and however they are parted into files.
//!
//! Invariant: the first byte of the input says how many requests there were.

use tokrate_wire::batch_api::{self, BatchForm};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let [requests, body @ ..] = input else { return };
    let requests = u64::from(*requests);
    let found = batch_api::results(requests, &[body.to_vec()]);
    assert_eq!(found.succeeded + found.failed + found.missing, requests);
    // Files are cut between lines.
    let files: Vec<Vec<u8>> = body.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    assert_eq!(batch_api::results(requests, &files), found);
    for form in [BatchForm::OpenAi, BatchForm::Anthropic] {
        if let Ok(state) = batch_api::state(form, body) {
            assert_eq!(batch_api::id_of(body), Ok(state.id));
        }
    }
    let (sent, content_type) = batch_api::upload(body, "tokrate-fuzz-0123456789abcdef");
    if !body.windows(2).any(|pair| pair == b"--") {
        assert_eq!(batch_api::uploaded(&sent, &content_type), Some(body));
    }
    let _ = batch_api::uploaded(body, "multipart/form-data; boundary=a");
}
