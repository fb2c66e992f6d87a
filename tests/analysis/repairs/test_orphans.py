"""Spans whose parent never arrived hang where they plausibly ran; truth in ms."""

from dataclasses import replace

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import RepairKind, Span, SpanKind, Stage, StatusCode, Trace, semconv
from tests.support.builders.spans.trees import ROOT, root, span

CLIENT, SERVER = SpanKind.CLIENT, SpanKind.SERVER
GATEWAY = replace(root(330), service="gateway")
CALL = span(
    "call",
    1,
    329,
    kind=CLIENT,
    service="gateway",
    attributes={semconv.HTTP_REQUEST_METHOD: "POST"},
)
DECODE = span("decode", 41, 298, parent="lost", stage=Stage.DECODE)


def built(*spans: Span) -> Trace:
    return build_traces(spans)[0]


def test_a_lost_server_span_leaves_its_work_to_the_call_that_nobody_answered() -> None:
    found = requests_of([GATEWAY, CALL, DECODE], {})[0]

    truth = {Stage.DECODE: 257, Stage.NETWORK: 328 - 257, Stage.UNATTRIBUTED: 2}
    assert found.ledger == truth
    assert [repair.kind for repair in found.repairs] == [RepairKind.ORPHAN]
    assert found.repairs[0].detail == "its parent lost is not there; hung below call"


def test_a_call_that_another_service_answered_takes_no_orphans() -> None:
    served = span("served", 10, 320, parent="call", kind=SERVER, service="embedder")

    assert built(GATEWAY, CALL, served, DECODE).spans["decode"].parent_id == "served"
    elsewhere = replace(DECODE, service="other")
    assert built(GATEWAY, CALL, served, elsewhere).spans["decode"].parent_id != "call"


def test_orphans_of_one_lost_parent_stay_together() -> None:
    log = span("log", 290, 400, parent="lost", stage=Stage.DATABASE)  # outlives the answer
    queue = span("queue", 20, 41, parent="lost", stage=Stage.QUEUE)

    found = built(GATEWAY, CALL, DECODE, log, queue)

    assert {found.spans[one].parent_id for one in ("decode", "log", "queue")} == {"call"}


def test_a_span_of_the_orphans_own_process_comes_first() -> None:
    served = span("served", 10, 320, parent="call", kind=SERVER)
    endpoint = span("endpoint", 12, 318, parent="served")
    lease = span("lease", 30, 317, parent="served", stage=Stage.CACHE)

    found = built(GATEWAY, CALL, served, endpoint, lease, DECODE)

    assert found.spans["decode"].parent_id == "endpoint"


def test_another_process_of_the_same_service_is_not_the_orphans_own() -> None:
    parallel = span("parallel", 5, 325, kind=SERVER, parent="second")
    second = span("second", 3, 328, kind=CLIENT, service="gateway")
    there = replace(DECODE, instance="rag-2")

    found = built(GATEWAY, CALL, second, replace(parallel, instance="rag-1"), there)

    assert found.spans["decode"].parent_id == "call"


def test_of_calls_that_nobody_answered_the_one_that_names_the_service_is_taken() -> None:
    named = {semconv.SERVER_ADDRESS: "rag", semconv.HTTP_REQUEST_METHOD: "POST"}
    other = span("other", 10, 320, kind=CLIENT, service="gateway")

    found = built(GATEWAY, replace(CALL, attributes=named), other, DECODE)

    assert found.spans["decode"].parent_id == "call"


def test_each_of_two_calls_gets_the_orphans_of_one_lost_server_span() -> None:
    second = replace(CALL, span_id="second", name="second", start_ns=2)
    more = span("more", 50, 200, parent="lost too", stage=Stage.PREFILL, service="prefiller")

    found = built(GATEWAY, CALL, second, DECODE, more)

    assert {found.spans[one].parent_id for one in ("decode", "more")} == {"call", "second"}


def test_a_caller_that_gave_up_may_have_caused_what_goes_on() -> None:
    gave_up = replace(CALL, end_ns=50, status=StatusCode.ERROR)

    assert built(GATEWAY, gave_up, DECODE).spans["decode"].parent_id == "call"


def test_a_call_that_was_answered_with_an_error_has_not_given_up() -> None:
    code = {semconv.HTTP_RESPONSE_STATUS_CODE: 503}
    answered = replace(CALL, end_ns=50, status=StatusCode.ERROR, attributes=code)

    assert built(GATEWAY, answered, DECODE).spans["decode"].parent_id != "call"


def test_the_server_span_of_a_lost_call_hangs_where_its_caller_worked() -> None:
    retrieval = span("retrieval", 20, 90, stage=Stage.RETRIEVE)
    embed = span("embed", 21, 40, parent="retrieval", stage=Stage.EMBED)
    served = span("served", 45, 85, parent="lost", kind=SERVER, service="vectors")

    assert built(root(), retrieval, embed, served).spans["served"].parent_id == "retrieval"


def test_the_work_of_a_lost_consumer_is_its_messages() -> None:
    send = span("send", 10, 12, kind=SpanKind.PRODUCER, service="gateway")

    found = requests_of([GATEWAY, send, DECODE], {})[0]

    truth = {Stage.QUEUE: 2 + 29, Stage.DECODE: 257, Stage.UNATTRIBUTED: 42}
    assert found.ledger == truth


def test_a_clock_that_nothing_else_compares_is_set_by_the_only_call_there_is() -> None:
    hour_ns = 3_600_000
    late = [
        replace(one, start_ns=one.start_ns + hour_ns, end_ns=one.end_ns + hour_ns, host="worker")
        for one in (DECODE, span("queue", 20, 41, parent="lost", stage=Stage.QUEUE))
    ]

    found = requests_of([GATEWAY, CALL, *late], {})[0]

    assert found.ledger[Stage.DECODE] == 257
    assert found.ledger[Stage.QUEUE] == 21
    kinds = {repair.kind for repair in found.repairs}
    assert kinds == {RepairKind.ORPHAN, RepairKind.CLOCK_SKEW}


def test_a_server_span_below_an_orphan_is_no_request_while_the_root_may_come() -> None:
    served = span("served", 10, 320, parent="call", kind=SERVER)
    call = replace(CALL, parent_id="lost")

    assert build_traces([call, served]) == ()


def test_a_server_span_below_an_orphan_is_a_request_once_the_root_will_not_come() -> None:
    served = span("served", 10, 320, parent="call", kind=SERVER)
    work = span("work", 20, 310, parent="lost too", stage=Stage.DECODE)
    spans = [replace(CALL, parent_id="lost"), served, work]

    (found,) = build_traces(spans, rootless=True)

    assert (found.root.span_id, found.outermost, sorted(found.spans)) == (
        "served", True, ["served", "work"],
    )  # fmt: skip
    told = [(repair.kind, repair.span_id) for repair in found.repairs]
    assert told == [(RepairKind.ORPHAN, "work"), (RepairKind.ROOTLESS, "served")]


def test_where_the_root_has_come_its_absence_is_not_believed() -> None:
    spans = [root(), span("search", 10, 20, parent="lost")]

    assert build_traces(spans, rootless=True) == build_traces(spans)


def test_an_orphan_that_nothing_ran_around_hangs_below_a_request() -> None:
    late = span("late", 400, 500, parent="lost", service="gateway")

    assert built(GATEWAY, CALL, late).spans["late"].parent_id == ROOT
