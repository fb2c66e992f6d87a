"""What tracing costs requests, as a metric."""

from prometheus_client import CollectorRegistry

from latencytrace.analysis.compare.control import ControlOverhead, Difference, RouteOverhead
from latencytrace.errors import StoreError
from latencytrace.service.answers.findings.overhead import overhead_document
from latencytrace.service.answers.findings.overhead_documents import OverheadDocument
from latencytrace.service.metrics.cohorts import KEPT_NS, ControlGroup
from tests.support.fakes.contracts import FakeClock

NAME = "latencytrace_tracing_overhead_seconds"
FOUND = Difference(difference_ns=3_000, low_ns=-1_000, high_ns=7_000, control_ns=10**6)


def route(name: str, found: Difference | None) -> RouteOverhead:
    return RouteOverhead(
        service="rag", route=name, requests=500, control_requests=100, found=found
    )


class Service:
    """A service with a control group, which counts the questions.

    Args:
        is_wanted: Agents report a control group.
    """

    def __init__(self, *, is_wanted: bool = True) -> None:
        self.clock = FakeClock()
        self.asked = 0
        self.fails = False
        self.registry = CollectorRegistry()
        self.registry.register(ControlGroup(self.overhead, lambda: is_wanted, self.clock))

    def overhead(self) -> OverheadDocument:
        """The answer to the question."""
        self.asked += 1
        if self.fails:
            raise StoreError("the disk is gone")
        routes = [route("POST /chat", FOUND), route("GET /rare", None)]
        return overhead_document(
            ControlOverhead(
                requests=500,
                control_requests=100,
                needed_control_requests=None,
                found=FOUND,
                routes=routes,
            )
        )

    def value(self, name: str, bound: str) -> float | None:
        """What is shown of a route."""
        labels = {"service": "rag", "route": name, "bound": bound}
        return self.registry.get_sample_value(NAME, labels)


def test_each_route_has_its_estimate_and_both_ends_of_the_interval() -> None:
    service = Service()

    shown = [service.value("POST /chat", bound) for bound in ("low", "estimate", "high")]

    assert shown == [-1e-6, 3e-6, 7e-6]


def test_a_route_with_too_few_requests_is_not_shown() -> None:
    assert Service().value("GET /rare", "estimate") is None


def test_the_store_is_asked_once_a_minute_however_often_it_is_scraped() -> None:
    service = Service()

    service.value("POST /chat", "low")
    service.clock.now_ns = KEPT_NS - 1
    service.value("POST /chat", "low")
    before = service.asked
    service.clock.now_ns = KEPT_NS
    service.value("POST /chat", "low")

    assert (before, service.asked) == (1, 2)


def test_the_store_is_not_asked_where_no_agent_has_a_control_group() -> None:
    service = Service(is_wanted=False)

    assert service.value("POST /chat", "low") is None
    assert service.asked == 0


def test_a_store_that_fails_leaves_the_other_metrics_alone() -> None:
    service = Service()
    service.fails = True

    assert service.value("POST /chat", "low") is None
