"""Times sync, async, generator and async-generator calls, written once for all hooks.

Whatever the wrapped function raises or yields passes through untouched; our own
faults never do. A context is never held across a `yield`.
"""

import copyreg
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import Token
from functools import partial, wraps
from typing import Any, Final, Protocol, cast

from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # contrib's instrumentations set it
    Context,
)
from opentelemetry.trace import INVALID_SPAN, get_current_span
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core, quicker
from latencytrace.agent.context import current, enter, leave
from latencytrace.agent.device.pending_spans import PendingDeviceSpans
from latencytrace.agent.device.timer import DevicePasses
from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.guard import FAULTS, OnFault, edge_faults, raise_fault
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.defence import DEFENDED, give_up, quieted_by
from latencytrace.agent.timing.hook import Arguments, HookAttributes, Patch, Timed
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.recorder import (
    INTERVALS_KEY,
    SUPPRESSED,
    Recorder,
    Timing,
    is_inside,
    is_suppressed,
)
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

# Stages of which each call is a step of a model.
COMPUTING: Final = frozenset({Stage.EMBED, Stage.RERANK, Stage.FORWARD})


class Call(Timing):
    """One timed call, which is a span; a call of a stream's is an `_Interval`.

    Args:
        stage: What the call is part of.
    """

    __slots__ = ("_describe_result", "_on_fault", "_passes", "_stage")
    is_span = True  # which `activate` makes current

    def __init__(
        self,
        stage: Stage,
        started: Timing,
        on_fault: OnFault,
        describe_result: Callable[[Any], HookAttributes] | None = None,
    ) -> None:
        super().__init__(started.span, started.started_ns, started.pending)
        self._stage = stage
        self._on_fault = on_fault
        self._describe_result = describe_result
        self._passes: DevicePasses | None = None

    @classmethod
    def begun(
        cls,
        recorder: Recorder,
        stage: Stage,
        name: str,
        noted: HookAttributes,
        here: Context,
        describe_result: Callable[[Any], HookAttributes] | None = None,
    ) -> "Call":
        """Begin one now, without its `__init__`.

        Args:
            noted: Scalars, its stage among them.
            here: What is current.
        """
        call = _new(cls)
        recorder.start_call(call, name, noted, here)
        call._stage, call._on_fault = stage, recorder.on_fault
        call._describe_result, call._passes = describe_result, None
        return call

    def on_device(self, passes: DevicePasses) -> None:
        """Have a span's time on a device measured too; it ends once that is known."""
        self._passes = passes
        passes.begin()

    def passes_on(self, devices: DeviceTimers, device: object) -> DevicePasses | None:
        """Return what measures the passes within a span, by the first; None: nothing can."""
        if self._passes is None:
            self._passes = devices.passes_on(device, self._stage)
        return self._passes

    @quicker("finish_call", edge_faults)
    def finish(self, result: object) -> None:
        """End the call that returned."""
        ended_ns = monotonic_ns()
        if self._describe_result is not None:
            try:
                self.note(self._describe_result(result))
            except FAULTS as fault:
                self._on_fault("describing a result", fault)
        try:
            if self._passes is None:
                self.end(ended_ns)
            else:
                self._passes.end()
                self.pending.end(self, ended_ns, self._passes)
        except FAULTS as fault:
            self._on_fault("ending a span", fault)

    def fail(self, error: BaseException) -> None:
        """End the call that raised."""
        try:
            super().fail(error)
        except FAULTS as fault:
            self._on_fault("noting an exception", fault)
        self._describe_result = None  # for there is none
        self.finish(None)


if core is not None:
    core.bind_calls(Call, semconv.STAGE, INTERVALS_KEY, SUPPRESSED, _SUPPRESS_INSTRUMENTATION_KEY)


