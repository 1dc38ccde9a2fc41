"""Write a small Stable Diffusion 1.x (safetensors) whose weights are random.

It is for stable-diffusion.cpp's `sd-server`, which has OpenAI's images API: the text encoder and the autoencoder have the shapes of the
original, which that program does not read from the file, the denoiser is --channels wide in place of 320. Its pictures are noise; what matters is that a real
engine encodes the prompt, takes as many steps as it is told, decodes and writes a picture of the size that was asked for.
"""

import argparse

import numpy as np
from safetensors.numpy import save_file

TEXT, TEXT_LAYERS, WORDS, PLACES = 768, 12, 49408, 77
MULTIPLES, LATENT, DECODER = (1, 2, 4, 4), 4, 128


def main() -> None:
    args = parse_args()
    weights = Weights(np.random.default_rng(args.seed))
    text_encoder(weights)
    denoiser(weights, args.channels)
    autoencoder(weights)
    save_file(weights.all, args.out)
    count = sum(weight.size for weight in weights.all.values())
    print(f"wrote {args.out}: {count / 1e6:.0f} M random weights, {args.channels} channels")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--channels", type=int, default=64, help="a multiple of 32")
    parser.add_argument("--seed", type=int, default=4)
    return parser.parse_args()


class Weights:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.all: dict[str, np.ndarray] = {}

    def plain(self, name: str, *shape: int) -> None:
        """Unit gain (deviation 1 / sqrt(inputs)), so activations neither vanish nor explode."""
        gain = np.float32(1 / np.sqrt(np.prod(shape[1:])))
        self.all[name] = (self.rng.standard_normal(shape, dtype=np.float32) * gain).astype(np.float16)

    def linear(self, name: str, outputs: int, inputs: int, bias: bool = True) -> None:
        self.plain(f"{name}.weight", outputs, inputs)
        if bias:
            self.all[f"{name}.bias"] = np.zeros(outputs, dtype=np.float16)

    def conv(self, name: str, outputs: int, inputs: int, side: int = 3) -> None:
        self.plain(f"{name}.weight", outputs, inputs, side, side)
        self.all[f"{name}.bias"] = np.zeros(outputs, dtype=np.float16)

    def norm(self, name: str, length: int) -> None:
        self.all[f"{name}.weight"] = np.ones(length, dtype=np.float16)
        self.all[f"{name}.bias"] = np.zeros(length, dtype=np.float16)


def text_encoder(to: Weights) -> None:
    at = "cond_stage_model.transformer.text_model"
    to.plain(f"{at}.embeddings.token_embedding.weight", WORDS, TEXT)
    to.plain(f"{at}.embeddings.position_embedding.weight", PLACES, TEXT)
    for layer in range(TEXT_LAYERS):
        block = f"{at}.encoder.layers.{layer}"
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"]:
            to.linear(f"{block}.self_attn.{part}", TEXT, TEXT)
        to.linear(f"{block}.mlp.fc1", 4 * TEXT, TEXT)
        to.linear(f"{block}.mlp.fc2", TEXT, 4 * TEXT)
        to.norm(f"{block}.layer_norm1", TEXT)
        to.norm(f"{block}.layer_norm2", TEXT)
    to.norm(f"{at}.final_layer_norm", TEXT)


