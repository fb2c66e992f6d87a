"""What services sent by OpenTelemetry's own SDK is what metrics, breakdowns and the store say."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.model import Stage
from tests.support.programs.agreement import (
    Sent,
    System,
    Told,
    disagreements,
    sent_by,
    told_by,
    wait_until_counted,
)
from tests.support.servers.running_service import RunningService

SETTLE_S = "30"  # many times as long as the slowest of them waits, on any machine

pytestmark = pytest.mark.long

TWO = System(services=["gpu"], requests=40, per_s=40, schedule_ms={"gateway": 100, "gpu": 600})
THREE = System(
    services=["search", "gpu"],
    requests=40,
    per_s=40,
    schedule_ms={"gateway": 300, "search": 100, "gpu": 700},
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with RunningService(tmp_path / "data", env={"LATENCYTRACE_SETTLE": SETTLE_S}) as service:
        yield service


@pytest.mark.parametrize("system", [TWO, THREE], ids=["two services", "three services"])
def test_all_answers_agree_with_what_was_sent(
    system: System, service: RunningService, tmp_path: Path
) -> None:
    sent = sent_by(system, service.otlp, tmp_path)

    assert {one.key[0] for one in sent} == {"gateway", *system.services}
    assert len(sent) == system.requests * (1 + len(system.services))
    wait_until_counted(service, sent)
    told = told_by(service, sent)
    assert disagreements(told, sent) == []
    _assert_others_would_be_seen(told, sent)


def _assert_others_would_be_seen(told: Told, sent: list[Sent]) -> None:
    """One request fewer, one of another length, one in another stage: each is seen everywhere."""
    one = next(one for one in sent if Stage.DECODE in one.ledger and not one.outermost)
    rest = [other for other in sent if other is not one]
    moved = {**one.ledger, Stage.RERANK: one.ledger[Stage.DECODE]}
    del moved[Stage.DECODE]
    for wrong in (
        rest,
        [*rest, replace(one, duration_ns=one.duration_ns + 10**9)],
        [*rest, replace(one, ledger=moved)],
    ):
        found = disagreements(told, wrong)
        assert any(line.startswith("store") for line in found), "the store"
        assert any(line.startswith("breakdown") for line in found), "the breakdown"
        assert any(line.startswith("latencytrace_") for line in found), "the metrics"
