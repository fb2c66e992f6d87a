"""What tracing costs requests, as a document, in a sentence, and as a finding."""

from dataclasses import replace

import orjson
import pytest
from pydantic import TypeAdapter

from latencytrace.analysis.compare.control import ControlOverhead, Difference, RouteOverhead
from latencytrace.model import Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.service.answers.findings.agents import agent_findings
from latencytrace.service.answers.findings.finding import Finding, Sample, Verdict
from latencytrace.service.answers.findings.overhead import latest_overhead, overhead_document
from latencytrace.service.answers.findings.overhead_documents import (
    OverheadDocument,
    overhead_findings,
)
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.fakes.listed_requests import store_of

MS = 1_000_000
ADDED = Difference(
    difference_ns=0.05 * MS, low_ns=-0.01 * MS, high_ns=0.11 * MS, control_ns=5 * MS
)
DEAR = Difference(difference_ns=1.0 * MS, low_ns=0.9 * MS, high_ns=1.1 * MS, control_ns=5 * MS)


def of(found: Difference | None, control_requests: int = 200) -> ControlOverhead:
    route = RouteOverhead(
        service="rag", route="POST /chat", requests=2_000, control_requests=control_requests,
        found=found,
    )  # fmt: skip
    return ControlOverhead(
        requests=2_000,
        control_requests=control_requests,
        needed_control_requests=None if found else 60,
        found=found,
        routes=[route],
    )


def test_what_is_known_is_said_with_its_interval() -> None:
    document = overhead_document(of(ADDED))

    TypeAdapter(OverheadDocument).validate_json(orjson.dumps(document), strict=True)
    assert (document["difference_ns"], document["low_ns"]) == (50_000, -10_000)
    assert document["sentence"] == (
        "No cost of tracing is proven: 50.0 µs (1 %; 95 %: -10.0 µs to 110 µs), "
        "by 200 requests of the control group."
    )
    assert overhead_document(of(DEAR))["sentence"].startswith("Tracing makes a request 1.00 ms")


def test_too_few_requests_are_not_enough_data_instead_of_a_guess() -> None:
    document = overhead_document(of(None, control_requests=40))

    TypeAdapter(OverheadDocument).validate_json(orjson.dumps(document), strict=True)
    assert document["difference_ns"] is document["low_ns"] is None
    assert "at least 60 more are needed" in document["sentence"]
    assert document["routes"][0]["control_requests"] == 40


@pytest.mark.parametrize(
    ("found", "verdicts"),
    [(of(ADDED), [Verdict.FINE]), (of(DEAR), [Verdict.NOTE]), (of(None, 40), [Verdict.NOTE])],
    ids=["cheap", "dear", "not enough data"],
)
def test_a_doctor_judges_it(found: ControlOverhead, verdicts: list[Verdict]) -> None:
    assert [one.verdict for one in overhead_findings(overhead_document(found))] == verdicts


def test_without_a_control_group_nothing_is_said() -> None:
    assert list(overhead_findings(overhead_document(of(None, control_requests=0)))) == []


def test_what_is_dear_comes_with_what_helps() -> None:
    (finding,) = overhead_findings(overhead_document(of(DEAR)))

    assert finding.fix is not None
    assert "LATENCYTRACE_OVERHEAD" in finding.fix


@pytest.mark.parametrize(
    ("age_s", "said"),
    [
        (None, "spans sent: 0"),
        (12.4, "last report 12 s ago"),
        (130.0, "no report for 130 s: the process has ended, or does not reach the service"),
    ],
)
def test_a_doctor_says_how_old_the_report_of_an_agent_is(age_s: float | None, said: str) -> None:
    rag = {"service": "rag", "agent": "rag-1"}
    about = {**rag, "version": "1.0", "pid": "42", "provider": "ours"}
    found = [Sample(name="latencytrace_agent_info", labels=about, value=1)]
    if age_s is not None:
        name = "latencytrace_agent_report_age_seconds"
        found.append(Sample(name=name, labels=rag, value=age_s))

    (finding,) = agent_findings(found)

    assert finding.what.endswith(said)


