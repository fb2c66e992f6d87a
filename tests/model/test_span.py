"""The values of the model are frozen."""

from dataclasses import FrozenInstanceError

import pytest

from tests.support.builders.spans.trees import span


def test_a_span_cannot_be_changed() -> None:
    original = span("search", 0, 10)

    with pytest.raises(FrozenInstanceError):
        original.end_ns = 20  # type: ignore[misc]  # that is what the test is about
