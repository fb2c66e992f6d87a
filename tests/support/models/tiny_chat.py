"""A model that generates and its tokenizer, made on the spot: there is nothing to download."""

from dataclasses import dataclass
from typing import Any

WORDS = [
    "where",
    "did",
    "the",
    "milliseconds",
    "go",
    "they",
    "went",
    "into",
    "the",
    "prefill",
    "and",
    "the",
    "decode",
]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}go{% endif %}"
)
END = 1  # the token that ends a sequence
PAD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyChat:
    """A Llama of random weights and its tokenizer."""

    model: Any
    tokenizer: Any

    def prompt(self, words: int = 8) -> Any:
        """One prompt of so many tokens."""
        import torch

        return torch.arange(3, 3 + words).reshape(1, words)


def tiny_chat(*, width: int = 64, layers: int = 2) -> TinyChat:
    """A model that generates, small enough to do so in milliseconds."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
    )

    vocabulary = ["<unk>", "</s>", "<pad>", *WORDS]
    vocabulary += [f"word{number}" for number in range(64 - len(vocabulary))]
    inner = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(vocabulary)}, "<unk>")
    )
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="<unk>",
        eos_token="</s>",
        pad_token="<pad>",
        chat_template=CHAT_TEMPLATE,
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    return TinyChat(model=LlamaForCausalLM(config).eval(), tokenizer=tokenizer)
