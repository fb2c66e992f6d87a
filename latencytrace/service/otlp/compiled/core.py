"""The compiled functions, if there are any; without them the plain ways serve."""

from typing import Any, Final

from latencytrace.extensions.loading import extension

core: Final[Any] = extension("latencytrace.service.otlp.compiled")
