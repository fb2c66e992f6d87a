"""Hooks applied to their real libraries for the length of a test, and the spans they make."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.hook import Hook, HookOptions
from latencytrace.agent.timing.patching import AppliedHook, HookState
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import Interval, unpack_intervals
from tests.support.waiting import until


class Spans:
    """The spans that ended, in order of their end, and who makes more."""

    def __init__(self) -> None:
        self.provider = RecordingProvider()
        self.provider.configure(self._on_end)
        self.recorder = Recorder(self.provider.get_tracer("latencytrace"), raise_fault)
        self.all: list[RecordedSpan] = []

    def _on_end(self, span: RecordedSpan) -> None:
        self.all.append(span)

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [span.name for span in self.all]

    @property
    def stages(self) -> list[str | None]:
        """Their stages."""
        return [stage_of(span) for span in self.all]

    def of(self, stage: Stage | None) -> list[RecordedSpan]:
        """Those of one stage; None: of none."""
        wanted = stage.value if stage else None
        return [span for span in self.all if stage_of(span) == wanted]

    @property
    def only(self) -> RecordedSpan:
        """The one span that there is."""
        (span,) = self.all
        return span

    def wait_for(self, count: int) -> None:
        """Wait until another thread has ended its spans."""
        until(lambda: len(self.all) >= count)


def stage_of(span: RecordedSpan) -> str | None:
    """The stage that a hook gave a span."""
    stage = span.attributes.get(semconv.STAGE)
    return stage if isinstance(stage, str) else None


def intervals_of(span: RecordedSpan) -> tuple[Interval, ...]:
    """The work interleaved with a span, without the time in which the machine held the process."""
    found = unpack_intervals(str(span.attributes.get(semconv.INTERVALS, "")), 0)
    return tuple(one for one in found if one.stage is not Stage.RUNTIME)


def interval_stages(span: RecordedSpan) -> set[str]:
    """The stages of the work interleaved with a span."""
    return {interval.stage.value for interval in intervals_of(span)}


def attribute_text(spans: Spans) -> str:
    """Everything that the attributes say, to be searched for what must not be there."""
    return repr([dict(span.attributes) for span in spans.all])


def in_request(spans: Spans, call: Callable[[], object]) -> None:
    """Make a call in a traced request, whose span ends last."""
    timing = spans.recorder.start("request")
    timing.activate()
    try:
        call()
    finally:
        timing.deactivate()
        timing.end()


@contextmanager
def hooked(
    *hooks: type[Hook], options: HookOptions | None = None, spans: Spans | None = None
) -> Iterator[Spans]:
    """Apply hooks, whose libraries must be imported, and restore everything afterwards."""
    spans = spans or Spans()
    applied = [AppliedHook(hook.__name__, hook, spans.recorder, options) for hook in hooks]
    try:
        assert {hook.status.state for hook in applied} <= {HookState.APPLIED}
        yield spans
    finally:
        for hook in reversed(applied):
            hook.restore()
