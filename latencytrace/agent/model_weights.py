"""How many bytes of a model's weights each of its forward passes has to read, at the least."""

from typing import Any
from weakref import WeakKeyDictionary

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_known: "WeakKeyDictionary[Any, int]" = WeakKeyDictionary()


def weight_bytes(model: Any) -> int | None:  # noqa: ANN401 - a transformers model
    """The bytes; None: a pass need not read all of them.

    A table of input embeddings is only looked up, unless it makes the output too. Of a
    mixture of experts a pass reads those that it needs.
    """
    if model in _known:
        return _known[model] or None
    config = getattr(model, "config", None)
    if any(getattr(config, name, 0) for name in _EXPERTS):
        _known[model] = 0
        return None
    whole = sum(each.numel() * each.element_size() for each in model.parameters())
    read_in = getattr(model.get_input_embeddings(), "weight", None)
    read_out = getattr(model.get_output_embeddings(), "weight", None)
    if read_in is not None and read_in is not read_out:
        whole -= read_in.numel() * read_in.element_size()
    _known[model] = whole
    return whole or None
