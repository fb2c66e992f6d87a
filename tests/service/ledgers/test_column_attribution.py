"""Traces that memory holds become the same requests by columns as by objects."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from latencytrace.model import Attributes, Request, Span, SpanKind, Stage, semconv
from latencytrace.service.ledgers.attribution import Attributed, Attribution
from latencytrace.service.ledgers.held_spans import HeldSpans, Parts
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.compiled import loading
from latencytrace.service.otlp.shapes import SHAPES
from latencytrace.service.otlp.traces import check
from tests.support.builders.otlp_messages import one_span, otlp
from tests.support.simulation.simulator import simulate
from tests.support.simulation.ways import WAYS

pytestmark = pytest.mark.timeout(400)  # the compiler, the first time

S = 1_000_000_000


def attribution(*, compiled: bool) -> Attribution:
    made = Attribution(Telemetry(), lambda _: False)
    if compiled:
        made._columns.compile().join()  # noqa: SLF001 - as it does under load
        assert made._columns.is_compiled  # noqa: SLF001
    return made


def held(spans: Sequence[Span]) -> Mapping[str, Parts]:
    memory = HeldSpans()
    half = len(spans) // 2
    for part in (spans[:half], spans[half:]):
        checked = check(otlp(*part), None, None)
        memory.add(checked.columns, checked.rows)
    return {one.trace_id: memory.parts(one.trace_id) for one in spans}


def in_order(found: Attributed) -> list[Request]:
    return sorted(found.requests, key=lambda request: (request.trace_id, not request.outermost))


@pytest.mark.parametrize("way", WAYS)
def test_simulated_traces_become_the_same_requests(way: str) -> None:
    simulated = simulate(7, 40, {}, WAYS[way])
    spans = [span for trace in simulated for span in trace.spans]

    by_columns = attribution(compiled=True).attributed({}, {}, held(spans))
    by_objects = attribution(compiled=False).attributed({}, {}, held(spans))

    assert in_order(by_columns) == in_order(by_objects)
    assert by_columns.steps.keys() == by_objects.steps.keys()


def test_most_traces_are_made_no_objects() -> None:
    spans = [one_span(f"{number:032x}") for number in range(1, 101)]

    found = attribution(compiled=True).attributed({}, {}, held(spans))

    assert len(found.requests) == 100
    assert found.spans == {}


def test_what_a_process_did_before_it_served_is_its_load_by_columns_too() -> None:
    serving = one_span("1" * 32, start_ns=10 * S, end_ns=11 * S)
    loading = one_span("2" * 32, kind=SpanKind.CLIENT, name="GET", start_ns=S, end_ns=5 * S)
    later = one_span("3" * 32, kind=SpanKind.CLIENT, name="GET", start_ns=20 * S, end_ns=25 * S)

    found = attribution(compiled=True).attributed({}, {}, held([serving, loading, later]))

    assert {one.trace_id[0]: one.startup for one in found.requests} == {
        "1": False, "2": True, "3": False,
    }  # fmt: skip
    assert [one.ledger for one in found.requests if one.startup] == [{Stage.LOAD: 4 * S}]
    assert found.spans == {}


def test_a_trace_that_turns_out_to_be_of_starting_up_is_attributed_again() -> None:
    loading = one_span("2" * 32, kind=SpanKind.CLIENT, name="GET", start_ns=S, end_ns=5 * S)
    serving = one_span("1" * 32, start_ns=10 * S, end_ns=11 * S)
    columns = attribution(compiled=True)

    columns.attributed({}, {}, held([loading]))
    found = columns.attributed({}, {}, held([serving]))

    assert found.starts == [loading.trace_id]


def test_spans_that_had_a_gpu_do_something_are_told_of() -> None:
    device: Attributes = {
        semconv.DEVICE_ID: "GPU-1",
        semconv.DEVICE_START: 5,
        semconv.DEVICE_DURATION: 7,
    }
    spans = [one_span("1" * 32, attributes=device), one_span("2" * 32)]

    found = attribution(compiled=True).attributed({}, {}, held(spans))

    assert found.device_spans == [spans[0]]


def test_a_step_that_serves_many_is_left_to_objects() -> None:
    step = one_span("1" * 32, kind=SpanKind.INTERNAL, attributes={semconv.SHARED: True})

    found = attribution(compiled=True).attributed({}, {}, held([step, one_span("2" * 32)]))

    assert found.steps == {step.trace_id: [step]}
    assert [request.trace_id for request in found.requests] == ["2" * 32]


def test_content_that_was_removed_is_counted_once() -> None:
    said = one_span("1" * 32, attributes={"input.value": "hello", "output.value": "there"})
    odd = replace(one_span("2" * 32, attributes={"input.value": "hello"}), end_ns=0)
    columns = attribution(compiled=True)

    columns.attributed({}, {}, held([said, odd]))

    counted = columns._telemetry.registry.get_sample_value(  # noqa: SLF001
        "latencytrace_service_content_removed_total"
    )
    assert counted == 3


@pytest.mark.parametrize("decoded", ["plainly", "compiled"])
def test_an_attribute_with_a_value_of_its_own_in_each_span_makes_few_shapes(
    decoded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, objects = attribution(compiled=True), attribution(compiled=False)
    if decoded == "plainly":
        monkeypatch.setattr(loading, "_ready", [])
    key = f"score.{decoded}"
    batches = [
        [one_span(f"{at + one:032x}", attributes={key: one / 7}) for one in range(1, 41)]
        for at in range(0, 400, 40)
    ]
    before = len(SHAPES.spans)

    for spans in batches:
        memory = held(spans)
        by_columns = columns.attributed({}, {}, memory)
        assert by_columns.spans == {}
        assert in_order(by_columns) == in_order(objects.attributed({}, {}, memory))

    assert key in SHAPES.learned
    assert len(SHAPES.spans) - before < 100
