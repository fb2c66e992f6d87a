"""Samples of GPUs, sent as OTLP metrics to where spans go."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.agent.export.otlp_metrics import (
    Point,
    encoded_attributes,
    encoded_metric,
    encoded_request,
    encoded_resource,
)
from latencytrace.agent.export.transport import Sender
from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.model import semconv
from latencytrace.model.gpu import GPU_METRICS, GpuDevice, GpuMetric, GpuSample

KEPT_SAMPLES: Final = 2000  # while no receiver takes them
EVERY_NS: Final = 1_000_000_000
AGAIN_AFTER_NS: Final = 10_000_000_000  # where no receiver answered
STATE_EVERY_NS: Final = 10_000_000_000
STUCK_AFTER_NS: Final = 5_000_000_000
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_CACHED: Final = 1000


class GpuReport:
    """Holds samples until they are sent; filled by one thread, sent by another.

    Args:
        now_ns: A monotonic clock.
    """

    def __init__(
        self, resource: Mapping[str, object], sender: Sender, now_ns: Callable[[], int]
    ) -> None:
        self.dropped = 0
        self.is_taken = True  # False: the receiver wants no metrics
        self._resource = encoded_resource(resource)
        self._sender = sender
        self._now_ns = now_ns
        self._samples: deque[GpuSample] = deque(maxlen=KEPT_SAMPLES)
        self._due_ns = self._state_due_ns = 0
        self._attributes: dict[tuple[str, GpuMetric, str | None], bytes] = {}

    def add(self, samples: Sequence[GpuSample]) -> None:
        """Take samples; the oldest make room."""
        self.dropped += max(0, len(self._samples) + len(samples) - KEPT_SAMPLES)
        self._samples.extend(samples)

    def send(self, state: SamplerState) -> None:
        """Send what has come since the last time, if there is anything."""
        now_ns = self._now_ns()
        if now_ns < self._due_ns or not self.is_taken:
            return
        self._due_ns = now_ns + EVERY_NS
        samples = [self._samples.popleft() for _ in range(len(self._samples))]
        tells_state = now_ns >= self._state_due_ns and (state.ticks > 0 or bool(samples))
        if not samples and not tells_state:
            return
        metrics = [*self._metrics(samples)]
        if tells_state:
            self._state_due_ns = now_ns + STATE_EVERY_NS
            metrics += _state_metrics(state, now_ns)
        if not self._send(encoded_request(self._resource, metrics)) and self.is_taken:
            self._due_ns = now_ns + AGAIN_AFTER_NS
            self.dropped += max(0, len(self._samples) + len(samples) - KEPT_SAMPLES)
            self._samples.extendleft(reversed(samples))

    def close(self) -> None:
        """Let go of the connection."""
        self._sender.close()

    def _send(self, body: bytes) -> bool:
        """Send a body; tell whether it was taken."""
        try:
            response = self._sender.send(body)
        except OSError:  # the exporter of spans logs a receiver that is away
            return False
        if 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's successes
            return True
        if response.status not in _TRANSIENT:
            self.is_taken = False
            self._sender.close()
        return False

    def _metrics(self, samples: Sequence[GpuSample]) -> Iterator[bytes]:
        points: dict[GpuMetric, list[Point]] = {}
        for sample in samples:
            for reading in sample.readings:
                attributes = self._encoded(sample.device, reading.metric, reading.label)
                is_mean = GPU_METRICS[reading.metric].is_mean
                start_ns = (sample.start_ns or 0) if is_mean else 0
                points.setdefault(reading.metric, []).append(
                    Point(attributes, start_ns, sample.end_ns, reading.value)
                )
        for metric, held in points.items():
            form = GPU_METRICS[metric]
            yield encoded_metric(
                metric.value, form.unit, held, is_counter=form.is_counter, adds_up=form.adds_up
            )

    def _encoded(self, device: GpuDevice, metric: GpuMetric, label: str | None) -> bytes:
        key = (device.uuid, metric, label)
        encoded = self._attributes.get(key)
        if encoded is None:
            if len(self._attributes) >= _CACHED:
                self._attributes.clear()
            attributes = _attributes_of(device)
            form = GPU_METRICS[metric]
            if form.attribute is not None and label is not None:
                attributes[form.attribute] = str(label)
            if metric is GpuMetric.KERNEL_ACTIVE:
                attributes["hw.gpu.task"] = "general"
            encoded = self._attributes[key] = encoded_attributes(attributes)
        return encoded


def _attributes_of(device: GpuDevice) -> dict[str, object]:
    attributes: dict[str, object] = {
        semconv.HW_ID: device.uuid,
        semconv.HW_NAME: device.name,
        semconv.HW_TYPE: "gpu",
        semconv.HW_VENDOR: device.vendor,
        semconv.GPU_INDEX: device.index,
    }
    if device.driver is not None:
        attributes[semconv.HW_DRIVER_VERSION] = device.driver
    if device.parent_uuid is not None:
        attributes[semconv.HW_PARENT] = device.parent_uuid
    return attributes


def _state_metrics(state: SamplerState, now_ns: int) -> Iterator[bytes]:
    time_ns = now_ns + ANCHOR_NS

    def gauge(name: str, seconds: float) -> bytes:
        return encoded_metric(name, "s", (Point(b"", 0, time_ns, seconds),))

    yield gauge(semconv.GPU_SAMPLER_TICK, state.tick_ns / 1e9)
    yield gauge(semconv.GPU_SAMPLER_INTERVAL, state.interval_ns / 1e9)
    since_ns = state.tick_since_ns
    if since_ns is not None and now_ns - since_ns > STUCK_AFTER_NS:
        yield gauge(semconv.GPU_SAMPLER_STUCK, (now_ns - since_ns) / 1e9)
    if state.errors:
        points = (
            Point(
                encoded_attributes({semconv.GPU_SAMPLER_CALL: call, semconv.ERROR_TYPE: error}),
                0,
                time_ns,
                number,
            )
            for (call, error), number in state.errors.items()
        )
        yield encoded_metric(semconv.GPU_SAMPLER_ERRORS, "{error}", points, is_counter=True)
