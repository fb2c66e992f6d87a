"""Calls of databases whose arguments say what they are part of: a search, or any other call."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opentelemetry.context import create_key
from opentelemetry.trace import get_current_span

from latencytrace.agent.context import current
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call, TimedCall, timed
from latencytrace.agent.toolkit.calls import Build, CountWithin
from latencytrace.agent.toolkit.other_tracers import is_their_database_call, is_theirs
from latencytrace.agent.toolkit.within import Within
from latencytrace.model.stage import Stage

_MOST: Final = 256  # calls of one span: a loop of the program's own may make one a row
_INNER: Final = (Stage.DATABASE, Stage.RETRIEVE)


class DatabaseCall(NamedTuple):
    """One call as its span shows it."""

    name: str
    stage: Stage
    attributes: HookAttributes


Read = Callable[[tuple[Any, ...], dict[str, Any]], DatabaseCall | None]  # None: it is not timed

# A call of which another instrumentation has a span that is not the current one.
THEIRS: Final = DatabaseCall("", Stage.OTHER, {})
_IS_THEIRS: Final = create_key("latencytrace-their-database-call")  # what is below it is, too


def timed_database_calls(
    reading: Callable[[Timed], Read], inner_half_of: tuple[Stage, ...] = _INNER
) -> Build:
    """Build what times a method's calls for a request, sync or async; of each span the first.

    Args:
        reading: From the method to what reads one call of it.
        inner_half_of: Stages of a span within which the call is not timed again.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        if is_theirs(original):
            return original
        read, counts = reading(original), CountWithin()

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TimedCall | None:
            with guarded("timing a call of a database", recorder.on_fault):
                around = get_current_span()
                outside = not around.is_recording()
                if outside or recorder.suppressed() or recorder.inside(*inner_half_of):
                    return None
                if is_their_database_call(around) or _IS_THEIRS in current():
                    return None
                found = read(args, kwargs)
                if found is THEIRS:
                    return Within(_IS_THEIRS)
                if found is None or counts.next_of(around) > _MOST:
                    return None
                name, stage, attributes = found
                return Call(stage, recorder.start(name, stage, attributes), recorder.on_fault)
            return None

        return timed(original, begin)  # type: ignore[arg-type]  # no generator is THEIRS

    return build
