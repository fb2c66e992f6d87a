"""What every store promises, whatever keeps it."""

import csv
import io
import itertools
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from pyarrow import parquet

from latencytrace.analysis.columns.objects import requests_of
from latencytrace.cli.commands.breakdown import picture
from latencytrace.model import (
    Attributes,
    AttributeValue,
    Breakdown,
    DurationRange,
    Event,
    FirstTokenOf,
    Link,
    Repair,
    RepairKind,
    Request,
    RequestStatus,
    Segment,
    Span,
    SpanKind,
    Stage,
    StagePart,
    StatusCode,
    TokenRange,
    semconv,
)
from latencytrace.model.cohorts.breakdown import WorkAfter
from latencytrace.model.cohorts.overview import Groups, row_bounds_ns
from latencytrace.model.cohorts.request_columns import (
    NUMBERS,
    UNKNOWN,
    WORDS,
    DurationBand,
    KnownNumbers,
    RequestColumns,
    Words,
)
from latencytrace.model.detail import TraceDetail
from latencytrace.model.texts.escaped import is_blank
from latencytrace.plugins import STORES, plugins
from latencytrace.service.answers import exported
from latencytrace.service.answers.requests import breakdown_document
from latencytrace.service.cohort import LABELS, Cohort
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.otlp.traces import check
from latencytrace.service.store import Order, Questions, Store, TableFormat
from tests.contracts.conftest import EXAMPLES, StoreOpener
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import (
    START_NS,
    columns,
    key_values,
    message,
    one_span,
    otlp,
)
from tests.support.simulation.by_columns import ByColumns
from tests.support.simulation.simulator import Aside, simulate
from tests.support.tables.ledger_tables import tables_of, write
from tests.support.terminal import plain, printed_lines

MINUTE_NS = 60 * 10**9
PLAIN = plain(96)


NAMES = [*(plugin.name for plugin in plugins(STORES)), *EXAMPLES[STORES]]


@pytest.fixture(scope="module", params=NAMES)
def opened(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    open_named: StoreOpener,
) -> Iterator[Store]:
    """One store for all tests of this file: each uses traces and services of its own."""
    store = open_named(request.param, tmp_path_factory.mktemp(request.param))
    yield store
    store.close()


@pytest.fixture
def store(opened: Store) -> Store:
    return opened


def trace_of(name: str) -> str:
    """A trace id of a test's own."""
    return name.encode().hex().ljust(32, "0")[:32]


def one_request(
    name: str,
    *,
    span_id: str = "1" * 16,
    service: str = "",
    route: str = "POST /chat",
    start_ns: int = START_NS,
    ledger: dict[Stage, int] | None = None,
    revision: int = 1,
    outermost: bool = True,
    health: bool = False,
) -> Request:
    ledger = ledger or {Stage.DECODE: 60, Stage.UNATTRIBUTED: 40}
    segments = []
    position_ns = 0
    for stage, length_ns in ledger.items():
        segments.append(
            Segment(
                start_ns=position_ns,
                end_ns=position_ns + length_ns,
                stage=stage,
                span_id=span_id,
                name=f"the {stage}",
            )
        )
        position_ns += length_ns
    return Request(
        trace_id=trace_of(name),
        span_id=span_id,
        outermost=outermost,
        service=service or name,
        instance=None,
        route=route,
        model=None,
        version=None,
        status=RequestStatus.OK,
        start_ns=start_ns,
        duration_ns=position_ns,
        revision=revision,
        health=health,
        ledger=ledger,
        segments=tuple(segments),
    )


# What arrived


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = texts.filter(lambda text: not is_blank(text))  # a blank one is none
fresh = itertools.count(1)  # one store sees all examples

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=6)
    | texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
attributes = st.dictionaries(texts, values, max_size=6)
nanoseconds = st.integers(0, 2**64 - 1)
span_ids = st.integers(1, 2**64 - 1).map("{:016x}".format)
trace_ids = st.integers(1, 2**128 - 1).map("{:032x}".format)
events = st.builds(Event, time_ns=nanoseconds, name=texts, attributes=attributes)
links = st.builds(Link, trace_id=trace_ids, span_id=span_ids, attributes=attributes)
spans = st.builds(
    Span,
    trace_id=st.just(""),
    span_id=span_ids,
    parent_id=st.none() | span_ids,
    name=texts,
    kind=st.sampled_from(SpanKind),
    service=names,
    instance=st.none() | names,
    host=st.none() | names,
    version=st.none() | names,
    scope=texts,
    start_ns=nanoseconds,
    end_ns=nanoseconds,
    status=st.sampled_from(StatusCode),
    attributes=attributes,
    events=st.lists(events, max_size=2).map(tuple),
    links=st.lists(links, max_size=2).map(tuple),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(spans, max_size=4))
def test_what_otlp_encodes_comes_back_equal(store: Store, drawn: list[Span]) -> None:
    sent = [replace(span, trace_id=f"{next(fresh):032x}") for span in drawn]
    store.insert([columns(otlp(*sent))])

    arrived = store.arrived([span.trace_id for span in sent])

    # As text: True is no 1 in it, 1.0 is no 1, and -0.0 is no 0.0.
    assert {trace: repr(spans) for trace, spans in arrived.items()} == {
        span.trace_id: repr((span,)) for span in sent
    }


def test_an_empty_block_is_kept_without_complaint(store: Store) -> None:
    store.insert([columns(b"")])


@pytest.mark.parametrize("more", [{}, {"list": ("x", b"", -0.0)}], ids=["flat", "nested"])
def test_every_type_comes_back_beside_nested_ones_or_not(store: Store, more: Attributes) -> None:
    scalars: Attributes = {"s": "", "b": False, "i": 0, "d": 0.0, "y": b"", "n": None}
    attributes: Attributes = {**scalars, **more, "Y": b"\xff"}
    event = Event(time_ns=1, name="e", attributes=attributes)
    span = replace(one_span(trace_of(f"types {len(more)}")), events=(event,))
    span = replace(span, attributes=attributes)
    store.insert([columns(otlp(span))])

    assert repr(store.arrived([span.trace_id])[span.trace_id]) == repr((span,))


@pytest.mark.parametrize("value", [math.nan, (math.nan, math.inf, -math.inf)], ids=str)
def test_floats_that_are_no_numbers_come_back(store: Store, value: AttributeValue) -> None:
    span = one_span(trace_of(str(value)), attributes={"x": value})
    store.insert([columns(otlp(span))])

    assert repr(store.arrived([span.trace_id])[span.trace_id]) == repr((span,))


def test_maps_come_back_as_json_however_deep(store: Store) -> None:
    trace_id = trace_of("maps")
    request = message([one_span(trace_id)])
    proto = request.resource_spans[0].scope_spans[0].spans[0]
    inner: Attributes = {"ö": ("a", 1, 1.0, True, None, b"\0"), "n": 2}
    outer = proto.attributes.add(key="map").value.kvlist_value.values
    outer.extend(key_values(inner))
    outer.add(key="deep").value.kvlist_value.values.extend(key_values(inner))
    store.insert([columns(request.SerializeToString())])

    (span,) = store.arrived([trace_id])[trace_id]

    text = '"ö":["a",1,1.0,true,null,"AA=="],"n":2'
    deep = "{" + text.replace('"', r"\"") + "}"
    assert span.attributes == {"map": "{" + text + f',"deep":"{deep}"' + "}"}


def test_a_resource_without_service_name_is_an_unknown_service(store: Store) -> None:
    trace_id = trace_of("nameless")
    request = message([one_span(trace_id)])
    request.resource_spans[0].ClearField("resource")
    store.insert([columns(request.SerializeToString())])

    (span,) = store.arrived([trace_id])[trace_id]

    assert (span.service, span.instance, span.version) == ("unknown_service", None, None)


def test_both_halves_of_a_call_with_one_id_come_back(store: Store) -> None:
    trace_id = trace_of("halves")
    client = one_span(trace_id, parent_id="1" * 16, kind=SpanKind.CLIENT)
    server = replace(client, kind=SpanKind.SERVER, service="search", end_ns=client.end_ns - 10)
    store.insert([columns(otlp(client, server))])

    assert set(map(str, store.arrived([trace_id])[trace_id])) == {str(client), str(server)}


def test_a_parent_of_zeros_is_no_parent(store: Store) -> None:
    trace_id = trace_of("zeros")
    store.insert([columns(otlp(one_span(trace_id, parent_id="0" * 16)))])

    assert store.arrived([trace_id])[trace_id][0].parent_id is None


def test_kinds_and_statuses_without_name_are_the_unspecified_ones(store: Store) -> None:
    trace_id = trace_of("kinds")
    request = message([one_span(trace_id)])
    proto = request.resource_spans[0].scope_spans[0].spans[0]
    proto.kind = ProtoSpan.SpanKind.ValueType(99)
    proto.status.code = Status.StatusCode.ValueType(-7)
    store.insert([columns(request.SerializeToString())])

    (span,) = store.arrived([trace_id])[trace_id]

    assert (span.kind, span.status) == (SpanKind.UNSPECIFIED, StatusCode.UNSET)


def test_requests_laid_end_to_end_are_one_block(store: Store) -> None:
    first, second = one_span(trace_of("block 1")), one_span(trace_of("block 2"))
    store.insert([columns(otlp(first) + otlp(second))])

    arrived = store.arrived([first.trace_id, second.trace_id])

    assert arrived == {first.trace_id: (first,), second.trace_id: (second,)}


def test_a_block_sent_again_does_not_double(store: Store) -> None:
    span = one_span(trace_of("again"))
    store.insert([columns(otlp(span))])
    store.insert([columns(otlp(span, span))])

    assert store.arrived([span.trace_id]) == {span.trace_id: (span,)}


