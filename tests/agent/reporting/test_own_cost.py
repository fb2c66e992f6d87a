"""What the agent says that it costs."""

import time

import pytest

from latencytrace.agent.api.stages import stage
from latencytrace.agent.budget.detail import LAST, Detail
from latencytrace.agent.export.exporter import ExportCounts
from latencytrace.agent.reporting.own_cost import (
    PRICED_FOR_NS,
    TELLING,
    WINDOW_NS,
    CostMeter,
    OwnCost,
)
from latencytrace.agent.reporting.prices import Prices
from latencytrace.agent.start import agent_status
from latencytrace.agent.timing.costs import HookCost, RequestCost, apart
from latencytrace.model import semconv
from tests.support.agent.receiving import TracedProgram, attributes_of
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import until


def spent(made: int, encoder_ns: int, exporter_ns: int) -> ExportCounts:
    return ExportCounts(
        sent=made, encode_cpu_ns=encoder_ns, export_cpu_ns=encoder_ns + exporter_ns
    )


def meter_of(
    clock: FakeClock, prices: Prices, detail: Detail | None = None, thread_ns: int = 0
) -> CostMeter:
    return CostMeter(clock, detail or Detail(), lambda _: prices, lambda: thread_ns, costs=list)


class Taken:
    """A call that is recorded."""

    is_spared = False


def taking(cost: HookCost, *, calls: int, ns: int) -> None:
    """Call so often, each time sampled, and have each take so long."""
    before_ns = cost._taken_ns
    for _ in range(calls):
        cost.left = cost._stride = 1
        cost.left -= 1
        cost.sampled(Taken) if isinstance(cost, RequestCost) else cost.sample(Taken)
    cost._taken_ns = before_ns + calls * ns


def test_hooks_cost_as_many_spans_as_were_made_times_the_price_of_one() -> None:
    meter = meter_of(FakeClock(), Prices(span_ns=5_000))

    meter.update(spent(100, 7, 9), 0)

    assert meter.read() == OwnCost(hooks_cpu_ns=500_000, encoder_cpu_ns=7, exporter_cpu_ns=9)


def test_requests_and_their_chunks_cost_what_they_cost() -> None:
    detail = Detail()
    prices = Prices(span_ns=1, request_ns=100, chunk_ns=10_000, least_ns=10**6, dropped_ns=10**8)
    meter = meter_of(FakeClock(), prices, detail)

    detail.requests, detail.chunks, detail.least, detail.controls, detail.dropped = 2, 3, 4, 1, 6
    meter.update(spent(2 + 5 + 7, 0, 0), 0)  # each request with its span, seven calls

    assert meter.read().hooks_cpu_ns == 6_05_03_02_07
    assert meter.read().dropped_cpu_ns == 6_00_00_00_00


def test_calls_cost_what_their_samples_took_and_their_wrappers() -> None:
    with apart() as made:
        cost = HookCost()
        meter = CostMeter(
            FakeClock(), Detail(), lambda _: Prices(wrapper_ns=10, span_ns=10**6), lambda: 0,
            costs=lambda: made,
        )  # fmt: skip
    taking(cost, calls=5, ns=700)

    meter.update(spent(5, 0, 0), 0)  # a span each, so that none is left without a price

    assert meter.read().hooks_cpu_ns == 5 * (700 + 10)


def test_what_other_code_does_for_a_recorded_call_has_the_price_of_its_instructions() -> None:
    with apart() as made:
        cost = HookCost(follows=500)
    prices = Prices(wrapper_ns=10, instruction_ns=2.5)
    meter = CostMeter(FakeClock(), Detail(), lambda _: prices, lambda: 0, costs=lambda: made)
    taking(cost, calls=4, ns=700)
    cost._spans = 3  # one was within another call

    meter.update(spent(3, 0, 0), 0)

    assert meter.read().hooks_cpu_ns == 4 * (700 + 10) + 3 * 500 * 2.5


