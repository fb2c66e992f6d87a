"""What `doctor` says of event loops and workers that are held while requests wait."""

import pytest

from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.answers.findings.counted import held_findings
from latencytrace.service.answers.findings.finding import Verdict
from tests.support.builders.documents import MS, breakdown_document


def waited_for(name: str, share_ratio: float) -> BreakdownDocument:
    document = breakdown_document(queue=64 * MS, decode=36 * MS)
    queue = document["stages"][0]
    queue["parts"] = [
        {"name": name, "mean_ns": 64 * MS, "share_ratio": share_ratio, "requests": 4}
    ]
    return document


@pytest.mark.parametrize("where", ["event loop", "worker"])
def test_what_holds_a_thread_while_requests_wait_is_named_with_what_helps(where: str) -> None:
    (finding,) = held_findings(waited_for(f"{where} held by GET /slow", 0.64))

    assert finding.verdict is Verdict.NOTE
    assert finding.what.endswith(f"64.0 % of their time unread: {where} held by GET /slow")
    assert finding.fix


@pytest.mark.parametrize(
    ("name", "share_ratio"),
    [("event loop held by GET /slow", 0.01), ("worker.py:88 semaphore", 0.64)],
)
def test_short_waits_and_those_for_other_things_are_not_its_concern(
    name: str, share_ratio: float
) -> None:
    assert list(held_findings(waited_for(name, share_ratio))) == []


def test_where_nothing_queued_there_is_nothing_to_say() -> None:
    assert list(held_findings(breakdown_document(decode=MS))) == []
