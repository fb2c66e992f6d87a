"""Which cases of a test `make test` runs, where one holds what the others only vary."""

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def few(quick: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """Mark all cases but the first `quick` as `long`: `make test-all` runs those, too.

    Args:
        quick: How many `make test` runs.
        cases: As `parametrize` takes them; a tuple is the values of several arguments.
    """
    every = [
        one
        if isinstance(one, ParameterSet)
        else pytest.param(*(one if isinstance(one, tuple) else (one,)))
        for one in cases
    ]
    return [
        *every[:quick],
        *(
            pytest.param(*one.values, marks=(*one.marks, pytest.mark.long), id=one.id)
            for one in every[quick:]
        ),
    ]