def test_calls_have_the_price_of_the_newest_samples_that_are_enough() -> None:
    with apart() as made:
        cost = HookCost()
    meter = CostMeter(FakeClock(), Detail(), lambda _: Prices(), lambda: 0, costs=lambda: made)
    paid_ns = []

    for calls, ns in ((TELLING, 700), (TELLING, 30), (1, 5_000)):
        before_ns = meter.read().hooks_cpu_ns
        taking(cost, calls=calls, ns=ns)
        meter.update(spent(0, 0, 0), 0)
        paid_ns.append(meter.read().hooks_cpu_ns - before_ns)

    assert paid_ns == [TELLING * 700, TELLING * 30, 30]


def test_a_call_that_was_never_sampled_has_the_price_of_one_that_is_known() -> None:
    with apart() as made:
        cost = HookCost()
    meter = CostMeter(
        FakeClock(), Detail(), lambda _: Prices(call_ns=900), lambda: 0, costs=lambda: made
    )

    cost.left -= 1
    meter.update(spent(1, 0, 0), 0)

    assert meter.read().hooks_cpu_ns == 900


def test_requests_are_as_much_dearer_as_those_of_the_program_are_colder() -> None:
    with apart() as made:
        cost = RequestCost()
    detail = Detail()
    prices = Prices(request_ns=10_000, least_ns=4_000, sections_ns=100)
    meter = CostMeter(FakeClock(), detail, lambda _: prices, lambda: 0, costs=lambda: made)
    taking(cost, calls=1, ns=250)

    detail.requests, detail.least = 1, 1
    meter.update(spent(2, 0, 0), 0)

    assert meter.read().hooks_cpu_ns == 2.5 * (10_000 + 4_000)


def test_calls_in_less_detail_are_priced_anew() -> None:
    with apart() as made:
        cost = HookCost()
    detail = Detail()
    meter = CostMeter(
        FakeClock(), detail, lambda _: Prices(call_ns=1), lambda: 0, costs=lambda: made
    )
    taking(cost, calls=4, ns=700)

    detail.set_step(LAST)
    meter.update(spent(4, 0, 0), 0)
    before_ns = meter.read().hooks_cpu_ns
    taking(cost, calls=2, ns=30)
    meter.update(spent(4, 0, 0), 0)

    assert before_ns == 4 * 700
    assert meter.read().hooks_cpu_ns - before_ns == 2 * 30


def test_callbacks_of_event_loops_have_a_price() -> None:
    prices = Prices(callback_ns=30)
    meter = CostMeter(
        FakeClock(),
        Detail(),
        lambda _: prices,
        lambda: 0,
        callbacks=lambda: 4,
        costs=list,
    )

    meter.update(spent(0, 0, 0), 0)

    assert meter.read().hooks_cpu_ns == 4 * 30


def test_what_was_done_keeps_the_price_that_it_was_done_at() -> None:
    clock = FakeClock()
    prices = iter((Prices(span_ns=1_000), Prices(span_ns=2_000)))
    meter = CostMeter(clock, Detail(), lambda _: next(prices), lambda: 0, costs=list)

    meter.update(spent(10, 0, 0), 0)
    clock.move_s(PRICED_FOR_NS / 1e9)
    meter.update(spent(15, 0, 0), 0)

    assert meter.read().hooks_cpu_ns == 10 * 1_000 + 5 * 2_000


def test_the_rest_of_the_background_thread_is_counted_too() -> None:
    meter = meter_of(FakeClock(), Prices(), thread_ns=100)

    meter.update(spent(1, 20, 50), 0)

    cost = meter.read()
    assert (cost.encoder_cpu_ns, cost.exporter_cpu_ns, cost.reporting_cpu_ns) == (20, 50, 30)
    assert cost.cpu_ns == 100


