"""Calls of models over rows of features: which model, and how many rows."""

from collections.abc import Callable, Sized
from typing import Any

from latencytrace.agent.timing.hook import Arguments, HookAttributes, Patch, Replacement
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_counted = CountWithin()  # a method may call that of the class above it


def prediction(
    module: str,
    target: str,
    *rows: str,
    stage: Stage = Stage.FORWARD,
    **options: Any,
) -> Replacement:
    """Time a method of a model within requests, of each span the first calls.

    Args:
        rows: The argument that holds the rows, by any of these names.
    """
    patch = Patch(module, target, stage, _described(rows), within=True, **options)
    return first_of_each_span(patch, counted=_counted)


def _described(rows: tuple[str, ...]) -> Callable[[Arguments], HookAttributes]:
    def describe(arguments: Arguments) -> HookAttributes:
        """Note the class of the model and the number of rows, never what is in them."""
        noted: HookAttributes = {semconv.GEN_AI_REQUEST_MODEL: type(arguments["self"]).__name__}
        data = next((arguments[name] for name in rows if name in arguments), None)
        count = _count(data)
        return noted if count is None else {**noted, semconv.BATCH_SIZE: count}

    return describe


def _count(data: Any) -> int | None:
    shape = getattr(data, "shape", None)
    if shape:
        return int(shape[0])
    counted = getattr(data, "num_row", None)  # of XGBoost's matrix
    if callable(counted):
        return int(counted())
    return len(data) if isinstance(data, Sized) and not isinstance(data, str) else None
