"""Attributes beyond a limit: which of them goes."""

from latencytrace.agent.spans.attributes import drop_oldest, limited
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
