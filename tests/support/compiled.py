"""What needs the compiled code of the service, and is skipped where there is none."""

from typing import Final

import pytest

from latencytrace.extensions.loading import OF_THE_SERVICE, missing

_REASON: Final = "nothing is compiled here: no compiler, or LATENCYTRACE_COMPILED=0"

COMPILED: Final = pytest.mark.skipif(bool(missing(OF_THE_SERVICE)), reason=_REASON)


def need_compiled() -> None:
    """Skip the test that runs, where there is none."""
    if missing(OF_THE_SERVICE):
        pytest.skip(_REASON)
