"""Models run with `onnxruntime`, loaded, and fed with arrays of another device."""

import os
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from pathlib import PurePath
from typing import Any

from opentelemetry.context import get_current
from opentelemetry.trace import StatusCode

from latencytrace.agent.context import call_in
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import (
    Arguments,
    Hook,
    HookAttributes,
    Patch,
    Replacement,
    Timed,
)
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MODULE = "onnxruntime.capi.onnxruntime_inference_collection"

# A model that embeds, say, is run by a library with a hook that names the stage.
_PURPOSES = (Stage.EMBED, Stage.RERANK, Stage.GUARDRAIL, Stage.PREFILL, Stage.DECODE)

# What says nothing in `<model>/onnx/model_quantized.onnx`.
_NAMELESS_FILE = "model"
_NAMELESS_FOLDERS = frozenset({"", "/", ".", "onnx", "openvino"})
_HUB_PREFIX = "models--"  # of a folder in the Hugging Face cache


def describe_load(arguments: Arguments) -> HookAttributes:
    """Note which model is loaded; one that is given as bytes has no name yet."""
    path = arguments.get("path_or_bytes")
    if isinstance(path, str | os.PathLike):
        return {semconv.GEN_AI_REQUEST_MODEL: _name_of(os.fspath(path))}
    return {}


def describe_run(arguments: Arguments) -> HookAttributes:
    """Note the model and how many rows its first input has, never the input itself."""
    attributes = _describe_session(arguments["self"])
    feed = arguments.get("input_feed", arguments.get("input_dict_ort_values"))
    if isinstance(feed, Mapping) and feed:
        shape = getattr(next(iter(feed.values())), "shape", ())
        if callable(shape):  # an `OrtValue`'s
            shape = shape()
        if shape:
            attributes[semconv.BATCH_SIZE] = shape[0]
    return attributes


def describe_bound_run(arguments: Arguments) -> HookAttributes:
    """Note the model; its inputs were bound before."""
    return _describe_session(arguments["self"])


def _describe_session(session: Any) -> HookAttributes:
    path = session._model_path
    name = _name_of(path) if path else session.get_modelmeta().graph_name
    return {semconv.GEN_AI_REQUEST_MODEL: name}


@lru_cache(maxsize=256)
def _name_of(path: str | bytes) -> str:
    """A model's name from its file's: `all-MiniLM-L6-v2` of `all-MiniLM-L6-v2/onnx/model.onnx`."""
    file = PurePath(os.fsdecode(path))
    if not file.stem.startswith(_NAMELESS_FILE):
        return file.stem
    folders = [folder.name for folder in file.parents]
    for folder in folders:
        if folder.startswith(_HUB_PREFIX):
            return folder.removeprefix(_HUB_PREFIX).replace("--", "/")
    return next((folder for folder in folders if folder not in _NAMELESS_FOLDERS), file.stem)


def time_run_async(recorder: Recorder, original: Timed) -> Timed:
    """Time a run until it calls back, on one of onnxruntime's threads."""
    arguments_of = named_arguments(original)

    def begun(arguments: Arguments) -> Timing | None:
        with guarded("starting a run", recorder.on_fault):
            outside = not (recorder.suppressed() or recorder.inside(Stage.FORWARD, *_PURPOSES))
            if outside and "callback" in arguments:
                return recorder.start("run_async", Stage.FORWARD, describe_run(arguments))
        return None

    @wraps(original)
    def run_async(*args: Any, **kwargs: Any) -> Any:
        arguments = arguments_of(args, kwargs)
        timing = begun(arguments)
        if timing is None:
            return original(*args, **kwargs)
        callback: Any = arguments["callback"]
        context = get_current()

        def call_back(results: object, user_data: object, error: str) -> None:
            with guarded("ending a run", recorder.on_fault):
                if error:
                    timing.note({semconv.ERROR_TYPE: semconv.OTHER})
                    timing.span.set_status(StatusCode.ERROR)
                timing.end()
            call_in(context, callback, results, user_data, error)

        try:
            return original(**{**arguments, "callback": call_back})
        except BaseException as error:
            with guarded("noting an exception", recorder.on_fault):
                timing.fail(error)
                timing.end()
            raise

    return run_async


def _run(method: str, describe: Callable[[Arguments], HookAttributes]) -> Patch:
    return Patch(_MODULE, f"Session.{method}", Stage.FORWARD, describe, part_of=_PURPOSES)


class OnnxruntimeHook(Hook):
    """Times sessions at the class that all of them share, and the copies that have a call."""

    requires = ("onnxruntime >= 1.16", "onnxruntime-gpu >= 1.16")
    patches = (
        Patch(_MODULE, "InferenceSession.__init__", Stage.LOAD, describe_load),
        _run("run", describe_run),
        _run("run_with_ort_values", describe_run),
        _run("run_with_iobinding", describe_bound_run),
        _run("run_with_ortvaluevector", describe_bound_run),
        Replacement(_MODULE, "Session.run_async", time_run_async),
        Patch(_MODULE, "IOBinding.bind_cpu_input", Stage.TRANSFER),
        Patch(_MODULE, "IOBinding.copy_outputs_to_cpu", Stage.TRANSFER),
    )
