"""Calls when an object is dropped."""

import gc
from functools import partial

from latencytrace.agent.toolkit import drops
from latencytrace.agent.toolkit.drops import when_dropped


class Held:
    """Something that a program holds; it is equal to everything of its kind, and has no hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held)

    __hash__ = None  # type: ignore[assignment]


def test_each_object_is_told_apart_from_its_equals() -> None:
    dropped: list[int] = []
    held = [Held() for _ in range(3)]
    for number, one in enumerate(held):
        when_dropped(one, partial(dropped.append, number))

    del held[1], one
    gc.collect()

    assert dropped == [1]
    held.clear()
    gc.collect()
    assert sorted(dropped) == [0, 1, 2]


def test_nothing_is_kept_of_what_was_dropped() -> None:
    before = len(drops._awaited)

    for _ in range(100):
        when_dropped(Held(), lambda: None)

    gc.collect()
    assert len(drops._awaited) <= before


def test_what_is_in_a_circle_is_dropped_by_the_collector() -> None:
    dropped: list[str] = []
    held = Held()
    held.itself = held  # type: ignore[attr-defined]
    when_dropped(held, partial(dropped.append, "circle"))

    del held
    gc.collect()

    assert dropped == ["circle"]
