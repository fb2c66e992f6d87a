"""The service keeps the reports of agents."""

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from prometheus_client import CollectorRegistry

from latencytrace.model import semconv
from latencytrace.plugins import HOOKS, plugins
from latencytrace.service.reports.agents import MAX_AGENTS, MAX_HOOKS, SILENT_NS, AgentReports
from tests.support.fakes.contracts import FakeClock

RAG = {"service": "rag", "agent": "rag-1"}


def report(
    instance: str = "rag-1", dropped: int = 3, reason: str = "not found"
) -> ExportMetricsServiceRequest:
    """A report of an agent."""
    request = ExportMetricsServiceRequest()
    of_resource = request.resource_metrics.add()
    for key, value in (("service.name", "rag"), ("service.instance.id", instance)):
        of_resource.resource.attributes.add(key=key).value.string_value = value
    of_resource.resource.attributes.add(key="process.pid").value.int_value = 42
    metrics = of_resource.scope_metrics.add().metrics
    running = metrics.add(name=semconv.AGENT_RUNNING).gauge.data_points.add(as_int=1)
    running.attributes.add(key=semconv.AGENT_PROVIDER).value.string_value = "ours"
    metrics.add(name=semconv.AGENT_SPANS_DROPPED).sum.data_points.add(as_int=dropped)
    cpu = metrics.add(name=semconv.AGENT_CPU_NS).sum.data_points.add(as_int=1_500_000_000)
    cpu.attributes.add(key=semconv.AGENT_PART).value.string_value = "hooks"
    hook = metrics.add(name=semconv.AGENT_HOOK).gauge.data_points.add(as_int=1)
    for key, value in (
        (semconv.HOOK, "qdrant"),
        (semconv.HOOK_STATE, "refused"),
        (semconv.HOOK_REASON, reason),
    ):
        hook.attributes.add(key=key).value.string_value = value
    return request


def shown(reports: AgentReports) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(reports)
    return registry


def test_an_agent_is_shown_with_its_counts_and_hooks() -> None:
    reports = AgentReports(FakeClock())

    ignored = reports.take(report())

    metrics = shown(reports)
    about = {**RAG, "version": "", "pid": "42", "provider": "ours"}
    hook = {**RAG, "hook": "qdrant", "state": "refused", "reason": "not found"}
    assert ignored == 0
    assert metrics.get_sample_value("latencytrace_agent_info", about) == 1
    assert metrics.get_sample_value("latencytrace_agent_spans_dropped_total", RAG) == 3
    assert metrics.get_sample_value("latencytrace_agent_hook", hook) == 1
    cpu = {**RAG, "part": "hooks"}
    assert metrics.get_sample_value("latencytrace_agent_cpu_seconds_total", cpu) == 1.5


def test_every_hook_that_is_installed_is_shown() -> None:
    reports = AgentReports(FakeClock())
    names = sorted({plugin.name for plugin in plugins(HOOKS)})
    all_hooks = report()
    [of_scope] = all_hooks.resource_metrics[0].scope_metrics
    hook = next(one for one in of_scope.metrics if one.name == semconv.AGENT_HOOK)
    del hook.gauge.data_points[:]
    for name in names:
        point = hook.gauge.data_points.add(as_int=1)
        point.attributes.add(key=semconv.HOOK).value.string_value = name

    reports.take(all_hooks)

    shown_hooks = {
        sample.labels["hook"]
        for metric in shown(reports).collect()
        for sample in metric.samples
        if sample.name == "latencytrace_agent_hook"
    }
    assert shown_hooks == set(names)
    assert 2 * len(names) < MAX_HOOKS  # with room for those of plugins


def budget_report() -> ExportMetricsServiceRequest:
    """A report of an agent that records less, to keep its budget."""
    request = report()
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    for name, value in (
        (semconv.AGENT_OVERHEAD, 0.02),
        (semconv.AGENT_BUDGET, 0.01),
        (semconv.AGENT_SAMPLING, 0.25),
    ):
        metrics.add(name=name).gauge.data_points.add(as_double=value)
    step = metrics.add(name=semconv.AGENT_REDUCTION).gauge.data_points.add(as_int=5)
    step.attributes.add(key=semconv.DETAIL).value.string_value = "full"
    dropped = metrics.add(name=semconv.AGENT_REQUESTS).sum.data_points.add(as_int=70)
    dropped.attributes.add(key=semconv.DETAIL).value.string_value = "dropped"
    return request


