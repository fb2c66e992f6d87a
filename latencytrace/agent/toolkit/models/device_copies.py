"""Copies between host and device, as spans of stage `transfer` with the device's own time."""

from collections.abc import Mapping
from threading import local
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.timer import DevicePasses
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import CountWithin
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage

MOST: Final = 32  # copies of one span that have spans of their own; more are counted
TO_DEVICE, TO_HOST = "to_device", "to_host"


class DeviceCopy:
    """One copy under way; its span is made when it is known when the device began on it.

    A copy that the host waits for begins after what the device had to do before: that wait
    is no time of the copy, but of what is around it.
    """

    def __init__(
        self, recorder: Recorder, passes: DevicePasses, attributes: dict[str, AttributeValue]
    ) -> None:
        self.started_ns = monotonic_ns()
        self._recorder = recorder
        self._passes = passes
        self._attributes = attributes
        self._context: Context = get_current()

    def finish(self) -> None:
        """The call that copies has returned."""
        ended_ns = monotonic_ns()
        _copying.under_way = False
        with guarded("ending a copy", self._recorder.on_fault):
            self._passes.end()
            self._recorder.devices.pending.end(self, ended_ns, self._passes)

    def drop(self) -> None:
        """The call has raised: nothing was copied."""
        _copying.under_way = False
        with guarded("dropping a copy", self._recorder.on_fault):
            self._passes.drop_open()

    def note(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Take what the device timer knows."""
        self._attributes.update(attributes)

    def end(self, ended_ns: int | None = None) -> None:
        end_ns = monotonic_ns() if ended_ns is None else ended_ns
        name = "copy to host"
        if self._attributes[semconv.TRANSFER_DIRECTION] == TO_DEVICE:
            name = "copy to device"
        timing = self._recorder.start(
            name,
            Stage.TRANSFER,
            self._attributes,
            context=self._context,
            started_ns=self.started_ns + self._waited_ns(end_ns - self.started_ns),
        )
        timing.end(end_ns)

    def _waited_ns(self, call_ns: int) -> int:
        """Return how long the call waited for the device, whose times move with it."""
        noted = self._attributes
        start_ns, end_ns = noted.get(semconv.DEVICE_START), noted.get(semconv.DEVICE_END)
        if not isinstance(start_ns, int) or not isinstance(end_ns, int) or start_ns >= call_ns:
            return 0  # unknown, or the host did not wait
        noted[semconv.DEVICE_START], noted[semconv.DEVICE_END] = 0, end_ns - start_ns
        return start_ns


class DeviceCopies:
    """Begins to time copies; one for each hook that finds some."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._counts = CountWithin()

    def begin(self, device: Any, direction: str, size_bytes: int) -> DeviceCopy | None:
        """Begin to time a copy; None: it is not to be timed.

        That is: outside of a traced request, inside of a generation, whose spans have its
        time, inside of another copy, while a graph is captured, and where the device has
        no events.
        """
        recorder, span = self._recorder, get_current_span()
        if not span.is_recording() or getattr(_copying, "under_way", False):
            return None
        if recorder.suppressed() or recorder.stream() is not None:
            return None
        if recorder.inside(Stage.TRANSFER):
            return None
        passes = recorder.devices.passes_on(device, Stage.TRANSFER)
        if passes is None or not self._has_room(span):
            return None
        # Of this thread, and done by now: their events are free again.
        recorder.devices.pending.settle()
        copy = DeviceCopy(
            recorder,
            passes,
            {semconv.TRANSFER_DIRECTION: direction, semconv.TRANSFER_BYTES: size_bytes},
        )
        passes.begin()
        if passes.unmeasured:
            return None
        _copying.under_way = True
        return copy

    def _has_room(self, span: Span) -> bool:
        """Count a copy of a span; False: it has too many."""
        number = self._counts.next_of(span)
        if number > MOST:
            span.set_attribute(semconv.TRANSFERS_UNTIMED, number - MOST)
            return False
        return True


_copying = local()  # whether one is under way on this thread
