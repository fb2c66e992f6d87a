"""`latencytrace.stage`: a stage that the user names himself."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, cast

from opentelemetry.trace import Span, get_current_span

from latencytrace.agent.guard import edge_faults, guarded
from latencytrace.agent.timing.named_stage import named_stage
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.wrapping import Call, timed
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage

P = ParamSpec("P")
R = TypeVar("R")


class Begun(Protocol):
    """What a block or a call is timed by."""

    @property
    def span(self) -> Span:
        """Its span."""
        ...

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
        name: One of DESIGN's stages, or the user's own name of an `application` stage.
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
        with guarded("starting a stage", edge_faults):
            timing = self._begun()
            timing.activate()
            self._timings.append(timing)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        with guarded("ending a stage", edge_faults):
            timing = self._innermost()
            if timing is None:
                return
            timing.deactivate()
            if exc_val is not None:
                timing.fail(exc_val)
            timing.end()

    def _begun(self) -> Begun:
        return self._started()

    def _begun_call(self) -> Call:
        return Call(Stage.APPLICATION, self._started(), edge_faults)

    def _started(self) -> Timing:
        stage, named = named_stage(self._name)
        attributes = {**named, **self._attributes} if named else self._attributes
        return self._recorder().start(self._name, stage, attributes)

    def _innermost(self) -> Begun | None:
        """Let go of what was entered last in this task or thread; several may share us."""
        current = get_current_span()
        for timing in reversed(self._timings):
            if timing.span is current:
                self._timings.remove(timing)
                return timing
        return self._timings.pop() if self._timings else None

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function, a coroutine function or either kind of generator."""

        def begin(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Call | None:
            with guarded("starting a stage", edge_faults):
                return self._begun_call()
            return None

        return cast("Callable[P, R]", timed(function, begin))
