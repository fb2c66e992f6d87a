"""What a front proxy held back began when it took it."""

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import SpanKind, Stage, semconv
from tests.support.builders.spans.trees import root, span

FIRST = semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK
SECOND_NS = 1_000_000_000


def test_the_wait_for_the_application_is_queue() -> None:
    held_back = root(attributes={semconv.QUEUED_NS: 30, semconv.INTERVALS: "respond:90+10"})

    (request,) = requests_of([held_back, span("search", 10, 20, stage=Stage.RETRIEVE)], {})

    assert (request.start_ns, request.duration_ns) == (-30, 130)
    assert request.ledger == {
        Stage.QUEUE: 30, Stage.UNATTRIBUTED: 80, Stage.RETRIEVE: 10, Stage.RESPOND: 10,
    }  # fmt: skip


def test_the_first_token_was_waited_for_from_there() -> None:
    held_back = root(10 * SECOND_NS, attributes={semconv.QUEUED_NS: 2 * SECOND_NS, FIRST: 1.5})

    (request,) = requests_of([held_back], {})

    assert request.time_to_first_token_ns == 3_500_000_000


def test_a_traced_caller_saw_it_as_part_of_his_call() -> None:
    call = span("call", 0, 100, parent=None, kind=SpanKind.CLIENT, service="web")
    server = span(
        "serve", 50, 90, parent="call", kind=SpanKind.SERVER, attributes={semconv.QUEUED_NS: 30}
    )

    outer, inner = requests_of([call, server], {})

    assert outer.ledger[Stage.QUEUE] == inner.ledger[Stage.QUEUE] == 30
    assert (outer.duration_ns, inner.duration_ns) == (100, 70)


@pytest.mark.parametrize("rubbish", [-5, 0, 10**15, "soon", 2.5, True])
def test_rubbish_is_no_wait(rubbish: object) -> None:
    (request,) = requests_of([root(attributes={semconv.QUEUED_NS: rubbish})], {})  # type: ignore[dict-item] # rubbish

    assert request.duration_ns == 100
