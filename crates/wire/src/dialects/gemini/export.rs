//! A request of Gemini's as any other dialect wants it.

use crate::translate::schema::in_json_schema;
use tokrate_core::{ChatRequest, Content, Image, Message};

/// Google's schemas name types in capitals, nobody else's do.
pub(super) fn prepare(request: &mut ChatRequest) {
    prepare_images(&mut request.messages);
    for tool in &mut request.tools {
        tool.parameters = tool.parameters.as_deref().map(in_json_schema);
    }
}

/// Writes pictures in the alphabet of base64 that every other dialect expects. Google's client libraries use the one for URLs,
/// which Protocol Buffers' JSON reads as well.
fn prepare_images(messages: &mut [Message]) {
    for content in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let Content::Image(Image::Data { base64, .. }) = content {
            make_standard(base64);
        }
    }
}

fn make_standard(text: &mut String) {
    if text.contains(['-', '_']) {
        *text = text.replace('-', "+").replace('_', "/");
    }
    // The padding is left out as well.
    let missing = text.len().wrapping_neg() % 4;
    text.extend(std::iter::repeat_n('=', missing));
}
