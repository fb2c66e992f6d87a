"""What needs the compiled code of the service, and is skipped where there is none."""

from typing import Final

import pytest

from latencytrace.service.otlp.scanner import is_compiled

COMPILED: Final = pytest.mark.skipif(
    not is_compiled(), reason="nothing is compiled here: no compiler, or LATENCYTRACE_COMPILED=0"
)
