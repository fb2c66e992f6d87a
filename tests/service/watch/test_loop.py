"""Objectives are watched while the service runs."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from latencytrace.errors import PluginError
from latencytrace.model import Alert
from latencytrace.service.alerting.amendments import Amendments
from latencytrace.service.alerting.outbox import Outbox
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.evaluator import Evaluator
from latencytrace.service.watch import Watch, open_sink
from tests.support.builders.notices import LINKS
from tests.support.builders.traffic import GOOD, SLOW, Traffic
from tests.support.fakes.contracts import FakeClock, RecordingSink
from tests.support.tables.ledger_tables import tables_of


def watch_of(traffic: Traffic, sink: RecordingSink) -> Watch:
    clock = FakeClock(traffic.wall())
    outbox = Outbox({"it": sink}, LINKS, traffic.memory, clock, clock, lambda: 1.0)
    return Watch(traffic.evaluator, traffic.memory, outbox, Amendments(clock))


def test_it_counts_to_the_last_moment(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    watch = watch_of(traffic, RecordingSink())
    watch.start()
    traffic.one()
    watch.close()
    traffic.start()

    assert traffic.evaluator.standings()[0].total == 1


def test_it_says_whether_it_runs(tmp_path: Path) -> None:
    watch = watch_of(Traffic(tmp_path), RecordingSink())
    before = watch.is_running
    watch.start()
    while_running = watch.is_running
    watch.close()

    assert (before, while_running, watch.is_running) == (False, True, False)


def test_what_began_is_kept_before_it_is_told(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    sink = RecordingSink()
    sink.refuses = True
    watch = watch_of(traffic, sink)
    traffic.run(60, tick_s=60)
    for _ in range(6):
        traffic.move(60)
        for _ in range(300):
            traffic.one(SLOW)
        watch.step()

    [notice] = traffic.memory.notifications()
    assert (notice.transition, notice.sink) == ("began", "it")


def test_a_fault_of_ours_does_not_stop_the_dividing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fault(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(Evaluator, "count", fault)
    settled = Settled(tables=tables_of([GOOD]), until_ns=1)
    watch_of(Traffic(tmp_path), RecordingSink()).count(settled)

    assert "requests were not counted for objectives" in caplog.text


def test_a_sink_that_is_not_installed_is_refused_with_those_that_are() -> None:
    with pytest.raises(PluginError, match="installed: alertmanager, log, slack, webhook"):
        open_sink("pager", "http://127.0.0.1")


def test_who_is_told_first_knows_before_sinks_do(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    sink = RecordingSink()
    sink.refuses = True
    clock = FakeClock(traffic.wall())
    outbox = Outbox({"it": sink}, LINKS, traffic.memory, clock, clock, lambda: 1.0)
    seen: list[tuple[str, int]] = []

    def changed(alerts: Iterable[Alert]) -> None:
        seen.extend((one.fingerprint, len(traffic.memory.notifications())) for one in alerts)

    watch = Watch(traffic.evaluator, traffic.memory, outbox, Amendments(clock), changed=changed)
    traffic.run(60, tick_s=60)
    for _ in range(6):
        traffic.move(60)
        for _ in range(300):
            traffic.one(SLOW)
        watch.step()

    [notice] = traffic.memory.notifications()
    assert seen == [(notice.alert["fingerprint"], 0)]