@pytest.mark.parametrize(
    ("resource", "host"),
    [
        ({"k8s.node.name": "node-1", "host.id": "i-7", "host.name": "pod-9"}, "node-1"),
        ({"host.id": "i-7", "host.name": "pod-9"}, "i-7"),
        ({"host.name": "pod-9"}, "pod-9"),
        ({}, None),
    ],
    ids=["node", "id", "name", "unknown"],
)
def test_the_host_is_that_of_the_clock(
    store: Store, resource: dict[str, str], host: str | None
) -> None:
    trace_id = trace_of(f"host {host}")
    request = message([one_span(trace_id)])
    request.resource_spans[0].resource.attributes.extend(key_values(resource))
    store.insert([columns(request.SerializeToString())])

    ((arrived,),) = store.arrived([trace_id]).values()

    assert arrived.host == host


def test_what_was_removed_is_marked_and_counted(store: Store) -> None:
    said: Attributes = {
        semconv.EXCEPTION_TYPE: "ValueError",
        semconv.EXCEPTION_MESSAGE: "no such user: Ada",
        semconv.EXCEPTION_STACKTRACE: "in greet('Ada')",
    }
    event = Event(time_ns=1, name=semconv.EXCEPTION_EVENT, attributes=said)
    span = one_span(trace_of("removed"), attributes={"input.value": "hello"})
    store.insert([check(otlp(replace(span, events=(event,))), None, None).columns])

    (kept,) = store.arrived([span.trace_id])[span.trace_id]

    assert kept.attributes == {"input.value": semconv.CONTENT_REMOVED}
    assert kept.events[0].attributes == {
        **dict.fromkeys(said, semconv.CONTENT_REMOVED),
        semconv.EXCEPTION_TYPE: "ValueError",
    }
    assert kept.content_removed == 3


def test_spans_are_counted_as_often_as_they_came(store: Store) -> None:
    span = one_span(trace_of("often"))
    store.insert([columns(otlp(span, span))])

    assert store.arrived_counts([span.trace_id, trace_of("nobody")]) == {span.trace_id: 2}


def test_unknown_traces_have_not_arrived(store: Store) -> None:
    assert store.arrived([trace_of("unknown")]) == {}
    assert store.arrived([]) == {}


# Requests


def test_a_request_comes_back_as_it_was_written(store: Store) -> None:
    request = replace(
        one_request("whole", ledger=dict.fromkeys(Stage, 2**40 + 7)),
        service='it\'s \\ a "ünïcode"\tservice\n',
        instance="pod-1",
        model="llama",
        version="",
        status=RequestStatus.CANCELLED,
        time_to_first_token_ns=1,
        time_to_first_token_of=FirstTokenOf.CALLER,
        model_time_to_first_token_ns=-1,
        time_per_output_token_ns=2**63 - 1,
        input_tokens=-1,  # whatever a sender says
        cached_input_tokens=3,
        output_tokens=4,
        finish_reason="stop",
        batch_size=5,
        queue_depth=3,
        concurrency=7,
        preemptions=0,
        cold_start=False,
        after={Stage.RETRIEVE: 2**40, Stage.UNATTRIBUTED: 3},
        repairs=(
            Repair(kind=RepairKind.ORPHAN, span_id="2" * 16, detail="its parent never came"),
        ),
        attributes=(("tenant", "acme"), ("tenant", 'ünïc\\"ode'), ("", "")),
        attributes_left_out=2**32 - 1,
    )
    write(store, [request], [])

    assert store.request(request.trace_id, None) == request
    assert store.request(request.trace_id, request.span_id) == request
    assert list(store.requests(Cohort(service=request.service), Order.NEWEST, 9)) == [request]


def test_requests_of_a_table_come_back_beside_others(store: Store) -> None:
    traces = {one.trace_id: one.spans for one in simulate(5, 30, {}, Aside())}
    table, _ = ByColumns().table(traces)
    others = [one_request("before"), one_request("revised", revision=2)]
    written = [*others, *requests_of(table)]
    store.write([*tables_of(others), LedgerTable.new(table)], [])

    found = store.written({one.trace_id for one in written})

    def in_order(requests: Sequence[Request]) -> list[Request]:
        return sorted(requests, key=lambda one: (one.trace_id, one.span_id))

    assert in_order(found) == in_order([*others, *requests_of(table)])
    assert len(found) == len(written) > 60


@pytest.mark.parametrize("start_ns", [0, 5_000_000_001, 2**63 - 1, 2**63 + 2**30, 2**64 - 1])
def test_any_start_comes_back(store: Store, start_ns: int) -> None:
    request = one_request(f"t{start_ns}", start_ns=start_ns)
    write(store, [request], [])

    assert store.request(request.trace_id, None) == request


def test_a_start_at_the_edge_of_what_columns_hold_is_kept(store: Store) -> None:
    request = one_request("edge", start_ns=2**63)
    write(store, [request], [])

    assert store.revisions([request.trace_id]) == {(request.trace_id, request.span_id): 1}


def test_the_outermost_request_answers_for_its_trace(store: Store) -> None:
    outer = one_request("inner", span_id="a" * 16, service="inner")
    inner = one_request("inner", span_id="0" * 16, service="inner", outermost=False)
    write(store, [inner, outer], [])

    assert store.request(outer.trace_id, None) == outer
    assert store.request(outer.trace_id, inner.span_id) == inner
    assert store.request(trace_of("nobody"), None) is None


@pytest.mark.parametrize("moved_ns", [0, 7 * 24 * 60 * MINUTE_NS], ids=["in place", "moved"])
def test_the_highest_revision_is_read(store: Store, moved_ns: int) -> None:
    name = f"revised {moved_ns}"
    first = one_request(name)
    second = one_request(
        name, revision=2, start_ns=START_NS + moved_ns, ledger={Stage.PREFILL: 50}
    )
    write(store, [first], [])
    write(store, [second], [])

    assert store.request(first.trace_id, None) == second
    assert store.breakdown(Cohort(service=name)).requests == 1
    assert store.revisions([first.trace_id]) == {(first.trace_id, first.span_id): 2}


def test_of_revisions_written_together_the_highest_is_read(store: Store) -> None:
    first = one_request("revised at once")
    second = one_request("revised at once", revision=2, ledger={Stage.PREFILL: 50})
    write(store, [first, second], [])

    assert store.request(first.trace_id, None) == second
    assert store.written([first.trace_id]) == [second]
    assert store.breakdown(Cohort(service="revised at once")).requests == 1


def test_the_requests_of_traces_are_read_together(store: Store) -> None:
    first, second = one_request("w1"), one_request("w2")
    inner = one_request("w1", span_id="2" * 16, outermost=False)
    revised = replace(second, revision=2)
    write(store, [first, inner, second], [])
    write(store, [revised], [])

    written = store.written([first.trace_id, second.trace_id, trace_of("nobody")])
    assert sorted(written, key=lambda each: (each.trace_id, each.span_id)) == [
        first,
        inner,
        revised,
    ]


def test_a_request_written_again_as_it_was_is_one(store: Store) -> None:
    request = one_request("again")
    write(store, [request], [])
    write(store, [request], [])

    assert store.request(request.trace_id, None) == request
    assert store.breakdown(Cohort(service="again")).requests == 1


def test_requests_come_slowest_or_newest_first(store: Store) -> None:
    slow = one_request("slow", service="order", ledger={Stage.DECODE: 900})
    new = one_request("new", service="order", start_ns=START_NS + 60 * MINUTE_NS)
    write(store, [new, slow], [])

    assert list(store.requests(Cohort(service="order"), Order.SLOWEST, 1)) == [slow]
    assert list(store.requests(Cohort(service="order"), Order.NEWEST, 9)) == [new, slow]


def test_of_equally_slow_requests_ids_decide_whenever_they_began(store: Store) -> None:
    equal = [
        one_request(f"equal {hour}", service="equal", start_ns=START_NS + 60 * hour * MINUTE_NS)
        for hour in range(9)
    ]
    write(store, equal, [])
    by_id = sorted(equal, key=lambda one: one.trace_id)

    for limit in range(1, 10):
        listed = store.requests(Cohort(service="equal"), Order.SLOWEST, limit)
        assert list(listed) == by_id[:limit]


@pytest.mark.parametrize(
    ("cohort", "found"),
    [
        (Cohort(service="cohort"), "abc"),
        (Cohort(service="cohort", route="GET /a"), "a"),
        (Cohort(service="cohort", since_ns=START_NS + 10), "bc"),
        (Cohort(service="cohort", until_ns=START_NS + 10), "a"),
        (Cohort(service="cohort", model="llama"), ""),
        (Cohort(service="cohort' OR '1'='1"), ""),
    ],
    ids=["service", "route", "since", "until", "model", "quotes"],
)
def test_a_cohort_is_what_its_labels_say(store: Store, cohort: Cohort, found: str) -> None:
    write(
        store,
        [
            one_request("a", service="cohort", route="GET /a"),
            one_request("b", service="cohort", start_ns=START_NS + 10),
            one_request("c", service="cohort", start_ns=START_NS + 20, outermost=False),
        ],
        [],
    )

    requests = store.requests(cohort, Order.NEWEST, 9)

    assert {request.trace_id for request in requests} == set(map(trace_of, found))
    assert store.breakdown(cohort).requests == len(found)


