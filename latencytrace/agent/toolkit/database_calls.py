"""Calls of databases whose arguments say what they are part of: a search, or any other call."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context, create_key
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.agent.context import current
from latencytrace.agent.guard import FAULTS
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.hook import HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder, is_inside, is_suppressed
from latencytrace.agent.timing.wrapping import Call, TimedCall, timed
from latencytrace.agent.toolkit.calls import Build, CountWithin
from latencytrace.agent.toolkit.folded import FOLDED, folded
from latencytrace.agent.toolkit.other_tracers import is_their_database_call, is_theirs
from latencytrace.agent.toolkit.within import Within
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MOST: Final = 256  # of one span have one each: a loop of the program's own may make one a row
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
        read, counts, detail = reading(original), CountWithin(), recorder.detail
        inner = frozenset(one.value for one in inner_half_of)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TimedCall | None:
            try:
                here = current()  # asked for once: a request may make hundreds of calls
                around: Any = here.get(_SPAN_KEY)
                found = read(args, kwargs) if _may_be_within(around, here, inner) else None
                if found is THEIRS:
                    return Within(_IS_THEIRS)
                if found is None or detail.skips(found.name):
                    return None
                name, stage, attributes = found
                if counts.next_of(around) > _MOST:
                    return folded(recorder, stage, here)
                return Call.begun(
                    recorder, stage, name, {**attributes, semconv.STAGE: stage.value}, here
                )
            except FAULTS as fault:
                recorder.on_fault("timing a call of a database", fault)
                return None

        return timed(original, begin)  # type: ignore[arg-type]  # no generator is THEIRS

    return build


def _may_be_within(around: Any, here: Context, inner: frozenset[str]) -> bool:
    """Tell whether a call gets a span: the one around it records, nothing else times the call."""
    if type(around) is RecordedSpan:  # what the others are asked, without their calls
        stage = (around.raw_attributes or {}).get(semconv.STAGE)
        if around.ended_ns or stage in inner:
            return False
    else:
        stage = None
        if around is None or not around.is_recording() or is_inside(here, inner):
            return False
    if stage is None and is_their_database_call(around):
        return False
    return not (_IS_THEIRS in here or FOLDED in here or is_suppressed(here))
