"""uWSGI without threads: refused aloud. Its module stands for itself here: new ones have them."""

import logging
import sys
from types import ModuleType

import pytest

from latencytrace.agent import start
from latencytrace.agent.start import agent_status, instrument
from tests.support.servers.nowhere import NOWHERE


@pytest.fixture
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uWSGI before it had threads by default, in a worker."""
    uwsgi = ModuleType("uwsgi")
    vars(uwsgi).update(has_threads=0, worker_id=lambda: 1, masterpid=lambda: 1)
    monkeypatch.setitem(sys.modules, "uwsgi", uwsgi)
    monkeypatch.setattr(start, "_obstacle", None)


@pytest.mark.usefixtures("without_threads")
def test_without_threads_nothing_is_traced_and_the_log_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        instrument(endpoint=NOWHERE)
        instrument(endpoint=NOWHERE)

    assert len(caplog.messages) == 1
    assert "start it with --enable-threads" in caplog.messages[0]
    assert not agent_status().running
    assert "--enable-threads" in (agent_status().obstacle or "")