@pytest.mark.parametrize(
    ("cohort", "found"),
    [
        (Cohort(status=RequestStatus.TIMEOUT), "d"),
        (Cohort(status="failed"), "d"),
        (Cohort(first_token=DurationRange(at_least_ns=20)), "e"),
        (Cohort(input_tokens=TokenRange(at_least=10)), "de"),
        (Cohort(input_tokens=TokenRange(at_least=11, at_most=99)), "e"),
        (Cohort(output_tokens=TokenRange(at_most=0)), "e"),
        (Cohort(where=(("tenant", "acme"),)), "de"),
        (Cohort(where=(("tenant", "acme"), ("tier", "gold"))), "d"),
        (Cohort(where=(("tenant", "gold"),)), ""),
        (Cohort(where=(("tenant", "it's"),)), "f"),
    ],
    ids=[
        "status",
        "failed",
        "first token",
        "least",
        "between",
        "most",
        "attribute",
        "two",
        "of another key",
        "quotes",
    ],
)
def test_a_cohort_is_what_its_status_tokens_and_attributes_say(
    store: Store, cohort: Cohort, found: str
) -> None:
    acme = ("tenant", "acme")
    write(
        store,
        [
            replace(
                one_request("d", service="asked"),
                status=RequestStatus.TIMEOUT,
                input_tokens=10,
                attributes=(acme, ("tier", "gold")),
            ),
            replace(
                one_request("e", service="asked"),
                time_to_first_token_ns=20,
                time_to_first_token_of=FirstTokenOf.CALLER,
                input_tokens=11,
                output_tokens=0,
                attributes=(("tier", "tin"), acme),
            ),
            replace(one_request("f", service="asked"), attributes=(("tenant", "it's"),)),
        ],
        [],
    )
    cohort = cohort.model_copy(update={"service": "asked"})

    requests = store.requests(cohort, Order.NEWEST, 9)

    assert {request.trace_id for request in requests} == set(map(trace_of, found))
    assert store.breakdown(cohort).requests == store.count(cohort) == len(found)


def test_requests_that_may_have_an_attribute_are_counted_apart(store: Store) -> None:
    acme = (("tenant", "acme"),)
    full = replace(one_request("full", service="full"), attributes_left_out=3)
    health = replace(full, trace_id=trace_of("h"), health=True)
    sure = replace(one_request("sure", service="full"), attributes=acme, attributes_left_out=1)
    other = one_request("other", service="full")
    write(store, [full, health, sure, other], [])

    breakdown = store.breakdown(Cohort(service="full", where=acme))
    whole = store.breakdown(Cohort(service="full"))

    assert (breakdown.requests, breakdown.unsure_left_out) == (1, 1)
    assert breakdown.health_left_out == 0
    assert (whole.requests, whole.unsure_left_out, whole.health_left_out) == (3, 0, 1)


def test_traces_are_found_by_the_beginning_of_their_ids(store: Store) -> None:
    late = START_NS + 60 * MINUTE_NS
    write(store, [one_request("begun a", service="begun")], [])
    write(
        store,
        [
            one_request("begun c", service="begun", start_ns=late),
            one_request("begun a", service="begun", revision=2, start_ns=late),
            one_request("begun a", service="begun", span_id="2" * 16, start_ns=late),
            one_request("begun b", service="begun", health=True),
            one_request("begun b inner", service="begun", outermost=False),
        ],
        [],
    )
    beginning = b"begun ".hex()
    found = [trace_of(f"begun {letter}") for letter in "abc"]

    assert list(store.trace_ids(Cohort(), beginning, 9)) == found
    assert list(store.trace_ids(Cohort(), beginning, 2)) == found[:2]
    assert list(store.trace_ids(Cohort(), trace_of("begun c"), 9)) == found[2:]
    assert list(store.trace_ids(Cohort(until_ns=late), beginning, 9)) == found[1:2]
    assert len(store.trace_ids(Cohort(service="begun"), beginning, 9)) == 4
    assert not store.trace_ids(Cohort(), b"begun d".hex(), 9)


def test_services_and_routes_are_named_once_in_order(store: Store) -> None:
    other = one_request("z1", span_id="2" * 16, route="GET /z")
    write(store, [one_request("z2"), one_request("z1"), other, replace(other, revision=2)], [])

    assert [name for name in store.services() if name.startswith("z")] == ["z1", "z2"]
    assert list(store.routes("z1")) == ["GET /z", "POST /chat"]
    assert "GET /z" in store.routes(None)


@pytest.mark.parametrize("weight", [1, 4])
def test_routes_of_connections_that_stay_open_are_told(store: Store, weight: int) -> None:
    service, minute_ns = f"open {weight}", 60 * 10**9
    made = [  # the last waits as long, for what a stage explains
        ("GET /events", {Stage.UNATTRIBUTED: 9 * minute_ns, Stage.RESPOND: minute_ns}),
        ("GET /events", {Stage.UNATTRIBUTED: minute_ns, Stage.DECODE: minute_ns // 20}),
        ("POST /stuck", {Stage.UNATTRIBUTED: 9 * minute_ns}),
        ("POST /stuck", {Stage.UNATTRIBUTED: 10**9}),
        ("POST /stuck", {Stage.UNATTRIBUTED: 10**9}),
        ("POST /batch", {Stage.DECODE: 9 * minute_ns}),
    ]
    requests = [
        replace(
            made_request(stages=stages),
            trace_id=f"{number + 1:032x}",
            service=service,
            route=route,
            time_to_first_token_ns=None,
            weight=weight,
        )
        for number, (route, stages) in enumerate(made)
    ]
    write(store, requests, [])

    assert list(store.long_lived_routes(Cohort(service=service))) == ["GET /events"]


# The table of ledgers


def rows_of(store: Store, cohort: Cohort) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(store.ledgers(cohort, TableFormat.CSV).decode())))


def test_no_cell_of_a_table_is_a_formula(store: Store) -> None:
    routes = ["=1+2", "+1", "-2", "@SUM(A1)", "\t=1", "\r=1", "'=1", "GET /a-b"]
    write(
        store,
        [
            replace(one_request(f"formula{place}", service="formula"), route=route)
            for place, route in enumerate(routes)
        ],
        [],
    )
    body = store.ledgers(Cohort(service="formula"), TableFormat.CSV)
    cells = [row["route"] for row in csv.DictReader(io.StringIO(body.decode(), newline=""))]
    read = exported.columns_of(body, TableFormat.CSV).route
    whole = exported.columns_of(
        store.ledgers(Cohort(service="formula"), TableFormat.PARQUET), TableFormat.PARQUET
    ).route

    assert sorted(cells) == sorted([*(f"'{route}" for route in routes[:-1]), routes[-1]])
    assert sorted(read.names) == sorted(whole.names) == sorted(routes)


def test_a_table_has_a_row_a_request_and_a_column_a_stage(store: Store) -> None:
    whole = replace(
        one_request("table", start_ns=START_NS + 7, ledger=dict.fromkeys(Stage, 2**40 + 7)),
        route='it\'s, \\ a "ünïcode"\nroute',
        model="llama",
        output_tokens=4,
    )
    first = replace(one_request("t0", service="table"), instance="pod-1", outermost=False)
    write(store, [whole, first], [])

    rows = rows_of(store, Cohort(service="table"))
    assert [row["trace_id"] for row in rows] == [first.trace_id, whole.trace_id]
    assert (rows[1]["route"], rows[1]["model"], rows[1]["instance"]) == (whole.route, "llama", "")
    assert rows[1]["start"] == "2025-11-21T01:53:20.000000007Z"
    assert (rows[1]["output_tokens"], rows[1]["input_tokens"]) == ("4", "")
    assert {f"{stage}_ns": str(2**40 + 7) for stage in Stage}.items() <= rows[1].items()
    assert all(
        sum(int(row[f"{stage}_ns"]) for stage in Stage) == int(row["duration_ns"]) for row in rows
    )


def test_a_table_in_parquet_has_the_same_values_with_their_types(store: Store) -> None:
    write(store, [one_request("parquet", start_ns=START_NS + 7)], [])

    body = store.ledgers(Cohort(service="parquet"), TableFormat.PARQUET)
    table = parquet.read_table(io.BytesIO(body))
    [row] = rows_of(store, Cohort(service="parquet"))
    assert table.column_names == list(row)
    assert table["duration_ns"].to_pylist() == [int(row["duration_ns"])]
    assert table["start"].cast("int64").to_pylist() == [START_NS + 7]
    assert table["model"].to_pylist() == [None]


def test_a_table_holds_the_requests_that_a_list_holds(store: Store) -> None:
    write(
        store,
        [
            one_request("l1", service="listed"),
            one_request("l2", service="listed", health=True, route="GET /health"),
            one_request("l3", service="listed", start_ns=START_NS + 10),
        ],
        [],
    )

    for cohort in (
        Cohort(service="listed"),
        Cohort(service="listed", route="GET /health"),
        Cohort(service="listed", until_ns=START_NS + 10),
        Cohort(service="nobody"),
    ):
        listed = [one.trace_id for one in store.requests(cohort, Order.NEWEST, 9)][::-1]
        assert [row["trace_id"] for row in rows_of(store, cohort)] == listed
        assert store.count(cohort) == len(listed)


# Columns


def decoded(words: Words) -> list[str | None]:
    return [None if number == UNKNOWN else words.names[number] for number in words.number]


def listed(numbers: KnownNumbers) -> list[int | None]:
    pairs = zip(numbers.value.tolist(), numbers.known.tolist(), strict=True)
    return [value if known else None for value, known in pairs]


def as_lists(columns: RequestColumns) -> dict[str, object]:
    """Columns in a form that can be compared."""
    kept = columns.attributes
    return {
        "trace_id": [columns.trace_id_of(row) for row in range(len(columns))],
        "start_ns": columns.start_ns.tolist(),
        "duration_ns": columns.duration_ns.tolist(),
        "stages_ns": columns.stages_ns.tolist(),
        **{name: listed(getattr(columns, name)) for name in NUMBERS},
        **{name: decoded(getattr(columns, name)) for name in WORDS},
        "attributes": kept
        and list(zip(kept.row.tolist(), decoded(kept.key), decoded(kept.value), strict=True)),
    }