def denoiser(to: Weights, channels: int) -> None:
    at = "model.diffusion_model"
    to.linear(f"{at}.time_embed.0", 4 * channels, channels)
    to.linear(f"{at}.time_embed.2", 4 * channels, 4 * channels)
    to.conv(f"{at}.input_blocks.0.0", channels, LATENT)

    def residual(name: str, inputs: int, outputs: int) -> None:
        to.norm(f"{name}.in_layers.0", inputs)
        to.conv(f"{name}.in_layers.2", outputs, inputs)
        to.linear(f"{name}.emb_layers.1", outputs, 4 * channels)
        to.norm(f"{name}.out_layers.0", outputs)
        to.conv(f"{name}.out_layers.3", outputs, outputs)
        if inputs != outputs:
            to.conv(f"{name}.skip_connection", outputs, inputs, 1)

    def transformer(name: str, wide: int) -> None:
        to.norm(f"{name}.norm", wide)
        to.conv(f"{name}.proj_in", wide, wide, 1)
        block = f"{name}.transformer_blocks.0"
        for attention, source in [("attn1", wide), ("attn2", TEXT)]:
            for part, inputs in [("to_q", wide), ("to_k", source), ("to_v", source)]:
                to.linear(f"{block}.{attention}.{part}", wide, inputs, bias=False)
            to.linear(f"{block}.{attention}.to_out.0", wide, wide)
        to.linear(f"{block}.ff.net.0.proj", 8 * wide, wide)
        to.linear(f"{block}.ff.net.2", wide, 4 * wide)
        for part in ["norm1", "norm2", "norm3"]:
            to.norm(f"{block}.{part}", wide)
        to.conv(f"{name}.proj_out", wide, wide, 1)

    wide, place, widths = channels, 0, [channels]
    for level, multiple in enumerate(MULTIPLES):
        for _ in range(2):
            place += 1
            residual(f"{at}.input_blocks.{place}.0", wide, multiple * channels)
            wide = multiple * channels
            if level < 3:
                transformer(f"{at}.input_blocks.{place}.1", wide)
            widths.append(wide)
        if level < 3:
            place += 1
            to.conv(f"{at}.input_blocks.{place}.0.op", wide, wide)
            widths.append(wide)
    residual(f"{at}.middle_block.0", wide, wide)
    transformer(f"{at}.middle_block.1", wide)
    residual(f"{at}.middle_block.2", wide, wide)
    place = 0
    for level, multiple in reversed(list(enumerate(MULTIPLES))):
        for step in range(3):
            name = f"{at}.output_blocks.{place}"
            residual(f"{name}.0", wide + widths.pop(), multiple * channels)
            wide = multiple * channels
            if level < 3:
                transformer(f"{name}.1", wide)
            if level > 0 and step == 2:
                to.conv(f"{name}.{2 if level < 3 else 1}.conv", wide, wide)
            place += 1
    to.norm(f"{at}.out.0", channels)
    to.conv(f"{at}.out.2", LATENT, channels)


def autoencoder(to: Weights) -> None:
    at = "first_stage_model"

    def residual(name: str, inputs: int, outputs: int) -> None:
        to.norm(f"{name}.norm1", inputs)
        to.conv(f"{name}.conv1", outputs, inputs)
        to.norm(f"{name}.norm2", outputs)
        to.conv(f"{name}.conv2", outputs, outputs)
        if inputs != outputs:
            to.conv(f"{name}.nin_shortcut", outputs, inputs, 1)

    def middle(name: str, wide: int) -> None:
        residual(f"{name}.block_1", wide, wide)
        to.norm(f"{name}.attn_1.norm", wide)
        for part in ["q", "k", "v", "proj_out"]:
            to.conv(f"{name}.attn_1.{part}", wide, wide, 1)
        residual(f"{name}.block_2", wide, wide)

    wide = DECODER
    to.conv(f"{at}.encoder.conv_in", wide, 3)
    for level, multiple in enumerate(MULTIPLES):
        for block in range(2):
            residual(f"{at}.encoder.down.{level}.block.{block}", wide, multiple * DECODER)
            wide = multiple * DECODER
        if level < 3:
            to.conv(f"{at}.encoder.down.{level}.downsample.conv", wide, wide)
    middle(f"{at}.encoder.mid", wide)
    to.norm(f"{at}.encoder.norm_out", wide)
    to.conv(f"{at}.encoder.conv_out", 2 * LATENT, wide)
    to.conv(f"{at}.quant_conv", 2 * LATENT, 2 * LATENT, 1)
    to.conv(f"{at}.post_quant_conv", LATENT, LATENT, 1)
    to.conv(f"{at}.decoder.conv_in", wide, LATENT)
    middle(f"{at}.decoder.mid", wide)
    for level, multiple in reversed(list(enumerate(MULTIPLES))):
        for block in range(3):
            residual(f"{at}.decoder.up.{level}.block.{block}", wide, multiple * DECODER)
            wide = multiple * DECODER
        if level > 0:
            to.conv(f"{at}.decoder.up.{level}.upsample.conv", wide, wide)
    to.norm(f"{at}.decoder.norm_out", wide)
    to.conv(f"{at}.decoder.conv_out", 3, wide)


if __name__ == "__main__":
    main()
