"""A Llama of random weights in a GGUF file, made on the spot: there is nothing to download."""

from pathlib import Path

import numpy as np
from gguf import GGUFWriter, LlamaFileType, TokenType

WIDTH, HEADS, LAYERS, INNER, CONTEXT = 64, 2, 2, 128, 512
SPECIAL = (b"<unk>", b"<s>", b"</s>")
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def write_tiny_gguf(path: Path) -> Path:
    """Write a model that makes no sense, and does it fast."""
    letters = [bytes([code]) for code in range(32, 127)] + ["\u2581".encode()]
    single = [f"<0x{code:02X}>".encode() for code in range(256)]
    tokens = [*SPECIAL, *single, *letters]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    kinds += [TokenType.BYTE] * len(single) + [TokenType.NORMAL] * len(letters)
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, shape in shapes(len(tokens)).items():
        writer.add_tensor(name, weights(name, shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Of every tensor of a Llama."""
    whole: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocabulary, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (vocabulary, WIDTH),
    }
    for layer in range(LAYERS):
        of_layer = {f"attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
        norms = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
        inner = {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        for part, shape in {**of_layer, **norms, **inner}.items():
            whole[f"blk.{layer}.{part}.weight"] = shape
    return whole


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random, and the same each time."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    random = np.random.default_rng(sum(name.encode()))
    return random.standard_normal(shape).astype(np.float32) * 0.1
