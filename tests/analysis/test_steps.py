"""Thousands of steps share the line of what they are steps of."""

from collections.abc import Callable
from dataclasses import replace

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Request, Span, Stage
from tests.support.builders.spans.trees import root, span
from tests.support.work import growth

STEPS = 5_000


def sglang(name: str, start_ns: int, end_ns: int, parent: str, id_: str | None = None) -> Span:
    made = span(id_ or name, start_ns, end_ns, parent=parent)
    return replace(made, name=name, scope="sglang server")


def only(*spans: Span, end_ns: int) -> Request:
    (request,) = requests_of([root(end_ns), *spans], {})
    return request


def decode_steps(count: int) -> list[Span]:
    return [
        sglang("decode_forward", 0, 10 * STEPS, "root"),
        *(
            sglang("decode_loop", 10 * n, 10 * n + 9, "decode_forward", f"step {n}")
            for n in range(count)
        ),
    ]


def test_thousands_of_decode_steps_are_one_segment() -> None:

    request = only(*decode_steps(STEPS), end_ns=10 * STEPS)

    assert [(one.stage, one.name) for one in request.segments] == [
        (Stage.DECODE, "decode_forward")
    ]


def test_twice_as_many_steps_are_twice_the_work() -> None:
    def divided(count: int) -> Callable[[], Request]:
        steps = decode_steps(count)
        return lambda: only(*steps, end_ns=10 * STEPS)

    assert growth(divided, 400) < 2.5


def test_a_step_without_a_stage_has_that_of_the_span_above() -> None:
    forward = sglang("prefill_forward", 0, 100, "root")
    launch = sglang("run_batch_cpu", 20, 60, "prefill_forward")

    request = only(forward, launch, end_ns=100)

    assert request.ledger == {Stage.PREFILL: 100}
    assert len(request.segments) == 1


def test_a_step_of_another_stage_keeps_its_line() -> None:
    forward = sglang("decode_forward", 0, 100, "root")
    again = sglang("chunked_prefill", 20, 60, "decode_forward")

    request = only(forward, again, end_ns=100)

    assert request.ledger == {Stage.DECODE: 60, Stage.PREFILL: 40}
    assert [one.name for one in request.segments] == [
        "decode_forward",
        "chunked_prefill",
        "decode_forward",
    ]
