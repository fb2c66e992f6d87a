"""What the page of health says of the service and of its agents."""

from math import inf

import pytest

from latencytrace.service.answers.findings.finding import Sample
from latencytrace.service.web.pages.health import AgentRow, facts, groups, state
from latencytrace.service.web.pages.pace import Said

NOW_NS = 1_763_690_000 * 10**9
DAY_S = 86_400
WELL = Said(per_s="1,204", received=10_000, waiting_bytes=0, lost=0)


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name=name, labels=labels, value=value)


def agent(instance: str, service: str = "rag", version: str = "1", **more: object) -> AgentRow:
    fields = {"service": service, "instance": instance, "version": version, "process": "7"}
    return AgentRow(**{**fields, **more})  # type: ignore[arg-type] # any field may be given


@pytest.mark.parametrize(
    ("unready", "faults", "received", "said"),
    [
        (None, 0, 0, "Ready; no span has arrived since it started"),
        (None, 0, 9, "Ready; nothing is lost"),
        (None, 2, 9, "2 faults: what to do stands below"),
        ("the disk is full", 2, 9, "Not ready: the disk is full"),
    ],
)
def test_the_worst_is_said_first(
    unready: str | None, faults: int, received: int, said: str
) -> None:
    assert state(unready, faults, received) == said


def test_the_service_says_how_long_it_runs_what_arrives_and_what_it_keeps() -> None:
    began_s = NOW_NS / 1e9
    samples = [
        sample("process_start_time_seconds", began_s - 2 * DAY_S),
        sample("latencytrace_service_open_traces", 3),
        sample("latencytrace_service_store_bytes", 1e9, table="spans"),
        sample("latencytrace_service_store_bytes", 2e8, table="requests"),
        sample("latencytrace_service_store_limit_bytes", 20e9),
        sample("latencytrace_service_store_full_seconds", 12 * DAY_S),
        sample(
            "latencytrace_service_store_oldest_timestamp_seconds", began_s - DAY_S, table="spans"
        ),
    ]

    assert dict(facts(samples, WELL, NOW_NS)) == {
        "Up for": "2 d 00 h",
        "Arriving": "1,204 spans/s",
        "Waiting": "nothing; 3 traces open",
        "Lost": "none",
        "Disk": "1.20 GB of 20.0 GB; full in 12 d 00 h, then the oldest are dropped",
        "Oldest day": "spans 2025-11-20 (1 d)",
    }


@pytest.mark.parametrize(
    ("limit_bytes", "full_s", "said"),
    [
        (inf, inf, "1.00 GB, without a limit"),
        (20e9, inf, "1.00 GB of 20.0 GB; never full at this pace"),
        (20e9, None, "1.00 GB of 20.0 GB; a forecast needs a whole day"),
    ],
)
def test_a_disk_that_never_fills_says_so(
    limit_bytes: float, full_s: float | None, said: str
) -> None:
    samples = [
        sample("latencytrace_service_store_bytes", 1e9, table="spans"),
        sample("latencytrace_service_store_limit_bytes", limit_bytes),
    ]
    if full_s is not None:
        samples.append(sample("latencytrace_service_store_full_seconds", full_s))

    assert dict(facts(samples, WELL, NOW_NS))["Disk"] == said


def test_agents_of_one_service_and_version_are_one_row() -> None:
    old = agent("c", version="0")
    two = [
        agent("a", sent=5, hooked=["httpx", "qdrant"]),
        agent("b", sent=7, hooked=["httpx"], not_hooked=[("vllm", "too old")]),
    ]

    first, second = groups([*two, old])

    assert (first.agents, second.agents) == ([old], two)
    assert second.sum("sent") == 12
    assert second.hooked == ["httpx", "qdrant (1 of 2)"]
    assert second.not_hooked == ["vllm: too old (1 of 2)"]


def test_the_agent_that_takes_most_of_its_budget_speaks_for_its_row() -> None:
    calm, busy = agent("a", took=0.004, budget=0.01), agent("b", took=0.009, budget=0.01)

    assert groups([busy, calm])[0].busiest is busy
