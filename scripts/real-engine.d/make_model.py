"""Write a small llama-architecture GGUF whose weights are random.

The tokenizer comes from a vocabulary-only GGUF (llama.cpp ships some for its own tests); every weight is drawn
from a seeded generator, so two runs write the same file. The text such a model emits means nothing, and it is not
meant to: what matters is that a real engine loads it, prefills, samples and streams at a speed a laptop can hold.

The rows of the output matrix that belong to control tokens (begin, end, unknown) are zero. A zero row gives the
logit 0, which is far below the best few of thousands of random logits, so generation does not end by itself.
"""

import argparse

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, TokenType
from gguf.quants import quantize

# What begins a call in chat.jinja. A model that was not trained never writes it, so requests that want calls put a bias on its token.
TOOL_CALL = "<tool_call>"
CONTROL_TYPES = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.UNUSED)


def main() -> None:
    args = parse_args()
    vocab = GGUFReader(args.vocab)
    writer = GGUFWriter(args.out, "llama")
    writer.add_name("random")
    writer.add_description(f"random weights, seed {args.seed}: a test load for engines, not a language model")
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.hidden)
    writer.add_block_count(args.layers)
    writer.add_feed_forward_length(args.feed_forward)
    writer.add_head_count(args.heads)
    writer.add_head_count_kv(args.heads)
    writer.add_rope_dimension_count(args.hidden // args.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(7)  # mostly Q8_0
    copy_tokenizer(vocab, writer, last=TOOL_CALL)
    # With a space put before it, the mark that begins an answer is other tokens than a grammar looks for, and no schema is taken.
    writer.add_add_space_prefix(False)
    count = add_weights(writer, args, np.array(vocab.fields["tokenizer.ggml.token_type"].contents()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"wrote {args.out}: {count / 1e6:.1f} M random weights, {args.layers} layers, hidden {args.hidden}")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", required=True, help="GGUF to copy the tokenizer from")
    parser.add_argument("--out", required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--feed-forward", type=int, default=1024)
    parser.add_argument("--context", type=int, default=32768)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def copy_tokenizer(vocab: GGUFReader, writer: GGUFWriter, last: str | None = None) -> None:
    """With `last`, that is the text of the last token, which is found in texts whatever else they could be cut into."""
    instead = {} if last is None else {"tokenizer.ggml.tokens": last, "tokenizer.ggml.token_type": int(TokenType.USER_DEFINED)}
    for key, field in vocab.fields.items():
        if not key.startswith("tokenizer."):
            continue
        kind = field.types[0]
        if kind == GGUFValueType.ARRAY:
            values = field.contents()
            if key in instead:
                values[-1] = instead[key]
            writer.add_key_value(key, values, kind, sub_type=field.types[-1])
        else:
            writer.add_key_value(key, field.contents(), kind)


def add_weights(writer: GGUFWriter, args: argparse.Namespace, token_types: np.ndarray) -> int:
    """Matrices are Q8_0 with unit gain (deviation 1 / sqrt(inputs)), so activations neither vanish nor explode."""
    rng = np.random.default_rng(args.seed)
    total = 0

    def matrix(name: str, rows: int, columns: int, gain: float = 1.0, zero_rows: np.ndarray | None = None) -> None:
        nonlocal total
        data = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(gain / np.sqrt(columns))
        if zero_rows is not None:
            data[zero_rows] = 0.0
        total += data.size
        writer.add_tensor(name, quantize(data, GGMLQuantizationType.Q8_0), raw_dtype=GGMLQuantizationType.Q8_0)

    def norm(name: str) -> None:
        nonlocal total
        total += args.hidden
        writer.add_tensor(name, np.ones(args.hidden, dtype=np.float32))

    vocab_size, hidden, wide = len(token_types), args.hidden, args.feed_forward
    matrix("token_embd.weight", vocab_size, hidden, gain=float(np.sqrt(hidden)))
    for layer in range(args.layers):
        at = f"blk.{layer}"
        norm(f"{at}.attn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"{at}.{part}.weight", hidden, hidden)
        norm(f"{at}.ffn_norm.weight")
        matrix(f"{at}.ffn_gate.weight", wide, hidden)
        matrix(f"{at}.ffn_up.weight", wide, hidden)
        matrix(f"{at}.ffn_down.weight", hidden, wide)
    norm("output_norm.weight")
    matrix("output.weight", vocab_size, hidden, zero_rows=np.isin(token_types, [int(t) for t in CONTROL_TYPES]))
    return total


if __name__ == "__main__":
    main()
