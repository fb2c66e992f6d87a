"""The doctor says what traces lack, whoever sent them."""

import pytest

from latencytrace.service.answers.findings.agents import sender_findings
from latencytrace.service.answers.findings.finding import samples

REQUESTS = """
latencytrace_requests_total{service="shop",status="ok"} 150
latencytrace_requests_total{service="search",status="ok"} 50
"""


def findings(more: str) -> list[str]:
    return [one.what for one in sender_findings(samples(REQUESTS + more))]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("clock_skew", "requests whose senders' clocks seem to differ: 27 of 200"),
        ("orphan", "requests with a span whose parent never came: 27 of 200"),
        ("rootless", "requests whose caller's span never came: 27 of 200"),
    ],
)
def test_what_many_traces_lack_is_a_note(kind: str, what: str) -> None:
    said = findings(f'latencytrace_service_repaired_requests_total{{kind="{kind}"}} 27')

    assert said == [what]


@pytest.mark.parametrize(("kind", "number"), [("orphan", 2), ("clipped", 200)])
def test_what_a_restart_or_asynchronous_work_does_is_none(kind: str, number: int) -> None:
    said = findings(f'latencytrace_service_repaired_requests_total{{kind="{kind}"}} {number}')

    assert said == []


def test_spans_that_no_request_holds_are_named() -> None:
    said = findings("latencytrace_service_spans_rootless 4")

    assert said == ["spans of traces without a request so far: 4"]