class _Interval(Call):
    """One timed call without a span: an interval of the stream that it happens in.

    Args:
        stream: Where it is noted; None: nothing is timed.
    """

    __slots__ = ("_stream",)
    is_span = False

    def __init__(self, stage: Stage, stream: IntervalRecorder | None, on_fault: OnFault) -> None:
        super().__init__(stage, _NO_SPAN, on_fault)
        self.started_ns = monotonic_ns()
        self._stream = stream

    def on_device(self, passes: DevicePasses) -> None:
        """Do without, for it has no span."""

    def passes_on(self, devices: DeviceTimers, device: object) -> None:
        """Return nothing, likewise."""

    def activate(self) -> None:
        """Change nothing: what is current stays so."""

    def deactivate(self) -> None:
        """Change nothing."""

    def finish(self, result: object) -> None:
        """Note the interval, which now ends."""
        ended_ns = monotonic_ns()
        try:
            if self._stream is not None:
                self._stream.add(self._stage, self.started_ns, ended_ns)
        except FAULTS as fault:
            self._on_fault("ending a span", fault)


_new = object.__new__
_NO_SPAN = Timing(INVALID_SPAN, 0, PendingDeviceSpans())
_UNTIMED = _Interval(Stage.OTHER, None, raise_fault)


class TimedCall(Protocol):
    """The part of a call under way that its wrapper needs."""

    def activate(self) -> None:
        """Make its span current."""

    def deactivate(self) -> None:
        """Make the span before it current again."""

    def finish(self, result: Any, /) -> None:
        """Note that it returned."""

    def fail(self, error: BaseException, /) -> None:
        """Note that it raised."""


Begin = Callable[[tuple[Any, ...], dict[str, Any]], Call | None]
BeginTimed = Callable[[tuple[Any, ...], dict[str, Any]], TimedCall | None]


def timed(original: Timed, begin: Begin, *, kind_of: Timed | None = None) -> Timed:
    """Return the function to put in the place of `original`: the same call, timed.

    Args:
        original: Of any of the four kinds.
        begin: Begins to time one call, or says by None that it is not to be timed.
        kind_of: A function of the same kind; None: the original's own kind can be seen.
    """
    return _of_kind(kind_of or original, timed_function)(original, begin)