def test_an_agents_budget_is_shown_with_what_it_leaves_out() -> None:
    reports = AgentReports(FakeClock())

    reports.take(budget_report())

    registry = shown(reports)
    gauges = ("overhead_ratio", "overhead_budget_ratio", "sampling_ratio")
    found = [registry.get_sample_value(f"latencytrace_agent_{name}", RAG) for name in gauges]
    assert found == [0.02, 0.01, 0.25]
    steps = registry.get_sample_value(
        "latencytrace_agent_reduction_steps", {**RAG, "detail": "full"}
    )
    requests = registry.get_sample_value(
        "latencytrace_agent_requests_total", {**RAG, "detail": "dropped"}
    )
    assert (steps, requests) == (5, 70)


def test_the_phases_of_a_processs_start_are_shown() -> None:
    reports, request = AgentReports(FakeClock()), report()
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    points = metrics.add(name=semconv.AGENT_START_NS).gauge.data_points
    for phase, length_ns in (("imports", 2_500_000_000), ("weights", 40_000_000_000)):
        point = points.add(as_int=length_ns)
        point.attributes.add(key=semconv.START_PHASE).value.string_value = phase

    reports.take(request)

    name = "latencytrace_start_seconds"
    found = [
        shown(reports).get_sample_value(name, {**RAG, "phase": phase})
        for phase in ("imports", "weights", "warm_up")
    ]
    assert found == [2.5, 40, None]


def test_only_requests_of_a_control_group_make_one() -> None:
    reports = AgentReports(FakeClock())
    request = report()
    point = request.resource_metrics[0].scope_metrics[0].metrics.add(name=semconv.AGENT_REQUESTS)
    control = point.sum.data_points.add(as_int=0)
    control.attributes.add(key=semconv.DETAIL).value.string_value = "control"

    reports.take(request)
    without = reports.have_control_group
    control.as_int = 1
    reports.take(request)

    assert (without, reports.have_control_group) == (False, True)


def test_a_later_report_takes_the_place_of_the_one_before() -> None:
    reports = AgentReports(FakeClock())

    reports.take(report(dropped=3))
    reports.take(report(dropped=5))

    metrics = shown(reports)
    assert metrics.get_sample_value("latencytrace_agent_spans_dropped_total", RAG) == 5


def test_an_agent_is_shown_with_the_age_of_its_report() -> None:
    clock = FakeClock()
    reports = AgentReports(clock)
    reports.take(report())

    clock.now_ns += 90_000_000_000

    metrics = shown(reports)
    assert metrics.get_sample_value("latencytrace_agent_report_age_seconds", RAG) == 90


def test_one_that_has_fallen_silent_is_not_shown() -> None:
    clock = FakeClock()
    reports = AgentReports(clock)
    reports.take(report())

    clock.now_ns = SILENT_NS + 1

    metrics = shown(reports)
    assert metrics.get_sample_value("latencytrace_agent_spans_dropped_total", RAG) is None


def test_metrics_of_others_are_counted_and_not_kept() -> None:
    reports = AgentReports(FakeClock())
    request = ExportMetricsServiceRequest()
    foreign = request.resource_metrics.add().scope_metrics.add().metrics
    foreign.add(name="http.server.duration").histogram.data_points.add(count=1)
    foreign.add(name="process.cpu").gauge.data_points.add(as_double=0.5)

    ignored = reports.take(request)

    assert ignored == 2


def test_agents_and_texts_are_bounded() -> None:
    reports = AgentReports(FakeClock())

    for number in range(MAX_AGENTS + 1):
        reports.take(report(instance=f"{number}", reason="x" * 1000))

    metrics = shown(reports)
    first = {"service": "rag", "agent": "0"}
    last = {"service": "rag", "agent": f"{MAX_AGENTS}"}
    hook = {**last, "hook": "qdrant", "state": "refused", "reason": "x" * 200}
    assert metrics.get_sample_value("latencytrace_agent_spans_dropped_total", first) is None
    assert metrics.get_sample_value("latencytrace_service_evicted_agents_total") == 1
    assert metrics.get_sample_value("latencytrace_agent_hook", hook) == 1
