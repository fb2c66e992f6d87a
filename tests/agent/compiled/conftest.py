"""Tests of the compiled core: each part against its form in Python."""

import pytest

from latencytrace.agent.compiled.core import core


@pytest.fixture(autouse=True)
def there_is_a_core() -> None:
    """Skip where it was not compiled; all other tests are of the forms in Python then."""
    if core is None:
        pytest.skip("there is no compiled core here: no compiler, or LATENCYTRACE_COMPILED=0")