def columns_of(*requests: Request, attributes: bool = False) -> dict[str, object]:
    """What the columns of these requests are, in this order."""
    return {
        "trace_id": [one.trace_id for one in requests],
        "start_ns": [one.start_ns for one in requests],
        "duration_ns": [one.duration_ns for one in requests],
        "stages_ns": [[one.ledger.get(stage, 0) for stage in Stage] for one in requests],
        **{name: [getattr(one, name) for one in requests] for name in (*NUMBERS, *WORDS)},
        "attributes": [(row, *pair) for row, one in enumerate(requests) for pair in one.attributes]
        if attributes
        else None,
    }


def described(name: str) -> Request:
    """A request of the service `described` with a value in every column."""
    request = one_request(name, service="described", ledger=dict.fromkeys(Stage, 2**40 + 7))
    return replace(
        request,
        instance="pod-1",
        model='ünïc\\"ode',
        version="",
        status=RequestStatus.TIMEOUT,
        time_to_first_token_ns=1,
        time_per_output_token_ns=2**63 - 1,
        input_tokens=-1,
        cached_input_tokens=0,
        output_tokens=4,
        finish_reason="stop",
        batch_size=5,
        queue_depth=3,
        concurrency=7,
        preemptions=0,
        cold_start=True,
        attributes=(("tenant", "acme"), ("tenant", "ünïcode"), ("", "")),
    )


@pytest.mark.parametrize("attributes", [False, True], ids=["without attributes", "with them"])
def test_columns_say_of_each_request_what_it_says_itself(
    store: Store, *, attributes: bool
) -> None:
    known, bare = described("known"), one_request("bare", service="described")
    later = replace(known, trace_id=trace_of("later"), start_ns=known.start_ns + 9, instance="p2")
    write(store, [later, replace(bare, start_ns=bare.start_ns - 9), known], [])

    columns = store.cohort_columns(Cohort(service="described"), attributes=attributes)

    in_order = (replace(bare, start_ns=bare.start_ns - 9), known, later)
    assert as_lists(columns) == columns_of(*in_order, attributes=attributes)


def test_columns_hold_the_requests_that_a_list_holds(store: Store) -> None:
    write(
        store,
        [
            one_request("n1", service="numbers", ledger={Stage.DECODE: 10}),
            one_request("n2", service="numbers", ledger={Stage.DECODE: 20}),
            one_request("n3", service="numbers", health=True, route="GET /health"),
        ],
        [],
    )
    moved = one_request("n2", service="numbers", start_ns=START_NS + 5, revision=2)
    write(store, [moved], [])

    for cohort in (
        Cohort(service="numbers"),
        Cohort(service="numbers", route="GET /health"),
        Cohort(service="numbers", until_ns=START_NS + 1),
        Cohort(service="nobody"),
    ):
        held = store.requests(cohort, Order.NEWEST, 9)[::-1]
        assert as_lists(store.cohort_columns(cohort)) == columns_of(*held)
        assert sorted(store.durations(cohort).ns) == sorted(one.duration_ns for one in held)
        times = store.times(cohort)
        assert times.start_ns.tolist() == [one.start_ns for one in held]
        assert times.duration_ns.tolist() == [one.duration_ns for one in held]
        assert times.served.tolist() == [one.status is RequestStatus.OK for one in held]


def test_columns_of_bands_hold_those_that_took_so_long(store: Store) -> None:
    requests = [
        one_request(f"band {ns}", service="bands", start_ns=START_NS + ns, ledger={Stage.LOAD: ns})
        for ns in (10, 20, 30, 40)
    ]
    write(store, requests, [])
    cohort = Cohort(service="bands")
    bands = [DurationBand(at_least_ns=20, at_most_ns=30), DurationBand(at_least_ns=40)]

    assert store.cohort_columns(cohort, bands).duration_ns.tolist() == [20, 30, 40]
    assert len(store.cohort_columns(cohort, [])) == 0


def test_means_of_bands_are_over_those_that_took_so_long_also_where_bands_overlap(
    store: Store,
) -> None:
    requests = [
        one_request(
            f"mean {ns}", service="means of bands", ledger={Stage.LOAD: ns, Stage.QUEUE: 1}
        )
        for ns in (10, 20, 30, 40)
    ]
    write(store, requests, [])
    cohort = Cohort(service="means of bands")
    bands = [
        DurationBand(at_least_ns=20, at_most_ns=31),
        DurationBand(at_least_ns=50),
        DurationBand(at_least_ns=31),
    ]

    assert list(store.stage_means(cohort, bands)) == [
        {Stage.LOAD: 25, Stage.QUEUE: 1},
        {},
        {Stage.LOAD: 35, Stage.QUEUE: 1},
    ]
    assert list(store.stage_means(cohort, [])) == []


def test_a_share_of_requests_is_the_same_each_time_and_grows_into_the_whole(store: Store) -> None:
    write(store, [one_request(f"part {number}", service="parts") for number in range(400)], [])
    cohort = Cohort(service="parts")

    def chosen(share_ratio: float) -> set[str]:
        columns = store.cohort_columns(cohort, [DurationBand(share_ratio=share_ratio)])
        return {columns.trace_id_of(row) for row in range(len(columns))}

    assert chosen(0.5) == chosen(0.5)
    assert chosen(0.25) < chosen(0.5) < chosen(1.0)
    assert 120 < len(chosen(0.5)) < 280
    assert len(chosen(1.0)) == 400


@pytest.mark.parametrize("begin", ["", "69a1b2c3"], ids=["random", "the time first"])
def test_each_band_has_its_own_share_whatever_trace_ids_begin_with(
    store: Store, begin: str
) -> None:
    chance = random.Random(7)
    service = f"shares {begin}"
    write(
        store,
        [
            replace(
                one_request(f"{service} {number}", service=service, ledger={Stage.LOAD: ns}),
                trace_id=(begin + chance.randbytes(16).hex())[:32],
            )
            for number, ns in enumerate([10, 20, 30, 30] * 300)
        ],
        [],
    )
    bands = [
        DurationBand(at_most_ns=10, share_ratio=0.1),
        DurationBand(at_least_ns=20, at_most_ns=20, share_ratio=0.4),
        DurationBand(at_least_ns=30, share_ratio=0.5),
    ]
    columns = store.cohort_columns(Cohort(service=service), bands)
    found = np.bincount(columns.duration_ns, minlength=31)

    assert 5 < found[10] < 65  # of 300
    assert 70 < found[20] < 170
    assert 220 < found[30] < 380  # of 600
    assert len({columns.trace_id_of(row) for row in range(len(columns))}) == len(columns)


@pytest.mark.parametrize("begin", ["00000000", "e9a1b2c3"], ids=["zeros", "the time"])
def test_each_sender_has_its_share_where_trace_ids_of_few_do_not_spread(
    store: Store, begin: str
) -> None:
    chance = random.Random(7)
    service = f"senders {begin}"
    write(
        store,
        [
            replace(
                one_request(f"{service} {number}", service=service, ledger={Stage.LOAD: ns}),
                trace_id=((begin if ns == 20 else "") + chance.randbytes(16).hex())[:32],
            )
            for number, ns in enumerate([10] * 1200 + [20] * 40)
        ],
        [],
    )
    half = [DurationBand(share_ratio=0.5)]
    columns = store.cohort_columns(Cohort(service=service), half)
    found = np.bincount(columns.duration_ns, minlength=21)

    assert 450 < found[10] < 750
    assert 5 < found[20] < 35


# The breakdown


def breakdown_of(store: Store, *requests: Request) -> Breakdown:
    write(store, requests, [])
    return store.breakdown(Cohort(service=requests[0].service))


def test_means_add_up_and_quantiles_are_over_those_that_have_the_stage(store: Store) -> None:
    breakdown = breakdown_of(
        store,
        one_request("q1", service="means", ledger={Stage.DECODE: 100}),
        one_request("q2", service="means", ledger={Stage.DECODE: 200, Stage.RUNTIME: 100}),
    )

    decode, runtime = breakdown.stages[0], breakdown.stages[1]
    assert breakdown.duration_ns is not None
    assert breakdown.duration_ns.mean == decode.mean_ns + runtime.mean_ns == 200
    assert (decode.p50_ns, decode.share_ratio, decode.requests) == (150, 0.75, 2)
    assert (runtime.mean_ns, runtime.p50_ns, runtime.requests) == (50, 100, 1)


# Many times what a service believes of a request: few are as much as thousands of long ones.
lengths_ns = st.integers(0, 2**30) | st.integers(0, 2**61)
ledgers = st.dictionaries(st.sampled_from(Stage), lengths_ns, min_size=1, max_size=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(ledgers, min_size=1, max_size=12))
@example(drawn=[{Stage.DECODE: 2**61, Stage.QUEUE: 2**61 - 1}] * 9)  # more than 64 bits hold
def test_the_rows_add_up_however_long_requests_are(
    store: Store, drawn: list[dict[Stage, int]]
) -> None:
    service = f"long {next(fresh)}"
    requests = [one_request(f"l{next(fresh)}", service=service, ledger=ledger) for ledger in drawn]
    mean_ns = sum(one.duration_ns for one in requests) / len(requests)

    breakdown = breakdown_of(store, *requests)
    (route,) = store.overview(Cohort(service=service, since_ns=0), MINUTE_NS, 1).routes

    assert breakdown.duration_ns is not None
    assert breakdown.duration_ns.mean == pytest.approx(mean_ns)
    assert sum(route.mean_ns.values()) == pytest.approx(mean_ns)
    assert [column.mean_ns for column in route.timeline] == pytest.approx([mean_ns])
    shown = picture(service, breakdown_document(breakdown), PLAIN)
    assert "nothing is hidden" in printed_lines(shown, PLAIN)[-2]


