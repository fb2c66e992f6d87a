"""The garbage collector rests while a large answer is made, and never longer."""

import gc
from collections.abc import Iterator

import pytest

from latencytrace.service.answers.traces import waterfall_rows as module
from latencytrace.service.answers.traces.waterfall_rows import CollectionPause


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_nothing_is_collected_until_the_last_one_inside_is_done() -> None:
    pause = CollectionPause()
    seen = []
    with pause:
        with pause:
            seen.append(gc.isenabled())
        seen.append(gc.isenabled())

    assert (seen, gc.isenabled()) == ([False, False], True)


def test_an_answer_that_fails_ends_the_pause() -> None:
    pause = CollectionPause()

    @pause
    def fails() -> None:
        assert not gc.isenabled()
        raise LookupError

    with pytest.raises(LookupError):
        fails()

    assert gc.isenabled()


def test_a_program_that_collects_nothing_is_left_so() -> None:
    gc.disable()
    with CollectionPause():
        pass

    assert not gc.isenabled()


def test_pauses_that_follow_each_other_without_end_are_collected_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LONGEST_S", -1.0)
    collected = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(True))

    pause = CollectionPause()
    with pause:
        for _ in range(2):
            with pause:
                pass

    assert len(collected) == 2