def never(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Time no call."""


def as_kind_of(shown: Timed, call: Timed) -> Timed:
    """Return a call as a function of the kind of another, such as one for coroutines."""
    return _of_kind(shown, lambda call, _: call)(call, never)


def _of_kind(
    function: Timed, plain: Callable[[Timed, Begin], Timed]
) -> Callable[[Timed, Begin], Timed]:
    if inspect.iscoroutinefunction(function):
        return timed_coroutine
    if inspect.isasyncgenfunction(function):
        return _timed_async_generator
    return _timed_generator if inspect.isgeneratorfunction(function) else plain


class _Held(partial[Any]):
    """Begins to time calls, here; where a function is pickled by value to, nothing does."""

    def __reduce__(self) -> Any:
        """Be pickled as what times nothing: a recorder belongs to its process."""
        return _never, ()


def _never() -> Begin:
    return never


def _reduced(method: Any) -> Any:
    """Return how a method in C is pickled: by the name of what it stands for, if it has one."""
    return vars(method).get("__qualname__") or (_never, ())


if core is not None:
    copyreg.pickle(type(Call.finish), _reduced)


def _failed(function: Timed, call: TimedCall, error: BaseException) -> None:
    """Note what a call raised; a fault in this is none of the program's."""
    try:
        call.deactivate()
        call.fail(error)
    except FAULTS as fault:
        give_up(function, fault)


def _finished(function: Timed, call: TimedCall, error: BaseException | None = None) -> None:
    """Note that a generator is at its end, or what it raised."""
    try:
        if error is None:
            call.finish(None)
        else:
            call.fail(error)
    except FAULTS as fault:
        give_up(function, fault)


def named_arguments(original: Timed) -> Callable[[tuple[Any, ...], dict[str, Any]], Arguments]:
    """Return what maps a call's arguments to parameter names, defaults included.

    Cheaper than `Signature.bind`, and as tolerant as a call that may be wrong must be.
    """
    try:
        parameters = inspect.signature(original).parameters.values()
    except (TypeError, ValueError):  # a function in C without a signature
        return lambda _, kwargs: kwargs
    names = [p.name for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    count = len(names)

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        found = {**defaults}
        place = 0
        for value in args:  # half of what `enumerate` takes, a third of `zip` and `update`
            if place == count:
                break
            found[names[place]] = value
            place += 1  # noqa: SIM113 - `enumerate` takes twice as long
        if kwargs:
            found.update(kwargs)
        return found

    return arguments


def beginning(original: Timed, patch: Patch, recorder: Recorder) -> Begin:  # noqa: C901 - speed is the point
    """Return what begins to time a call that a patch names.

    A call inside another one of the same stage, or of those that it is part of, is its inner
    half and not timed again. Speed is the point here (`bench_span.py`): what is current is asked
    for once, and a call is made without its `__init__`.
    """
    method = patch.target.rpartition(".")[2]
    name = patch.name or (patch.stage.value if method.startswith("_") else method)
    doing = f"timing {patch.module}.{patch.target}"
    arguments_of = named_arguments(original)
    stage, describe, describe_result = patch.stage, patch.describe, patch.describe_result
    on_fault = recorder.on_fault
    outer, within = tuple(one.value for one in (stage, *patch.part_of)), patch.within
    of_stage: HookAttributes = {semconv.STAGE: stage.value}
    detail = recorder.detail
    computes, steps = stage in COMPUTING, recorder.steps

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:  # noqa: C901, PLR0911 - a call costs
        try:
            if detail.skips_calls and detail.skips(name):
                return None
            here = current()
            if (SUPPRESSED in here or _SUPPRESS_INSTRUMENTATION_KEY in here) and is_suppressed(
                here
            ):
                return None
            around = here.get(_SPAN_KEY)
            if type(around) is RecordedSpan:  # what `is_inside` asks, a call less
                raw = around.raw_attributes
                if raw is not None and raw.get(semconv.STAGE) in outer and not around.ended_ns:
                    return None
            elif around is not None and is_inside(here, outer):
                return None
            if within and not get_current_span(here).is_recording():
                return None
            intervals = recorder.stream() if patch.interleaved else None
            if intervals is not None:
                return _Interval(stage, intervals, on_fault) if intervals.begin(stage) else None
            if computes and not (steps.have_begun and steps.listener is None):  # none counts
                steps.begin()
            noted = {**describe(arguments_of(args, kwargs)), **of_stage} if describe else of_stage
            return Call.begun(recorder, stage, name, noted, here, describe_result)
        except FAULTS as fault:
            on_fault(doing, fault)
            return None

    if core is None or within or computes:
        return _Held(begin)
    parts = (
        recorder, name, of_stage, outer, stage, describe, arguments_of, describe_result,
        patch.interleaved,
    )  # fmt: skip
    return cast("Begin", core.begin_call(begin, parts))


def timed_function(original: Timed, begin: BeginTimed, follows: int = 0) -> Timed:
    """Return the same function, timed; `begin` may change the keywords of its call.

    Args:
        follows: What other code does for each call, as `HookCost` has it.
    """
    cost = HookCost(follows)

    @wraps(original)
    def traced(*args: Any, **kwargs: Any) -> Any:
        try:
            left = cost.left = cost.left - 1
            call = begin(args, kwargs) if left > 0 else cost.sample(begin, args, kwargs)
            if call is not None:
                call.activate()
        except FAULTS as fault:
            give_up(traced, fault)
            call = None
        if call is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _failed(traced, call, error)
            raise
        try:
            call.deactivate()
            call.finish(result)
        except FAULTS as fault:
            give_up(traced, fault)
        return result

    def quiet() -> None:
        nonlocal begin
        begin = never

    return _defends_itself(traced, quiet)


def timed_coroutine(original: Timed, begin: BeginTimed, follows: int = 0) -> Timed:
    """Return the same coroutine function, timed while it is awaited."""
    cost = HookCost(follows)

    @wraps(original)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        try:
            left = cost.left = cost.left - 1
            call = begin(args, kwargs) if left > 0 else cost.sample(begin, args, kwargs)
            if call is not None:
                call.activate()
        except FAULTS as fault:
            give_up(traced, fault)
            call = None
        if call is None:
            return await original(*args, **kwargs)
        try:
            result = await original(*args, **kwargs)
        except BaseException as error:
            _failed(traced, call, error)
            raise
        try:
            call.deactivate()
            call.finish(result)
        except FAULTS as fault:
            give_up(traced, fault)
        return result

    def quiet() -> None:
        nonlocal begin
        begin = never

    return _defends_itself(traced, quiet)


def _defends_itself(traced: Any, quiet: Callable[[], None]) -> Timed:
    DEFENDED.add(traced.__code__)
    quieted_by(traced, quiet)
    function: Timed = traced
    return function


class _Within:
    """The context within one generator, from each of its `yield`s to the next.

    A span that it holds across a `yield` is so its own, and never its consumer's.
    """

    __slots__ = ("_call", "_own", "_since", "_token")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._own: Context | None = None  # what it left there; None: what the call makes current
        self._since: Context | None = None
        self._token: Token[Context] | None = None

    def enter(self) -> None:
        """Go on, in this task or thread until `leave`."""
        try:
            self._call.activate()
            if self._own is not None:
                self._token = enter(self._own)
            self._since = current()
        except FAULTS as fault:
            edge_faults("going on with a generator", fault)

    def leave(self) -> None:
        """Hand an item to the consumer, and what is current there."""
        token, self._token = self._token, None
        try:
            left = current()
            if left is not self._since and self._call.is_span:
                self._own = left
            if token is not None:
                leave(token)
            self._call.deactivate()
        except FAULTS as fault:
            edge_faults("leaving a generator", fault)


def _begun(traced: Timed, cost: HookCost, begin: Any, args: Any, kwargs: Any) -> Any:
    try:
        left = cost.left = cost.left - 1
        call = begin(args, kwargs) if left > 0 else cost.sample(begin, args, kwargs)
    except FAULTS as fault:
        give_up(traced, fault)
        return _UNTIMED
    return _UNTIMED if call is None else call


def _timed_generator(original: Timed, begin: Begin) -> Timed:
    cost = HookCost()

    # A generator function itself, for frameworks ask `inspect` what a function is.
    @wraps(original)
    def traced(*args: Any, **kwargs: Any) -> Any:
        generator: Generator[Any, Any, Any] = original(*args, **kwargs)
        call = _begun(traced, cost, begin, args, kwargs)
        within = _Within(call)
        advance: Callable[[Any], Any] = generator.send
        value: Any = None
        try:
            while True:
                within.enter()
                try:
                    item = advance(value)
                finally:
                    within.leave()
                try:
                    value = yield item
                    advance = generator.send
                except GeneratorExit:  # left half-way
                    within.enter()
                    try:
                        generator.close()
                    finally:
                        within.leave()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                    advance, value = generator.throw, error
        except StopIteration as end:
            _finished(traced, call)
            return end.value
        except BaseException as error:
            _finished(traced, call, error)
            raise

    def quiet() -> None:
        nonlocal begin
        begin = never

    return _defends_itself(traced, quiet)


def _timed_async_generator(original: Timed, begin: Begin) -> Timed:
    cost = HookCost()

    @wraps(original)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        generator: AsyncGenerator[Any, Any] = original(*args, **kwargs)
        call = _begun(traced, cost, begin, args, kwargs)
        within = _Within(call)
        advance: Callable[[Any], Any] = generator.asend
        value: Any = None
        try:
            while True:
                within.enter()
                try:
                    item = await advance(value)
                finally:
                    within.leave()
                try:
                    value = yield item
                    advance = generator.asend
                except GeneratorExit:
                    within.enter()
                    try:
                        await generator.aclose()
                    finally:
                        within.leave()
                    raise
                except BaseException as error:  # noqa: BLE001 - likewise
                    advance, value = generator.athrow, error
        except StopAsyncIteration:
            _finished(traced, call)
        except BaseException as error:
            _finished(traced, call, error)
            raise

    def quiet() -> None:
        nonlocal begin
        begin = never

    return _defends_itself(traced, quiet)
