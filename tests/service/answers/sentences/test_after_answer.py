"""Sentences on work after an answer."""

from latencytrace.model import Stage
from latencytrace.service.answers.documents import WorkAfterDocument
from latencytrace.service.answers.sentences.after_answer import after_answer, after_answers

MS = 1_000_000


def work(requests: int, **stages_ms: int) -> WorkAfterDocument:
    whole_ns = sum(stages_ms.values()) * MS
    stages = {Stage(stage): length_ms * MS for stage, length_ms in stages_ms.items()}
    return {
        "requests": requests,
        "mean_ns": whole_ns,
        "p50_ns": whole_ns,
        "p95_ns": whole_ns,
        "p99_ns": whole_ns,
        "stages": stages,
    }


def test_a_cohort_says_how_many_went_on_for_how_long_and_with_what() -> None:
    assert after_answers(work(8, remote_model=467, unattributed=13), 8) == (
        "8 of 8 requests went on for 480 ms on average after their answer: "
        "remote_model 467 ms, unattributed 13.0 ms."
    )
    assert after_answers(None, 8) is None


def test_a_request_says_so_too() -> None:
    assert after_answer({Stage.TOOL: 3 * MS}) == (
        "It went on for 3.00 ms after its answer: tool 3.00 ms. No part of the ledger."
    )
    assert after_answer({}) is None


def test_few_stages_are_named() -> None:
    found = work(1, embed=5, retrieve=4, rerank=3, cache=2, tool=1)

    assert (after_answers(found, 2) or "").endswith(
        "embed 5.00 ms, retrieve 4.00 ms, rerank 3.00 ms, cache 2.00 ms, others 1.00 ms."
    )
