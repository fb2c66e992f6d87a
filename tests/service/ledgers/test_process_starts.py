"""What a process does before it serves is its load, whenever that is known."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from latencytrace.model import Span, SpanKind, Stage, semconv
from latencytrace.service.ledger_table import each_request
from latencytrace.service.ledgers.attribution import Attributed, Attribution
from latencytrace.service.ledgers.process_starts import MAX_PENDING, ProcessStarts, served_by
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.spans.otlp_messages import one_span

MS = 1_000_000
START_NS = 1_795_000_000_000_000_000


def span(
    number: int, kind: SpanKind, at_ms: int, instance: str | None = "chat-1", **attributes: str
) -> Span:
    """The root of a trace of 10 ms."""
    made = one_span(
        f"{number:032x}",
        f"{number:016x}",
        name="GET",
        kind=kind,
        start_ns=START_NS + at_ms * MS,
        end_ns=START_NS + (at_ms + 10) * MS,
        attributes={key.replace("_", "."): value for key, value in attributes.items()},
    )
    return replace(made, service="chat", instance=instance)


DOWNLOAD = span(1, SpanKind.CLIENT, 0, http_request_method="GET")
SERVED = span(2, SpanKind.SERVER, 1000)
JOB = span(3, SpanKind.INTERNAL, 2000)


@pytest.fixture
def attribution() -> Attribution:
    return Attribution(Telemetry(), lambda _: False)


def divided(attribution: Attribution, *spans: Span) -> Attributed:
    return attribution.attributed({one.trace_id: [one] for one in spans}, {})


def routes(found: Attributed) -> list[tuple[str, bool]]:
    return [(one.route, one.startup) for one in each_request(found.tables)]


def test_what_came_with_the_first_request_is_divided_as_load(attribution: Attribution) -> None:
    found = divided(attribution, DOWNLOAD, SERVED, JOB)

    assert routes(found) == [("load", True), ("GET", False), ("GET", False)]
    load = next(each_request(found.tables))
    assert load.ledger == {Stage.LOAD: 10 * MS}
    assert [one.stage for one in load.segments] == [Stage.LOAD]
    assert not load.counts


def test_what_came_before_the_first_request_is_divided_again(attribution: Attribution) -> None:
    before = divided(attribution, DOWNLOAD)
    found = divided(attribution, SERVED)
    again = divided(attribution, DOWNLOAD)

    assert (routes(before), before.starts) == ([("GET", False)], [])
    assert found.starts == [DOWNLOAD.trace_id]
    assert (routes(again), again.starts) == ([("load", True)], [])


def test_a_program_that_serves_nobody_has_requests_all_the_same(attribution: Attribution) -> None:
    assert routes(divided(attribution, DOWNLOAD, JOB)) == [("GET", False), ("GET", False)]


def test_another_process_of_the_service_is_another_start(attribution: Attribution) -> None:
    other = replace(SERVED, instance="chat-2")

    assert routes(divided(attribution, other, DOWNLOAD)) == [("GET", False), ("GET", False)]


def test_where_no_instance_is_told_nothing_is_said(attribution: Attribution) -> None:
    spans = [replace(one, instance=None) for one in (DOWNLOAD, SERVED)]

    assert routes(divided(attribution, *spans)) == [("GET", False), ("GET", False)]


def test_a_job_of_a_process_that_an_earlier_service_knew_is_no_start() -> None:
    attribution = Attribution(Telemetry(), lambda _: False, lambda: [("chat", "chat-1")])

    assert routes(divided(attribution, DOWNLOAD, SERVED)) == [("GET", False), ("GET", False)]


def test_a_root_of_stage_load_is_the_load_of_its_process(attribution: Attribution) -> None:
    loads = span(4, SpanKind.INTERNAL, 0, latencytrace_stage="load")

    assert semconv.STAGE in loads.attributes
    assert routes(divided(attribution, loads)) == [("load", True)]


def test_what_the_agent_saw_before_a_server_could_serve_is_load_at_once(
    attribution: Attribution,
) -> None:
    told = replace(DOWNLOAD, attributes={**DOWNLOAD.attributes, semconv.STARTUP: True})

    assert routes(divided(attribution, told)) == [("load", True)]


def test_as_many_processes_as_are_remembered_may_not_have_served_yet() -> None:
    starts = ProcessStarts(most=1)

    assert not starts.is_start(DOWNLOAD)
    assert starts.served(served_by([SERVED])) == [DOWNLOAD.trace_id]


def test_what_is_remembered_is_bounded() -> None:
    starts = ProcessStarts(most=2)
    roots: Sequence[Span] = [span(number, SpanKind.CLIENT, 0) for number in range(MAX_PENDING + 9)]
    assert not any(starts.is_start(one) for one in roots)
    assert len(starts.served(served_by([SERVED]))) == MAX_PENDING

    for number in range(9):
        starts.served(served_by([replace(SERVED, instance=f"chat-{number}")]))
    assert not starts.is_start(DOWNLOAD)  # forgotten, so that nothing is said
