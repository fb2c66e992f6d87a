"""Models run with `onnxruntime`, loaded, and fed with arrays of another device."""

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from opentelemetry.context import attach, get_current
from opentelemetry.trace import StatusCode

from latencytrace.agent.context import leave
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
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MODULE = "onnxruntime.capi.onnxruntime_inference_collection"

# A model that embeds, say, is run by a library whose hook names the stage.
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


def _describe_session(session: Any) -> HookAttributes:  # noqa: ANN401 - onnxruntime's
    path = session._model_path  # noqa: SLF001 - it is nowhere else
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


class _AsyncRun:
    """A run that ends on one of onnxruntime's threads, and the context to carry there."""

    def __init__(self, recorder: Recorder, session: object, feed: object, callback: Timed) -> None:
        attributes = describe_run({"self": session, "input_feed": feed})
        self._recorder = recorder
        self._timing: Timing = recorder.start("run_async", Stage.FORWARD, attributes)
        self._callback = callback
        self._context = get_current()

    def call_back(self, results: object, user_data: object, error: str) -> None:
        with guarded("ending a run", self._recorder.on_fault):
            if error:
                self._timing.note({semconv.ERROR_TYPE: "_OTHER"})
                self._timing.span.set_status(StatusCode.ERROR)
            self._timing.end()
        token = attach(self._context)
        try:
            self._callback(results, user_data, error)
        finally:
            leave(token)

    def fail(self, error: BaseException) -> None:
        with guarded("noting an exception", self._recorder.on_fault):
            self._timing.fail(error)
            self._timing.end()


def time_run_async(recorder: Recorder, original: Timed) -> Timed:
    """Time a run until it calls back."""

    def begun(session: object, feed: object, callback: Timed) -> _AsyncRun | None:
        with guarded("starting a run", recorder.on_fault):
            if not (recorder.suppressed() or recorder.inside(Stage.FORWARD, *_PURPOSES)):
                return _AsyncRun(recorder, session, feed, callback)
        return None

    def run_async(  # noqa: PLR0913, PLR0917 - onnxruntime's signature
        self: object,
        output_names: object,
        input_feed: object,
        callback: Timed,
        user_data: object,
        run_options: object = None,
    ) -> Any:  # noqa: ANN401
        run = begun(self, input_feed, callback)
        if run is None:
            return original(self, output_names, input_feed, callback, user_data, run_options)
        try:
            return original(self, output_names, input_feed, run.call_back, user_data, run_options)
        except BaseException as error:
            run.fail(error)
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