def waited(name: str, *parts: tuple[str, int], health: bool = False) -> Request:
    """A request that its process kept waiting, for 100 ns in all."""
    request = one_request(name, service="waits", ledger={Stage.RUNTIME: 100}, health=health)
    ends = itertools.accumulate(length_ns for _, length_ns in parts)
    segments = [
        replace(request.segments[0], name=part, start_ns=end_ns - length_ns, end_ns=end_ns)
        for (part, length_ns), end_ns in zip(parts, ends, strict=True)
    ]
    return replace(request, segments=tuple(segments))


def test_what_the_process_did_is_known_by_name(store: Store) -> None:
    breakdown = breakdown_of(
        store,
        waited(
            "a named wait 1",
            ("event-loop lag", 30),
            ("thread-pool wait", 40),
            ("event-loop lag", 30),
        ),
        waited("a named wait 2", ("event-loop lag", 100)),
        waited("a named wait 3", ("garbage collection", 100), health=True),
        one_request("a named wait 4", service="waits", ledger={Stage.DECODE: 200}),
    )

    decode, runtime = breakdown.stages
    assert decode.parts == ()
    assert runtime.parts == (
        StagePart(name="event-loop lag", mean_ns=160 / 3, share_ratio=0.4, requests=2),
        StagePart(name="thread-pool wait", mean_ns=40 / 3, share_ratio=0.1, requests=1),
    )
    assert sum(part.mean_ns for part in runtime.parts) == pytest.approx(runtime.mean_ns)


@pytest.mark.parametrize("stage", [Stage.APPLICATION, Stage.OTHER])
def test_spans_that_the_user_named_are_known_by_their_names(store: Store, stage: Stage) -> None:
    lengths = {stage: 30, Stage.DECODE: 40, Stage.RUNTIME: 10}
    twice = one_request(f"{stage} twice", service=stage, ledger=lengths)
    own, decode, lag = twice.segments
    parted = (
        replace(own, name="rank_rules", end_ns=10),
        replace(own, name="fetch user", start_ns=10, end_ns=15),
        replace(own, name="rank_rules", start_ns=15, end_ns=30),
    )
    once = one_request(f"{stage} once", service=stage, ledger={stage: 22})
    breakdown = breakdown_of(
        store,
        replace(twice, segments=(*parted, replace(decode, name="rank_rules"), lag)),
        replace(once, segments=(replace(once.segments[0], name="fetch user"),)),
        one_request(f"no {stage}", service=stage, ledger={Stage.DECODE: 40}),
    )

    decoding, runtime, named = breakdown.stages
    assert (decoding.parts, len(runtime.parts)) == ((), 1)
    assert named.parts == (
        StagePart(name="fetch user", mean_ns=27 / 3, share_ratio=27 / 142, requests=2),
        StagePart(name="rank_rules", mean_ns=25 / 3, share_ratio=25 / 142, requests=1),
    )
    assert sum(part.mean_ns for part in named.parts) == pytest.approx(named.mean_ns)


def test_only_the_longest_parts_are_told(store: Store) -> None:
    parts = [(f"part {number}", 100 - number) for number in range(20)]

    breakdown = breakdown_of(store, replace(waited("many", *parts), service="many"))

    (runtime,) = breakdown.stages
    assert [part.name for part in runtime.parts] == [name for name, _ in parts[:8]]


def test_only_stages_that_explain_count_as_attributed(store: Store) -> None:
    explained = {Stage.DECODE: 60}
    unexplained = {stage: 10 for stage in Stage if not stage.explains}

    breakdown = breakdown_of(store, one_request("honest", ledger=explained | unexplained))

    assert breakdown.attributed_ratio == pytest.approx(0.6)
    assert sum(stage.share_ratio for stage in breakdown.stages) == pytest.approx(1)


def test_first_tokens_that_no_caller_got_are_counted_apart(store: Store) -> None:
    streamed, whole = (
        replace(
            one_request(of, service="mixed"), time_to_first_token_ns=1, time_to_first_token_of=of
        )
        for of in FirstTokenOf
    )

    assert breakdown_of(store, streamed, whole).first_tokens_of_model == 1
    (route,) = store.overview(Cohort(service="mixed", since_ns=0), 60 * 10**9, 1).routes
    assert route.first_tokens_of_model == 1


def test_no_request_is_unknown_rather_than_zero(store: Store) -> None:
    assert store.breakdown(Cohort(service="nobody")) == Breakdown(
        requests=0,
        attributed_ratio=None,
        duration_ns=None,
        time_to_first_token_ns=None,
        time_per_output_token_ns=None,
        output_tokens_per_second=None,
        stages=(),
        health_left_out=0,
        reduced_detail_left_out=0,
        max_concurrency=None,
    )


def test_an_instance_that_served_is_known(store: Store) -> None:
    loads = replace(one_request("starting", service="known"), instance="b", startup=True)
    write(store, [replace(one_request("served", service="known"), instance="a"), loads], [])
    write(store, [replace(one_request("nameless", service="known"), instance=None)], [])

    assert {one for one in store.instances() if one[0] == "known"} == {("known", "a")}


def test_a_route_that_turned_out_to_be_a_start_is_none(store: Store) -> None:
    request = one_request("import", service="turned", route="GET")
    write(store, [request], [])
    assert list(store.routes("turned")) == ["GET"]
    write(store, [replace(request, revision=2, route="load", startup=True)], [])

    assert list(store.routes("turned")) == []


def test_what_processes_load_before_they_serve_is_counted_apart(store: Store) -> None:
    load = one_request("loads", service="starts", route="load")
    load = replace(load, startup=True)
    breakdown = breakdown_of(store, one_request("served", service="starts"), load)

    asked = store.breakdown(Cohort(service="starts", route="load"))
    assert (breakdown.requests, breakdown.startup_left_out, breakdown.health_left_out) == (1, 1, 0)
    assert (asked.requests, asked.startup_left_out) == (1, 0)
    assert "load" not in store.routes("starts")


def test_health_routes_are_counted_apart_unless_asked_for(store: Store) -> None:
    health = one_request("healthy", service="health", route="GET /healthz", health=True)
    breakdown = breakdown_of(store, one_request("ill", service="health"), health)

    asked = store.breakdown(Cohort(service="health", route="GET /healthz"))

    assert (breakdown.requests, breakdown.health_left_out) == (1, 1)
    assert (asked.requests, asked.health_left_out) == (1, 0)


def in_every_detail(service: str) -> list[Request]:
    return [
        replace(one_request(f"{service} {detail}", service=service, route="GET /x"), detail=detail)
        for detail in TraceDetail
    ]


def test_requests_without_stages_are_counted_apart_unless_their_detail_is_named(
    store: Store,
) -> None:
    write(store, in_every_detail("reduced"), [])

    whole = store.breakdown(Cohort(service="reduced"))
    routed = store.breakdown(Cohort(service="reduced", route="GET /x"))
    control = store.breakdown(Cohort(service="reduced", detail=TraceDetail.CONTROL))

    assert (whole.requests, whole.reduced_detail_left_out, whole.health_left_out) == (4, 2, 0)
    assert (whole.reduced_requests, control.reduced_requests) == (3, 1)
    assert (routed.requests, routed.reduced_detail_left_out) == (4, 2)
    assert (control.requests, control.reduced_detail_left_out) == (1, 0)


def test_questions_about_stages_leave_out_requests_without_any_and_lists_do_not(
    store: Store,
) -> None:
    write(store, in_every_detail("spared"), [])
    spared = Cohort(service="spared")
    control = Cohort(service="spared", detail=TraceDetail.CONTROL)

    listed = [one.detail for one in store.requests(spared, Order.NEWEST, 100)]

    assert sorted(listed) == sorted(TraceDetail)
    assert store.count(spared) == len(store.times(spared)) == 6
    assert len(store.durations(spared)) == len(store.cohort_columns(spared)) == 4
    assert len(store.ledgers(spared, TableFormat.CSV).splitlines()) == 1 + 4
    assert len(store.durations(control)) == len(store.cohort_columns(control)) == 1
    minute_ns = 60 * 10**9
    of_time = spared.model_copy(update={"since_ns": START_NS})
    (route,) = store.overview(of_time, minute_ns, 10).routes
    (column,) = store.stages_over_time(of_time, minute_ns)
    assert route.requests == column.requests == 4
    assert sum(cell.requests for cell in store.heat_map(of_time, minute_ns)) == 6


def test_a_breakdown_of_all_services_counts_the_outermost_only(store: Store) -> None:
    since_ns = START_NS + 10**15
    outer = one_request("outermost", start_ns=since_ns)
    inner = replace(outer, span_id="2" * 16, service="inner", outermost=False)
    write(store, [outer, inner], [])

    assert store.breakdown(Cohort(since_ns=since_ns, until_ns=since_ns + 1)).requests == 1


def test_what_requests_went_on_with_stands_beside_their_stages(store: Store) -> None:
    going_on = [
        replace(one_request("on 1", service="on"), after={Stage.RETRIEVE: 100, Stage.EMBED: 40}),
        replace(one_request("on 2", service="on"), after={Stage.RETRIEVE: 200}),
    ]
    breakdown = breakdown_of(store, *going_on, one_request("on 3", service="on"))

    assert breakdown.after == WorkAfter(
        requests=2,
        mean_ns=170,
        p50_ns=170,
        p95_ns=197,
        p99_ns=199.4,
        stages=((Stage.RETRIEVE, 150), (Stage.EMBED, 20)),
    )
    assert breakdown.requests == 3
    assert {row.stage for row in breakdown.stages} == {*one_request("on 3").ledger}


