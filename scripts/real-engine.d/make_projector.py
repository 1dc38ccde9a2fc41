"""Write small encoders of images (of the kind `kimivl`) and sound (`qwen2a`) with their projectors (GGUF) whose weights are random.

They go with the model of make_model.py: llama-server loads both and takes images and sound. The kind of the first is one whose tokens follow
the size of an image: one for each square of patch * merge pixels, from 8 to 1024 of them. What such encoders see and hear means nothing;
what matters is that a real engine decodes, scales, encodes and counts what it is sent.
"""

import argparse

import numpy as np
from gguf import GGUFWriter

MEL_BINS = 128
POSITIONS = 1500  # of 30 s of sound, at 50 a second


def main() -> None:
    args = parse_args()
    writer = GGUFWriter(args.out, "clip")
    writer.add_name("random")
    writer.add_description(f"random weights, seed {args.seed}: a test load for engines, not a vision model")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_bool("clip.has_audio_encoder", True)
    writer.add_string("clip.vision.projector_type", "kimivl")
    writer.add_string("clip.audio.projector_type", "qwen2a")
    writer.add_bool("clip.use_gelu", True)
    for name, value in [
        ("embedding_length", args.hidden),
        ("feed_forward_length", args.feed_forward),
        ("block_count", args.layers),
        ("projection_dim", args.model_hidden),
        ("attention.head_count", args.heads),
        ("image_size", args.patch * args.side),
        ("patch_size", args.patch),
        ("projector.scale_factor", args.merge),
    ]:
        writer.add_uint32(f"clip.vision.{name}", value)
    for name, value in [
        ("embedding_length", args.hidden),
        ("feed_forward_length", args.feed_forward),
        ("block_count", args.layers),
        ("projection_dim", args.model_hidden),
        ("attention.head_count", args.heads),
        ("num_mel_bins", MEL_BINS),
    ]:
        writer.add_uint32(f"clip.audio.{name}", value)
    writer.add_float32("clip.audio.attention.layer_norm_epsilon", 1e-5)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    add_weights(writer, args)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"wrote {args.out}: {args.layers} layers, hidden {args.hidden}, a token for {args.patch * args.merge} pixels squared")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--feed-forward", type=int, default=512)
    parser.add_argument("--patch", type=int, default=14)
    parser.add_argument("--side", type=int, default=64, help="patches of a side that have learned positions")
    parser.add_argument("--merge", type=int, default=2)
    parser.add_argument("--model-hidden", type=int, default=256, help="hidden size of the model that it goes with")
    parser.add_argument("--seed", type=int, default=2)
    return parser.parse_args()


def add_weights(writer: GGUFWriter, args: argparse.Namespace) -> None:
    rng = np.random.default_rng(args.seed)

    def matrix(name: str, *shape: int, kind: type = np.float32) -> None:
        columns = int(np.prod(shape[1:]))
        weights = rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(columns))
        writer.add_tensor(f"{name}.weight", weights.astype(kind))

    def bias(name: str, length: int) -> None:
        writer.add_tensor(f"{name}.bias", np.zeros(length, dtype=np.float32))

    def norm(name: str, length: int) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(length, dtype=np.float32))
        bias(name, length)

    hidden, merged = args.hidden, args.hidden * args.merge * args.merge
    matrix("v.patch_embd", hidden, 3, args.patch, args.patch)
    bias("v.patch_embd", hidden)
    matrix("v.position_embd", args.side * args.side, hidden)
    for encoder in ["v", "a"]:
        for layer in range(args.layers):
            block = f"{encoder}.blk.{layer}"
            for part in ["attn_q", "attn_k", "attn_v", "attn_out"]:
                matrix(f"{block}.{part}", hidden, hidden)
                if (encoder, part) != ("a", "attn_k"):  # Whisper's keys have none
                    bias(f"{block}.{part}", hidden)
            norm(f"{block}.ln1", hidden)
            norm(f"{block}.ln2", hidden)
            matrix(f"{block}.ffn_up", args.feed_forward, hidden)
            bias(f"{block}.ffn_up", args.feed_forward)
            matrix(f"{block}.ffn_down", hidden, args.feed_forward)
            bias(f"{block}.ffn_down", hidden)
        norm(f"{encoder}.post_ln", hidden)
    matrix("a.conv1d.1", hidden, MEL_BINS, 3, kind=np.float16)
    matrix("a.conv1d.2", hidden, hidden, 3, kind=np.float16)
    for conv in ["a.conv1d.1", "a.conv1d.2"]:
        writer.add_tensor(f"{conv}.bias", np.zeros((hidden, 1), dtype=np.float32))
    matrix("a.position_embd", POSITIONS, hidden)
    matrix("mm.a.fc", args.model_hidden, hidden)
    bias("mm.a.fc", args.model_hidden)
    norm("mm.input_norm", hidden)
    matrix("mm.1", merged, merged)
    bias("mm.1", merged)
    matrix("mm.2", args.model_hidden, merged)
    bias("mm.2", args.model_hidden)


if __name__ == "__main__":
    main()
