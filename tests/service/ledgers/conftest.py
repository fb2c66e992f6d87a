"""Which way traces are attributed."""

from functools import partialmethod

import pytest

from latencytrace.service.ledgers.column_attribution import ColumnAttribution


@pytest.fixture
def by_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no trace go by columns."""
    made = partialmethod(ColumnAttribution.__init__, is_used=False)
    monkeypatch.setattr(ColumnAttribution, "__init__", made)


@pytest.fixture(params=["columns", "objects"])
def both_ways(request: pytest.FixtureRequest) -> None:
    """Have all traces go by columns, and then none."""
    if request.param == "objects":
        request.getfixturevalue("by_objects")
