"""Reports of agents on themselves, as metrics of the service: `latencytrace_agent_*`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector

from latencytrace.model import semconv
from latencytrace.model.detail import TraceDetail
from latencytrace.service.otlp.metrics import number, texts

MAX_AGENTS: Final = 500
MAX_HOOKS: Final = 500  # of one agent: it has some 120 of ours, and those of plugins
SILENT_NS: Final = 180_000_000_000  # three reports missed: it has ended
PREFIX: Final = "latencytrace_agent"
_COUNTS: Final = {
    semconv.AGENT_SPANS_SENT: ("spans_sent", "Spans that an agent has sent."),
    semconv.AGENT_SPANS_DROPPED: ("spans_dropped", "Spans that an agent has dropped."),
    semconv.AGENT_FAULTS: ("faults", "Errors of its own that an agent kept from its program."),
}
_GAUGES: Final = {
    semconv.AGENT_OVERHEAD: (
        "overhead_ratio", "Share of its process's CPU time that an agent took of late."
    ),
    semconv.AGENT_BUDGET: (
        "overhead_budget_ratio", "Share of its process's CPU time that an agent may take."
    ),
    semconv.AGENT_SAMPLING: (
        "sampling_ratio", "Share of the traces beginning in its process that an agent records."
    ),
}  # fmt: skip
# Each with the attribute by which its points differ.
_PARTS: Final = {
    semconv.AGENT_CPU_NS: semconv.AGENT_PART,
    semconv.AGENT_REDUCTION: semconv.DETAIL,
    semconv.AGENT_REQUESTS: semconv.DETAIL,
    semconv.AGENT_START_NS: semconv.START_PHASE,
    semconv.AGENT_PRESSURE: semconv.PRESSURE_RESOURCE,
}
_AGENT = ("service", "agent")  # not `instance`: Prometheus keeps that for what it scrapes


@dataclass(slots=True)
class _Agent:
    """The last report of one agent."""

    received_ns: int
    about: Mapping[str, str]
    provider: str = ""
    counts: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)  # by metric, then by part
    hooks: list[tuple[str, str, str]] = field(default_factory=list)  # name, state, reason


_Live = tuple[tuple[str, str], _Agent]


class AgentReports(Collector):
    """Holds the last report of each agent; bounded.

    Args:
        now_ns: A monotonic clock.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._agents: dict[tuple[str, str], _Agent] = {}
        self.evicted = 0  # agents forgotten for others' sake

    def take(self, request: ExportMetricsServiceRequest) -> int:
        """Note the reports in a request of metrics.

        Returns:
            How many data points are of other metrics, and are not kept.
        """
        ignored = 0
        for resource_metrics in request.resource_metrics:
            about = texts(resource_metrics.resource.attributes)
            agent = _Agent(received_ns=self._now_ns(), about=about)
            for scope_metrics in resource_metrics.scope_metrics:
                ignored += sum(_note(agent, metric) for metric in scope_metrics.metrics)
            if agent.provider:
                key = (about.get("service.name", ""), about.get("service.instance.id", ""))
                self._agents.pop(key, None)
                self._agents[key] = agent  # the one that reported last stands last
        while len(self._agents) > MAX_AGENTS:
            del self._agents[next(iter(self._agents))]
            self.evicted += 1
        return ignored

    @property
    def have_control_group(self) -> bool:
        """Tell whether any of them reports requests of a control group."""
        control = TraceDetail.CONTROL.value
        return any(
            agent.parts.get(semconv.AGENT_REQUESTS, {}).get(control)
            for agent in list(self._agents.values())
        )

    def collect(self) -> Iterator[MetricFamily]:
        now_ns = self._now_ns()
        latest_ns = now_ns - SILENT_NS
        live = [item for item in list(self._agents.items()) if item[1].received_ns >= latest_ns]
        yield CounterMetricFamily(
            "latencytrace_service_evicted_agents",
            "Agents forgotten because too many report.",
            value=self.evicted,
        )
        labels = (*_AGENT, "version", "pid", "provider")
        info = GaugeMetricFamily(f"{PREFIX}_info", "Agents that run.", labels=labels)
        hooks = GaugeMetricFamily(
            f"{PREFIX}_hook", "Hooks of agents.", labels=(*_AGENT, "hook", "state", "reason")
        )
        age = GaugeMetricFamily(
            f"{PREFIX}_report_age_seconds", "Time since an agent's last report.", labels=_AGENT
        )
        for key, agent in live:
            age.add_metric(key, (now_ns - agent.received_ns) / 1e9)
            version = agent.about.get("telemetry.distro.version", "")
            pid = agent.about.get("process.pid", "")
            info.add_metric([*key, version, pid, agent.provider], 1)
            for hook in agent.hooks:
                hooks.add_metric([*key, *hook], 1)
        yield from (info, age, hooks, *_numbers(live), *_parts(live))


