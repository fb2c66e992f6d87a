"""The agent's own counts, sent as OTLP metrics to where its spans go.

A service of ours shows them as `latencytrace_agent_*` and to `latencytrace doctor`; any
other receiver of metrics takes them too, and one that takes none is asked once. Encoded by
hand, for protobuf's classes would be loaded into the program for these alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from latencytrace.agent.budget.keeper import Overhead
from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.agent.export.otlp_metrics import (
    Point,
    encoded_attributes,
    encoded_metric,
    encoded_request,
    encoded_resource,
)
from latencytrace.agent.export.transport import Sender
from latencytrace.agent.reporting.own_cost import OwnCost, pressure
from latencytrace.agent.reporting.status import AgentStatus
from latencytrace.agent.timing.patching import HookStatus
from latencytrace.model import semconv
from latencytrace.model.detail import TraceDetail

CHANGES_AFTER_NS = 10_000_000_000
AGAIN_AFTER_NS = 60_000_000_000  # without a change, or where no receiver answered
LOOK_AFTER_NS = 5_000_000_000  # after a look that found no change: it costs as much as a round
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """State of the agent, as far as it is reported."""

    provider: str  # ours or the program's: it makes the spans
    sent: int
    dropped: int
    faults: int
    hooks: tuple[HookStatus, ...]
    cost: OwnCost = field(default_factory=OwnCost, compare=False)  # a report costs, too
    overhead: Overhead = field(default_factory=Overhead)
    start_ns: Mapping[str, int] = field(default_factory=dict)  # by phase
    # Share of time that threads waited for a resource; it always changes.
    pressure: Mapping[str, float] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, status: AgentStatus) -> "Report":
        return cls(
            provider=status.provider or "",
            sent=status.spans_sent,
            dropped=status.spans_dropped,
            faults=status.faults,
            hooks=status.hooks,
            cost=status.cost,
            overhead=status.overhead,
            start_ns=status.start_ns,
            pressure=pressure(),
        )


class SelfReport:
    """Sends what changed, not too often; used by one thread.

    Args:
        now_ns: A monotonic clock.
        started_ns: Since when everything is counted; None: now.
    """

    def __init__(
        self,
        resource: Mapping[str, object],
        sender: Sender,
        now_ns: Callable[[], int],
        started_ns: int | None = None,
    ) -> None:
        self._resource = encoded_resource(resource)
        self._sender = sender
        self._now_ns = now_ns
        self._started_ns = now_ns() if started_ns is None else started_ns
        self._sent_ns: int | None = None  # the last try
        self._look_ns = self._now_ns()  # when it is worth to make the next report
        self._last: Report | None = None
        self._is_taken = True

    @property
    def may_be_due(self) -> bool:
        """Tell whether a report would be sent now if it says anything new."""
        return self._is_taken and self._now_ns() >= self._look_ns

    def send(self, report: Report) -> None:
        """Send a report, soon after a change and now and then without one."""
        now_ns = self._now_ns()
        changed = self._last is not None and report != self._last
        pause_ns = CHANGES_AFTER_NS if changed else AGAIN_AFTER_NS
        early = self._sent_ns is not None and now_ns - self._sent_ns < pause_ns
        if early or not self._is_taken:
            self._look_ns = now_ns + LOOK_AFTER_NS
            return
        self._sent_ns = now_ns
        self._look_ns = now_ns + CHANGES_AFTER_NS
        self._last = None
        try:
            response = self._sender.send(self._encoded(report, now_ns))
        except OSError:  # the exporter of spans logs a receiver that is away
            return
        if 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's successes
            self._last = report
        elif response.status not in _TRANSIENT:
            self._is_taken = False
            self._sender.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._sender.close()

    def _encoded(self, report: Report, now_ns: int) -> bytes:
        provider = {semconv.AGENT_PROVIDER: report.provider}
        counts = (
            (semconv.AGENT_SPANS_SENT, report.sent),
            (semconv.AGENT_SPANS_DROPPED, report.dropped),
            (semconv.AGENT_FAULTS, report.faults),
        )
        parts = (
            ({semconv.AGENT_PART: "hooks"}, report.cost.hooks_cpu_ns),
            ({semconv.AGENT_PART: "encoder"}, report.cost.encoder_cpu_ns),
            ({semconv.AGENT_PART: "exporter"}, report.cost.exporter_cpu_ns),
            ({semconv.AGENT_PART: "reporting"}, report.cost.reporting_cpu_ns),
        )
        return encoded_request(
            self._resource,
            (
                self._metric(semconv.AGENT_RUNNING, ((provider, 1),), now_ns),
                *(
                    self._metric(name, (({}, number),), now_ns, is_counter=True)
                    for name, number in counts
                ),
                self._metric(semconv.AGENT_CPU_NS, parts, now_ns, is_counter=True),
                *self._overhead(report.overhead, now_ns),
                *self._by(semconv.AGENT_START_NS, semconv.START_PHASE, report.start_ns, now_ns),
                *self._by(
                    semconv.AGENT_PRESSURE, semconv.PRESSURE_RESOURCE, report.pressure, now_ns
                ),
                self._metric(semconv.AGENT_HOOK, (_hook(hook) for hook in report.hooks), now_ns),
            ),
        )

    def _by(
        self, name: str, key: str, numbers: Mapping[str, float], now_ns: int
    ) -> Iterator[bytes]:
        """A gauge of which each number has a name; none where there are no numbers."""
        if numbers:
            yield self._metric(
                name, (({key: one}, number) for one, number in numbers.items()), now_ns
            )

    def _overhead(self, overhead: Overhead, now_ns: int) -> Iterator[bytes]:
        lacks = {semconv.DETAIL: overhead.lacks or TraceDetail.FULL.value}
        gauges: tuple[tuple[str, Mapping[str, str], float | None], ...] = (
            (semconv.AGENT_OVERHEAD, {}, overhead.share_ratio),
            (semconv.AGENT_BUDGET, {}, overhead.budget_ratio),
            (semconv.AGENT_SAMPLING, {}, overhead.sampling_ratio),
            (semconv.AGENT_REDUCTION, lacks, overhead.step),
        )
        for name, attributes, value in gauges:
            if value is not None:
                yield self._metric(name, ((attributes, value),), now_ns)
        requests = (
            ({semconv.DETAIL: detail}, count) for detail, count in overhead.by_detail.items()
        )
        yield self._metric(semconv.AGENT_REQUESTS, requests, now_ns, is_counter=True)

    def _metric(
        self,
        name: str,
        numbers: Iterable[tuple[Mapping[str, str], float]],
        now_ns: int,
        *,
        is_counter: bool = False,
    ) -> bytes:
        started_ns = self._started_ns + ANCHOR_NS
        points = (
            Point(encoded_attributes(attributes), started_ns, now_ns + ANCHOR_NS, number)
            for attributes, number in numbers
        )
        return encoded_metric(name, "1", points, is_counter=is_counter)


def _hook(hook: HookStatus) -> tuple[Mapping[str, str], int]:
    attributes = {semconv.HOOK: hook.name, semconv.HOOK_STATE: hook.state.value}
    if hook.reason is not None:
        attributes[semconv.HOOK_REASON] = hook.reason
    return attributes, 1
