"""Calls that another instrumentation in the process traces: of these ours adds no span."""

from types import FunctionType, MethodType
from typing import Any, Final

from opentelemetry.trace import Span

from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import semconv

_INSTRUMENTORS: Final = (
    "opentelemetry.instrumentation.",
    "openinference.",
    "langfuse.",
    "logfire.",
)
_SYSTEMS: Final = (semconv.DB_SYSTEM_NAME, "db.system")  # the latter is the older name


def is_theirs(function: Any) -> bool:
    """Say whether an instrumentation has put a function in the place of a library's."""
    if type(function) is MethodType:  # of a class that an instrumentation has in its place
        function = function.__func__
    while function is not None:
        wrapper = getattr(function, "_self_wrapper", None)  # of wrapt
        wrapper = getattr(wrapper, "func", wrapper)  # of a partial
        module = getattr(wrapper, "__module__", None) or type(wrapper).__module__
        if type(function) is FunctionType:  # which may say that it is of the library
            module = function.__globals__.get("__name__")
        if str(module).startswith(_INSTRUMENTORS):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def is_their_database_call(span: Span) -> bool:
    if type(span) is RecordedSpan:
        said: Any = span.raw_attributes or {}
    else:
        said = getattr(span, "attributes", None) or {}
    return semconv.STAGE not in said and any(name in said for name in _SYSTEMS)
