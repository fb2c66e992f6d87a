"""Attributes beyond a limit: which of them goes."""

from collections.abc import Callable
from functools import reduce

import pytest

from latencytrace.agent.spans.attributes import copied_attributes, drop_oldest, limited
from latencytrace.model import AttributeValue


def test_the_oldest_goes_first_and_one_of_ours_last() -> None:
    attributes: dict[str, AttributeValue] = {"latencytrace.stage": "decode", "a": 1, "b": 2}
    left = []
    while attributes:
        drop_oldest(attributes)
        left.append(list(attributes))

    assert left == [["latencytrace.stage", "b"], ["latencytrace.stage"], []]


def test_one_without_a_key_is_never_kept() -> None:
    kept, dropped = limited({"a": 1, "": 2, "b": 3}, 2, 100)

    assert (kept, dropped) == ({"a": 1, "b": 3}, 1)


@pytest.mark.parametrize("wrapped", [lambda it: [it], lambda it: {"in": it}], ids=["list", "map"])
def test_what_lies_deeper_than_eight_values_in_each_other_is_left_out(
    wrapped: Callable[[object], object],
) -> None:
    def nested(depth: int, innermost: object) -> object:
        return reduce(lambda it, _: wrapped(it), range(depth), innermost)

    whole, too_deep = copied_attributes({"whole": nested(8, 1), "too deep": nested(9, 1)}).values()

    empty = type(wrapped(1))()
    assert plainly(whole) == nested(8, 1)
    assert plainly(too_deep) == nested(7, empty)


def plainly(value: object) -> object:
    """A copied value with lists where it has tuples."""
    if isinstance(value, dict):
        return {key: plainly(one) for key, one in value.items()}
    return [plainly(one) for one in value] if isinstance(value, tuple) else value
