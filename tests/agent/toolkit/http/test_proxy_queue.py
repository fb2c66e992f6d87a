"""Headers that say when a front proxy took a request."""

import pytest

from latencytrace.agent.toolkit.http import proxy_queue
from latencytrace.agent.toolkit.http.proxy_queue import queued_ns

NOW_NS = 1_763_690_000_500_000_000


@pytest.fixture(autouse=True)
def at_a_known_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_queue, "system_ns", lambda: NOW_NS)


@pytest.mark.parametrize(
    "header",
    ["t=1763690000.123", "1763690000.123", "1763690000123", "t=1763690000123000",
     "1763690000123000000", " t=1763690000.123000 "],
    ids=["nginx", "seconds", "Heroku", "Apache", "nanoseconds", "blanks"],
)  # fmt: skip
def test_every_proxys_unit_is_understood(header: str) -> None:
    assert queued_ns(header) == 377_000_000


@pytest.mark.parametrize(
    "header",
    ["", "t=", "soon", "t=-5", "12", "1e9", "9" * 60, "t=1763690000.5.5.", "\u0661" * 13,
     "1763690001500", "1763600000000"],
)  # fmt: skip
def test_what_cannot_be_is_unknown(header: str) -> None:
    assert queued_ns(header) is None
