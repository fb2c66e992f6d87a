"""Traces that memory holds become the same requests by columns as by objects."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from latencytrace.analysis.columns.facts import Facts
from latencytrace.analysis.columns.requests import attributed
from latencytrace.analysis.repairs.implausible import WEEK_NS, Plausible
from latencytrace.model import Attributes, Request, Span, SpanKind, Stage, semconv
from latencytrace.model.span_batch import SpanBatch
from latencytrace.service.ledger_table import each_request
from latencytrace.service.ledgers import column_attribution
from latencytrace.service.ledgers.attribution import Attributed, Attribution
from latencytrace.service.ledgers.column_attribution import ColumnAttribution
from latencytrace.service.ledgers.posts import Posts
from latencytrace.service.ledgers.span_parts import Parts
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import batches, scanner
from latencytrace.service.otlp.shapes import SHAPES, RenewedShapes
from latencytrace.service.otlp.traces import check
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.compiled import COMPILED
from tests.support.fakes.contracts import FakeClock
from tests.support.few import few
from tests.support.simulation.simulator import simulate
from tests.support.simulation.ways import WAYS

pytestmark = COMPILED

S = 1_000_000_000
BEGAN_NS = 1_763_690_000 * S


def attribution(*, compiled: bool, longest_ns: int = WEEK_NS) -> Attribution:
    columns = ColumnAttribution(longest_ns=longest_ns, is_used=compiled)
    return Attribution(Telemetry(), lambda _: False, columns=columns)


def held(spans: Sequence[Span]) -> Mapping[str, Parts]:
    memory = Posts()
    half = len(spans) // 2
    for part in (spans[:half], spans[half:]):
        checked = check(otlp(*part), None, None)
        memory.add(checked.columns, checked.rows)
    return {one.trace_id: memory.parts(one.trace_id) for one in spans}


def requests(found: Attributed) -> list[Request]:
    return list(each_request(found.tables))


def in_order(found: Attributed) -> list[Request]:
    return sorted(requests(found), key=lambda request: (request.trace_id, not request.outermost))


@pytest.mark.parametrize("way", few(6, WAYS))
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

    [table] = found.tables
    assert len(table) == 100
    assert found.spans == {}
    assert found.spans == {}


def test_what_a_process_did_before_it_served_is_its_load_by_columns_too() -> None:
    serving = one_span("1" * 32, start_ns=BEGAN_NS + 10 * S, end_ns=BEGAN_NS + 11 * S)
    loading = one_span(
        "2" * 32, kind=SpanKind.CLIENT, name="GET", start_ns=BEGAN_NS + S, end_ns=BEGAN_NS + 5 * S
    )
    later = one_span(
        "3" * 32,
        kind=SpanKind.CLIENT,
        name="GET",
        start_ns=BEGAN_NS + 20 * S,
        end_ns=BEGAN_NS + 25 * S,
    )

    found = attribution(compiled=True).attributed({}, {}, held([serving, loading, later]))

    assert {one.trace_id[0]: one.startup for one in requests(found)} == {
        "1": False, "2": True, "3": False,
    }  # fmt: skip
    assert [one.ledger for one in requests(found) if one.startup] == [{Stage.LOAD: 4 * S}]
    assert found.spans == {}


def test_a_trace_that_turns_out_to_be_of_starting_up_is_attributed_again() -> None:
    loading = one_span(
        "2" * 32, kind=SpanKind.CLIENT, name="GET", start_ns=BEGAN_NS + S, end_ns=BEGAN_NS + 5 * S
    )
    serving = one_span("1" * 32, start_ns=BEGAN_NS + 10 * S, end_ns=BEGAN_NS + 11 * S)
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
    assert [request.trace_id for request in requests(found)] == ["2" * 32]


def test_content_that_was_removed_is_counted_once() -> None:
    said = one_span("1" * 32, attributes={"input.value": "hello", "output.value": "there"})
    odd = replace(one_span("2" * 32, attributes={"input.value": "hello"}), end_ns=0)
    columns = attribution(compiled=True)

    columns.attributed({}, {}, held([said, odd]))

    counted = columns._telemetry.registry.get_sample_value(
        "latencytrace_service_content_removed_total"
    )
    assert counted == 3


@pytest.mark.parametrize("decoded", ["plainly", "compiled"])
def test_values_of_its_own_in_each_span_make_no_shapes(
    decoded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, objects = attribution(compiled=True), attribution(compiled=False)
    if decoded == "plainly":
        monkeypatch.setattr(scanner, "core", None)
    spans = [
        one_span(f"{one:032x}", name=f"step {one}", attributes={f"key {one}": one, "id": f"{one}"})
        for one in range(1, 41)
    ]
    columns.attributed({}, {}, held(spans[:1]))
    before = len(SHAPES.latest.spans)

    memory = held(spans)
    by_columns = columns.attributed({}, {}, memory)

    assert by_columns.spans == {}
    assert in_order(by_columns) == in_order(objects.attributed({}, {}, memory))
    assert len(SHAPES.latest.spans) == before


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("longest_s", "went_on_s"), [(5, 3), (2, 0)])
def test_what_goes_on_for_longer_than_is_believed_is_no_work_of_a_request(
    longest_s: int, went_on_s: int, *, compiled: bool
) -> None:
    spans = [
        one_span("a" * 32, start_ns=BEGAN_NS, end_ns=BEGAN_NS + S),
        one_span("a" * 32, "b" * 16, start_ns=BEGAN_NS + 3 * S, end_ns=BEGAN_NS + 4 * S),
    ]
    spans[1] = replace(spans[1], parent_id=spans[0].span_id, kind=SpanKind.INTERNAL)

    found = attribution(compiled=compiled, longest_ns=longest_s * S).attributed(
        {}, {}, held(spans)
    )

    [request] = requests(found)
    assert request.after_ns == went_on_s * S


def test_a_flood_of_shapes_costs_others_nothing_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(S)
    shapes = RenewedShapes(6, clock)
    for module in (scanner, batches):
        monkeypatch.setattr(module, "SHAPES", shapes)
    columns, objects = attribution(compiled=True), attribution(compiled=False)
    spans = [one_span(f"{one:032x}", name=f"Tokenizer {one}") for one in range(1, 9)]
    others = [
        one_span(f"{one:032x}", kind=kind) for one, kind in enumerate(list(SpanKind)[:4], 11)
    ]
    known, flood, late = held(spans[:2]), held(spans[2:]), held(others)

    assert columns.attributed({}, {}, known).spans == {}
    assert columns.attributed({}, {}, flood).spans.keys() == {one.trace_id for one in spans[6:]}
    assert columns.attributed({}, {}, late).spans.keys() == late.keys()

    clock.move_s(60)
    fresh = held([replace(one, trace_id=f"9{one.trace_id[1:]}") for one in others])
    mixed = {**late, **fresh, **known}  # decoded before, and since then

    found = columns.attributed({}, {}, mixed)

    assert found.spans == {}
    assert in_order(found) == in_order(objects.attributed({}, {}, mixed))


def test_traces_that_make_columns_fail_are_attributed_as_objects_and_no_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faulty, whole = ("3" * 32, "7" * 32), attributed

    def fail(batch: SpanBatch, facts: Facts, plausible: Plausible) -> object:
        if not set(faulty).isdisjoint(batch.trace_ids):
            raise TypeError("an array of items of 1 bytes, not of 8")
        return whole(batch, facts, plausible)

    monkeypatch.setattr(column_attribution, "attributed", fail)
    columns = attribution(compiled=True)

    found = columns.attributed({}, {}, held([one_span(digit * 32) for digit in "123456789"]))

    assert found.spans.keys() == set(faulty)
    assert len(requests(found)) == 9
    assert [ways(columns, by) for by in ("columns", "objects", "fault")] == [7, 0, 2]
    assert "as objects" in caplog.text


def test_a_batch_that_fails_although_no_trace_does_is_attributed_as_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = attributed

    def fail(batch: SpanBatch, facts: Facts, plausible: Plausible) -> object:
        if len(batch.trace_ids) > 1:
            raise MemoryError
        return whole(batch, facts, plausible)

    monkeypatch.setattr(column_attribution, "attributed", fail)
    columns = attribution(compiled=True)

    found = columns.attributed({}, {}, held([one_span(digit * 32) for digit in "12"]))

    assert len(requests(found)) == 2
    assert ways(columns, "fault") == 2


def ways(columns: Attribution, by: str) -> float | None:
    """How many traces went one way."""
    registry = columns._telemetry.registry
    name = "latencytrace_service_attributed_traces_total"
    return registry.get_sample_value(name, {"by": by})


def test_it_is_counted_which_way_traces_go() -> None:
    odd = replace(one_span("2" * 32), end_ns=0)
    columns = attribution(compiled=True)

    columns.attributed({}, {}, held([one_span("1" * 32), one_span("3" * 32), odd]))

    assert ways(columns, "columns") == 2
    assert ways(columns, "objects") == 1
