"""The agent's own counts, sent as OTLP metrics to where its spans go.

A service of ours shows them as `latencytrace_agent_*` and to `latencytrace doctor`; any
other receiver of metrics takes them too, and one that takes none is asked once. Encoded by
hand, for protobuf's classes would be loaded into the program for these alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from struct import Struct

from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.agent.otlp_encoder import field, key_value
from latencytrace.agent.patching import HookStatus
from latencytrace.agent.sender import Sender
from latencytrace.model import semconv

CHANGES_AFTER_NS = 10_000_000_000
AGAIN_AFTER_NS = 60_000_000_000  # without a change, or where nobody answered
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})

# Fields of opentelemetry/proto/metrics/v1/metrics.proto: number << 3 | wire type.
_NAME, _UNIT, _GAUGE, _SUM = b"\x0a", b"\x1a", b"\x2a", b"\x3a"
_POINT, _ATTRIBUTE = b"\x0a", b"\x3a"
_CUMULATIVE_MONOTONIC = b"\x10\x02\x18\x01"
_TIMES_AND_INT = Struct("<BQBQBq")
_START, _TIME, _AS_INT = 0x11, 0x19, 0x31


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the agent does."""

    provider: str  # whose makes the spans
    sent: int
    dropped: int
    faults: int
    hooks: tuple[HookStatus, ...]


class SelfReport:
    """Sends what changed, not too often; used by one thread.

    Args:
        resource: Attributes of the process.
        sender: Where metrics go.
        now_ns: A monotonic clock.
    """

    def __init__(
        self, resource: Mapping[str, object], sender: Sender, now_ns: Callable[[], int]
    ) -> None:
        attributes = (field(b"\x0a", key_value(*pair)) for pair in resource.items())
        self._resource = field(b"\x0a", b"".join(attributes))
        self._sender = sender
        self._now_ns = now_ns
        self._started_ns = now_ns()
        self._sent_ns: int | None = None  # the last try
        self._last: Report | None = None
        self._is_taken = True

    def send(self, report: Report) -> None:
        """Send a report, soon after a change and now and then without one."""
        now_ns = self._now_ns()
        changed = self._last is not None and report != self._last
        pause_ns = CHANGES_AFTER_NS if changed else AGAIN_AFTER_NS
        early = self._sent_ns is not None and now_ns - self._sent_ns < pause_ns
        if early or not self._is_taken:
            return
        self._sent_ns = now_ns
        self._last = None
        try:
            answer = self._sender.post(self._encoded(report, now_ns))
        except OSError:  # who receives the spans is spoken of elsewhere
            return
        if 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP's successes
            self._last = report
        elif answer.status not in _TRANSIENT:
            self._is_taken = False
            self._sender.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._sender.close()

    def _encoded(self, report: Report, now_ns: int) -> bytes:
        """One `ExportMetricsServiceRequest`."""
        metrics = (
            self._metric(
                semconv.AGENT_RUNNING,
                (({semconv.AGENT_PROVIDER: report.provider}, 1),),
                now_ns,
                _GAUGE,
            ),
            self._metric(semconv.AGENT_SPANS_SENT, (({}, report.sent),), now_ns),
            self._metric(semconv.AGENT_SPANS_DROPPED, (({}, report.dropped),), now_ns),
            self._metric(semconv.AGENT_FAULTS, (({}, report.faults),), now_ns),
            self._metric(
                semconv.AGENT_HOOK, (_hook(hook) for hook in report.hooks), now_ns, _GAUGE
            ),
        )
        scope = field(b"\x0a", field(b"\x0a", b"latencytrace"))
        of_scope = scope + b"".join(field(b"\x12", metric) for metric in metrics)
        return field(b"\x0a", self._resource + field(b"\x12", of_scope))

    def _metric(
        self,
        name: str,
        points: Iterable[tuple[Mapping[str, str], int]],
        now_ns: int,
        kind: bytes = _SUM,
    ) -> bytes:
        encoded = b"".join(
            field(
                _POINT,
                _TIMES_AND_INT.pack(
                    _START,
                    self._started_ns + ANCHOR_NS,
                    _TIME,
                    now_ns + ANCHOR_NS,
                    _AS_INT,
                    number,
                )
                + b"".join(field(_ATTRIBUTE, key_value(*pair)) for pair in attributes.items()),
            )
            for attributes, number in points
        )
        held = encoded + (_CUMULATIVE_MONOTONIC if kind is _SUM else b"")
        return field(_NAME, name.encode()) + field(_UNIT, b"1") + field(kind, held)


def _hook(hook: HookStatus) -> tuple[Mapping[str, str], int]:
    attributes = {semconv.HOOK: hook.name, semconv.HOOK_STATE: hook.state.value}
    if hook.reason is not None:
        attributes[semconv.HOOK_REASON] = hook.reason
    return attributes, 1
