"""Embeddings and re-ranking with `sentence-transformers`."""

import importlib
from collections.abc import Callable, Mapping
from functools import wraps
from threading import local
from typing import Any

from latencytrace.agent.device.timer import DevicePasses
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call, beginning, timed
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.model.stage import Stage

_MODULE = "sentence_transformers"
_under_way = local()  # the `Call` that encodes on this thread


def time_encoding(target: str, stage: Stage) -> Callable[[Recorder, Timed], Timed]:
    """Build what times a whole encoding, so that the passes in it find it."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        begin = beginning(
            original, Patch(_MODULE, target, stage, count_of("inputs", "sentences")), recorder
        )

        def begin_encoding(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
            call = begin(args, kwargs)
            if call is not None:
                _under_way.call = call
            return call

        timed_encoding = timed(original, begin_encoding)

        @wraps(original)
        def encoding(*args: Any, **kwargs: Any) -> Any:
            outer = getattr(_under_way, "call", None)
            try:
                return timed_encoding(*args, **kwargs)
            finally:
                _under_way.call = outer

        return encoding

    return build


def time_pass(name: str) -> Callable[[Recorder, Timed], Timed]:
    """Build what times each forward pass of an encoding on its device, outside of any graph."""

    def build(recorder: Recorder, _: Timed) -> Timed:
        is_compiling = importlib.import_module("torch.compiler").is_compiling
        named: Any = getattr(importlib.import_module(_MODULE), name)

        def __call__(self: object, *args: Any, **kwargs: Any) -> Any:
            passes = None if is_compiling() else _begun(recorder, args)
            try:
                return super(named, self).__call__(*args, **kwargs)
            finally:
                if passes is not None:
                    with guarded("timing a device", recorder.on_fault):
                        passes.end()

        return __call__

    return build


def _begun(recorder: Recorder, args: tuple[Any, ...]) -> DevicePasses | None:
    call = getattr(_under_way, "call", None)
    if call is None or not args or not isinstance(args[0], Mapping):
        return None
    with guarded("timing a device", recorder.on_fault):
        found = (getattr(each, "device", None) for each in args[0].values())
        device = next((each for each in found if each is not None), None)
        passes: DevicePasses | None = call.passes_on(recorder.devices, device)
        if passes is not None:
            passes.settle()
            passes.begin()
        return passes
    return None


class SentenceTransformersHook(Hook):
    """Times whole encodings; the tokenizing within them has spans of its own."""

    requires = ("sentence-transformers >= 3.0",)
    patches = (
        Replacement(
            _MODULE,
            "SentenceTransformer.encode",
            time_encoding("SentenceTransformer.encode", Stage.EMBED),
        ),
        Replacement(
            _MODULE, "CrossEncoder.predict", time_encoding("CrossEncoder.predict", Stage.RERANK)
        ),
        Replacement(
            _MODULE, "SentenceTransformer.__call__", time_pass("SentenceTransformer"), bare=True
        ),
        Replacement(
            _MODULE, "CrossEncoder.__call__", time_pass("CrossEncoder"), optional=True, bare=True
        ),
    )
