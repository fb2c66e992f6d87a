"""Models that KServe's own server serves: what their classes do, and around their prediction."""

from functools import wraps
from types import FunctionType
from typing import Any, Final
from weakref import WeakSet

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import (
    UNDO,
    Arguments,
    Hook,
    HookAttributes,
    Patch,
    Replacement,
    Timed,
)
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MODULE: Final = "kserve.model"
_STAGES: Final = {
    "preprocess": Stage.PREPROCESS,
    "predict": Stage.FORWARD,
    "explain": Stage.FORWARD,
    "postprocess": Stage.POSTPROCESS,
}


def _model(arguments: Arguments) -> HookAttributes:
    model: Any = arguments["self"]
    return {semconv.GEN_AI_REQUEST_MODEL: str(model.name)}


class _Classes:
    """Classes of the program's models: their methods are timed from the first request on.

    KServe's own methods hand an input on as it is, or ask another server: that call is timed as
    such. A class is mostly one of the script that is run.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: WeakSet[type] = WeakSet()
        self._places: list[tuple[type, str, Timed, Timed]] = []

    def time(self, kind: type) -> None:
        """Time the methods of a class, once."""
        if kind in self._known:
            return
        self._known.add(kind)
        for method, stage in _STAGES.items():
            owner = next((base for base in kind.__mro__ if method in vars(base)), object)
            own = vars(owner).get(method)
            if owner.__module__ == _MODULE or type(own) is not FunctionType:
                continue
            patch = Patch(_MODULE, f"Model.{method}", stage, _model)
            built = timed(own, beginning(own, patch, self._recorder))
            self._places.append((owner, method, own, built))
            setattr(owner, method, built)

    def restore(self) -> None:
        """Put the methods back."""
        while self._places:
            owner, method, own, built = self._places.pop()
            if vars(owner).get(method) is built:
                setattr(owner, method, own)


def time_models(recorder: Recorder, original: Timed) -> Timed:
    classes = _Classes(recorder)

    @wraps(original)
    async def __call__(self: object, *args: Any, **kwargs: Any) -> Any:
        with guarded("timing a model", recorder.on_fault):
            classes.time(type(self))
        return await original(self, *args, **kwargs)

    setattr(__call__, UNDO, classes.restore)
    return __call__


class KserveHook(Hook):
    """Times the methods that a program's models define."""

    requires = ("kserve >= 0.11",)
    patches = (Replacement(_MODULE, "Model.__call__", time_models),)
