"""Parts that are made when they are first asked for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from latencytrace.agent.process.late import Late
from tests.support.waiting import PATIENCE_S


def test_it_is_made_once_whoever_asks_and_not_before() -> None:
    made: list[object] = []
    asking = threading.Barrier(2, timeout=PATIENCE_S)

    def make() -> object:
        made.append(object())
        return made[-1]

    late = Late(make)
    assert late.made is None
    assert made == []

    def ask() -> object:
        asking.wait()
        return late()

    with ThreadPoolExecutor(2) as threads:
        found = [each.result() for each in [threads.submit(ask), threads.submit(ask)]]

    assert found == [*made, *made]
    assert late.made is made[0]


def test_what_could_not_be_made_is_tried_again() -> None:
    failures = [OSError("not yet")]

    def make() -> str:
        if failures:
            raise failures.pop()
        return "made"

    late = Late(make)
    with pytest.raises(OSError, match="not yet"):
        late()

    assert late.made is None
    assert late() == "made"