def agents(step: float, detail: str = "full", sampling: float = 1.0) -> list[Finding]:
    """The findings about an agent's budget."""
    rag = {"service": "rag", "agent": "rag-1"}
    about = {**rag, "version": "1.0", "pid": "42", "provider": "ours"}
    values = {"overhead_ratio": 0.008, "overhead_budget_ratio": 0.01, "sampling_ratio": sampling}
    samples = [
        Sample(name=f"latencytrace_agent_{name}", labels=rag, value=value)
        for name, value in values.items()
    ]
    samples.append(Sample(name="latencytrace_agent_info", labels=about, value=1))
    steps = {**rag, "detail": detail}
    samples.append(Sample(name="latencytrace_agent_reduction_steps", labels=steps, value=step))
    return [one for one in agent_findings(samples) if one.verdict is Verdict.NOTE]


@pytest.mark.parametrize(
    ("step", "detail", "sampling", "said"),
    [
        (1, "no_runtime_gaps", 1.0, "pauses of the process are not watched for"),
        (3, "no_cheap_calls", 1.0, "the shortest calls are not recorded"),
        (6, "full", 0.125, "one of 8 traces that begin there is recorded"),
        (1, "of a later version", 1.0, "less detail is recorded"),
    ],
)
def test_a_doctor_says_what_an_agent_leaves_out_and_how_to_allow_it_more(
    step: float, detail: str, sampling: float, said: str
) -> None:
    (finding,) = agents(step, detail, sampling)

    assert said in finding.what
    assert "to keep to 1 % of CPU time" in finding.what
    assert "LATENCYTRACE_OVERHEAD" in str(finding.fix)


def test_of_an_agent_with_all_detail_there_is_nothing_to_note() -> None:
    assert agents(0) == []


@pytest.mark.parametrize(
    ("resource", "share", "said"),
    [
        ("cpu", 0.3, ["threads waited for a processor in more than a quarter of the last minute"]),
        ("memory", 0.9, ["threads waited for memory in more than half of the last minute"]),
        ("io", 0.24, []),
        ("of a later version", 1.0, []),
    ],
)
def test_a_doctor_says_what_the_threads_of_a_machine_wait_for(
    resource: str, share: float, said: list[str]
) -> None:
    rag = {"service": "rag", "agent": "rag-1"}
    about = {**rag, "version": "1.0", "pid": "42", "provider": "ours"}
    pressed = {**rag, "resource": resource}

    found = agent_findings(
        [
            Sample(name="latencytrace_agent_info", labels=about, value=1),
            Sample(name="latencytrace_agent_pressure_ratio", labels=pressed, value=share),
        ]
    )

    notes = [one.what.partition(": ")[2] for one in found if one.verdict is Verdict.NOTE]
    assert notes == said


def test_requests_that_a_traced_caller_made_have_their_control_group_too() -> None:
    store = store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 1000 + number}),
                trace_id=f"{number + 1:032x}",
                start_ns=START_NS + number,
                outermost=False,
                detail=TraceDetail.CONTROL if number % 3 == 0 else detail,
            )
            for number in range(600)
            for detail in [TraceDetail.FULL if number % 2 else TraceDetail.NO_RUNTIME_GAPS]
        )
    )

    found = latest_overhead(store, lambda: START_NS + 10**9)

    assert (found["requests"], found["control_requests"]) == (400, 200)
    assert found["sentence"].endswith("by 200 requests of the control group.")


def test_what_is_so_of_many_agents_is_one_line() -> None:
    found = []
    for number in range(4):
        one = {"service": "rag", "agent": f"rag-{number}"}
        about = {**one, "version": "1.0", "pid": "", "provider": "ours"}
        found.append(Sample(name="latencytrace_agent_info", labels=about, value=1))
        found.append(Sample(name="latencytrace_agent_spans_dropped_total", labels=one, value=5))
        for hook, state in (("httpx", "applied"), ("asgi", "applied"), ("redis", "refused")):
            labels = {
                **one,
                "hook": hook,
                "state": state,
                "reason": "too {old}" * (state == "refused"),
            }
            found.append(Sample(name="latencytrace_agent_hook", labels=labels, value=1))

    said = [finding.what.partition(": ") for finding in agent_findings(found)]

    four = "rag (instance rag-0), rag (instance rag-1), rag (instance rag-2) and 1 more"
    assert [(who, what) for who, _, what in said if who == four] == [
        (four, "latencytrace 1.0, spans sent: 0"),
        (four, "spans dropped: 20"),
        (four, "hook redis is not applied: too {old}"),
        (four, "hooks applied: asgi, httpx"),
    ]
    assert len(said) == 4
