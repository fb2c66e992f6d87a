"""Spans of traces within blocks."""

import numpy as np
import pytest

from latencytrace.model import Span
from latencytrace.service.ledgers import span_parts
from latencytrace.service.ledgers.span_parts import in_few_blocks
from latencytrace.service.otlp.traces import check
from tests.support.builders.spans.otlp_messages import one_span, otlp


def test_what_is_kept_is_joined_unless_most_of_its_block_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(span_parts, "_JOINED_SPANS", 6)
    blocks = [check(otlp(*spans_of(number)), None, None).columns for number in range(5)]
    rows = [np.arange(4), np.array([1]), np.array([3, 0]), np.arange(4), np.arange(4)]

    found = list(in_few_blocks(list(zip(blocks, rows, strict=True))))

    assert [block.count for block, _ in found] == [4, 8, 8]
    kept = [span for block, chosen in found for span in block.spans(chosen)]
    expected = [
        span for block, chosen in zip(blocks, rows, strict=True) for span in block.spans(chosen)
    ]
    assert sorted(kept, key=str) == sorted(expected, key=str)


def spans_of(number: int) -> list[Span]:
    return [one_span(f"{number + 1:032x}", f"{at + 1:016x}", name=f"{at}") for at in range(4)]