def test_a_rate_is_that_of_the_last_window() -> None:
    clock = FakeClock()
    meter = meter_of(clock, Prices(span_ns=1_000))

    clock.move_s(WINDOW_NS / 1e9)
    meter.update(spent(1_000_000, WINDOW_NS // 4, 0), 0)
    clock.move_s(WINDOW_NS / 1e9)
    meter.update(spent(1_000_000, WINDOW_NS // 4, WINDOW_NS // 2), 0)

    cost = meter.read()
    assert (cost.hooks_ratio, cost.encoder_ratio, cost.exporter_ratio) == (0, 0, 0.5)
    assert cost.hooks_cpu_ns == 1_000_000_000


def test_the_price_is_looked_up_once_a_minute_and_not_before_there_is_a_span() -> None:
    clock = FakeClock()
    asked: list[int] = []

    def prices(_: bool) -> Prices:
        asked.append(clock())
        return Prices(call_ns=1)

    meter = CostMeter(clock, Detail(), prices, lambda: 0, costs=list)
    for made in (0, 1, 2):
        meter.update(spent(made, 0, 0), 0)
    clock.move_s(PRICED_FOR_NS / 1e9)
    meter.update(spent(2, 0, 0), 0)  # hooks did nothing since
    assert len(asked) == 1
    meter.update(spent(3, 0, 0), 0)

    assert len(asked) == 2


def test_the_agent_says_what_it_costs_and_reports_it(agent: TracedProgram) -> None:
    for _ in range(50):
        with stage("rerank"):
            pass

    agent.spans(50)
    until(lambda: agent_status().cost.hooks_cpu_ns > 0)
    until(lambda: bool(agent.receiver.reports))

    cost = agent_status().cost
    assert cost.hooks_cpu_ns > 0
    assert cost.encoder_cpu_ns > 0
    assert cost.exporter_cpu_ns > 0
    assert cost.encoder_cpu_ns + cost.exporter_cpu_ns <= time.process_time_ns()
    (metric,) = [
        metric
        for metric in agent.receiver.reports[0].resource_metrics[0].scope_metrics[0].metrics
        if metric.name == semconv.AGENT_CPU_NS
    ]
    parts = [attributes_of(p.attributes)[semconv.AGENT_PART] for p in metric.sum.data_points]
    assert parts == ["hooks", "encoder", "exporter", "reporting"]


@pytest.mark.parametrize("part", ["hooks_ratio", "encoder_ratio", "exporter_ratio"])
def test_an_agent_that_does_not_run_costs_nothing(part: str) -> None:
    assert getattr(agent_status().cost, part) == 0


def test_the_price_of_a_request_is_looked_up_once_one_was_served() -> None:
    detail = Detail()
    asked: list[bool] = []

    def prices(served: bool) -> Prices:
        asked.append(served)
        return Prices(span_ns=1, request_ns=100 if served else 1)

    meter = CostMeter(FakeClock(), detail, prices, lambda: 0, costs=list)
    meter.update(spent(1, 0, 0), 0)
    detail.requests = 1
    meter.update(spent(2, 0, 0), 0)
    detail.requests = 2
    meter.update(spent(3, 0, 0), 0)

    assert asked == [False, True]
    assert meter.read().hooks_cpu_ns == 1 + 100 + 100


def test_nothing_is_measured_while_somebody_waits() -> None:
    found = iter([None, Prices(span_ns=5, call_ns=100)])
    with apart() as made:
        cost = HookCost()
        meter = CostMeter(
            FakeClock(), Detail(), lambda _: next(found), lambda: 0, costs=lambda: made
        )
    cost.left -= 1  # a call

    meter.update(spent(2, 7, 9), 0)
    assert meter.read() == OwnCost(encoder_cpu_ns=7, exporter_cpu_ns=9)
    cost.left -= 1
    meter.update(spent(3, 7, 9), 0)

    assert meter.read().hooks_cpu_ns == 1 * 5 + 2 * 100