def test_requests_are_found_by_how_long_they_went_on(store: Store) -> None:
    going_on = replace(one_request("for long", service="after"), after={Stage.RETRIEVE: 100})
    write(store, [going_on, one_request("not at all", service="after")], [])

    def found(after: DurationRange) -> list[Request]:
        return list(store.requests(Cohort(service="after", after=after), Order.NEWEST, 9))

    assert found(DurationRange(at_least_ns=100)) == [going_on]
    assert found(DurationRange(at_least_ns=101)) == []
    assert len(found(DurationRange(at_most_ns=100))) == 2


def test_tokens_per_second_is_the_mean_over_requests(store: Store) -> None:
    breakdown = breakdown_of(
        store,
        replace(one_request("fast", service="tps"), time_per_output_token_ns=10**7),
        replace(one_request("slower", service="tps"), time_per_output_token_ns=2 * 10**7),
        one_request("none", service="tps"),
    )

    assert breakdown.output_tokens_per_second == pytest.approx(75)


def test_requests_that_touch_are_not_under_way_together(store: Store) -> None:
    breakdown = breakdown_of(
        store,
        *(
            one_request(f"c{offset}", service="touch", start_ns=START_NS + offset)
            for offset in (0, 50, 100, 150)  # of 100 ns each
        ),
    )

    assert breakdown.max_concurrency == 2


# Faster ways


DRAWN = itertools.count()

ATTRIBUTES = [
    *((("tenant", name),) for name in "abc"),
    (("tenant", "b"), ("tenant", "c"), ("tier", "")),
    (("tier", "gold"), ("tenant", "a")),
    (("tier", "gold"),),
    (),
]


def many_requests(chance: random.Random, count: int) -> Iterator[Request]:
    """Requests of one service, of every kind."""
    for number in range(count):
        stages = chance.sample(list(Stage), chance.randint(1, 6))
        yield replace(
            one_request(
                f"way {number}",
                service="ways",
                route=chance.choice(["GET /a", "POST /b"]),
                start_ns=START_NS + chance.randrange(1000) * 10**9,
                ledger={stage: chance.randrange(1, 10**10) for stage in stages},
                outermost=chance.random() < 0.7,
                health=chance.random() < 0.1,
            ),
            startup=chance.random() < 0.1,
            model=chance.choice([None, "llama"]),
            version=chance.choice([None, "1", "2"]),
            time_to_first_token_ns=chance.choice([None, chance.randrange(10**9)]),
            time_to_first_token_of=chance.choice([None, *FirstTokenOf]),
            time_per_output_token_ns=chance.choice([None, 0, chance.randrange(10**8)]),
            input_tokens=chance.choice([None, chance.randrange(100)]),
            attributes=chance.choice(ATTRIBUTES),
            attributes_left_out=chance.choice([0, 2]),
        )


def told(value: object, at: str = "") -> dict[str, object]:
    """Every value in a document, by where it stands."""
    if isinstance(value, Mapping):
        parts: Iterable[tuple[object, object]] = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        return {at: value}
    return {key: one for name, part in parts for key, one in told(part, f"{at}.{name}").items()}


COHORTS = [
    Cohort(service="ways"),
    Cohort(service="ways", route="GET /a"),
    Cohort(service="ways", model="llama", input_tokens=TokenRange(at_most=50)),
    Cohort(service="ways", where=(("tenant", "a"),)),
    Cohort(service="ways", without=(("tenant", "c"), ("model", "llama"), ("status", "error"))),
    Cohort(service="ways", since_ns=START_NS + 100 * 10**9, until_ns=START_NS + 700 * 10**9),
    Cohort(service="ways", since_ns=START_NS + 10**15),
]


BANDS = [
    DurationBand(at_most_ns=10**10),
    DurationBand(at_least_ns=10**9, at_most_ns=2 * 10**10),
    DurationBand(at_least_ns=10**10, share_ratio=0.5),
]


def assert_adds_up(found: Groups, whole: Breakdown) -> None:
    """Hold the parts of a cohort against its breakdown: requests, and the time of each stage."""
    parts = [*found.groups, *filter(None, (found.others, found.without))]
    assert sum(one.requests for one in parts) == whole.requests
    for one in parts:
        assert sum(column.requests for column in one.timeline) == one.requests
    assert (found.others is None) == (found.other_values == 0)
    sums = {
        stage.stage: sum(one.mean_ns.get(stage.stage, 0) * one.requests for one in parts)
        for stage in whole.stages
    }
    assert sums == pytest.approx({one.stage: one.mean_ns * whole.requests for one in whole.stages})


@pytest.mark.long
def test_a_faster_way_answers_as_going_over_the_requests_does(store: Store) -> None:
    chance = random.Random(3)
    first = list(many_requests(chance, 300))
    write(store, first, [])
    # Of a third there is a second revision, some elsewhere; some are withdrawn, some come again.
    second = [
        replace(new, trace_id=old.trace_id, revision=2)
        for old, new in zip(first[::3], many_requests(chance, 100), strict=True)
    ]
    write(store, second, [])
    gone = {(one.trace_id, one.span_id): 1 for one in first[1:60:3]}
    write(store, first[2::9], [], gone)

    for cohort in COHORTS:
        quick, plain = store.breakdown(cohort), Questions.breakdown(store, cohort)
        assert told(asdict(quick)) == pytest.approx(told(asdict(plain)))
        assert store.count(cohort) == Questions.count(store, cohort)
        for order in Order:
            for limit in (1, 7, 1000):
                assert list(store.requests(cohort, order, limit)) == Questions.requests(
                    store, cohort, order, limit
                )
        assert rows_of(store, cohort) == list(
            csv.DictReader(io.StringIO(Questions.ledgers(store, cohort, TableFormat.CSV).decode()))
        )
        for inner in (False, True):
            plain_versions = Questions.versions(store, cohort, inner=inner)
            assert store.versions(cohort, inner=inner) == plain_versions
        assert store.long_lived_routes(cohort) == Questions.long_lived_routes(store, cohort)
        for limit in (1, 100):
            routes = store.breakdowns(cohort, limit)
            plain_routes = Questions.breakdowns(store, cohort, limit)
            assert list(routes.routes) == list(plain_routes.routes)
            assert told(asdict(routes)) == pytest.approx(told(asdict(plain_routes)))
        assert store.stage_means(cohort, BANDS) == Questions.stage_means(store, cohort, BANDS)
        keys = store.attribute_keys(cohort)
        assert list(keys.items()) == list(Questions.attribute_keys(store, cohort).items())
        labels = tuple((label, 2) for label in LABELS) if cohort is COHORTS[0] else ()
        for by, limit in (*labels, ("tenant", 1), ("tier", 9)):
            asked = (cohort.model_copy(update={"since_ns": START_NS}), by, 300 * 10**9, limit)
            grouped, plainly = store.groups(*asked), Questions.groups(store, *asked)
            assert told(asdict(grouped)) == pytest.approx(told(asdict(plainly)))
            if cohort.since_ns is None:
                assert_adds_up(grouped, quick)
    assert store.routes("ways") == Questions.routes(store, "ways")
    assert {one for one in store.services() if one == "ways"} == {"ways"}
    assert store.request(second[0].trace_id, None) == Questions.request(
        store, second[0].trace_id, None
    )


@pytest.mark.long
def test_requests_count_as_many_as_they_stand_for(store: Store) -> None:
    chance = random.Random(4)
    made = [
        replace(
            one,
            trace_id=trace_of(f"weighed {number}"),
            service="weighed" if number % 2 else "each one",
            weight=chance.choice([1, 3, 250, 10**6]) if number % 2 else 1,
        )
        for number, one in enumerate(many_requests(chance, 200))
    ]
    write(store, made, [])
    spans_ns = (START_NS, 200 * 10**9)

    for service in ("weighed", "each one"):
        for more in ({}, {"route": "GET /a"}, {"where": (("tenant", "a"),)}):
            cohort = Cohort(service=service, since_ns=START_NS, **more)
            quick, plain = store.breakdown(cohort), Questions.breakdown(store, cohort)
            assert told(asdict(quick)) == pytest.approx(told(asdict(plain)))
            grouped = store.groups(cohort, "tenant", spans_ns[1], 2)
            assert_adds_up(grouped, quick)
            assert told(asdict(grouped)) == pytest.approx(
                told(asdict(Questions.groups(store, cohort, "tenant", spans_ns[1], 2)))
            )
            assert store.attribute_keys(cohort) == Questions.attribute_keys(store, cohort)
            quickly = store.overview(cohort, spans_ns[1], 3)
            plainly = Questions.overview(store, cohort, spans_ns[1], 3)
            assert told(asdict(quickly)) == pytest.approx(told(asdict(plainly)))
            means = list(map(dict, store.stage_means(cohort, BANDS)))
            assert told(means) == pytest.approx(told(Questions.stage_means(store, cohort, BANDS)))
            heat = Questions.heat_map(store, cohort, spans_ns[1])
            assert list(store.heat_map(cohort, spans_ns[1])) == list(heat)
            over_time = store.stages_over_time(cohort, spans_ns[1])
            assert told([asdict(one) for one in over_time]) == pytest.approx(
                told(
                    [asdict(one) for one in Questions.stages_over_time(store, cohort, spans_ns[1])]
                )
            )
    by_row = Cohort(service="weighed")
    rows = [one for one in made if one.service == "weighed" and one.counts]
    assert store.breakdown(by_row).requests == sum(one.weight for one in rows) > 10**6
    assert len(store.requests(by_row, Order.NEWEST, 1000)) == store.count(by_row) == len(rows)


