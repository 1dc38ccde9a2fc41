//! Headers made here, whole, cut and garbled.

use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Made {
    pairs: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Made {
    fn number(mut self, key: &str, value: u32) -> Made {
        self.pairs.push([text(key), 4u32.to_le_bytes().to_vec(), value.to_le_bytes().to_vec()].concat());
        self
    }

    fn text(mut self, key: &str, value: &str) -> Made {
        self.pairs.push([text(key), 8u32.to_le_bytes().to_vec(), text(value)].concat());
        self
    }

    fn words(mut self, key: &str, count: u64) -> Made {
        let head = [text(key), 9u32.to_le_bytes().to_vec(), 8u32.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()];
        self.pairs.push([head.concat(), text("ab").repeat(count as usize)].concat());
        self
    }

    fn tensor(mut self, name: &str, sizes: &[u64], kind: u32) -> Made {
        let sizes_bytes = sizes.iter().flat_map(|size| size.to_le_bytes()).collect::<Vec<u8>>();
        let dimensions = (sizes.len() as u32).to_le_bytes().to_vec();
        let end = [kind.to_le_bytes().to_vec(), 0u64.to_le_bytes().to_vec()].concat();
        self.tensors.push([text(name), dimensions, sizes_bytes, end].concat());
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let counts = [(self.tensors.len() as u64).to_le_bytes(), (self.pairs.len() as u64).to_le_bytes()].concat();
        [b"GGUF".to_vec(), 3u32.to_le_bytes().to_vec(), counts, self.pairs.concat(), self.tensors.concat()].concat()
    }
}

fn sample() -> Made {
    Made::default()
        .text("general.architecture", "qwen3moe")
        .text("general.name", "Small Experts")
        .number("qwen3moe.block_count", 4)
        .number("qwen3moe.embedding_length", 512)
        .number("qwen3moe.attention.head_count", 8)
        .number("qwen3moe.attention.head_count_kv", 2)
        .number("qwen3moe.attention.key_length", 128)
        .number("qwen3moe.context_length", 4096)
        .number("qwen3moe.expert_count", 16)
        .number("qwen3moe.expert_used_count", 4)
        .words("tokenizer.ggml.tokens", 1000)
        .tensor("token_embd.weight", &[512, 1000], 8)
        .tensor("blk.0.attn_q.weight", &[512, 1024], 12)
        .tensor("blk.0.ffn_up_exps.weight", &[512, 256, 16], 12)
}

#[test]
fn a_header_is_the_model_that_it_describes() {
    let found = Header::read(&sample().bytes()).expect("whole").model("file").expect("a model");
    let (dense, experts) = (512.0 * 1000.0 + 512.0 * 1024.0, 512.0 * 256.0 * 16.0);
    assert_eq!((found.model.params, found.model.active), (dense + experts, dense + experts / 4.0));
    assert_eq!((found.model.name.as_str(), found.model.native.as_str()), ("Small Experts", "Q4_K"));
    assert_eq!((found.model.kv_heads, found.model.head_dim, found.model.vocab), (2.0, 128.0, 1000.0));
    assert!(found.model.tied, "no output of its own");
    assert_eq!(found.bytes, 512_000.0 / 32.0 * 34.0 + (512.0 * 1024.0 + experts) / 256.0 * 144.0);
}

#[test]
fn a_header_that_is_cut_anywhere_asks_for_more() {
    let bytes = sample().bytes();
    for length in 0..bytes.len() {
        assert_eq!(Header::read(&bytes[..length]), Err(HeaderError::Truncated), "{length}");
    }
}

#[test]
fn a_length_that_no_file_has_costs_nothing() {
    let mut huge = sample();
    huge.pairs[10] =
        [text("x"), 9u32.to_le_bytes().to_vec(), 4u32.to_le_bytes().to_vec(), u64::MAX.to_le_bytes().to_vec()].concat();
    assert_eq!(Header::read(&huge.bytes()), Err(HeaderError::Truncated));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let of = |made: Made| match Header::read(&made.bytes()) {
        Ok(header) => header.model("file").map(|_| ()).expect_err("refused"),
        Err(error) => format!("{error:?}"),
    };
    let mut old = sample().bytes();
    old[4] = 1;
    let lines = [
        format!("{:?}", Header::read(b"PK\x03\x04 a zip").expect_err("refused")),
        format!("{:?}", Header::read(&old).expect_err("refused")),
        of(Made::default().text("general.architecture", "x")),
        of(Made::default()),
        of(sample().number("split.count", 3)),
        of(sample().number("qwen3moe.block_count", 0)),
        of(sample().number("qwen3moe.block_count", u32::MAX)),
        of(sample().tensor("x", &[1; 9], 0)),
        of(sample().tensor("x", &[1], 77)),
        of(Made { tensors: Vec::new(), ..sample() }),
    ];
    insta::assert_snapshot!("gguf_refused", lines.join("\n"));
}

proptest! {
    #[test]
    fn garbled_headers_never_panic_and_never_give_an_impossible_model(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = sample().bytes();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok(Ok(found)) = Header::read(&bytes).map(|header| header.model("file")) {
            prop_assert!(found.model.check().is_ok() && found.bytes.is_finite());
        }
    }
}
