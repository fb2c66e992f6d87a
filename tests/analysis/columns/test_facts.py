"""Attributes that vary from span to span, numbered by their texts."""

import random
import struct
from collections.abc import Sequence

import pytest

from latencytrace.analysis.columns.facts import Pairs
from latencytrace.model import AttributeValue
from latencytrace.model.cohorts.cohort import attribute_text

FRACTIONS = (
    0.0, -0.0, 1.0, -2.5, 1e-3, 1e-4, 9.999e-5, 1.234e-5, 1e-5, 1e-6, 5e-324, 1e15, 1e16,
    9999999999999998.0, 1.5e20, 1e22, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip


def any_fractions(seed: int) -> list[float]:
    """Of every size, most of those that programs report."""
    chance = random.Random(seed)  # noqa: S311 - the same ones each time
    found = [chance.uniform(-1, 1) * 10.0 ** chance.uniform(-8, 20) for _ in range(2_000)]
    bits = (chance.getrandbits(64).to_bytes(8, "little") for _ in range(2_000))
    return found + [struct.unpack("<d", one)[0] for one in bits]


@pytest.mark.parametrize(
    "values",
    [
        FRACTIONS,
        any_fractions(1),
        (1, -7, 0, 1 << 62, 7, 1),
        (1, 1.0, True, "1", "1.0", "true", ("a", 1)),
        ("x" * 200, "x" * 128, ""),
        (),
    ],
    ids=["fractions", "any fractions", "numbers", "of several kinds", "texts", "none"],
)
@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "partly known"])
def test_attributes_are_numbered_by_the_text_that_they_are_asked_for_by(
    values: Sequence[AttributeValue],
    is_known: bool,  # noqa: FBT001 - a case
) -> None:
    before = Pairs()
    if is_known:
        before.numbers("score", values[::2])
    pairs = Pairs(before)

    numbers = pairs.numbers("score", values)

    texts = list(map(attribute_text, values))
    assert pairs.at(numbers) == tuple(("score", text) for text in texts)
    assert len(set(numbers)) == len(set(texts))
