"""Tests of the attribution over columns."""

import pytest

from latencytrace.analysis.columns.compiled.core import core


@pytest.fixture(autouse=True)
def there_is_a_core() -> None:
    """Skip where it was not compiled: objects take all traces then."""
    if core is None:
        pytest.skip("there is no compiled core here: no compiler, or LATENCYTRACE_COMPILED=0")
