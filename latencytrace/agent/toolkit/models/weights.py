"""Weights that each forward pass of a model has to read and to compute with, at the least."""

from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

# Of these a pass need not touch all weights: mixtures of experts, eyes and ears, encoders.
_PARTIAL: Final = (
    "num_local_experts", "num_experts", "n_routed_experts", "vision_config", "audio_config",
    "is_encoder_decoder",
)  # fmt: skip
_MATRIX: Final = 2  # dimensions
_HALF: Final = frozenset({"torch.float16", "torch.bfloat16"})


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Size of a model of which every pass uses all weights."""

    weight_bytes: int
    body: int  # weights that each token is multiplied by
    head: int  # and the ones that only the last position takes
    is_half: bool  # they are of half precision, for which the peak of a device is known

    def pass_flops(self, tokens: int, rows: int) -> int | None:
        """The operations of one pass, attention left out: two for each weight and token.

        Args:
            tokens: That it reads, of all sequences.
            rows: Sequences, from whose last token the next is predicted.

        Returns:
            None: in another precision.
        """
        return 2 * (self.body * tokens + self.head * rows) if self.is_half else None


_known: "WeakKeyDictionary[Any, ModelSize | None]" = WeakKeyDictionary()


def model_size(model: Any) -> ModelSize | None:
    """The size; None: a pass need not use all of it."""
    if model not in _known:
        _known[model] = _size_of(model)
    return _known[model]


def _size_of(model: Any) -> ModelSize | None:
    """A table of input embeddings is only looked up, unless it makes the output too."""
    config = getattr(model, "config", None)
    if any(getattr(config, name, None) for name in _PARTIAL):
        return None
    read_in = getattr(model.get_input_embeddings(), "weight", None)
    read_out = getattr(model.get_output_embeddings(), "weight", None)
    weights = [each for each in model.parameters() if each is not read_in or each is read_out]
    matrices = [each for each in weights if each.dim() >= _MATRIX]
    head = 0 if read_out is None else read_out.numel()
    whole = sum(each.numel() * each.element_size() for each in weights)
    if not whole:
        return None
    return ModelSize(
        weight_bytes=whole,
        body=max(0, sum(each.numel() for each in matrices) - head),
        head=head,
        is_half=bool(matrices) and {str(each.dtype) for each in matrices} <= _HALF,
    )
