"""Stages that a program names itself, apart from the rest: a request waits for what they load."""

from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, Self, TypeVar, cast

from opentelemetry.trace import Span
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.agent.context import current
from latencytrace.agent.guard import FAULTS, edge_faults
from latencytrace.agent.start import recorder
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.wrapping import Call, timed
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage, stage_and_name

P = ParamSpec("P")
R = TypeVar("R")
_new = object.__new__
_blocks: Final = HookCost()


@lru_cache(maxsize=1024)
def _named_stage(name: str) -> tuple[Stage, str, dict[str, AttributeValue]]:
    """Return the stage that a name means, its value, and all that a span notes of it."""
    stage, named = stage_and_name(name)
    return stage, stage.value, {**named, semconv.STAGE: stage.value}


class Begun(Protocol):
    """Times a block or a call."""

    @property
    def span(self) -> Span: ...

    def activate(self) -> None:
        """Make its span current."""

    def deactivate(self) -> None:
        """Make the span before it current again."""

    def fail(self, error: BaseException, /) -> None:
        """Note what was raised."""

    def end(self) -> None:
        """End its span; a second time changes nothing."""


class UserStage:
    """Times a block or a function; made by `latencytrace.stage(name)`.

    Args:
        recorder: The recorder of the moment: a function may be decorated before the
            agent starts.
        name: One of latencytrace's stages, or the user's own name of an `application` stage.
        attributes: Scalars; they travel with the span.
    """

    __slots__ = ("_attributes", "_name", "_recorder", "_timings")

    def __init__(
        self,
        recorder: Callable[[], Recorder],
        name: str,
        attributes: dict[str, AttributeValue],
    ) -> None:
        self._recorder = recorder
        self._name = name
        self._attributes = attributes
        self._timings: list[Begun] = []  # the same object may be entered again meanwhile

    def __enter__(self) -> Self:
        try:
            left = _blocks.left = _blocks.left - 1
            timing: Begun = self._begun() if left > 0 else _blocks.sample(self._begun)
            timing.activate()
            self._timings.append(timing)
        except FAULTS as fault:
            edge_faults("starting a stage", fault)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        try:
            timing = self._innermost()
            if timing is None:
                return
            timing.deactivate()
            if exc_val is not None:
                timing.fail(exc_val)
            timing.end()
        except FAULTS as fault:
            edge_faults("ending a stage", fault)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.__exit__(exc_type, exc_val, exc_tb)

    def _begun(self) -> Begun:
        stage, value, named = _named_stage(self._name)
        recorder = self._recorder()
        noted = {**named, **self._attributes}
        if recorder.detail.spares:
            return recorder.start(self._name, stage, noted)
        noted[semconv.STAGE] = value
        timing = _new(Timing)
        recorder.start_call(timing, self._name, noted, current())
        return timing

    def _begun_call(self) -> Call:
        return Call(Stage.APPLICATION, cast("Timing", self._begun()), edge_faults)

    def _innermost(self) -> Begun | None:
        """Let go of what was entered last in this task or thread; several may share us."""
        timings = self._timings
        if len(timings) == 1:  # it is ours, and stays the first whatever comes meanwhile
            timing = timings[0]
            del timings[0]
            return timing
        span = current().get(_SPAN_KEY)
        for timing in reversed(timings):
            if timing.span is span:
                timings.remove(timing)
                return timing
        return timings.pop() if timings else None

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function, a coroutine function or either kind of generator."""

        def begin(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Call | None:
            try:
                return self._begun_call()
            except FAULTS as fault:
                edge_faults("starting a stage", fault)
                return None

        return cast("Callable[P, R]", timed(function, begin))


def stage(name: str, **attributes: AttributeValue) -> UserStage:
    """Time a block, or each call of a function, as a stage of the request.

    Use it as `with latencytrace.stage("rerank"):` or `@latencytrace.stage("rerank")`;
    sync, async and generator functions alike. Without a running agent it records
    into the program's own tracer provider, if there is one.

    Args:
        name: One of latencytrace's stages (`retrieve`, `rerank`, …), or a name of your
            own, which is counted as stage `application` with that name kept.
        attributes: Scalars to keep with the span. No prompts: they are stored.
    """
    made = _new(UserStage)
    UserStage.__init__(made, recorder, name, attributes)  # half of what the call of a class costs
    return made
