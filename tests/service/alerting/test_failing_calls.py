"""The failing call is looked up in the store, not at every evaluation, and may be unknown."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from latencytrace.errors import StoreError
from latencytrace.model import BadRequest, RequestStatus, Span, StatusCode
from latencytrace.service.alerting.amendments import AGAIN_NS, FailingCalls
from tests.support.builders.made_requests import SPAN, TRACE
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.fakes.contracts import FakeClock

FAILED = BadRequest(
    trace_id=TRACE, span_id=SPAN, status=RequestStatus.ERROR, duration_ns=1, ledger={}
)


class Spans:
    """A store that knows one trace, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails: Exception | None = None

    def __call__(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        """Answer for any trace."""
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        call = one_span(span_id="00000000000000aa", parent_id=SPAN, name="search")
        return {trace_id: (replace(call, status=StatusCode.ERROR),) for trace_id in trace_ids}


def test_it_is_looked_up_once_in_a_while_for_each_objective() -> None:
    spans, clock = Spans(), FakeClock()
    find = FailingCalls(spans, clock)
    names = [found.name for _ in range(3) if (found := find("chat", [FAILED]))]
    find("other", [FAILED])
    clock.move_s(AGAIN_NS / 1e9)
    find("chat", [FAILED])

    assert names == ["search"] * 3
    assert spans.asked == 3


@pytest.mark.parametrize(
    "fault", [StoreError("it is busy"), KeyError("it is busy")], ids=["busy", "at fault"]
)
def test_a_store_that_cannot_answer_leaves_it_unknown(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    spans = Spans()
    spans.fails = fault

    assert FailingCalls(spans, FakeClock())("chat", [FAILED]) is None
    assert "it is busy" in caplog.text
