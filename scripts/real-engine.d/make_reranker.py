"""Write a small BERT with a head that scores a pair of texts (GGUF) whose weights are random.

It is what llama-server needs for `/rerank`: an encoder, a dense layer on its first position and one output. The tokenizer
comes from a vocabulary-only GGUF, as in make_model.py. The scores of such a model mean nothing; what matters is that a real
engine reads every pair, encodes it and answers with as many scores as there were documents.
"""

import argparse

import numpy as np
from gguf import GGUFReader, GGUFWriter, PoolingType

from make_model import copy_tokenizer

TOKEN_TYPES = 2


def main() -> None:
    args = parse_args()
    vocab = GGUFReader(args.vocab)
    writer = GGUFWriter(args.out, "bert")
    writer.add_name("random")
    writer.add_description(f"random weights, seed {args.seed}: a test load for engines, not a model that ranks")
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.hidden)
    writer.add_block_count(args.layers)
    writer.add_feed_forward_length(args.feed_forward)
    writer.add_head_count(args.heads)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.RANK)
    writer.add_array("bert.classifier.output_labels", ["LABEL_0"])
    copy_tokenizer(vocab, writer)
    # The first position is what the head reads, and a mark ends each of the two texts.
    count = add_weights(writer, args, len(vocab.fields["tokenizer.ggml.tokens"].data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"wrote {args.out}: {count / 1e6:.1f} M random weights, {args.layers} layers, hidden {args.hidden}")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", required=True, help="GGUF to copy the tokenizer from")
    parser.add_argument("--out", required=True)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--feed-forward", type=int, default=1024)
    parser.add_argument("--context", type=int, default=2048, help="positions that are learned")
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


def add_weights(writer: GGUFWriter, args: argparse.Namespace, vocab_size: int) -> int:
    rng = np.random.default_rng(args.seed)
    total = 0

    def matrix(name: str, rows: int, columns: int, kind: type = np.float16) -> None:
        nonlocal total
        total += rows * columns
        weights = rng.standard_normal((rows, columns), dtype=np.float32) / np.float32(np.sqrt(columns))
        writer.add_tensor(f"{name}.weight", weights.astype(kind))

    def bias(name: str, length: int) -> None:
        writer.add_tensor(f"{name}.bias", np.zeros(length, dtype=np.float32))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(args.hidden, dtype=np.float32))
        bias(name, args.hidden)

    hidden, wide = args.hidden, args.feed_forward
    matrix("token_embd", vocab_size, hidden)
    matrix("token_types", TOKEN_TYPES, hidden, np.float32)
    matrix("position_embd", args.context, hidden, np.float32)
    norm("token_embd_norm")
    for layer in range(args.layers):
        at = f"blk.{layer}"
        for part in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            matrix(f"{at}.{part}", hidden, hidden)
            bias(f"{at}.{part}", hidden)
        norm(f"{at}.attn_output_norm")
        matrix(f"{at}.ffn_up", wide, hidden)
        bias(f"{at}.ffn_up", wide)
        matrix(f"{at}.ffn_down", hidden, wide)
        bias(f"{at}.ffn_down", hidden)
        norm(f"{at}.layer_output_norm")
    matrix("cls", hidden, hidden)
    bias("cls", hidden)
    matrix("cls.output", 1, hidden, np.float32)
    bias("cls.output", 1)
    return total


if __name__ == "__main__":
    main()
