"""What needs the compiled code of the service, and is skipped where there is none."""

from typing import Final

import pytest

from latencytrace.extensions.loading import OF_THE_SERVICE, missing

COMPILED: Final = pytest.mark.skipif(
    bool(missing(OF_THE_SERVICE)),
    reason="nothing is compiled here: no compiler, or LATENCYTRACE_COMPILED=0",
)
