//! Writes images that an engine paints, as events or in one piece.
//!
//! Invariant: the same request gets the same images; an emission of the engine is one image, done or not.

use serde_json::{Value, json};
use tokrate_core::{Channel, Rng};
use tokrate_sim::Emitted;
use tokrate_wire::media::{PictureFormat, mosaic, to_base64};

/// The pixels of a square that is billed as a token.
const TOKEN_PIXELS: u64 = 256;

/// Writes the images of one request.
pub(crate) struct PictureWriter {
    size: (u32, u32),
    /// Emissions of an image: those before it is done, and it.
    pieces: u32,
    /// Number of the answer.
    seed: u64,
    is_linked: bool,
    input_tokens: u32,
    /// Emissions so far.
    written: u32,
}

impl PictureWriter {
    pub fn new(size: (u32, u32), pieces: u32, seed: u64, is_linked: bool, input_tokens: u32) -> PictureWriter {
        PictureWriter { size, pieces, seed, is_linked, input_tokens, written: 0 }
    }

    /// Appends an emission, possibly nothing.
    pub fn write(&mut self, what: Emitted, bytes: &mut Vec<u8>) {
        match what {
            Emitted::Text { channel: Channel::Answer, words } => {
                for _ in 0..words.count() {
                    self.write_next(bytes);
                }
            }
            Emitted::Malformed => bytes.extend_from_slice(b"data: {\"type\":\"image_generation.partial_image\",\n\n"),
            Emitted::Failed { message } => {
                let event = json!({"type": "error", "error": {"type": "server_error", "message": message}});
                push_event("error", &event, bytes);
            }
            _ => {}
        }
    }

    /// All of them in one document.
    pub fn whole(&self, images: u32) -> Vec<u8> {
        let data: Vec<Value> = (0..images).map(|image| self.image(image, 0)).collect();
        json!({"created": 0, "data": data, "size": self.size_text(), "output_format": "png", "usage": self.usage(images)})
            .to_string()
            .into_bytes()
    }

    fn write_next(&mut self, bytes: &mut Vec<u8>) {
        let (image, piece) = (self.written / self.pieces, self.written % self.pieces);
        self.written += 1;
        let mut event = self.image(image, piece);
        event["created_at"] = json!(0);
        event["size"] = json!(self.size_text());
        event["output_format"] = json!("png");
        let name = if piece + 1 < self.pieces {
            event["partial_image_index"] = json!(piece);
            "image_generation.partial_image"
        } else {
            event["usage"] = self.usage(1);
            "image_generation.completed"
        };
        event["type"] = json!(name);
        push_event(name, &event, bytes);
    }

    /// The n-th image as it is after that many of its pieces.
    fn image(&self, image: u32, piece: u32) -> Value {
        if self.is_linked {
            return json!({"url": format!("http://127.0.0.1/{}/{image}.png", self.seed)});
        }
        let mut rng = Rng::root(self.seed).child("image").nth(u64::from(image)).nth(u64::from(piece));
        json!({"b64_json": to_base64(&mosaic(PictureFormat::Png, self.size.0, self.size.1, &mut rng))})
    }

    fn size_text(&self) -> String {
        format!("{}x{}", self.size.0, self.size.1)
    }

    fn usage(&self, images: u32) -> Value {
        let pixels = u64::from(self.size.0) * u64::from(self.size.1);
        let (input, output) = (u64::from(self.input_tokens), u64::from(images) * pixels.div_ceil(TOKEN_PIXELS));
        json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output})
    }
}

fn push_event(name: &str, event: &Value, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("event: {name}\ndata: {event}\n\n").as_bytes());
}
