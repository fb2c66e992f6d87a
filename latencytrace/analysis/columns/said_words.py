"""Words that spans say: the model that they call, the reason why an answer ended."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.keys import CODES
from latencytrace.analysis.columns.request_table import Words
from latencytrace.analysis.tokens.counts import Said, meant
from latencytrace.model import AttributeValue
from latencytrace.model.span_batch import SpanBatch

_Column = NDArray[np.int64]


class SaidWords:
    """The word that each span says, if it says one.

    Args:
        codes: (n,): of each its place among the values; below 0: it says none.
        values: They may come twice.
    """

    def __init__(self, codes: _Column, values: list[AttributeValue]) -> None:
        self.codes = codes
        self._values = values

    @classmethod
    def of(cls, batch: SpanBatch, said: Said) -> Self:
        """The words of attributes."""
        carried = batch.carried
        found = cls(np.full(len(batch.span_id), -1, np.int64), [])
        for key in reversed(said.keys):  # the first ones win
            places = np.flatnonzero(carried.code == CODES[key])
            _, first, which = np.unique(
                carried.number[places] * 16 + carried.kind[places],
                return_index=True, return_inverse=True,
            )  # fmt: skip
            values = [meant(carried.value(place)) for place in places[first].tolist()]
            says = np.array([value is not None for value in values], np.bool_)[which]
            found.codes[carried.row[places[says]]] = len(found._values) + which[says]
            found._values += values
        return found

    def put(self, row: int, value: AttributeValue) -> None:
        """Let a span say something else; None: nothing."""
        self.codes[row] = -1 if value is None else len(self._values)
        self._values.append(value)

    def text(self, row: int) -> str | None:
        """The word of a span."""
        code = int(self.codes[row])
        return None if code < 0 else str(self._values[code])

    def of_rows(self, rows: _Column) -> Words:
        """The words of spans; of a row below 0: none."""
        codes = np.where(rows < 0, -1, self.codes[np.maximum(rows, 0)])
        distinct, places = np.unique(codes, return_inverse=True)
        values: Sequence[str | None] = [
            None if code < 0 else str(self._values[code]) for code in distinct.tolist()
        ]
        return Words(places, values)