def test_each_row_says_how_many_requests_it_stands_for(store: Store) -> None:
    requests = [
        replace(
            one_request(f"row {number}", service="rows", ledger={Stage.DECODE: 10 + number}),
            start_ns=START_NS + number,
            weight=weight,
        )
        for number, weight in enumerate([1, 7, 10**6, 1])
    ]
    write(store, requests, [])
    write(store, [one_request("plain", service="plain rows")], [])

    durations = store.durations(Cohort(service="rows"))
    assert durations.weight is not None
    assert durations.requests == 10**6 + 9
    assert sorted(zip(durations.ns.tolist(), durations.weight.tolist(), strict=True)) == [
        (10, 1), (11, 7), (12, 10**6), (13, 1),
    ]  # fmt: skip
    times = store.times(Cohort(service="rows"))
    assert times.weight is not None
    assert times.weight.tolist() == [1, 7, 10**6, 1]
    bands = [DurationBand(at_least_ns=11, at_most_ns=12)]
    columns = store.cohort_columns(Cohort(service="rows"), bands, attributes=True)
    assert columns.weights().tolist() == [7, 10**6]
    plain = Cohort(service="plain rows")
    assert store.durations(plain).weight is store.times(plain).weight is None
    assert store.cohort_columns(plain).weight is None


def test_times_by_weight_are_more_than_64_bits_hold(store: Store) -> None:
    long_ns = 6 * 3600 * 10**9
    one = made_request(stages={Stage.DECODE: long_ns})
    start_ns = START_NS + 4 * 10**15
    heavy = replace(
        one, trace_id=trace_of("long"), service="long", start_ns=start_ns, weight=10**6
    )
    write(store, [heavy], [])
    cohort = Cohort(service="long", since_ns=start_ns - 1)

    (route,) = store.overview(cohort, 10**18, 3).routes

    assert route.requests == 10**6
    assert dict(route.mean_ns) == {Stage.DECODE: long_ns}
    assert [one.mean_ns for one in route.timeline] == [long_ns]
    duration_ns = store.breakdown(cohort).duration_ns
    assert duration_ns is not None
    assert duration_ns.mean == pytest.approx(long_ns)


def test_weights_elsewhere_change_no_digit_of_others(store: Store) -> None:
    chance = random.Random(8)
    start_ns = START_NS + 2 * 10**15
    made = [
        replace(
            made_request(stages={Stage.DECODE: chance.randrange(10**14, 3 * 10**14)}),
            trace_id=trace_of(f"unweighed {number}"),
            service="unweighed",
            start_ns=start_ns + number,
            time_to_first_token_ns=chance.randrange(10**13, 10**14),
        )
        for number in range(1500)
    ]
    cohort = Cohort(service="unweighed", since_ns=start_ns)
    write(store, made, [])
    before = store.breakdown(cohort), store.overview(cohort, 10**18, 3)

    write(store, [replace(made[0], trace_id=trace_of("a weight"), service="y", weight=7)], [])

    after = store.breakdown(cohort), store.overview(cohort, 10**18, 3)
    mean_ns = float(sum(one.duration_ns for one in made)) / len(made)
    assert after[0].duration_ns is not None
    assert after[0].duration_ns.mean == mean_ns  # of whole numbers, as without weights
    assert after[0].duration_ns == before[0].duration_ns
    assert after[0].time_to_first_token_ns == before[0].time_to_first_token_ns
    assert after[1] == before[1]


# Both together


def test_spans_of_kept_traces_are_copied_once(store: Store) -> None:
    span = one_span(trace_of("kept"))
    store.insert([columns(otlp(span, span))])

    write(store, [], [span.trace_id])
    store.keep_noted()
    write(store, [], [span.trace_id])

    assert store.kept_spans(span.trace_id) == (span,)
    store.keep_noted()
    assert store.kept_spans(span.trace_id) == (span,)
    assert store.kept_spans(trace_of("not kept")) == ()


def test_the_spans_of_many_traces_come_at_once_kept_or_not(store: Store) -> None:
    kept, arrived = one_span(trace_of("one kept")), one_span(trace_of("one arrived"))
    store.insert([columns(otlp(kept, arrived))])
    write(store, [], [kept.trace_id])
    store.keep_noted()

    found = store.spans_of([kept.trace_id, arrived.trace_id, trace_of("nobody")])

    assert found == {kept.trace_id: (kept,), arrived.trace_id: (arrived,)}
    assert store.spans_of([]) == {}


def test_kept_spans_are_counted_once_each(store: Store) -> None:
    trace_id = trace_of("counted")
    store.insert([columns(otlp(one_span(trace_id), one_span(trace_id, "2" * 16)))])
    write(store, [], [trace_id])
    write(store, [], [trace_id])

    assert store.kept_counts([trace_id, trace_of("nobody")]) == {trace_id: 2}


def test_a_span_that_came_after_its_trace_was_kept_is_shown(store: Store) -> None:
    span = one_span(trace_of("late"))
    late = one_span(trace_of("late"), "c" * 16)
    store.insert([columns(otlp(span))])
    write(store, [], [span.trace_id])
    store.keep_noted()
    store.insert([columns(otlp(late))])
    write(store, [], [span.trace_id])

    assert set(map(repr, store.kept_spans(span.trace_id))) == {repr(span), repr(late)}
    store.keep_noted()
    assert set(map(repr, store.kept_spans(span.trace_id))) == {repr(span), repr(late)}


def test_spans_that_are_kept_at_once_have_arrived_as_often_as_they_came(store: Store) -> None:
    trace_id = trace_of("kept at once")
    first, second, late = (one_span(trace_id, digit * 16) for digit in "abc")
    block = columns(otlp(first, second, first, one_span(trace_of("another"))))
    store.keep([(block, np.array([0, 1, 2]))])
    store.insert([columns(otlp(late))])

    expected = {repr(first), repr(second), repr(late)}
    assert set(map(repr, store.arrived([trace_id])[trace_id])) == expected
    assert set(map(repr, store.kept_spans(trace_id))) == expected
    assert set(map(repr, store.spans_of([trace_id])[trace_id])) == expected
    assert store.arrived_counts([trace_id, trace_of("another")]) == {trace_id: 4}


def test_spans_that_are_stored_with_their_ledger_are_assembled(store: Store) -> None:
    kept, arrived = one_span(trace_of("with it kept")), one_span(trace_of("with it arrived"))
    store.keep([(columns(otlp(kept)), np.array([0]))], 5_000_000)
    store.insert([columns(otlp(arrived))], 5_000_000)
    write(
        store, [one_request("with it kept"), one_request("with it arrived")], [], age_ns=5_000_000
    )

    assert {kept.trace_id, arrived.trace_id}.isdisjoint(store.unassembled())
    assert store.arrived_counts([arrived.trace_id, kept.trace_id]) == {
        arrived.trace_id: 1,
        kept.trace_id: 1,
    }


def test_traces_with_arrivals_but_no_request_are_unassembled(store: Store) -> None:
    open_span, done = one_span(trace_of("open")), one_span(trace_of("done"))
    store.insert([columns(otlp(open_span, done))])
    write(store, [one_request("done")], [])

    unassembled = store.unassembled()

    assert open_span.trace_id in unassembled
    assert done.trace_id not in unassembled


def test_a_trace_whose_root_came_and_which_has_no_request_is_found(store: Store) -> None:
    began_ns = time.time_ns() - 10**9
    spans = [one_span(trace_of(name)) for name in ("divided", "rooted")]
    below = one_span(trace_of("rootless"), parent_id="9" * 16)
    step = one_span(trace_of("a step"), attributes={semconv.SHARED: True})
    store.insert([columns(otlp(*spans, below, step))])
    write(store, [one_request("divided")], [])
    until_ns = time.time_ns() + 10**9
    ours = {span.trace_id for span in (*spans, below, step)}

    assert ours & set(store.without_ledger(began_ns, until_ns)) == {trace_of("rooted")}
    assert store.without_ledger(until_ns, until_ns + 10**9) == []


# Requests that move, are withdrawn, or were counted


@pytest.mark.parametrize("by_ns", [8_000_000, 3_600 * 10**9], ids=["a little", "an hour"])
def test_a_request_whose_start_moves_is_read_where_it_is_now(store: Store, by_ns: int) -> None:
    first = one_request(f"moves {by_ns}")
    moved = replace(first, start_ns=first.start_ns + by_ns, revision=2)
    back = replace(first, revision=3)
    write(store, [first], [])
    write(store, [moved], [])
    there = store.request(first.trace_id, None)
    write(store, [back], [])

    assert there == moved
    assert store.request(first.trace_id, None) == back
    assert store.count(Cohort(service=first.service)) == 1


def test_what_is_withdrawn_is_withdrawn_once(store: Store) -> None:
    request = one_request("withdrawn")
    write(store, [request], [])

    first = write(store, [], [], {(request.trace_id, request.span_id): 1})
    again = write(store, [], [], store.revisions([request.trace_id]))

    assert (first.withdrawn, again.withdrawn) == (1, 0)
    assert store.count(Cohort(service=request.service)) == 0
    assert store.written([request.trace_id]) == []


def uncounted(store: Store, until_ns: int, *requests: Request) -> list[tuple[int, str, int]]:
    """When those of these requests were written that are to be counted, and their revisions."""
    ours = {request.trace_id for request in requests}
    found = store.uncounted(until_ns)
    return [(at_ns, one.trace_id, one.revision) for at_ns, one in found if one.trace_id in ours]


