"""Replacements that leave a call as it is: they look at it, or at where it belongs."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, get_current_span

from latencytrace.agent.context import call_in, current
from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.hook import Arguments, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, is_inside, is_suppressed
from latencytrace.agent.timing.wrapping import TimedCall, beginning, named_arguments, timed
from latencytrace.agent.toolkit.folded import FOLDED, folded

Build = Callable[[Recorder, Timed], Timed]
_REMEMBERED: Final = 256  # spans that are counted within
MOST_OF_A_SPAN: Final = 256  # a program may make one for each piece of a text


class CountWithin:
    """Counts what is timed within each span, so that the spans of a request stay bounded."""

    def __init__(self) -> None:
        self._counts: OrderedDict[int, int] = OrderedDict()  # by the id of the span around

    def next_of(self, span: Span) -> int:
        """Count one more within a span, and return how many those are."""
        of_span, counts = span.get_span_context().span_id, self._counts
        number = counts.pop(of_span, 0) + 1
        counts[of_span] = number
        if len(counts) > _REMEMBERED:
            counts.popitem(last=False)
        return number


def before(doing: str, note: Callable[[Recorder, Arguments], object]) -> Build:
    """Build what notes each call of a plain function before it begins.

    Args:
        doing: Names it where a fault of ours is reported.
        note: Takes the arguments of the call.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        arguments_of = named_arguments(original)

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                note(recorder, arguments_of(args, kwargs))
            except FAULTS as fault:
                recorder.on_fault(doing, fault)
            return original(*args, **kwargs)

        return call

    return build


def after(doing: str, note: Callable[[Recorder, Arguments, Any], object]) -> Build:
    """Build what notes each call, sync or async, once it has returned.

    Args:
        note: Takes the arguments of the call, and what it returned.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        arguments_of = named_arguments(original)

        def returned(result: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            try:
                note(recorder, arguments_of(args, kwargs), result)
            except FAULTS as fault:
                recorder.on_fault(doing, fault)

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            returned(result, args, kwargs)
            return result

        @wraps(original)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            result = await original(*args, **kwargs)
            returned(result, args, kwargs)
            return result

        return awaited if iscoroutinefunction(original) else call

    return build


def first_of_each_span(
    patch: Patch,
    counted: CountWithin | None = None,
    when: Callable[..., bool] | None = None,
) -> Replacement:
    """Time what a patch names; of each span around it the first calls alone have one each.

    Args:
        counted: Counts the calls of several functions together; None: each by itself.
        when: Tells by its arguments whether a call is to be timed; None: each is.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        begin, counts = beginning(original, patch, recorder), counted or CountWithin()
        stages = tuple(stage.value for stage in (patch.stage, *patch.part_of))

        def begin_one(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TimedCall | None:
            try:
                if when is not None and not when(*args, **kwargs):
                    return None
                here = current()
                around = get_current_span(here)
                if FOLDED in here:
                    return None
                if around.is_recording() and counts.next_of(around) > MOST_OF_A_SPAN:
                    is_part = is_inside(here, stages) or is_suppressed(here)
                    return None if is_part else folded(recorder, patch.stage, here)
            except FAULTS as fault:
                recorder.on_fault("counting calls", fault)
                return None
            return begin(args, kwargs)

        return timed(original, begin_one)  # type: ignore[arg-type]  # of generators none is folded

    return Replacement(
        patch.module, patch.target, build, patch.optional, patch.subclasses, later=patch.later
    )


def outside_requests(_recorder: Recorder, original: Timed) -> Timed:
    """Build a thread's work for all requests, so that it is not part of the one that starts it."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return call_in(Context(), original, *args, **kwargs)

    return call


def name_of(call: object) -> str:
    """Return the name of a function, with its module."""
    return f"{getattr(call, '__module__', '')}.{getattr(call, '__qualname__', '')}"