def _numbers(live: Sequence[_Live]) -> Iterator[MetricFamily]:
    """The counts and gauges of agents; a gauge is absent where it is not known."""
    for name, (short, text) in _COUNTS.items():
        counter = CounterMetricFamily(f"{PREFIX}_{short}", text, labels=_AGENT)
        for key, agent in live:
            counter.add_metric(key, agent.counts.get(name, 0))
        yield counter
    for name, (short, text) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"{PREFIX}_{short}", text, labels=_AGENT)
        for key, agent in live:
            if name in agent.gauges:
                gauge.add_metric(key, agent.gauges[name])
        yield gauge


def _parts(live: Sequence[_Live]) -> Iterator[MetricFamily]:
    """Reports of agents by part or by detail."""
    cpu = CounterMetricFamily(
        f"{PREFIX}_cpu_seconds",
        "CPU time that an agent costs its program.",
        labels=(*_AGENT, "part"),
    )
    reduction = GaugeMetricFamily(
        f"{PREFIX}_reduction_steps",
        "Steps by which an agent lowers the detail of traces to keep its budget.",
        labels=(*_AGENT, "detail"),
    )
    requests = CounterMetricFamily(
        f"{PREFIX}_requests",
        "Requests of an agent's program, by the detail that they are traced in.",
        labels=(*_AGENT, "detail"),
    )
    start = GaugeMetricFamily(
        "latencytrace_start_seconds",
        "How long a process took to start, by phase, until its first request was answered.",
        labels=(*_AGENT, "phase"),
    )
    pressure = GaugeMetricFamily(
        f"{PREFIX}_pressure_ratio",
        "Share of the last minute in which some thread of an agent's control group, or machine, "
        "waited for a resource.",
        labels=(*_AGENT, "resource"),
    )
    families = (
        (semconv.AGENT_CPU_NS, cpu, 1e9),
        (semconv.AGENT_START_NS, start, 1e9),
        (semconv.AGENT_PRESSURE, pressure, 1),
        (semconv.AGENT_REDUCTION, reduction, 1),
        (semconv.AGENT_REQUESTS, requests, 1),
    )
    for name, family, size in families:
        for key, agent in live:
            for part, value in agent.parts.get(name, {}).items():
                family.add_metric([*key, part], value / size)
        yield family


def _note(agent: _Agent, metric: Metric) -> int:
    """Note one metric; returns how many points of it are of no agent's."""
    points = metric.gauge.data_points or metric.sum.data_points
    if metric.name in _COUNTS:
        agent.counts[metric.name] = sum(map(number, points))
    elif metric.name == semconv.AGENT_RUNNING:
        for point in points:
            agent.provider = texts(point.attributes).get(semconv.AGENT_PROVIDER, "")
    elif metric.name in _GAUGES:
        agent.gauges[metric.name] = sum(map(number, points))
    elif metric.name in _PARTS:
        part = _PARTS[metric.name]
        agent.parts[metric.name] = {
            texts(point.attributes).get(part, ""): number(point) for point in points[:MAX_HOOKS]
        }
    elif metric.name == semconv.AGENT_HOOK:
        for point in points[:MAX_HOOKS]:
            noted = texts(point.attributes)
            keys = (semconv.HOOK, semconv.HOOK_STATE, semconv.HOOK_REASON)
            name, state, reason = (noted.get(key, "") for key in keys)
            agent.hooks.append((name, state, reason))
    else:
        return (
            len(points)
            + len(metric.histogram.data_points)
            + len(metric.exponential_histogram.data_points)
            + len(metric.summary.data_points)
        )
    return 0