def test_a_request_that_was_counted_but_whose_count_was_not_kept_is_counted_again(
    store: Store,
) -> None:
    first = one_request("recount")
    key = (first.trace_id, first.span_id)
    before = write(store, [one_request("before")], []).at_ns
    counted_ns = write(store, [first], []).at_ns
    write(store, [replace(first, revision=2)], [], counted=[key])
    last_ns = write(store, [replace(first, revision=3)], [], counted=[key]).at_ns

    assert uncounted(store, before, first) == [(last_ns, first.trace_id, 3)]
    assert uncounted(store, counted_ns, first) == []


def test_a_request_whose_row_was_lost_is_not_counted_again(store: Store) -> None:
    before = store.last_written_ns()
    request = one_request("lost")
    write(store, [request], [], counted=[(request.trace_id, request.span_id)])

    assert uncounted(store, before, request) == []
    assert uncounted(store, 0, request) == []


def test_requests_written_since_a_moment_and_not_counted_before_are_found(store: Store) -> None:
    first, second, counted = map(one_request, ("since 1", "since 2", "since 3"))
    first_ns = write(store, [first], []).at_ns
    second_ns = write(
        store, [second, counted], [], counted=[(counted.trace_id, counted.span_id)]
    ).at_ns
    ours = (first, second, counted)

    assert second_ns > first_ns
    assert uncounted(store, first_ns, *ours) == [(second_ns, second.trace_id, 1)]
    assert [trace_id for _, trace_id, _ in uncounted(store, 0, *ours)] == [
        first.trace_id,
        second.trace_id,
    ]
    assert store.last_written_ns() == second_ns


def test_the_moment_of_a_request_is_that_of_its_last_revision(store: Store) -> None:
    request, never = one_request("when"), one_request("never")
    write(store, [request, one_request("when else")], [])
    revised_ns = write(store, [replace(request, revision=2)], []).at_ns
    write(store, [one_request("when later")], [])

    assert store.written_ns(request) == revised_ns
    assert store.written_ns(never) is None


# Shared steps


def linked(name: str, to: Span | None = None, *, start_ns: int = START_NS) -> Span:
    """A span that links to another, or to none."""
    span = one_span(trace_of(name), trace_of(name)[:16], start_ns=start_ns)
    links = () if to is None else (Link(trace_id=to.trace_id, span_id=to.span_id),)
    return replace(span, end_ns=start_ns + 1000, links=links)


def test_spans_are_found_by_their_places_and_ids_arrived_or_kept(store: Store) -> None:
    kept, arrived, other = linked("place 1"), linked("place 2"), linked("place 3")
    store.insert([columns(otlp(kept, arrived, other))])
    write(store, [], [kept.trace_id])
    places = [(kept.trace_id, kept.span_id), (arrived.trace_id, arrived.span_id)]

    assert set(map(repr, store.spans_at(places))) == {repr(kept), repr(arrived)}
    assert store.spans_at([(kept.trace_id, arrived.span_id)]) == ()
    assert store.spans_at([]) == ()
    assert store.spans_of_id(arrived.span_id) == (arrived,)
    assert store.spans_of_id("e" * 16) == ()


@pytest.mark.parametrize("start_ns", [0, START_NS, 2**63 - 1, 2**63 + 2**30, 2**64 - 1001])
def test_those_that_link_to_a_span_are_found_whenever_it_was(store: Store, start_ns: int) -> None:
    step = linked(f"step{start_ns}", start_ns=start_ns)
    member = linked(f"memb{start_ns}", to=step, start_ns=start_ns)
    elsewhere = Link(trace_id=trace_of("elsewhere"), span_id=step.span_id)
    stranger = replace(linked(f"str{start_ns}", start_ns=start_ns), links=(elsewhere,))
    store.insert([columns(otlp(step, member, stranger))])

    assert store.linking_to(step) == (member,)
    assert store.linking_to(member) == ()


def test_requests_of_traces_are_read_for_who_asks(store: Store) -> None:
    first, second = one_request("ask 1"), one_request("ask 2")
    write(store, [first, second], [])
    write(store, [replace(second, revision=2)], [])

    found = store.requests_of([first.trace_id, second.trace_id, trace_of("nobody")])

    assert sorted(found, key=lambda each: each.trace_id) == [first, replace(second, revision=2)]


def test_routes_stand_side_by_side_those_first_that_took_most(store: Store) -> None:
    minute_ns = 60 * 10**9
    for name, route, start_ns, decode_ns in (
        ("side a", "POST /slow", START_NS, 700),
        ("side b", "POST /slow", START_NS + minute_ns, 900),
        ("side c", "GET /fast", START_NS, 10),
    ):
        one = one_request(
            name,
            service="side",
            route=route,
            start_ns=start_ns,
            ledger={Stage.DECODE: decode_ns, Stage.QUEUE: 100},
        )
        write(store, [replace(one, outermost=route == "POST /slow")], [])
    cohort = Cohort(service="side", since_ns=START_NS)

    found = store.overview(cohort, minute_ns, 1)

    assert found.route_count == 2
    (slow,) = found.routes
    assert (slow.service, slow.route, slow.requests, slow.failed) == ("side", "POST /slow", 2, 0)
    assert (slow.p50_ns, slow.first_token_p50_ns) == (900, None)
    assert slow.mean_ns == {Stage.DECODE: 800, Stage.QUEUE: 100}
    assert [(one.column, one.requests, one.mean_ns) for one in slow.timeline] == [
        (0, 1, 800),
        (1, 1, 1000),
    ]


def test_the_values_of_an_attribute_stand_side_by_side(store: Store) -> None:
    for number, (tenants, decode_ns, left_out) in enumerate(
        (
            (("acme",), 700, 0),
            (("acme", "globex"), 900, 0),
            (("globex",), 3000, 0),
            (("hooli",), 5, 0),
            (("",), 6, 0),
            ((), 40, 0),
            ((), 60, 3),
        )
    ):
        one = one_request(f"by {number}", service="by", ledger={Stage.DECODE: decode_ns})
        attributes = tuple(("tenant", tenant) for tenant in tenants)
        write(store, [replace(one, attributes=attributes, attributes_left_out=left_out)], [])
    cohort = Cohort(service="by", since_ns=START_NS)

    found = store.groups(cohort, "tenant", 60 * 10**9, 2)

    assert [(one.value, one.requests, one.p50_ns) for one in found.groups] == [
        ("globex", 1, 3000),
        ("acme", 2, 800),
    ]
    assert found.others is not None
    assert (found.others.requests, found.other_values) == (2, 2)
    assert found.without is not None
    assert (found.without.requests, found.without.mean_ns) == (2, {Stage.DECODE: 50})
    assert found.unsure == 1
    assert store.attribute_keys(cohort) == {"tenant": 5}


@pytest.mark.long
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(("tenant", "tier")), texts), max_size=3),
            st.sampled_from((None, "llama", "")),
            st.integers(0, 2**40),
            st.integers(1, 50),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 4),
)
def test_each_request_is_in_one_group_whatever_its_values(
    store: Store,
    drawn: list[tuple[list[tuple[str, str]], str | None, int, int]],
    limit: int,
) -> None:
    service = f"drawn {next(DRAWN)}"
    made = [
        replace(
            one_request(f"{service}.{place}", service=service, ledger={Stage.DECODE: length_ns}),
            attributes=tuple(attributes),
            model=model,
            weight=weight,
        )
        for place, (attributes, model, length_ns, weight) in enumerate(drawn)
    ]
    write(store, made, [])
    cohort = Cohort(service=service, since_ns=START_NS)

    whole = store.breakdown(cohort)
    for by in ("tenant", "model"):
        found = store.groups(cohort, by, 60 * 10**9, limit)

        assert_adds_up(found, whole)
        assert len(found.groups) <= limit


def test_stages_over_time_are_the_means_of_those_that_started_then(store: Store) -> None:
    minute_ns = 60 * 10**9
    for name, start_ns, ledger in (
        ("then a", START_NS, {Stage.DECODE: 100, Stage.QUEUE: 10}),
        ("then b", START_NS + minute_ns - 1, {Stage.DECODE: 300}),
        ("then c", START_NS + 2 * minute_ns, {Stage.RETRIEVE: 7}),
    ):
        one = one_request(name, service="then", start_ns=start_ns, ledger=ledger)
        write(store, [one], [])
    cohort = Cohort(service="then", since_ns=START_NS, until_ns=START_NS + 3 * minute_ns)

    found = store.stages_over_time(cohort, minute_ns)

    assert [(one.column, one.requests, one.mean_ns) for one in found] == [
        (0, 2, {Stage.QUEUE: 5, Stage.DECODE: 200}),
        (2, 1, {Stage.RETRIEVE: 7}),
    ]
    assert not store.stages_over_time(cohort.model_copy(update={"service": "none"}), minute_ns)


def test_a_heat_map_counts_each_request_in_the_cell_of_its_duration(store: Store) -> None:
    for number, length_ns in enumerate((1000, 1001, 64_000, 0)):
        one = one_request(
            f"heat {number}",
            service="heat",
            start_ns=START_NS + 60 * 10**9 * (number // 2),
            ledger={Stage.DECODE: length_ns},
        )
        write(store, [one], [])
    cohort = Cohort(service="heat", since_ns=START_NS)

    cells = store.heat_map(cohort, 60 * 10**9)

    assert [(cell.column, cell.requests) for cell in cells] == [(0, 2), (1, 1), (1, 1)]
    for cell, length_ns in zip(cells, (1000, 0, 64_000), strict=True):
        low_ns, high_ns = row_bounds_ns(cell.row)
        assert low_ns <= length_ns < high_ns
        within = DurationRange(at_least_ns=low_ns, at_most_ns=high_ns - 1)
        assert store.count(cohort.model_copy(update={"duration": within})) == cell.requests
